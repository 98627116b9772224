package limit

import (
	"math"
	"time"
)

// counter is the sliding counter: what left in the current window and in the one before it.
type counter struct {
	window
	anchor     time.Duration // a moment at which a window begins
	start      time.Duration // of the current window, as of the last departure
	prev, curr int64
	last       time.Duration // the last departure
}

func newCounter(w window, o origin) *counter {
	c := &counter{window: w, anchor: o.clockPhase(w.d), last: noMoment}
	c.start = c.anchor
	return c
}

func (c *counter) declared() *window { return &c.window }

// begin is when the window begins in which t is.
func (c *counter) begin(t time.Duration) time.Duration {
	start := t - (t-c.anchor)%c.d
	if start > t {
		start -= c.d
	}
	return start
}

// at returns when the window in which t is begins, what has left in the one before, and in this one.
func (c *counter) at(t time.Duration) (start time.Duration, prev, curr int64) {
	switch start = c.begin(t); {
	case start <= c.start:
		return c.start, c.prev, c.curr
	case start == c.start+c.d:
		return start, c.curr, 0
	default:
		return start, 0, 0
	}
}

// earliest has nothing leave in the last guard of a window: it might arrive in the next one, where
// what it was admitted by doesn't count. What arrives late within a window is no harm, since what is
// allowed there only grows.
//
// Those ahead leave one by one as soon as they can, so in each window as many as fit by its end. What is
// kept is left out for them: a large one may take it, and who leaves earlier is never in the way longer.
// Within a few windows that number comes to alternate between two, which may be the same, and then as
// many pairs of windows as need be are passed at once.
func (c *counter) earliest(t time.Duration, ahead, cost int64, high bool) time.Duration {
	if cost > c.n {
		return Never
	}
	start, prev, curr := c.at(t)
	end := start + c.d
	if t >= end-c.guard {
		start, end, prev, curr = end, end+c.d, curr, 0
	}
	before := int64(-1) // what counted as prev in the window before, if those ahead had that to themselves
	for {
		t = max(t, start)
		if prev+curr+ahead == 0 {
			return t // whatever is kept: a large request doesn't wait for ever
		}
		if addSat(curr+ahead, cost) <= c.n-c.weight(prev, high) {
			return max(t, end-c.roomy(c.n-curr-ahead-cost, prev, high))
		}
		if start >= Never {
			return Never
		}
		left := min(ahead, max(0, c.n-c.weight(prev, true)-curr))
		ahead -= left
		if pair := prev + left; curr == 0 && left == before && ahead > pair {
			skip := ahead/pair - 1
			ahead -= skip * pair
			end = later(end, 2*skip, c.d)
		}
		if before = prev; curr > 0 {
			before = -1
		}
		start, end, prev, curr = end, end+c.d, curr+left, 0
	}
}

// weight is what prev counts for, with what is kept, at the last moment at which something may leave,
// rounded up.
func (c *counter) weight(prev int64, high bool) int64 {
	last := int64(c.guard + 1)
	w := mulDivUp(prev, last, int64(c.d))
	if high || c.kept == 0 {
		return w
	}
	return max(w+1, mulDivUp(prev+c.kept, last, int64(c.d)))
}

// roomy is how long before the window's end there is so much room besides what prev counts for and what
// is kept: of that kept·(time until the end)/d, but always one unit. Unlike in other windows that one
// isn't lent out at the end, since nothing comes back all at once then.
func (c *counter) roomy(room, prev int64, high bool) time.Duration {
	if high || c.kept == 0 {
		return c.shrunk(room, prev)
	}
	return min(c.shrunk(room, prev+c.kept), c.shrunk(room-1, prev))
}

// shrunk is how long before the window's end units, which count less and less, have shrunk to room.
func (c *counter) shrunk(room, units int64) time.Duration {
	if units == 0 {
		return math.MaxInt64 / 4
	}
	return time.Duration(min(math.MaxInt64/4, mulDiv(room, int64(c.d), units)))
}

func (c *counter) charge(now time.Duration, cost int64) {
	c.start, c.prev, c.curr = c.at(now)
	c.curr += cost
	c.last = max(c.last, now)
}

func (c *counter) note(now time.Duration, cost int64) { c.charge(now, cost) }

func (c *counter) settle(now time.Duration, more int64) {
	switch c.begin(now) {
	case c.start:
		c.curr = max(0, c.curr+more)
	case c.start - c.d:
		c.prev = max(0, c.prev+more)
	}
}

func (c *counter) full(now time.Duration) bool {
	_, prev, curr := c.at(now)
	return prev+curr == 0
}

func (c *counter) clone() windowState {
	copied := *c
	return &copied
}
