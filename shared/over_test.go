package shared

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// TestNeverOver asks for departures of several buckets jointly, of any cost for each, far ahead and near, and
// hands some of them back before they are due. A plain list of all that is left is then held against each limit:
// a rate lets b + r·W leave in any time W, a window what it states.
func TestNeverOver(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		rapid.Check(t, func(rt *rapid.T) { neverOver(rt, rdb) })
	})
}

type departure struct {
	at   int64
	cost int64
}

func neverOver(rt *rapid.T, rdb *redis.Client) {
	var limits []limit.Limit
	c := call{instance: "one"}
	for range rapid.IntRange(1, 3).Draw(rt, "buckets") {
		l := drawLimit(rt)
		limits = append(limits, l)
		c.buckets = append(c.buckets, scaled(rt, "", "key", l))
	}
	rt.Logf("limits %v", limits)
	left := make([][]departure, len(limits))
	var mine []slot
	c.clock = base
	for range rapid.IntRange(1, 25).Draw(rt, "steps") {
		c.horizon = time.Duration(rapid.SampledFrom([]int64{0, 100_000, 3_000_000, 100_000_000}).Draw(rt, "horizon")) * time.Microsecond
		c.runs, c.back = nil, nil
		switch rapid.IntRange(0, 5).Draw(rt, "step") {
		case 0:
			c.clock += rapid.SampledFrom([]int64{1, 33_333, 1_000_000, 62_500_000}).Draw(rt, "idle")
			continue
		case 1:
			for len(mine) > 0 && mine[len(mine)-1].at > c.clock && rapid.Bool().Draw(rt, "back") {
				i := len(mine) - 1
				if rapid.IntRange(0, 3).Draw(rt, "other") == 0 {
					i = rapid.IntRange(0, i).Draw(rt, "which")
				}
				if mine[i].at <= c.clock {
					break
				}
				c.back = append(c.back, mine[i])
				for j, cost := range mine[i].costs {
					if cost > 0 {
						k := slices.Index(left[j], departure{mine[i].at, cost})
						left[j] = slices.Delete(left[j], k, k+1)
					}
				}
				mine = slices.Delete(mine, i, i+1)
			}
		}
		for range rapid.IntRange(0, 2).Draw(rt, "runs") {
			r := run{n: rapid.IntRange(1, 10).Draw(rt, "n"), high: rapid.Bool().Draw(rt, "high")}
			for _, l := range limits {
				most := 40
				if n, _, ok := l.Window(); ok {
					most = n + l.Burst()
				}
				r.costs = append(r.costs, int64(rapid.IntRange(0, min(most, 4)).Draw(rt, "cost")))
			}
			c.runs = append(c.runs, r)
		}
		rep := c.do(rt, rdb)
		rt.Logf("at %d back %v, asked for %v: %v", c.clock-base, c.back, c.runs, rep.moments(base))
		for _, s := range rep.slots {
			mine = append(mine, s)
			for j, cost := range s.costs {
				if cost > 0 {
					left[j] = append(left[j], departure{s.at, cost})
				}
			}
		}
		slices.SortStableFunc(mine, func(a, b slot) int { return cmp.Compare(a.at, b.at) })
		for i, l := range limits {
			if bad := over(l, left[i]); bad != "" {
				rt.Fatalf("%v: %s: %v", l, bad, left[i])
			}
		}
	}
}

// over says where more left than a limit allows, in microseconds for the limit's nanoseconds.
func over(l limit.Limit, left []departure) string {
	left = slices.Clone(left)
	slices.SortStableFunc(left, func(a, b departure) int { return cmp.Compare(a.at, b.at) })
	if l.Kind() == limit.KindRate {
		t, _ := l.Interval()
		interval, _ := t.Float64()
		tat := 0.0 // since base
		for _, d := range left {
			at := float64(d.at - base)
			// A cost above the burst waits for a full bucket.
			if spare := float64(max(0, int64(l.Burst())-d.cost)) * interval; tat-spare > at+1+float64(d.cost) { // 1 us for each unit is what gaps may lack

				return "too early by " + big.NewFloat(tat-spare-at).String() + " us"
			}
			tat = max(tat, at) + float64(d.cost)*interval
		}
		return ""
	}
	n, d, _ := l.Window()
	switch {
	case l.Kind() == limit.KindSlidingCounter:
		return overCounter(int64(n+l.Burst()), int64(d), left)
	case l.Kind() == limit.KindFixedWindow:
		if _, _, phased := l.WindowAt(time.Unix(0, 0), "key"); phased {
			units := map[int64]int64{}
			for _, e := range left {
				start, _, _ := l.WindowAt(time.Unix(0, e.at), "key")
				if units[start.UnixNano()] += e.cost; units[start.UnixNano()] > int64(n) {
					return "too many in a window"
				}
			}
			return ""
		}
	}
	first, units := 0, int64(0)
	for _, e := range left {
		for units += e.cost; left[first].at <= e.at-int64(d); first++ {
			units -= left[first].cost
		}
		if units > int64(n+l.Burst()) {
			return "too many in a span"
		}
	}
	return ""
}

func overCounter(n, d int64, left []departure) string {
	var start, prev, curr int64
	for _, e := range left {
		switch s := e.at - e.at%d; s {
		case start:
		case start + d:
			start, prev, curr = s, curr, 0
		default:
			start, prev, curr = s, 0, 0
		}
		curr += e.cost
		if prev+curr > e.cost && prev*(start+d-e.at)+(curr-n)*d > 0 {
			return "too many by two counters"
		}
	}
	return ""
}

// TestSettledBurst has departures of a rate with burst turn out to have cost less. The bucket is never fuller than if
// they had cost that at once.
func TestSettledBurst(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		rapid.Check(t, func(rt *rapid.T) { settledBurst(rt, rdb) })
	})
}

func settledBurst(rt *rapid.T, rdb *redis.Client) {
	const interval = 1000
	burst := rapid.IntRange(2, 6).Draw(rt, "burst") // without one, what is still to come may be taken by others
	l := limit.Per(1, interval).WithBurst(burst)
	c := call{buckets: []*bucketKeys{scaled(rt, "", "key", l)}, clock: base, horizon: 3 * time.Millisecond}
	var slots []slot
	for range rapid.IntRange(2, 20).Draw(rt, "steps") {
		c.clock += rapid.Int64Range(0, 3*interval).Draw(rt, "idle")
		c.runs, c.settled, c.back = nil, nil, nil
		if len(slots) > 0 && rapid.Bool().Draw(rt, "settle") {
			i := rapid.IntRange(max(0, len(slots)-4), len(slots)-1).Draw(rt, "slot")
			s := slots[i]
			less := rapid.Int64Range(0, s.costs[0]).Draw(rt, "less")
			s.costs = []int64{-less}
			c.settled = []slot{s}
			slots[i].costs = []int64{slots[i].costs[0] - less}
		}
		c.runs = []run{{n: rapid.IntRange(0, 3).Draw(rt, "n"), costs: []int64{rapid.Int64Range(1, 3).Draw(rt, "cost")}}}
		rep := c.do(rt, rdb)
		slots = append(slots, rep.slots...)
		slices.SortStableFunc(slots, func(a, b slot) int { return cmp.Compare(a.at, b.at) })
		tat := int64(0)
		for _, s := range slots {
			if s.costs[0] > 0 {
				tat = max(tat, s.at) + s.costs[0]*interval
			}
		}
		spare := max(0, int64(burst)-c.runs[0].costs[0]) * interval
		rt.Logf("burst %d, at %d settled %v, asked for %v, got %v, then %d, and %q", burst, c.clock-base, c.settled, c.runs, rep.moments(base), rep.tail-base, rdb.Get(context.Background(), c.buckets[0].state).Val())
		if want := max(c.clock, tat-spare); rep.tail < want {
			rt.Fatalf("the next leaves at %d, want %d", rep.tail-base, want-base)
		}
	}
}
