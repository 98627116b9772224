package shared

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// TestLuaIsGo drives the script and limit.State with the same histories. The script counts microseconds where
// the State counts nanoseconds; one is read for the other, and then they are equal without any tolerance: both
// keep the fraction of a rate, and round up. The State's intervals are rounded up to 2⁻⁶⁴, so where the exact
// moment is whole it may be one later.
func TestLuaIsGo(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		rapid.Check(t, func(rt *rapid.T) { compare(rt, t, rdb) })
	})
}

func drawLimit(rt *rapid.T) limit.Limit {
	n := rapid.IntRange(1, 12).Draw(rt, "n")
	d := time.Duration(rapid.SampledFrom([]int64{1_000_000, 1_600_000, 7_777_777, 60_000_000, 3_600_000_000}).Draw(rt, "d"))
	if rapid.Bool().Draw(rt, "large") {
		n *= rapid.IntRange(1, 400).Draw(rt, "times")
	}
	var l limit.Limit
	switch rapid.IntRange(0, 5).Draw(rt, "kind") {
	case 0:
		l = limit.Per(float64(n), d)
		if rapid.Bool().Draw(rt, "burst") {
			l = l.WithBurst(rapid.IntRange(1, 30).Draw(rt, "b"))
		}
	case 1:
		l = limit.SlidingWindow(n, d).WithBurst(rapid.IntRange(0, 3).Draw(rt, "b"))
	case 2:
		l = limit.SlidingCounter(n, d).WithBurst(rapid.IntRange(0, 3).Draw(rt, "b"))
	case 3:
		l = limit.FixedWindow(n, d).WithBurst(rapid.IntRange(0, 3).Draw(rt, "b"))
	case 4:
		l = limit.FixedWindow(n, d).ByClock()
	default:
		l = limit.FixedWindow(n, d).ByKey()
	}
	if rapid.Bool().Draw(rt, "headroom") {
		l = l.WithHeadroom(rapid.SampledFrom([]float64{0.1, 0.25, 0.7}).Draw(rt, "share"))
	}
	return l
}

// history is what the two are driven with.
type history struct {
	rt  *rapid.T
	rdb *redis.Client
	set limit.Set
	st  limit.State
	c   call
	now int64 // since base

	ordered bool // there are windows, and their State wants to be charged in order
	done    bool
	told    bool // the server told when a window ends
	bursts  bool
	last    int64 // the latest slot
	slots   []slot
	dues    []time.Duration // of the slots, as the State has them
	back    bool            // something was given back since the last slot
	paused  int64
	drained int64 // what was charged before isn't given back by the State
}

func compare(rt *rapid.T, t *testing.T, rdb *redis.Client) {
	limits := rapid.SliceOfN(rapid.Custom(drawLimit), 1, 3).Draw(rt, "limits")
	set, err := limit.Join(limits...)
	if err != nil {
		rt.Fatal(err)
	}
	h := &history{rt: rt, rdb: rdb, set: set, st: set.NewState(time.Unix(0, base), "key")}
	h.c.horizon = 100 * time.Millisecond
	h.c.instance = "one"
	for _, l := range limits {
		h.ordered = h.ordered || l.Kind() != limit.KindRate
		h.bursts = h.bursts || l.Kind() == limit.KindRate && l.Burst() > 1
	}
	// Jointly in one bucket, or in several.
	if rapid.Bool().Draw(rt, "buckets") {
		for _, l := range limits {
			h.c.buckets = append(h.c.buckets, scaled(t, "", "key", l))
		}
	} else {
		h.c.buckets = []*bucketKeys{scaled(t, "", "key", limits...)}
	}
	h.say("limits %v in %d buckets", limits, len(h.c.buckets))
	for range rapid.IntRange(1, 25).Draw(rt, "steps") {
		// What the one limit has skipped for another, or was handed back in between, only the script lets go.
		if h.step(); h.done || h.gaps(t) {
			return
		}
	}
}

// gaps reports whether a rate has any.
func (h *history) gaps(t *testing.T) bool {
	for _, b := range h.c.buckets {
		state, err := h.rdb.Get(t.Context(), b.state).Result()
		if err == nil && strings.Fields(state)[7] != "0" {
			return true
		}
	}
	return false
}

func (h *history) say(format string, a ...any) { h.rt.Logf(format, a...) }

func (h *history) step() {
	rt := h.rt
	c := h.c
	c.clock = base + h.now
	switch rapid.IntRange(0, 11).Draw(rt, "step") {
	case 0, 1: // idle
		h.now += rapid.SampledFrom([]int64{1, 7, 1_000, 33_333, 500_000, 1_000_000, 62_500_000, 3_700_000_000}).Draw(rt, "idle") * rapid.Int64Range(1, 4).Draw(rt, "times")
		h.say("idle until %d", h.now)
		return
	case 2: // more than was reserved left
		n := rapid.Int64Range(1, 5).Draw(rt, "owed")
		if h.ordered {
			h.now = max(h.now, h.last)
			c.clock = base + h.now
		}
		h.say("owed %d at %d", n, h.now)
		c.owed = h.costs(n)
		h.call(&c)
		h.charge(h.now, h.now, n)
		return
	case 3: // settle
		if len(h.slots) == 0 {
			return
		}
		i := rapid.IntRange(max(0, len(h.slots)-6), len(h.slots)-1).Draw(rt, "slot")
		s := h.slots[i]
		more := rapid.Int64Range(-s.costs[0], 3).Draw(rt, "more")
		if more < 0 && (h.bursts || h.back || h.paused > 0 || s.at-base < h.drained ||
			int64(h.dues[i]) != s.at-base || int64(h.dues[len(h.dues)-1]) != h.slots[len(h.slots)-1].at-base) {
			return
		}
		h.back = h.back || more < 0
		h.say("settle %d by %d at %d", s.at-base, more, h.now)
		c.settled = []slot{{at: s.at, off: s.off, costs: h.costs(more)}}
		h.call(&c)
		due := h.dues[i]
		h.st.Settle(due, time.Duration(s.at-base), s.costs[0], s.costs[0]+more)
		h.slots[i].costs = h.costs(s.costs[0] + more)
		return
	case 4: // the server tells its reset
		var d time.Duration
		for _, l := range h.set.Limits() {
			if _, w, ok := l.Window(); ok && l.Kind() == limit.KindFixedWindow {
				d = w
			}
		}
		if d == 0 || len(h.c.buckets) > 1 {
			return
		}
		reset := h.now + rapid.Int64Range(-int64(d)/4, 2*int64(d)+10).Draw(rt, "reset")
		if h.ordered {
			h.now = max(h.now, h.last)
			c.clock = base + h.now
		}
		// State forgets what is too old when something leaves, the script when it is called.
		h.say("owed 1 at %d", h.now)
		owing := c
		owing.owed = h.costs(1)
		h.call(&owing)
		h.charge(h.now, h.now, 1)
		h.say("reset %d of %d told at %d", reset, d, h.now)
		c.told = []told{{d: d * 1000, reset: base + reset}}
		h.call(&c)
		h.told = true
		h.st.AlignWindow(d, time.Duration(reset), time.Duration(h.now))
		return
	case 5: // pause
		d := rapid.Int64Range(1, 5_000_000).Draw(rt, "pause")
		h.say("pause of %d at %d", d, h.now)
		for _, b := range c.buckets {
			p := pause{bucket: b, length: time.Duration(d) * time.Microsecond, most: time.Hour, clock: c.clock}
			if _, until := p.do(rt, h.rdb); until != base+max(h.paused, h.now+d) {
				rt.Fatalf("paused until %d, want %d", until-base, max(h.paused, h.now+d))
			}
		}
		h.paused = max(h.paused, h.now+d)
		return
	}
	if h.ordered {
		h.now = max(h.now, h.last)
	}
	c.clock = base + h.now
	most := min(h.set.MaxCost(), 40)
	for range rapid.IntRange(1, 2).Draw(rt, "runs") {
		cost := rapid.Int64Range(1, most).Draw(rt, "cost")
		if rapid.Bool().Draw(rt, "cheap") {
			cost = 1
		}
		c.runs = append(c.runs, run{
			n:     rapid.IntRange(1, 20).Draw(rt, "wanted"),
			high:  rapid.Bool().Draw(rt, "high"),
			costs: h.costs(cost),
		})
	}
	h.ask(&c)
}

func (h *history) costs(n int64) []int64 { return slices.Repeat([]int64{n}, len(h.c.buckets)) }

func (h *history) charge(due, now, cost int64) {
	h.st.Charge(time.Duration(due), time.Duration(now), cost)
	h.last = max(h.last, now)
	h.back = false
}

func (h *history) call(c *call) reply {
	// What a pause begins with is that nothing is saved up when it ends.
	if h.paused > 0 && h.paused <= h.now+micros(c.horizon) {
		h.st.Drain(time.Duration(h.paused))
		h.drained = max(h.drained, h.paused, h.last+1)
	}
	if h.paused <= h.now {
		h.paused = 0
	}
	return c.do(h.rt, h.rdb)
}

func (h *history) ask(c *call) {
	rep := h.call(c)
	h.say("at %d asked for %v: got %v, then %d", h.now, c.runs, rep.moments(base), rep.tail-base)
	if h.paused > h.now+micros(c.horizon) {
		if len(rep.slots) > 0 {
			h.rt.Fatalf("paused until %d, and got %v", h.paused, rep.moments(base))
		}
		return
	}
	since := max(h.now, h.paused)
	if len(rep.slots) == 0 {
		if len(h.c.buckets) == 1 {
			h.rt.Fatalf("got nothing")
		}
		h.done = true // a bucket would be kept for another
		return
	}
	earliest := func(r run) int64 {
		return int64(h.st.Earliest(time.Duration(since), time.Duration(h.now), 0, r.costs[0], r.high))
	}
	for i, s := range rep.slots {
		r := c.runs[s.run]
		got, want := s.at-base, earliest(r)
		if min(got, want) < h.last && h.ordered {
			h.done = true // who comes later leaves earlier: State wouldn't know
			return
		}
		if h.told && got > want {
			h.done = true // State forgot what the told window still counts: it drops by the declared length
			return
		}
		if !same(got, want) {
			h.rt.Fatalf("slot %d: at %d, want %d", i, got, want)
		}
		h.charge(want, got, r.costs[0])
		h.slots = append(h.slots, s)
		h.dues = append(h.dues, time.Duration(want))
	}
	if got, want := rep.tail-base, earliest(c.runs[len(c.runs)-1]); want >= h.last && !h.told && len(rep.slots) == c.runs[0].n+c.runs[len(c.runs)-1].n && !same(got, want) {
		h.rt.Fatalf("tail is %d, want %d", got, want)
	}
}

// same reports whether a moment of the script's is that of the State: see TestLuaIsGo.
func same(lua, state int64) bool { return lua == state || lua == state-1 }
