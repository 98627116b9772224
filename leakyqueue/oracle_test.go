package leakyqueue_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// The oracle knows limits as token buckets in floating point, where the library knows them as
// theoretical arrival times in integers: it judges what happened from the outside.

// tolerance is for the oracle's own rounding, and for the library's, which is to the nanosecond.
const tolerance = 50 * time.Nanosecond

type tokenBucket struct {
	perNS  float64
	burst  float64
	spare  float64 // how much fuller than the burst it may get: what late departures may catch up
	tokens float64
	at     time.Duration
}

func newTokenBucket(n float64, per time.Duration, burst int, slack time.Duration) *tokenBucket {
	b := &tokenBucket{perNS: n / float64(per), burst: float64(burst)}
	b.spare = b.perNS * float64(slack)
	b.tokens = b.burst + b.spare
	return b
}

func (b *tokenBucket) level(t time.Duration) float64 {
	return min(b.burst+b.spare, b.tokens+b.perNS*float64(t-b.at))
}

// need is the level at which a request may leave: a cost above the burst takes a full bucket.
func (b *tokenBucket) need(cost int) float64 { return min(float64(cost), b.burst) }

// allows reports whether the declared limit, and what is caught up, permit a departure at t.
func (b *tokenBucket) allows(t time.Duration, cost int) bool {
	return b.level(t)+b.perNS*float64(tolerance) >= b.need(cost)
}

// from is the first moment, not before t, at which a departure is permitted without any spare.
func (b *tokenBucket) from(t time.Duration, cost int) time.Duration {
	missing := b.need(cost) - (b.level(t) - b.spare)
	if missing <= 0 {
		return t
	}
	return t + time.Duration(math.Ceil(missing/b.perNS))
}

func (b *tokenBucket) take(t time.Duration, cost int) {
	b.tokens, b.at = b.level(t)-float64(cost), t
}

// drain leaves one unit, and what may be caught up, at t.
func (b *tokenBucket) drain(t time.Duration) {
	b.tokens, b.at = min(b.level(t), 1+b.spare), t
}

type eventKind int

// In the order in which the oracle looks at them when they come at the same moment.
const (
	returned eventKind = iota // a slot
	paused
	arrived
	gone // cancelled or refused
	departed
)

type event struct {
	at    time.Duration
	kind  eventKind
	req   int           // an index; of pauses, the index of the bucket
	until time.Duration // of a pause
	err   error
}

// world is what the oracle needs to know of a scenario.
type world struct {
	buckets [][]*tokenBucket // the rates of each bucket
	slots   []int            // 0: any number
	cost    func(req int) int
	keys    func(req int) []int
	late    bool // timers were late, so a departure may come later than it could have
	// lane tells which requests wait in one line, whose order holds strictly.
	lane func(req int) string
}

// judge replays the events and returns what was wrong: over a limit, idle while someone could leave,
// out of order, or lost.
func (w world) judge(events []event) error {
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.req, b.req))
	})
	waiting := map[string][]int{} // in the order of arrival
	out := make([]int, len(w.slots))
	pausedUntil := make([]time.Duration, len(w.buckets))
	ended := map[int]bool{}
	last := time.Duration(0)

	// could is when the request may leave, if nothing else happens from t on.
	could := func(req int, t time.Duration) time.Duration {
		for _, k := range w.keys(req) {
			if w.slots[k] > 0 && out[k] >= w.slots[k] {
				return math.MaxInt64
			}
		}
		for again := true; again; {
			again = false
			for _, k := range w.keys(req) {
				e := max(t, pausedUntil[k])
				for _, b := range w.buckets[k] {
					e = max(e, b.from(e, w.cost(req)))
				}
				if e > t {
					t, again = e, true
				}
			}
		}
		return t
	}
	for _, e := range events {
		if !w.late {
			for lane, reqs := range waiting {
				if len(reqs) == 0 || e.kind == departed && e.req == reqs[0] {
					continue
				}
				if c := could(reqs[0], last); c < e.at-tolerance {
					return fmt.Errorf("idle: request %d of lane %q could have left at %v, and waits at %v", reqs[0], lane, c, e.at)
				}
			}
		}
		last = e.at
		switch e.kind {
		case arrived:
			lane := w.lane(e.req)
			waiting[lane] = append(waiting[lane], e.req)
		case returned:
			for _, k := range w.keys(e.req) {
				out[k]--
			}
		case paused:
			pausedUntil[e.req] = max(pausedUntil[e.req], e.until)
			for _, b := range w.buckets[e.req] {
				b.drain(pausedUntil[e.req])
			}
		case gone, departed:
			if ended[e.req] {
				return fmt.Errorf("request %d ended twice", e.req)
			}
			ended[e.req] = true
			lane := w.lane(e.req)
			i := slices.Index(waiting[lane], e.req)
			if i < 0 {
				return fmt.Errorf("request %d ended before it came", e.req)
			}
			if e.kind == departed && i > 0 {
				return fmt.Errorf("out of order: request %d left at %v before request %d", e.req, e.at, waiting[lane][0])
			}
			waiting[lane] = slices.Delete(waiting[lane], i, i+1)
			if e.kind == gone {
				continue
			}
			for _, k := range w.keys(e.req) {
				if e.at+tolerance < pausedUntil[k] {
					return fmt.Errorf("request %d left at %v, in the pause until %v", e.req, e.at, pausedUntil[k])
				}
				if w.slots[k] > 0 {
					if out[k]++; out[k] > w.slots[k] {
						return fmt.Errorf("request %d left at %v with %d of %d slots out", e.req, e.at, out[k]-1, w.slots[k])
					}
				}
				for _, b := range w.buckets[k] {
					if !b.allows(e.at, w.cost(e.req)) {
						return fmt.Errorf("over: request %d of cost %d left at %v, %v before bucket %d let it", e.req, w.cost(e.req), e.at, b.from(e.at, w.cost(e.req))-e.at, k)
					}
					b.take(e.at, w.cost(e.req))
				}
			}
		}
	}
	for lane, reqs := range waiting {
		if len(reqs) > 0 {
			return fmt.Errorf("lost: %d requests of lane %q never ended, the first %d", len(reqs), lane, reqs[0])
		}
	}
	return nil
}
