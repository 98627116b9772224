package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"
	"github.com/outflow-go/outflow/backoff"
	"pgregory.net/rapid"
)

func newBackOff(t interface{ Fatal(...any) }, p backoff.Policy) cenkalti.BackOff {
	b, err := p.New()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A BackOff of New gives, call by call, what Delay would, and never Stop.
func TestSequenceFollowsDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := validPolicy(t)
		b := newBackOff(t, p)
		for range 2 { // the second time after Reset
			var prev time.Duration
			for attempt := range 100 {
				d := b.NextBackOff()
				if lo, hi := p.Span(attempt+1, prev); d < lo || d > hi {
					t.Fatalf("%+v: call %d after %v gave %v, want it in [%v, %v]", p, attempt+1, prev, d, lo, hi)
				}
				prev = d
			}
			b.Reset()
		}
	})
}

// Only decorrelated jitter shows whether prev is kept, and whether Reset drops it: with it the delays
// wander off, far from the three times Base that the first one may have.
func TestSequenceRemembersUntilReset(t *testing.T) {
	p := backoff.Policy{Base: ms, Cap: time.Hour, Jitter: backoff.Decorrelated}
	b := newBackOff(t, p)
	var longest time.Duration
	for range 100 {
		if first := b.NextBackOff(); first > 3*p.Base {
			t.Fatalf("first delay is %v, want at most %v", first, 3*p.Base)
		}
		for range 100 {
			longest = max(longest, b.NextBackOff())
		}
		b.Reset()
	}
	if longest < 100*p.Base {
		t.Errorf("no delay in 10,000 was over %v", longest)
	}
}

func TestSequenceAtTheEndOfInt(t *testing.T) {
	b := newBackOff(t, backoff.Policy{Jitter: backoff.None})
	backoff.Skip(b, math.MaxInt-1)
	for range 3 {
		if d := b.NextBackOff(); d != 20*time.Second {
			t.Fatalf("%v, want the cap for ever", d)
		}
	}
}

// Without jitter there is one right answer, so cenkalti's own growth is a second opinion on ours. It
// drops a fraction of a nanosecond at every step, which is all they may differ by.
func TestSequenceAgreesWithCenkaltiExponential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := backoff.Policy{
			Base:   time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Minute)).Draw(t, "base")),
			Factor: rapid.Float64Range(1.01, 10).Draw(t, "factor"),
			Jitter: backoff.None,
		}
		p.Cap = p.Base + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "cap-base"))
		ours := newBackOff(t, p)
		theirs := cenkalti.NewExponentialBackOff(
			cenkalti.WithInitialInterval(p.Base), cenkalti.WithMaxInterval(p.Cap), cenkalti.WithMultiplier(p.Factor),
			cenkalti.WithRandomizationFactor(0), cenkalti.WithMaxElapsedTime(0))
		var dropped float64
		for i := range 50 {
			a, b := ours.NextBackOff(), theirs.NextBackOff()
			if math.Abs(float64(a-b)) > dropped {
				t.Fatalf("%+v: delay %d is %v, cenkalti's is %v", p, i+1, a, b)
			}
			dropped = dropped*p.Factor + 2
		}
	})
}

// What doc.go says of cenkalti's own jitter; when this fails, it deserves another look.
func TestCenkaltiJitterLeavesTheBounds(t *testing.T) {
	var over, zero bool
	capped := cenkalti.NewExponentialBackOff(cenkalti.WithInitialInterval(time.Second), cenkalti.WithMaxInterval(time.Second))
	tiny := cenkalti.NewExponentialBackOff(cenkalti.WithInitialInterval(1), cenkalti.WithMaxInterval(1), cenkalti.WithRandomizationFactor(1))
	for range 1000 {
		over = over || capped.NextBackOff() > time.Second
		zero = zero || tiny.NextBackOff() == 0
	}
	if !over || !zero {
		t.Errorf("delay over MaxInterval: %v, delay of 0: %v; doc.go says both happen", over, zero)
	}
}

var errAgain, errEnough = errors.New("again"), errors.New("enough")

// In a bubble, time passes by exactly the sum of the delays.
func TestRetryOfCenkalti(t *testing.T) {
	fixed := backoff.Policy{Jitter: backoff.None} // 200 ms, 400 ms, 800 ms, ...
	for _, tt := range []struct {
		name  string
		wrap  func(context.Context, cenkalti.BackOff) cenkalti.BackOff
		op    func(call int) error
		calls int
		took  time.Duration
		err   error
	}{
		{
			name:  "until it works",
			op:    func(call int) error { return map[bool]error{true: errAgain}[call < 4] },
			calls: 4, took: 1400 * time.Millisecond,
		},
		{
			name:  "WithMaxRetries stops it",
			wrap:  func(_ context.Context, b cenkalti.BackOff) cenkalti.BackOff { return cenkalti.WithMaxRetries(b, 2) },
			op:    func(int) error { return errAgain },
			calls: 3, took: 600 * time.Millisecond, err: errAgain,
		},
		{
			name:  "Permanent stops it",
			op:    func(int) error { return cenkalti.Permanent(errEnough) },
			calls: 1, took: 0, err: errEnough,
		},
		{
			name:  "WithContext stops it",
			wrap:  func(ctx context.Context, b cenkalti.BackOff) cenkalti.BackOff { return cenkalti.WithContext(b, ctx) },
			op:    func(int) error { return errAgain },
			calls: 3, took: time.Second, err: context.DeadlineExceeded,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				b := newBackOff(t, fixed)
				if tt.wrap != nil {
					b = tt.wrap(ctx, b)
				}
				b.NextBackOff() // Retry resets first, so this changes nothing

				calls, start := 0, time.Now()
				err := cenkalti.Retry(func() error { calls++; return tt.op(calls) }, b)
				if !errors.Is(err, tt.err) || calls != tt.calls || time.Since(start) != tt.took {
					t.Errorf("Retry = %v after %d calls and %v, want %v, %d, %v",
						err, calls, time.Since(start), tt.err, tt.calls, tt.took)
				}
			})
		})
	}
}

func TestTickerOfCenkalti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ticker := cenkalti.NewTicker(cenkalti.WithMaxRetries(newBackOff(t, backoff.Policy{Jitter: backoff.None}), 3))
		var at []time.Duration
		for tick := range ticker.C {
			at = append(at, tick.Sub(start))
		}
		want := []time.Duration{0, 200 * ms, 600 * ms, 1400 * ms}
		if len(at) != len(want) {
			t.Fatalf("ticks at %v, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Fatalf("ticks at %v, want %v", at, want)
			}
		}
	})
}
