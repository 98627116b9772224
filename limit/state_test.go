package limit_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

func newState(t interface{ Fatal(...any) }, limits ...limit.Limit) limit.State {
	set, err := limit.Join(limits...)
	if err != nil {
		t.Fatal(err)
	}
	return set.NewState(epoch, bucketKey)
}

// leave has a request leave as soon as it may, and returns when.
func leave(st *limit.State, now time.Duration, cost int64) time.Duration {
	t := st.Earliest(now, now, 0, cost, false)
	st.Charge(t, max(t, now), cost)
	return t
}

const ms = time.Millisecond

// epoch is moment 0 of all tests: on the second, minute, hour and day.
var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// step is one demand at a moment, and when it may leave; it then leaves.
type step struct {
	now, want time.Duration
	cost      int64
}

func TestDepartures(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits []limit.Limit
		steps  []step
	}{
		{"burst 1 is evenly spaced", []limit.Limit{limit.PerSecond(10)}, []step{
			{0, 0, 1}, {0, 100 * ms, 1}, {0, 200 * ms, 1},
			{1000 * ms, 1000 * ms, 1}, {1000 * ms, 1100 * ms, 1}, // what was left unused is gone
		}},
		{"a burst, then the rate", []limit.Limit{limit.PerSecond(10).WithBurst(3)}, []step{
			{0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 100 * ms, 1}, {0, 200 * ms, 1},
			{350 * ms, 350 * ms, 1}, {350 * ms, 400 * ms, 1},
		}},
		{"cost takes as many units", []limit.Limit{limit.PerSecond(10).WithBurst(5)}, []step{
			{0, 0, 3}, {0, 100 * ms, 3}, {0, 200 * ms, 1},
		}},
		{"a cost above the burst waits for a full bucket and leaves it in debt", []limit.Limit{limit.PerSecond(10).WithBurst(2)}, []step{
			{0, 0, 5}, {0, 400 * ms, 1}, {0, 600 * ms, 7}, {0, 1200 * ms, 1},
		}},
		{"a burst of a rate that doesn't divide the second", []limit.Limit{limit.PerSecond(3).WithBurst(2)}, []step{
			{0, 0, 1}, {0, 0, 1}, {0, 333_333_334, 1}, {0, 666_666_667, 1},
		}},
		{"limits hold jointly", []limit.Limit{limit.PerSecond(10).WithBurst(4), limit.PerSecond(100)}, []step{
			{0, 0, 1}, {0, 10 * ms, 1}, {0, 20 * ms, 1}, {0, 30 * ms, 1}, {0, 100 * ms, 1},
		}},
		{"no limit", nil, []step{{5, 5, 1}, {5, 5, 1 << 30}}},
		{"a concurrency takes no time", []limit.Limit{limit.Concurrent(1)}, []step{{5, 5, 1}, {5, 5, 1}}},
	} {
		st := newState(t, c.limits...)
		for i, s := range c.steps {
			got := st.Earliest(s.now, s.now, 0, s.cost, false)
			if got != s.want {
				t.Errorf("%s: step %d may leave at %v, want %v", c.name, i, got, s.want)
			}
			st.Charge(got, got, s.cost)
		}
	}
}

// What is asked for those ahead is what comes of letting them leave one by one.
func TestEarliestForThoseAheadProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawRate(t)
		st := newState(t, l)
		now := time.Duration(0)
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			now += time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "gap"))
			at := st.Earliest(now, now, 0, 1, false)
			st.Charge(at, at, 1)
		}
		one := st.Clone()
		var ahead int64
		for range rapid.IntRange(0, 20).Draw(t, "ahead") {
			cost := rapid.Int64Range(1, 9).Draw(t, "cost")
			leave(&one, now, cost)
			ahead += cost
		}
		cost := rapid.Int64Range(1, 9).Draw(t, "own cost")
		if got, want := st.Earliest(now, now, ahead, cost, false), one.Earliest(now, now, 0, cost, false); got != want {
			t.Fatalf("%v: behind %d at %v: %v, one by one %v", l, ahead, now, got, want)
		}
	})
}

func drawRate(t *rapid.T) limit.Limit {
	return rapid.Custom(anyRate).Filter(func(l limit.Limit) bool { return l.Validate() == nil }).Draw(t, "limit")
}

func anyRate(t *rapid.T) limit.Limit {
	return limit.Per(
		rapid.OneOf(rapid.Float64Range(0.01, 1000), rapid.SampledFrom([]float64{1, 3, 7, 1e6})).Draw(t, "n"),
		rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, 31 * 24 * time.Hour}).Draw(t, "d"),
	).WithBurst(rapid.SampledFrom([]int{1, 1, 2, 10, 1000}).Draw(t, "burst"))
}

// x/time/rate is the oracle where it can be: costs within the burst, and rates at which its floating
// point is still exact to a few nanoseconds.
func TestSameAsXTimeRateProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.Float64Range(0.1, 10_000).Draw(t, "rate")
		burst := rapid.IntRange(1, 20).Draw(t, "burst")
		st := newState(t, limit.PerSecond(perSecond).WithBurst(burst))
		oracle := rate.NewLimiter(rate.Limit(perSecond), burst)
		epoch := time.Unix(0, 0)
		now := time.Duration(0)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, 3e8).Draw(t, "gap"))
			cost := rapid.IntRange(1, burst).Draw(t, "cost")
			got := st.Earliest(now, now, 0, int64(cost), false)
			want := now + oracle.ReserveN(epoch.Add(now), cost).DelayFrom(epoch.Add(now))
			if diff := (got - want).Abs(); diff > time.Microsecond {
				t.Fatalf("at %v, cost %d: %v, x/time/rate has %v", now, cost, got, want)
			}
			st.Charge(got, got, int64(cost))
		}
	})
}

// The rate is exact, however long it runs and whatever it is: the k-th departure is the k-th multiple
// of d/n, rounded up. Rounding that added up would be off by 30 % at 700 million a second.
func TestRateDoesNotDrift(t *testing.T) {
	for _, c := range []struct {
		n int64
		d time.Duration
	}{
		{3, time.Second}, {7, time.Second}, {999_999, time.Second}, {700_000_000, time.Second}, {1e9, time.Second},
		{1_000_003, 31 * 24 * time.Hour}, {9999, time.Minute},
	} {
		st := newState(t, limit.Per(float64(c.n), c.d))
		const departures = 1_000_000
		var at time.Duration
		for range departures {
			at = st.Earliest(0, 0, 0, 1, false)
			st.Charge(at, at, 1)
		}
		exact := new(big.Int).Mul(big.NewInt(departures-1), big.NewInt(int64(c.d)))
		exact.Add(exact, big.NewInt(c.n-1)).Div(exact, big.NewInt(c.n)) // rounded up
		// 10⁶ intervals, each rounded up by less than 2⁻⁶⁴ ns, may pass one more whole nanosecond.
		if late := int64(at) - exact.Int64(); late < 0 || late > 1 {
			t.Errorf("%d per %v: departure %d at %v, want %v", c.n, c.d, departures, int64(at), exact)
		}
	}
}

func TestNonIntegralRateDoesNotDrift(t *testing.T) {
	st := newState(t, limit.PerSecond(math.Pi*1e5))
	var at time.Duration
	for range 1_000_001 {
		at = st.Earliest(0, 0, 0, 1, false)
		st.Charge(at, at, 1)
	}
	if want := 1e6 / (math.Pi * 1e5) * 1e9; math.Abs(float64(at)-want) > 2 {
		t.Errorf("10⁶ intervals took %d ns, want %.1f", int64(at), want)
	}
}

func TestRefundGivesBackTheChargeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newState(t, drawRate(t))
		now := time.Duration(0)
		for range rapid.IntRange(0, 10).Draw(t, "before") {
			leave(&st, now, 1)
			now += time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "gap"))
		}
		cost := rapid.Int64Range(1, 5).Draw(t, "cost")
		before := st.Earliest(now, now, 0, cost, false)
		st.Charge(before, before, cost)
		st.Refund(before, before, cost)
		// It may leave a little less, for a departure later than it could have been; never more.
		if after := st.Earliest(now, now, 0, cost, false); after < before || after > before+1 {
			t.Fatalf("earliest was %v, after a charge and its refund %v", before, after)
		}
	})
}

func TestDrainLeavesOneUnit(t *testing.T) {
	st := newState(t, limit.PerSecond(10).WithBurst(5))
	st.Drain(time.Second)
	for i, want := range []time.Duration{1000 * ms, 1100 * ms, 1200 * ms} {
		got := st.Earliest(time.Second, time.Second, 0, 1, false)
		if got != want {
			t.Errorf("departure %d after the drain at %v, want %v", i, got, want)
		}
		st.Charge(got, got, 1)
	}
	st.Drain(0) // never makes a departure earlier
	if got := st.Earliest(time.Second, time.Second, 0, 1, false); got != 1300*ms {
		t.Errorf("after a drain in the past: %v, want 1.3s", got)
	}
}

func TestFullIsAsGoodAsNewProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawRate(t)
		st, fresh := newState(t, l), newState(t, l)
		now := time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "start"))
		for range rapid.IntRange(0, 4).Draw(t, "departures") {
			leave(&st, now, 1)
		}
		now += time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "idle"))
		if !st.Full(now) {
			return
		}
		for range 30 {
			a, b := st.Earliest(now, now, 0, 1, false), fresh.Earliest(now, now, 0, 1, false)
			if a != b {
				t.Fatalf("%v: full at %v, then %v where a new one has %v", l, now, a, b)
			}
			st.Charge(a, a, 1)
			fresh.Charge(b, b, 1)
		}
	})
	st := newState(t, limit.PerSecond(1))
	st.Charge(0, 0, 1)
	if st.Full(time.Second - 1) {
		t.Error("full before the interval has passed")
	}
	if !st.Full(time.Second) {
		t.Error("not full after the interval has passed")
	}
}

// Between two marks no turn gets later by more than they are apart.
func TestMarkMovesWithEveryTurnProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newState(t, drawRate(t), drawRate(t))
		now := time.Duration(0)
		step := func(label string) {
			for range rapid.IntRange(0, 5).Draw(t, label) {
				now += time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "gap"))
				cost := rapid.Int64Range(1, 9).Draw(t, "cost")
				at := st.Earliest(now, now, 0, cost, false)
				switch rapid.IntRange(0, 2).Draw(t, "kind") {
				case 0:
					st.Drain(now + time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "drain")))
				default:
					st.Charge(at, at, cost)
				}
			}
		}
		step("before")
		ahead := rapid.Int64Range(0, 100).Draw(t, "ahead")
		less := rapid.Int64Range(0, ahead).Draw(t, "left meanwhile")
		cost := rapid.Int64Range(1, 9).Draw(t, "of cost")
		turn, mark := st.Earliest(now, now, ahead, cost, false), st.Mark(now)
		step("between")
		if st.Mark(now) > 100*365*24*time.Hour {
			return
		}
		if later, moved := st.Earliest(now, now, ahead-less, cost, false)-turn, st.Mark(now)-mark; later > moved+1 {
			t.Fatalf("a turn at %v is later by %v, the mark has moved by %v", turn, later, moved)
		}
	})
}

// A refund gives back no more than what the departure still costs those who come later: the state is
// never better than if it had not been charged.
func TestRefundIsNeverOverProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newState(t, drawRate(t))
		without := st.Clone()
		now := time.Duration(0)
		cost := rapid.Int64Range(1, 5).Draw(t, "cost")
		charged := st.Earliest(now, now, 0, cost, false)
		st.Charge(charged, charged, cost)
		for range rapid.IntRange(0, 5).Draw(t, "departures between") {
			now += time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "gap"))
			c := rapid.Int64Range(1, 5).Draw(t, "other cost")
			now = st.Earliest(now, now, 0, c, false)
			st.Charge(now, now, c)
			without.Charge(now, now, c)
		}
		st.Refund(charged, charged, cost)
		// Each departure is rounded up to a nanosecond, from which the other state goes on.
		next := rapid.Int64Range(1, 2000).Draw(t, "cost of the next") // a light one wouldn't show what a burst hides
		if got, best := st.Earliest(now, now, 0, next, false), without.Earliest(now, now, 0, next, false); got < best-10 {
			t.Fatalf("after a refund the next leaves at %v, without the charge at %v", got, best)
		}
	})
}

func TestRefundKeepsTheDrain(t *testing.T) {
	st := newState(t, limit.PerSecond(1).WithBurst(5))
	st.Charge(0, 0, 4)
	st.Drain(10 * time.Second)
	st.Refund(0, 0, 4)
	leave(&st, 10*time.Second, 1)
	if at := st.Earliest(10*time.Second, 10*time.Second, 0, 1, false); at != 11*time.Second {
		t.Errorf("the second after the pause leaves at %v, want 11s", at)
	}
}

// Earliest behind others: with several rates "exact" would be what comes of letting them leave one by
// one; at least it is never later, which would refuse who could make it.
func TestBehindOthersIsNeverLateProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newState(t, drawRate(t), drawRate(t))
		now := time.Duration(0)
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			now += time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "gap"))
			leave(&st, now, 1)
		}
		one := st.Clone()
		var ahead int64
		for range rapid.IntRange(0, 20).Draw(t, "ahead") {
			cost := rapid.Int64Range(1, 9).Draw(t, "cost")
			leave(&one, now, cost)
			ahead += cost
		}
		cost := rapid.Int64Range(1, 9).Draw(t, "own cost")
		// The k-th interval is rounded up by less than 2⁻⁶⁴ ns each time: 1 ns for the ceil.
		if got, want := st.Earliest(now, now, ahead, cost, false), one.Earliest(now, now, 0, cost, false); got > want+1 {
			t.Fatalf("behind %d at %v: %v, one by one %v", ahead, now, got, want)
		}
	})
}

// Those ahead leave from now on, also after a time in which nothing was used.
func TestThoseAheadLeaveFromNowOn(t *testing.T) {
	st := newState(t, limit.PerSecond(1))
	st.Charge(0, 0, 1)
	if at := st.Earliest(10*time.Second, 10*time.Second, 3, 1, false); at != 13*time.Second {
		t.Errorf("behind three at 10s: %v, want 13s", at)
	}
}

// Sums that leave the range stay at its end: nobody leaves early because a debt overflowed.
func TestDebtSaturates(t *testing.T) {
	st := newState(t, limit.Per(1, limit.MaxSpan))
	last := time.Duration(0)
	for range 100 {
		at := st.Earliest(0, 0, 0, 1<<30, false)
		if at < last {
			t.Fatalf("a departure at %v after one at %v", at, last)
		}
		last = at
		st.Charge(at, at, 1<<30)
	}
	if far := st.Earliest(0, 0, math.MaxInt64, 1, false); far < last {
		t.Errorf("behind an endless queue: %v", far)
	}
	for _, cost := range []int64{15, 30, 59, 118, 1<<30 - 1} { // 59 times ten years are just above 2⁶⁴ ns
		st := newState(t, limit.Per(1, limit.MaxSpan))
		st.Charge(0, 0, cost)
		if at := st.Earliest(0, 0, 0, 1, false); at < 14*limit.MaxSpan {
			t.Errorf("after a cost of %d at 10 years each the next leaves after %v", cost, at)
		}
	}
}

func TestIntervalIsThatOfTheSlowest(t *testing.T) {
	slow, fast := limit.PerSecond(3), limit.PerSecond(100)
	for _, limits := range [][]limit.Limit{{slow, fast}, {fast, slow}} {
		st := newState(t, limits...)
		if got := st.Interval(); got != 333_333_334 {
			t.Errorf("%v: %v, want a third of a second, rounded up", limits, got)
		}
	}
}

func BenchmarkDeparture(b *testing.B) {
	st := newState(b, limit.PerSecond(1e6))
	var at time.Duration
	b.ReportAllocs()
	for b.Loop() {
		at = st.Earliest(at, at, 0, 1, false)
		st.Charge(at, at, 1)
	}
}
