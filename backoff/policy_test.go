package backoff_test

import (
	"math"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"
	"github.com/outflow-go/outflow/backoff"
	"pgregory.net/rapid"
)

const (
	ms      = time.Millisecond
	s       = time.Second
	forever = time.Duration(math.MaxInt64)
)

// TestSpan holds the table of doc.go, its defaults and its edges.
func TestSpan(t *testing.T) {
	type P = backoff.Policy
	for _, tt := range []struct {
		name    string
		policy  P
		attempt int
		prev    time.Duration
		lo, hi  time.Duration
	}{
		{"zero policy", P{}, 1, 0, ms, 200 * ms},
		{"zero policy, second", P{}, 2, 0, ms, 400 * ms},
		{"zero policy, seventh", P{}, 7, 0, ms, 12800 * ms},
		{"zero policy, capped", P{}, 8, 0, ms, 20 * s},
		{"zero policy, far", P{}, math.MaxInt, 0, ms, 20 * s},
		{"attempt 0 is the first", P{}, 0, 0, ms, 200 * ms},
		{"attempt below 0 is the first", P{}, math.MinInt, 0, ms, 200 * ms},
		{"full ignores prev", P{}, 2, 17 * s, ms, 400 * ms},

		{"equal", P{Jitter: backoff.Equal}, 1, 0, 100 * ms, 200 * ms},
		{"equal, third", P{Jitter: backoff.Equal}, 3, 0, 400 * ms, 800 * ms},
		{"equal, capped", P{Jitter: backoff.Equal}, 99, 0, 10 * s, 20 * s},
		{"equal, half below the floor", P{Base: ms, Jitter: backoff.Equal}, 1, 0, ms, ms},

		{"none", P{Jitter: backoff.None}, 1, 0, 200 * ms, 200 * ms},
		{"none, capped", P{Jitter: backoff.None}, 99, 0, 20 * s, 20 * s},

		{"decorrelated, no prev", P{Jitter: backoff.Decorrelated}, 1, 0, 200 * ms, 600 * ms},
		{"decorrelated, prev is Stop", P{Jitter: backoff.Decorrelated}, 1, cenkalti.Stop, 200 * ms, 600 * ms},
		{"decorrelated, prev below base", P{Jitter: backoff.Decorrelated}, 1, 10 * ms, 200 * ms, 600 * ms},
		{"decorrelated, prev", P{Jitter: backoff.Decorrelated}, 2, 500 * ms, 200 * ms, 1500 * ms},
		{"decorrelated ignores the attempt", P{Jitter: backoff.Decorrelated}, 50, 500 * ms, 200 * ms, 1500 * ms},
		{"decorrelated, capped", P{Jitter: backoff.Decorrelated}, 9, 15 * s, 200 * ms, 20 * s},
		{"decorrelated, prev over cap", P{Jitter: backoff.Decorrelated}, 9, forever, 200 * ms, 20 * s},
		{"decorrelated, factor", P{Factor: 1.5, Jitter: backoff.Decorrelated}, 2, 500 * ms, 200 * ms, 750 * ms},

		{"factor 1 doesn't grow", P{Factor: 1, Jitter: backoff.None}, math.MaxInt, 0, 200 * ms, 200 * ms},
		{"fractional factor", P{Factor: 1.5, Jitter: backoff.None}, 3, 0, 450 * ms, 450 * ms},
		{"largest factor", P{Factor: math.MaxFloat64, Jitter: backoff.None}, 3, 0, 20 * s, 20 * s},
		{"base is cap", P{Base: 7 * s, Cap: 7 * s}, 5, 0, ms, 7 * s},
		{"base and cap are the floor", P{Base: ms, Cap: ms}, 5, 0, ms, ms},
		{"longest cap, last delay below it", P{Base: 1 << 61, Cap: forever, Jitter: backoff.None}, 2, 0, 1 << 62, 1 << 62},
		{"longest cap", P{Base: 1 << 61, Cap: forever, Jitter: backoff.None}, 3, 0, forever, forever},
		{"no rounding below base", P{Base: forever - 1, Cap: forever, Factor: 1, Jitter: backoff.None}, 2, 0, forever, forever},
		{"no rounding of base", P{Base: 1<<60 + 1, Cap: forever, Factor: 1, Jitter: backoff.None}, 2, 0, 1<<60 + 1, 1<<60 + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.policy.Validate(); err != nil {
				t.Fatal(err)
			}
			lo, hi := tt.policy.Span(tt.attempt, tt.prev)
			if lo != tt.lo || hi != tt.hi {
				t.Errorf("Delay(%d, %v) draws from [%v, %v], want [%v, %v]", tt.attempt, tt.prev, lo, hi, tt.lo, tt.hi)
			}
		})
	}
}

// validPolicy draws over the whole range of what Validate accepts. Between 1 and 1.001 a single step
// of the factor drowns in what math.Pow rounds, so that little could be said about it.
func validPolicy(t *rapid.T) backoff.Policy {
	p := backoff.Policy{
		Base:   time.Duration(rapid.Int64Range(int64(backoff.Floor), math.MaxInt64).Draw(t, "base")),
		Factor: rapid.OneOf(rapid.Just(1.0), rapid.Float64Range(1.001, 1000), rapid.Float64Range(1.001, math.MaxFloat64)).Draw(t, "factor"),
		Jitter: backoff.Jitter(rapid.IntRange(0, 3).Draw(t, "jitter")),
	}
	p.Cap = time.Duration(rapid.Int64Range(int64(p.Base), math.MaxInt64).Draw(t, "cap"))
	return p
}

func attempts() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(1, 100), rapid.Int(), rapid.Just(math.MaxInt))
}

func delays() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })
}

// Trap 15: jitter that comes after the cap exceeds it. Trap 17: a delay of 0 is a loop without a brake.
func TestDelayStaysWithinFloorAndCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := validPolicy(t)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		attempt, prev := attempts().Draw(t, "attempt"), delays().Draw(t, "prev")
		if d := p.Delay(attempt, prev); d < backoff.Floor || d > p.Cap {
			t.Fatalf("%+v: Delay(%d, %v) = %v", p, attempt, prev, d)
		}
		lo, hi := p.Span(attempt, prev)
		if lo < backoff.Floor || hi < lo || hi > p.Cap {
			t.Fatalf("%+v: Delay(%d, %v) draws from [%v, %v]", p, attempt, prev, lo, hi)
		}
		if p.Jitter == backoff.Decorrelated && lo != p.Base {
			t.Fatalf("%+v: Delay(%d, %v) draws from %v on, want Base", p, attempt, prev, lo)
		}
	})
}

func TestDelayOfPolicyThatValidateRefuses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := backoff.Policy{
			Base:   delays().Draw(t, "base"),
			Cap:    delays().Draw(t, "cap"),
			Factor: rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -2, 0.5})).Draw(t, "factor"),
			Jitter: backoff.Jitter(rapid.OneOf(rapid.ByteRange(0, 3), rapid.Byte()).Draw(t, "jitter")),
		}
		longest := max(p.Cap, backoff.Floor)
		if p.Cap == 0 {
			longest = 20 * s
		}
		attempt, prev := attempts().Draw(t, "attempt"), delays().Draw(t, "prev")
		if d := p.Delay(attempt, prev); d < backoff.Floor || d > longest {
			t.Fatalf("%+v: Delay(%d, %v) = %v", p, attempt, prev, d)
		}
	})
}

func TestSpanNeverFalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := validPolicy(t)
		attempt, prev := attempts().Draw(t, "attempt"), delays().Draw(t, "prev")
		lo, hi := p.Span(attempt, prev)
		nextLo, nextHi := p.Span(max(attempt, attempt+1), max(prev, prev+1))
		if nextLo < lo || nextHi < hi {
			t.Fatalf("%+v: after attempt %d, %v: [%v, %v], then [%v, %v]", p, attempt, prev, lo, hi, nextLo, nextHi)
		}
	})
}

// TestGrowthAgainstExactArithmetic computes Base·Factor^(attempt−1) in 200 bits, by multiplication.
func TestGrowthAgainstExactArithmetic(t *testing.T) {
	exact := func(n float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(n) }
	rapid.Check(t, func(t *rapid.T) {
		p := validPolicy(t)
		p.Jitter = backoff.None
		attempt := rapid.IntRange(1, 60).Draw(t, "attempt")

		want, factor := exact(0).SetInt64(int64(p.Base)), exact(p.Factor)
		for range attempt - 1 {
			want.Mul(want, factor)
		}
		if ceiling := exact(0).SetInt64(int64(p.Cap)); want.Cmp(ceiling) > 0 {
			want = ceiling
		}
		wanted, _ := want.Float64()
		if _, d := p.Span(attempt, 0); math.Abs(float64(d)-wanted) > 1+1e-12*wanted {
			t.Fatalf("%+v: attempt %d: %d, want %.0f", p, attempt, int64(d), wanted)
		}
	})
}

// TestDrawsAreUniform holds the mean, and the share of each tenth of the range, to what chance explains:
// six standard deviations, so that one run in some 10⁷ fails without cause.
func TestDrawsAreUniform(t *testing.T) {
	const draws, sigmas = 20_000, 6
	for _, tt := range []struct {
		name    string
		jitter  backoff.Jitter
		attempt int
		prev    time.Duration
		lo, hi  time.Duration
	}{
		{"full", backoff.Full, 1, 0, ms, 200 * ms},
		{"full at the cap", backoff.Full, 40, 0, ms, 20 * s},
		{"equal", backoff.Equal, 2, 0, 200 * ms, 400 * ms},
		{"decorrelated", backoff.Decorrelated, 2, 400 * ms, 200 * ms, 1200 * ms},
		// The herd that clamping after the draw would gather at the cap would fill the last tenth.
		{"decorrelated at the cap", backoff.Decorrelated, 2, 20 * s, 200 * ms, 20 * s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := backoff.Policy{Jitter: tt.jitter}
			width := float64(tt.hi - tt.lo)
			var sum float64
			var tenths [10]int
			for range draws {
				d := p.Delay(tt.attempt, tt.prev)
				if d < tt.lo || d > tt.hi {
					t.Fatalf("%v is outside [%v, %v]", d, tt.lo, tt.hi)
				}
				sum += float64(d - tt.lo)
				tenths[min(9, int(10*float64(d-tt.lo)/width))]++
			}
			if off := sum/draws - width/2; math.Abs(off) > sigmas*width/math.Sqrt(12*draws) {
				t.Errorf("mean is %v off", time.Duration(off))
			}
			for i, n := range tenths {
				if off := float64(n) - draws/10; math.Abs(off) > sigmas*math.Sqrt(draws*0.1*0.9) {
					t.Errorf("%d of %d draws in tenth %d of the range", n, draws, i+1)
				}
			}
		})
	}
}

func TestDrawsReachBothEnds(t *testing.T) {
	p := backoff.Policy{Base: backoff.Floor + 2, Cap: backoff.Floor + 2}
	seen := map[time.Duration]bool{}
	for range 1000 { // (2/3)^1000 to miss one
		seen[p.Delay(1, 0)] = true
	}
	if len(seen) != 3 {
		t.Errorf("drew %v, want all of [%v, %v]", seen, backoff.Floor, p.Cap)
	}
}

func TestValidate(t *testing.T) {
	type P = backoff.Policy
	for _, tt := range []struct {
		policy P
		want   []string // nil: valid
	}{
		{P{}, nil},
		{P{Base: ms, Cap: ms, Factor: 1, Jitter: backoff.None}, nil},
		{P{Base: forever, Cap: forever, Factor: math.MaxFloat64}, nil},
		{P{Cap: 200 * ms}, nil},
		{P{Base: 20 * s}, nil},
		{P{Base: -s}, []string{"Base is -1s", "1ms or more", "0 for 200ms"}},
		{P{Base: ms - 1}, []string{"Base is 999.999µs", "1ms or more"}},
		{P{Cap: -s}, []string{"Cap is -1s", "0 for 20s"}},
		{P{Base: 3 * s, Cap: 2 * s}, []string{"Base is 3s and Cap is 2s"}},
		{P{Cap: 100 * ms}, []string{"Base is 200ms (the default) and Cap is 100ms"}},
		{P{Base: time.Minute}, []string{"Base is 1m0s and Cap is 20s (the default)"}},
		{P{Factor: 0.99}, []string{"Factor is 0.99", "1 or more", "0 for 2"}},
		{P{Factor: -2, Jitter: backoff.Decorrelated}, []string{"Factor is -2", "0 for 3"}},
		{P{Factor: math.NaN()}, []string{"Factor is NaN"}},
		{P{Factor: math.Inf(1)}, []string{"Factor is +Inf"}},
		{P{Factor: math.Inf(-1)}, []string{"Factor is -Inf"}},
		{P{Jitter: 4}, []string{"Jitter is Jitter(4)"}},
	} {
		err := tt.policy.Validate()
		b, newErr := tt.policy.New()
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%+v: Validate = %v, want %v", tt.policy, err, tt.want)
			continue
		}
		if err == nil {
			if newErr != nil || b == nil {
				t.Errorf("%+v: New = %v, %v", tt.policy, b, newErr)
			}
			continue
		}
		if b != nil || newErr == nil || newErr.Error() != err.Error() {
			t.Errorf("%+v: New = %v, %v; Validate = %v", tt.policy, b, newErr, err)
		}
		for _, part := range append(tt.want, "backoff: ") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: Validate = %q, want %q in it", tt.policy, err, part)
			}
		}
	}
}

// Policy is a plain value: it serves as a map key, and from many goroutines at once.
func TestPolicyIsSharedByGoroutines(t *testing.T) {
	shared := map[backoff.Policy]bool{{Jitter: backoff.Decorrelated}: true}
	for p := range shared {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				var prev time.Duration
				for attempt := range 1000 {
					prev = p.Delay(attempt, prev)
				}
			})
		}
		wg.Wait()
	}
	if !shared[backoff.Policy{Jitter: backoff.Decorrelated}] {
		t.Error("equal policies differ as keys")
	}
}

func TestDelayDoesNotAllocate(t *testing.T) {
	for j := backoff.Full; j <= backoff.None; j++ {
		p := backoff.Policy{Jitter: j}
		var prev time.Duration
		if n := testing.AllocsPerRun(100, func() { prev = p.Delay(3, prev) }); n != 0 {
			t.Errorf("%v: %v allocations", j, n)
		}
	}
}

func BenchmarkDelay(b *testing.B) {
	for j := backoff.Full; j <= backoff.None; j++ {
		b.Run(j.String(), func(b *testing.B) {
			b.ReportAllocs()
			p := backoff.Policy{Jitter: j}
			var prev time.Duration
			for b.Loop() {
				prev = p.Delay(5, prev)
			}
		})
	}
}

// BenchmarkCenkaltiExponential is the yardstick: five retries of one request, object included.
func BenchmarkCenkaltiExponential(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		e := cenkalti.NewExponentialBackOff()
		for range 5 {
			e.NextBackOff()
		}
	}
}
