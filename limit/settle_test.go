package limit_test

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// charged is one departure in the order of departures, with its true cost as far as it is known.
type charged struct {
	due     time.Duration
	cost    int64
	drained bool // not a departure: what was saved up is taken
}

func isDrain(c charged) bool { return c.drained }

// replayed is when a cost may leave from now on if all those costs had been right at once.
func replayed(history []charged, n int64, d time.Duration, burst int64, now time.Duration, cost int64) time.Duration {
	units := func(k int64) *big.Rat { return big.NewRat(k*int64(d), n) }
	tat := new(big.Rat).SetInt64(-1 << 62)
	for _, h := range history {
		due := new(big.Rat).SetInt64(int64(h.due))
		if h.drained {
			if full := due.Add(due, units(burst-1)); tat.Cmp(full) < 0 {
				tat = full
			}
			continue
		}
		if h.cost == 0 {
			continue
		}
		// Departures are rounded up to a nanosecond; the exact moment goes on.
		if new(big.Rat).Add(tat, big.NewRat(1, 1)).Cmp(due) <= 0 {
			tat = due
		}
		tat = new(big.Rat).Add(tat, units(h.cost))
	}
	tat.Sub(tat, units(max(0, burst-cost)))
	ceil := new(big.Int).Sub(tat.Num(), big.NewInt(1))
	ceil.Add(ceil, tat.Denom()).Div(ceil, tat.Denom())
	return max(now, time.Duration(ceil.Int64()))
}

// Whatever is settled and refunded: a rate never lets more leave than if the true costs had been
// charged at once.
func TestSettleIsNeverOverProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, d := rapid.Int64Range(1, 20).Draw(t, "n"), rapid.SampledFrom([]time.Duration{time.Second, 7 * ms}).Draw(t, "d")
		burst := rapid.SampledFrom([]int64{1, 2, 5, 30, 1000}).Draw(t, "burst")
		st := newState(t, limit.Per(float64(n), d).WithBurst(int(burst)))
		var history []charged
		now, drained := d, time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			default: // a departure, caught up a little
				cost := rapid.Int64Range(1, burst+2).Draw(t, "cost")
				since := now - time.Duration(rapid.Int64Range(0, int64(d)/10).Draw(t, "late"))
				due := st.Earliest(since, now, 0, cost, false)
				if best := replayed(history, n, d, burst, since, cost); due < best-1 {
					t.Fatalf("%d at %v, by true costs at %v: %v", cost, due, best, history)
				}
				if due > now+5*d {
					now += d
					continue
				}
				now = max(now, due)
				st.Charge(due, now, cost)
				history = append(history, charged{due: due, cost: cost})
			case 6:
				now += time.Duration(rapid.Int64Range(0, int64(3*d)).Draw(t, "idle"))
			case 7, 8, 9, 10:
				if len(history) == 0 {
					continue
				}
				i := len(history) - 1 - rapid.IntRange(0, min(9, len(history)-1)).Draw(t, "which")
				h := &history[i]
				if h.drained || h.cost == 0 {
					continue
				}
				to := rapid.Int64Range(0, 2*h.cost).Draw(t, "true cost")
				st.Settle(h.due, now, h.cost, to)
				if to > h.cost || h.due >= drained && !slices.ContainsFunc(history[i:], isDrain) {
					h.cost = to
				}
			case 11:
				drained = now + time.Duration(rapid.Int64Range(0, int64(d)).Draw(t, "pause"))
				st.Drain(drained)
				history = append(history, charged{due: drained, drained: true})
				now = drained
			}
		}
	})
}

// A bucket in steady use gets back all that was estimated too much, or charges all that was too little,
// so that just its limit leaves by true costs: as if they had been known.
func TestSettleIsExactInSteadyUse(t *testing.T) {
	const n, d, inFlight = 1000, time.Second, 20
	for _, burst := range []int64{200, 1000} {
		r := rand.New(rand.NewPCG(3, uint64(burst)))
		st := newState(t, limit.Per(n, d).WithBurst(int(burst)))
		var history []charged
		var open []int
		var now time.Duration
		var sum int64
		for range 10_000 {
			cost := 1 + r.Int64N(8)
			now = st.Earliest(now, now, 0, cost, false)
			st.Charge(now, now, cost)
			open = append(open, len(history))
			history = append(history, charged{due: now, cost: cost})
			for len(open) > inFlight {
				i := r.IntN(len(open))
				h := &history[open[i]]
				to := max(1, h.cost/2+r.Int64N(h.cost*3/2+1)) // −50 … +100 %
				st.Settle(h.due, h.due, h.cost, to)
				h.cost = to
				open = append(open[:i], open[i+1:]...)
			}
		}
		for _, h := range history {
			sum += h.cost
		}
		// By their true costs no more than the limit left, and hardly less.
		allowed := burst + int64(now)*n/int64(d)
		if sum > allowed+inFlight*16 || sum < allowed*97/100 {
			t.Errorf("burst %d: %d units left by true costs, %d are allowed", burst, sum, allowed)
		}
		got, want := st.Earliest(now, now, 0, 1, false), replayed(history, n, d, burst, now, 1)
		if got < want || got > want+time.Duration(burst)*d/n/10 {
			t.Errorf("burst %d: the next leaves at %v, by true costs at %v", burst, got, want)
		}
		t.Logf("burst %d: %d of %d units; the next %v later than by true costs", burst, sum, allowed, got-want)
	}
}

// What is charged more is a debt, also beyond what a window holds; what is given back is free at once.
func TestSettleOfWindows(t *testing.T) {
	const d, guard = time.Minute, 50 * ms
	for _, c := range []struct {
		limit     limit.Limit
		more      time.Duration // when the next leaves after 10 turned out to be 30
		less      time.Duration // after 10 turned out to be 9
		afterMore time.Duration // when 10 may leave after the debt
	}{
		{limit.SlidingWindow(10, d), d + guard, 0, d + guard},
		{limit.FixedWindow(10, d), d + guard, 0, d + guard},
		{limit.FixedWindow(10, d).ByClock(), d + guard, guard, d + guard},
		{limit.SlidingCounter(10, d), d + 42*time.Second, 0, 2 * d}, // 30·18 s/60 s + 1 ≤ 10
	} {
		st := newState(t, c.limit)
		at := leave(&st, 0, 10)
		st.Settle(at, at, 10, 30)
		if got := st.Earliest(at, at, 0, 1, false); got != c.more {
			t.Errorf("%v: after 30 instead of 10 the next leaves at %v, want %v", c.limit, got, c.more)
		}
		if got := st.Earliest(at, at, 0, 10, false); got != c.afterMore {
			t.Errorf("%v: after 30 instead of 10 another 10 leave at %v, want %v", c.limit, got, c.afterMore)
		}
		st.Settle(at, at, 30, 9)
		if got := st.Earliest(at, at, 0, 1, false); got != c.less {
			t.Errorf("%v: after 9 instead of 10 the next leaves at %v, want %v", c.limit, got, c.less)
		}
		st.Settle(at, at, 9, 0)
		if !st.Full(at) {
			t.Errorf("%v isn't full after nothing was used", c.limit)
		}
		// Long ago, it doesn't matter any more.
		late := at + 10*d
		leave(&st, late, 1)
		before := st.Earliest(late, late, 3, 4, false)
		st.Settle(at, at, 5, 50)
		st.Refund(at, at, 5)
		if got := st.Earliest(late, late, 3, 4, false); got != before {
			t.Errorf("%v: a correction of long ago makes a turn at %v one at %v", c.limit, before, got)
		}
	}
}

// The exact log forgets what was given back: no memory is left of departures that did not take place.
func TestRefundsLeaveNoMemoryBehind(t *testing.T) {
	st := newState(t, limit.SlidingWindow(1000, time.Hour))
	var at time.Duration
	var kept []time.Duration
	for i := range 100_000 {
		at += time.Microsecond
		st.Charge(at, at, 1)
		if i%10_000 == 0 {
			kept = append(kept, at)
		} else {
			st.Refund(at, at, 1)
		}
	}
	allocated := testing.AllocsPerRun(1, func() { clone := st.Clone(); _ = clone })
	if size := limit.RecordSize(&st); size > 64 {
		t.Errorf("the log of %d departures has room for %d (%v allocations to clone)", len(kept), size, allocated)
	}
	if at := st.Earliest(at, at, 0, 1000, false); at != kept[len(kept)-1]+time.Hour+50*ms {
		t.Errorf("1000 may leave at %v", at)
	}
}
