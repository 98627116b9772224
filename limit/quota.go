package limit

import "time"

// Spread says how what a server has left is used up until it is renewed.
type Spread uint8

const (
	// SpreadLast has requests leave as declared limits let them until a tenth is left, and if more wait than
	// that, what is left evenly over the time until it is renewed.
	SpreadLast Spread = iota
	// SpreadAll has them leave evenly from the start.
	SpreadAll
	// SpreadNone has them leave as soon as they may.
	SpreadNone
)

// A Quota is what a server said of one of its limits, and what follows for departures: no more leave than it has
// left, less what is in flight. The zero Quota holds nobody back. It is arithmetic, as [State] is.
//
// A server's count can't be older than the answer that told it, but what was in flight then may or may not be
// counted. Within a window the count only goes up, so the lowest that was told is the latest, and all that was
// answered is counted in it: what isn't is in flight. So an answer that comes late does no harm.
type Quota struct {
	known   bool
	left    int64         // at the latest of the answers that count
	limit   int64         // -1: unknown
	reset   time.Duration // Never: unknown
	told    time.Duration // when the request left whose answer told it
	heard   time.Duration // when that came
	last    time.Duration // a departure
	spent   int64         // departures since heard
	trusted bool          // a window has been renewed when it was said to be
	late    time.Duration // how much later than said windows are renewed
	refill  float64       // units per nanosecond where no reset is told; 0: unknown
	asked   bool          // one has left since the reset, to see
	askedAt time.Duration
}

// A Count is what one answer tells of a quota.
type Count struct {
	Limit, Remaining int64         // -1: unknown
	Reset            time.Duration // from now; negative: unknown
	Window           time.Duration // 0: unknown
}

// sameWindow is by how much two resets of one window may differ: servers tell whole seconds, rounded up or down.
const sameWindow = 1100 * time.Millisecond

// Tell takes up what an answer told that came at now to a request that had left at left.
func (q *Quota) Tell(c Count, left, now time.Duration) {
	if c.Remaining < 0 || c.Reset == 0 { // renewed already: it says nothing of the next
		return
	}
	reset := Never
	if c.Reset >= 0 && c.Reset < Never-now {
		// The server told it when the request was with it: half a round trip ago, and as long before the next gets
		// there.
		reset = left + (now-left)/2 + c.Reset
	}
	switch {
	case !q.known:
	case reset == Never:
		if left < q.told {
			return // an older answer
		}
		q.learnRefill(c, now)
	case q.reset == Never:
	case reset <= q.reset+sameWindow && reset >= q.reset-sameWindow && now < q.reset+sameWindow:
		if left >= q.reset && now >= q.reset { // of a window of about a second: the next one already
			break
		}
		q.left, q.reset = min(q.left, c.Remaining), min(q.reset, reset)
		q.limit = max(q.limit, c.Limit)
		q.told, q.heard = max(q.told, left), now
		return
	case reset < q.reset && left <= q.told:
		return // of an earlier window
	case left < q.told && now < q.reset:
		return
	}
	q.known, q.asked = true, false
	q.left, q.limit, q.reset, q.told, q.heard, q.spent = c.Remaining, c.Limit, reset, left, now, 0
}

// learnRefill finds out how fast a server without a reset forgets what was used.
func (q *Quota) learnRefill(c Count, now time.Duration) {
	d := now - q.heard
	if d <= 0 {
		return
	}
	if c.Remaining >= q.limit-1 && c.Limit >= 0 { // it may have been full for long
		return
	}
	if back := float64(c.Remaining-q.left+q.spent) / float64(d); back > 0 {
		if q.refill == 0 {
			q.refill = back
		} else {
			w := min(1, float64(d)/float64(5*time.Second))
			q.refill += w * (back - q.refill)
		}
	}
}

// Depart notes a departure.
func (q *Quota) Depart(now time.Duration, cost int64) {
	q.last = now
	q.spent += cost
	if q.expired(now) {
		q.asked, q.askedAt = true, now
	}
}

func (q *Quota) renewed() time.Duration {
	if q.reset == Never {
		return Never
	}
	return q.reset + q.late
}

func (q *Quota) expired(at time.Duration) bool { return q.known && q.renewed() <= at }

// Earliest returns the first moment, not before since, at which a request of the given cost may leave, when so much is in
// flight, and so many wait.
func (q *Quota) Earliest(since time.Duration, cost, inFlight, waiting int64, spread Spread) time.Duration {
	switch {
	case !q.known:
		return since
	case q.expired(since):
		return since
	}
	left := q.left - inFlight
	if left < cost {
		return max(since, min(q.renewed(), q.comesBack(cost-left)))
	}
	if q.reset == Never || spread == SpreadNone || spread == SpreadLast && (q.limit < 0 || 10*left > q.limit || waiting <= left) {
		return since
	}
	return max(since, q.last+(q.renewed()-q.last)/time.Duration(left+1)*time.Duration(cost))
}

// Hear takes up whether an answer was a refusal: what was to be renewed wasn't then.
func (q *Quota) Hear(refused bool) {
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

// Renewed returns when the quota is renewed, as far as is known; [Never] if it isn't.
func (q *Quota) Renewed() time.Duration {
	if !q.known {
		return Never
	}
	return q.renewed()
}

// Asking reports whether nobody else should leave at now until the answer is there that tells whether the
// window was renewed.
func (q *Quota) Asking(now time.Duration) bool {
	return q.asked && !q.trusted && now < q.askedAt+askingTakes && q.expired(now)
}

// askingTakes bounds how long others wait for that.
const askingTakes = time.Second

// comesBack is when so many units more than there are are left, where no reset is told.
func (q *Quota) comesBack(units int64) time.Duration {
	if q.reset != Never {
		return Never
	}
	if q.refill == 0 {
		return max(q.heard, q.last) + time.Second // to see
	}
	return q.heard + time.Duration(min(float64(units)/q.refill, float64(time.Hour)))
}

// Known reports whether the Quota may still hold somebody back.
func (q *Quota) Known(now time.Duration) bool {
	return q.known && (q.reset == Never && now-q.heard < 10*time.Minute || q.reset != Never && now < q.renewed())
}
