package limit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// An upstream refuses what its own window doesn't allow at the moment of arrival. What it refuses, it
// doesn't count.
type upstream func(arrived []left, t time.Duration, cost int64) bool

func upstreams(n int64, d, phase time.Duration) map[string]upstream {
	window := regular(d, phase)
	return map[string]upstream{
		"log": func(arrived []left, t time.Duration, cost int64) bool {
			return units(arrived, t-d, t)+cost <= n
		},
		"fixed": func(arrived []left, t time.Duration, cost int64) bool {
			start, _ := window(t)
			return units(arrived, start-1, t)+cost <= n
		},
		"counter": func(arrived []left, t time.Duration, cost int64) bool {
			start, end := window(t)
			prev, curr := units(arrived, start-d-1, start-1), units(arrived, start-1, t)
			return prev*int64(end-t) <= (n-curr-cost)*int64(d)
		},
	}
}

// Requests that take up to a guard longer than the fastest one aren't refused by an upstream of the
// same kind, nor overtake each other into trouble.
func TestUpstreamNeverRefusesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		d := rapid.SampledFrom([]time.Duration{10 * ms, time.Second, time.Minute}).Draw(t, "d")
		guard := min(d/100, 50*ms)
		unknown := time.Duration(rapid.Int64Range(0, int64(d)).Draw(t, "phase"))
		clock := -time.Duration(epoch.UnixNano() % int64(d))
		all := upstreams(int64(n), d, clock)
		for i, c := range []struct {
			limit    limit.Limit
			upstream upstream
		}{
			{limit.SlidingWindow(n, d), all["log"]},
			{limit.FixedWindow(n, d), all["log"]},
			{limit.FixedWindow(n, d), upstreams(int64(n), d, unknown)["fixed"]},
			{limit.FixedWindow(n, d).ByClock(), all["fixed"]},
			{limit.SlidingCounter(n, d), all["counter"]},
			{limit.SlidingCounter(n, d).WithHeadroom(0.2), all["counter"]},
			{limit.FixedWindow(n, d).ByClock().WithHeadroom(0.2), all["fixed"]},
			{limit.SlidingWindow(n, d).WithHeadroom(0.2), all["log"]},
		} {
			st := newState(t, c.limit)
			r := rand.New(rand.NewPCG(uint64(i), rapid.Uint64().Draw(t, "seed")))
			// Busy and quiet times, requests of any cost, timers that are late.
			now, busy := time.Duration(0), true
			var arrived []left
			for range 10 * n {
				if r.IntN(n) == 0 {
					busy = !busy
				}
				if !busy {
					now += time.Duration(r.Int64N(int64(3*d) / int64(n)))
				}
				cost := int64(1)
				if r.IntN(4) == 0 {
					cost = 1 + r.Int64N(int64(n))
				}
				for {
					at := st.Earliest(now, now, 0, cost, r.IntN(2) == 0)
					if at <= now {
						break
					}
					now = at + time.Duration(r.Int64N(int64(guard)))*time.Duration(r.IntN(2))
				}
				st.Charge(now, now, cost)
				arrived = append(arrived, left{now + time.Duration(r.Int64N(int64(guard)+1)), cost})
			}
			slices.SortStableFunc(arrived, func(a, b left) int { return int(a.at - b.at) })
			for i, a := range arrived {
				if !c.upstream(arrived[:i], a.at, a.units) {
					t.Fatalf("%v: refused at %v after %v", c.limit, a, arrived[:i])
				}
			}
		}
	})
}

// leastByCounter is when the last of so many units leaves at the earliest by two counters and nothing
// more.
func leastByCounter(units, n int, d time.Duration) time.Duration {
	prev, curr := 0, 0
	for start := time.Duration(0); ; start += d {
		for {
			// prev·rem/d + curr + 1 ≤ n, for a moment before the end
			rem := d
			if prev > 0 {
				rem = min(d, time.Duration(n-curr-1)*d/time.Duration(prev))
			}
			if curr == n || rem <= 0 {
				break
			}
			curr++
			if units--; units == 0 {
				return start + d - rem
			}
		}
		prev, curr = curr, 0
	}
}

// Work that saturates a limit is done within 2 % of the least time that five windows take, from the
// begin of one.
func TestFiveWindowsTakeLittleLonger(t *testing.T) {
	for _, d := range []time.Duration{100 * ms, time.Second, time.Minute, time.Hour} {
		for _, n := range []int{1, 2, 7, 100, 1000} {
			for _, l := range []limit.Limit{
				limit.SlidingWindow(n, d),
				limit.FixedWindow(n, d),
				limit.FixedWindow(n, d).ByClock(),
				limit.SlidingCounter(n, d),
				limit.FixedWindow(n, d).ByClock().WithHeadroom(0.1),
			} {
				st := newState(t, l)
				var at time.Duration
				for range 5 * n {
					at = leave(&st, at, 1)
				}
				least := 4 * d
				switch {
				case l.Headroom() > 0:
					least = 5 * d // the last of each window leaves at its end
				case l == limit.SlidingCounter(n, d):
					least = leastByCounter(5*n, n, d)
				}
				most := least + least/50
				if at > most {
					t.Errorf("%v: the work ends at %v, at best at %v", l, at, least)
				}
			}
		}
	}
}

// An urgent request that comes at any moment leaves at once, or within three guards of a window's end;
// and with none about the whole quota is used.
func TestHeadroomIsThereAndLentOut(t *testing.T) {
	const n = 1000
	for _, d := range []time.Duration{time.Second, time.Hour} {
		guard := min(d/100, 50*ms)
		for _, l := range []limit.Limit{
			limit.FixedWindow(n, d).ByClock().WithHeadroom(0.1),
			limit.FixedWindow(n, d).WithHeadroom(0.1),
			limit.SlidingWindow(n, d).WithHeadroom(0.1),
			limit.SlidingCounter(n, d).WithHeadroom(0.1),
		} {
			t.Run(fmt.Sprint(l), func(t *testing.T) {
				st := newState(t, l)
				var all []left
				var worst time.Duration
				for at := time.Duration(0); at < 6*d; {
					next := st.Earliest(at, at, 0, 1, false)
					for i := range 5 { // urgent requests that come until then: what if?
						when := at + (next-at)*time.Duration(i)/5
						worst = max(worst, st.Earliest(when, when, 0, 1, true)-when)
					}
					at = next
					st.Charge(at, at, 1)
					all = append(all, left{at, 1})
				}
				if worst > 3*guard {
					t.Errorf("an urgent request waits for %v", worst)
				}
				if used := units(all, -1, 5*d-1); used < 5*n*99/100 {
					t.Errorf("%d of %d are used", used, 5*n)
				}
				t.Logf("urgent requests wait for up to %v; %d leave in 5 windows", worst, units(all, -1, 5*d))
			})
		}
	}
}

// The sliding counter is an estimate. How many of the departures that it lets leave would an exact log
// refuse, and how many leave in any one span of length d?
func TestSlidingCounterErrorAgainstTheLog(t *testing.T) {
	const n, d = 100, time.Minute
	for _, c := range []struct {
		name          string
		median, swing float64 // the load as a share of the limit, log-normal, anew every few minutes
		waits         bool
		wrong         float64 // percent, at most
		span          int
	}{
		// Sources that are mostly far below the limit, as most are, and above it once in a while.
		{"mostly far below", 0.2, 0.5, false, 0.1, 130},
		{"swinging widely", 0.1, 1, false, 0.5, 130},
		{"near the limit", 0.7, 0.5, false, 2, 140},
		{"saturated", 10, 0, true, 1, 200},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		st, exact := newState(t, limit.SlidingCounter(n, d)), newState(t, limit.SlidingWindow(n, d))
		var now time.Duration
		var total, wrong, most int
		var recent []time.Duration
		for now < 5000*d {
			load := c.median * math.Exp(c.swing*r.NormFloat64())
			for until := now + d*time.Duration(1+r.IntN(10))/2; now < until; {
				now += time.Duration(r.ExpFloat64() * float64(d) / n / load)
				burst := 1
				if r.IntN(50) == 0 {
					burst += r.IntN(10)
				}
				for range burst {
					if at := st.Earliest(now, now, 0, 1, false); c.waits {
						now = at
					} else if at > now {
						continue
					}
					st.Charge(now, now, 1)
					total++
					if exact.Earliest(now, now, 0, 1, false) > now {
						wrong++
					} else {
						exact.Charge(now, now, 1)
					}
					recent = append(recent, now)
					for recent[0] <= now-d {
						recent = recent[1:]
					}
					most = max(most, len(recent))
				}
			}
		}
		share := 100 * float64(wrong) / float64(total)
		t.Logf("%s: %d departures, %.3f %% of them wrong; at most %d of %d leave in one span", c.name, total, share, most, n)
		if share > c.wrong || most > c.span {
			t.Errorf("%s: worse than documented", c.name)
		}
	}
}
