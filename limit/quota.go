package limit

import "time"

// Spread says how what a server has left is used up until it is renewed.
type Spread uint8

const (
	// SpreadLast has requests leave as declared limits let them until a tenth is left, and then, if more wait
	// than that, evenly over the time until it is renewed.
	SpreadLast Spread = iota
	// SpreadAll has them leave evenly from the start.
	SpreadAll
	// SpreadNone has them leave as soon as they may.
	SpreadNone
)

// A Quota is what a server said of one of its limits, and what follows for departures: no more leave than it has
// left, less what is in flight. The zero Quota holds nobody back. It is arithmetic, as [State] is.
//
// Within a window a server's count only goes up, so the lowest that was told is the latest, and all that was
// answered is counted in it: what isn't is in flight. So an answer that comes late does no harm.
//
// A reset that moves, or none, is of a limit that fills up all the time. What comes back then is reckoned from
// the answers: by how much more is left than would be if nothing came back.
type Quota struct {
	known  bool
	left   int64
	limit  int64         // -1: unknown
	reset  time.Duration // Never: unknown
	told   time.Duration // when the request left whose answer told it
	heard  time.Duration // when that came
	last   time.Duration // a departure
	moving bool          // the reset
	late   time.Duration // how much later than said windows are renewed

	trusted bool          // a window has been renewed when it was said to be
	asked   bool          // one has left since the reset, to see
	askedAt time.Duration

	// What was left at a moment, and has left since: what comes back shows in the difference.
	base struct {
		known bool
		left  int64
		spent int64
		at    time.Duration
	}
	refill float64 // units per nanosecond; 0: unknown
}

// A Count is what one answer tells of a quota.
type Count struct {
	Limit, Remaining int64         // -1: unknown
	Reset            time.Duration // from now; negative: unknown
	Window           time.Duration // 0: unknown
}

const (
	// sameWindow is by how much two resets of one window may differ: servers tell whole seconds, rounded up or
	// down.
	sameWindow = 1100 * time.Millisecond
	// askingTakes bounds how long others wait for the answer that tells whether a window was renewed.
	askingTakes = time.Second
	// longestBase is for how long what comes back is reckoned from one moment.
	longestBase = time.Minute
)

// Tell takes up what an answer told that came at now to a request that had left at left, while so much else was in
// flight.
func (q *Quota) Tell(c Count, left, now time.Duration, inFlight int64) {
	if c.Remaining < 0 || c.Reset == 0 { // renewed already: it says nothing of the next
		return
	}
	reset := Never
	if c.Reset > 0 && c.Reset < Never-now {
		// The server told it when the request was with it: half a round trip ago, and as long before the next gets
		// there.
		reset = left + (now-left)/2 + c.Reset
	}
	switch {
	case !q.known:
	case q.moving || reset == Never:
		if left <= q.heard { // as old as what is known, or older
			q.left = min(q.left, c.Remaining)
			return
		}
		q.learnRefill(c, now, inFlight)
	case q.reset == Never:
	case reset <= q.reset+sameWindow && reset >= q.reset-sameWindow && (now < q.reset || left < q.reset):
		q.left, q.reset = min(q.left, c.Remaining), min(q.reset, reset)
		q.limit = max(q.limit, c.Limit)
		q.told, q.heard = max(q.told, left), now
		return
	case left < q.told && now < q.reset || reset < q.reset && left <= q.told:
		return // older, or of an earlier window
	case now < q.reset-sameWindow && reset > q.reset:
		q.moving = true
	}
	if !q.base.known {
		q.rebase(c, now)
	}
	q.known, q.asked = true, false
	q.left, q.limit, q.reset, q.told, q.heard = c.Remaining, c.Limit, reset, left, now
}

func (q *Quota) rebase(c Count, now time.Duration) {
	q.base.known, q.base.left, q.base.spent, q.base.at = true, c.Remaining, 0, now
}

// learnRefill reckons how fast a quota fills up. It may have been full for a while where nothing is used; and where
// others are in flight it isn't known whether they are counted.
func (q *Quota) learnRefill(c Count, now time.Duration, inFlight int64) {
	if inFlight > 0 {
		return
	}
	d := now - q.base.at
	if !q.base.known || c.Limit > 0 && c.Remaining >= c.Limit-1 || d > longestBase {
		q.rebase(c, now)
		return
	}
	// What is left is told in whole units, so one of them may be none.
	if back := c.Remaining - q.base.left + q.base.spent - 1; back > 0 && d > 0 {
		q.refill = float64(back) / float64(d)
	}
}

// fills is what comes back per nanosecond; 0: that isn't known, or it comes back all at once.
func (q *Quota) fills() float64 {
	switch {
	case q.refill > 0 && (q.moving || q.reset == Never):
		return q.refill
	case q.moving && q.limit > q.left && q.reset > q.heard:
		return float64(q.limit-q.left) / float64(q.reset-q.heard)
	}
	return 0
}

// Depart notes a departure.
func (q *Quota) Depart(now time.Duration, cost int64) {
	q.last = now
	q.base.spent += cost
	if q.expired(now) {
		q.asked, q.askedAt = true, now
	}
}

// Hear takes up whether an answer was a refusal: then what was to be renewed wasn't, and nothing was spent.
func (q *Quota) Hear(refused bool, cost int64) {
	if refused {
		q.base.spent -= cost
	}
	if !q.asked {
		return
	}
	q.asked = false
	if refused {
		q.late = min(q.late+sameWindow, 2*sameWindow)
	} else {
		q.trusted = true
	}
}

// Correct takes up that a departure has cost more than was thought, or less.
func (q *Quota) Correct(by int64) { q.base.spent += by }

// Renewed returns when the quota is renewed, as far as is known; [Never] if it isn't.
func (q *Quota) Renewed() time.Duration {
	if !q.known || q.moving || q.reset == Never {
		return Never
	}
	return q.reset + q.late
}

func (q *Quota) expired(at time.Duration) bool { return q.known && q.Renewed() <= at }

// Earliest returns the first moment, not before since, at which a request of the given cost may leave, when so much
// is in flight, and so many wait.
func (q *Quota) Earliest(since time.Duration, cost, inFlight, waiting int64, spread Spread) time.Duration {
	if !q.known || q.expired(since) {
		return since
	}
	left := q.left - inFlight
	fills := q.fills()
	if left < cost {
		switch {
		case fills > 0:
			return max(since, q.heard+time.Duration(min(float64(cost-left)/fills, float64(longestBase))))
		case q.reset == Never || q.moving:
			return max(since, max(q.heard, q.last)+time.Second) // to see
		default:
			return max(since, q.Renewed())
		}
	}
	if fills > 0 || q.reset == Never || spread == SpreadNone ||
		spread == SpreadLast && (q.limit < 0 || 10*left > q.limit || waiting <= left) {
		return since
	}
	return max(since, q.last+(q.reset+q.late-q.last)/time.Duration(left+1)*time.Duration(cost))
}

// Asking reports whether nobody else should leave at now until the answer is there that tells whether the
// window was renewed.
func (q *Quota) Asking(now time.Duration) bool {
	return q.asked && !q.trusted && now < q.askedAt+askingTakes && q.expired(now)
}

// Known reports whether the Quota may still hold somebody back.
func (q *Quota) Known(now time.Duration) bool {
	return q.known && (now-q.heard < 10*time.Minute || now < q.Renewed() && q.Renewed() != Never)
}
