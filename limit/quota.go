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
// A reset that moves, or none, is of a limit that fills up all the time. There the lowest count of the last two round
// trips is taken, less what is in flight; or, since that counts twice what was in flight when it was told, the lowest sum of what
// was left and what had left by then, less what has left now: that is the same if no requests overtook one another,
// and too little if some did. What comes back is reckoned from the answers: by how much that sum grows.
type Quota struct {
	known  bool
	left   int64
	upTo   int64         // units that had left when that was so
	limit  int64         // -1: unknown
	reset  time.Duration // Never: unknown
	rounds [2]round      // of a reset that moves, or none: this one, and the one before
	told   time.Duration // when the request left whose answer told it
	heard  time.Duration // when that came
	last   time.Duration // a departure
	moving bool          // the reset
	late   time.Duration // how much later than said windows are renewed

	trusted bool // a window has been renewed when it was said to be
	asked   bool // one has left since the reset, to see
	askedAt time.Duration

	renewing bool  // one has left since the reset, of which nothing was told yet
	before   int64 // units that had left and were answered when it did: those aren't counted in the new window

	among int64 // how many clients use it up, alike; 0: one

	base   round   // an earlier one: by how much the sum has grown since then is what came back
	refill float64 // units per nanosecond; 0: unknown
}

// round is what was told in one round trip: by answers to requests that left before one that left after the first of them
// was there.
type round struct {
	known bool
	left  int64         // the lowest
	sum   int64         // the lowest of what was left and had left by then
	until int64         // the last unit that had left when it began
	at    time.Duration // when the first of its requests left
	full  bool          // it may have been full
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
	// shortestBase is from when on it is, and not what requests make that overtake one another.
	shortestBase = time.Second / 2
)

// Among has the quota be one that n clients use up together, each with as much in flight as this one: what is left is
// enough for a departure if it is for n of them. 1 or less: this one alone.
func (q *Quota) Among(n int) { q.among = int64(max(1, n)) }

// Tell takes up what an answer told that came at now to a request that had left at left, as the last of upTo units of
// those that were sent by now.
func (q *Quota) Tell(c Count, left, now time.Duration, upTo, sent int64) {
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
		q.turn(c, left, upTo, sent)
		if upTo < q.upTo { // older than what is known
			return
		}
	case q.reset == Never:
	case reset <= q.reset+sameWindow && reset >= q.reset-sameWindow && (now < q.reset || left < q.reset):
		q.left, q.reset = min(q.left, c.Remaining), min(q.reset, reset)
		q.limit, q.upTo = max(q.limit, c.Limit), max(q.upTo, upTo)
		q.told, q.heard = max(q.told, left), now
		return
	case left < q.told && now < q.reset || reset < q.reset && left <= q.told:
		return // older, or of an earlier window
	case now < q.reset-sameWindow && reset > q.reset:
		q.moving = true
		q.turn(c, left, upTo, sent)
	}
	if !q.known && reset == Never {
		q.turn(c, left, upTo, sent)
	}
	q.known, q.asked, q.renewing = true, false, false
	q.upTo, q.left, q.limit, q.reset, q.told, q.heard = upTo, c.Remaining, c.Limit, reset, left, now
}

// turn takes up what was told in this round.
func (q *Quota) turn(c Count, left time.Duration, upTo, sent int64) {
	full := c.Limit > 0 && c.Remaining >= c.Limit-1
	r := &q.rounds[0]
	if !r.known || upTo > r.until {
		q.learnRefill(*r)
		q.rounds[1] = *r
		*r = round{known: true, left: c.Remaining, sum: c.Remaining + upTo, until: sent, at: left, full: full}
		return
	}
	r.left, r.sum, r.full = min(r.left, c.Remaining), min(r.sum, c.Remaining+upTo), r.full || full
}

// learnRefill reckons how fast a quota fills up, of a round that is over. Where it is full nothing comes back.
func (q *Quota) learnRefill(r round) {
	d := r.at - q.base.at
	switch {
	case !r.known:
	case !q.base.known || r.full || d > longestBase:
		q.base = r
	case d >= shortestBase:
		// What is left is told in whole units, so one of them may be none.
		if back := r.sum - q.base.sum - 1; back > 0 {
			q.refill = float64(back) / float64(d)
		}
	}
}

// leftMoving is what is left of a limit that fills up.
func (q *Quota) leftMoving(inFlight, sent int64) int64 {
	left, sum := q.rounds[0].left, q.rounds[0].sum
	if q.rounds[1].known {
		left, sum = min(left, q.rounds[1].left), min(sum, q.rounds[1].sum)
		return max(left-inFlight, sum-sent)
	}
	return left - inFlight
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

// Depart notes a departure, before which so much was in flight and had left.
func (q *Quota) Depart(now time.Duration, inFlight, sent int64) {
	q.last = now
	if q.expired(now) {
		if !q.renewing {
			q.renewing, q.before = true, sent-inFlight
		}
		q.asked, q.askedAt = true, now
	}
}

// Hear takes up whether an answer was a refusal: then what was to be renewed wasn't, and nothing was spent.
func (q *Quota) Hear(refused bool, cost int64) {
	if refused {
		q.base.sum += cost
		q.rounds[0].sum += cost
		q.rounds[1].sum += cost
	}
	if !q.asked {
		return
	}
	q.asked = false
	if refused {
		q.renewing = false
		q.late = min(q.late+sameWindow, 2*sameWindow)
	} else {
		q.trusted = true
	}
}

// Renewed returns when the quota is renewed, as far as is known; [Never] if it isn't.
func (q *Quota) Renewed() time.Duration {
	if !q.known || q.moving || q.reset == Never {
		return Never
	}
	return min(q.reset+q.late, Never-1)
}

// Left returns what the server has said is left; negative: it hasn't said.
func (q *Quota) Left() int64 {
	if !q.known {
		return -1
	}
	return q.left
}

// Last returns when the latest departure was.
func (q *Quota) Last() time.Duration { return q.last }

// Heard returns when the latest answer came that counts.
func (q *Quota) Heard() time.Duration { return q.heard }

func (q *Quota) expired(at time.Duration) bool { return q.known && q.Renewed() <= at }

// Earliest returns the first moment, not before since, at which a request of the given cost may leave, when so much
// is in flight, so much has left, and so many wait.
func (q *Quota) Earliest(since time.Duration, cost, inFlight, sent, waiting int64, spread Spread) time.Duration {
	if !q.known {
		return since
	}
	among := max(1, q.among)
	cost, inFlight = cost*among, inFlight*among
	if q.expired(since) {
		return q.fromNew(since, cost, inFlight, sent)
	}
	left, fills := q.left-inFlight, q.fills()
	if (q.moving || q.reset == Never) && among == 1 {
		left = q.leftMoving(inFlight, sent)
	}
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

// fromNew is Earliest in a window of which nothing was told yet: it has as much as the one before, and what was in
// flight when it began may be counted in it.
func (q *Quota) fromNew(since time.Duration, cost, inFlight, sent int64) time.Duration {
	used := inFlight
	if q.renewing {
		used = (sent - q.before) * max(1, q.among)
	}
	if q.limit > 0 && used > 0 && cost > q.limit-used {
		return max(since, q.last+time.Second) // to see
	}
	return since
}

// Asking reports whether nobody else should leave at now until the answer is there that tells whether the
// window was renewed.
func (q *Quota) Asking(now time.Duration) bool {
	return q.asked && !q.trusted && now < q.askedAt+askingTakes && q.expired(now)
}

// AskingUntil is until when nobody else should leave for that, if no answer comes; now: others may.
func (q *Quota) AskingUntil(now time.Duration) time.Duration {
	if q.Asking(now) {
		return q.askedAt + askingTakes
	}
	return now
}

// Known reports whether the Quota may still hold somebody back.
func (q *Quota) Known(now time.Duration) bool {
	return q.known && (now-q.heard < 10*time.Minute || now < q.Renewed() && q.Renewed() != Never)
}
