package leakyqueue

import (
	"slices"
	"time"
)

// A Place is a request's position in the queue's order: lower leaves first. The zero Place is that
// of a newcomer, who is given the next free one.
type Place uint64

// waiter is a request in the queue. Queue.mu guards it until ready is closed; then it belongs to the
// goroutine that waits. There may be very many, so it is kept to 80 bytes.
type waiter struct {
	ready chan struct{} // closed when state is departed or refused
	lane  *lane

	place    Place // 0: a newcomer that hasn't joined its lane yet
	ticket   *Ticket
	joined   time.Duration // since when it waits for its turn; of a delayed retry, when it will
	deadline time.Duration // of its context, or never; then, when it was charged or its earliest departure

	order   links[waiter] // in lane.fresh, then in Queue.woken
	cost    int32
	at      int32 // its index in lane.again or Queue.delayed; then how late it left, in nanoseconds
	state   waiterState
	why     reason  // it was refused
	mixed   bool    // its cost is another in some buckets: Ticket.costs
	because because // what the upstream has to do with its refusal
	held    uint8   // 1 + the index in lane.buckets of the last bucket to hold it back; 0: none did
}

type waiterState uint8

const (
	waiting waiterState = iota
	delayed
	outside // with Block
	departed
	refused
	cancelled
)

// reason says which error a waiter is refused with.
type reason uint8

const (
	tooLate      reason = iota // by MaxWait or MaxPause
	pastDeadline               // of its context
	crowdedOut                 // for a newcomer
	closed
	noStore // RefuseAll
)

func orderLinks(w *waiter) *links[waiter] { return &w.order }

// costAt is what w takes of its i-th bucket.
func (w *waiter) costAt(i int) int64 {
	if w.mixed {
		return int64(w.ticket.costs[i])
	}
	return int64(w.cost)
}

// asksAsMuchAs reports whether w certainly takes as much of each bucket as another of its lane.
func (w *waiter) asksAsMuchAs(o *waiter) bool { return w.cost == o.cost && !w.mixed && !o.mixed }

func (w *waiter) before(o *waiter) bool { return w.place < o.place }
func (w *waiter) index() *int32         { return &w.at }

// heldBy is the last bucket to hold w back, nil if none did.
func (w *waiter) heldBy() *bucket {
	if w.held == 0 {
		return nil
	}
	return w.lane.line.buckets[w.held-1]
}

// blamed is the bucket to name in an error: the one that held w back, or else the first of them.
func (w *waiter) blamed() *bucket {
	if b := w.heldBy(); b != nil {
		return b
	}
	return w.lane.line.buckets[0]
}

func newWaiter() *waiter { return &waiter{ready: make(chan struct{})} }

// spareWaiter makes a waiter for who will probably wait, since others do, before the lock is taken:
// to allocate may mean to help the garbage collector.
func (q *Queue) spareWaiter() *waiter {
	if !q.crowded.Load() {
		return nil
	}
	if w := q.spare.Swap(nil); w != nil {
		return w
	}
	return newWaiter()
}

// keepSpare keeps w, which may be nil, for the next.
func (q *Queue) keepSpare(w *waiter) {
	if w != nil {
		q.spare.Store(w)
	}
}

// delayedWaiter orders waiters by the moment at which they may join their lane.
type delayedWaiter struct{ *waiter }

func (w delayedWaiter) before(o delayedWaiter) bool { return w.joined < o.joined }

// lane is the waiters of one line that have the same priority and flow, in their order. It lives as long
// as it has any.
type lane struct {
	line   *line
	key    laneKey
	weight uint64
	shares []*share // at each of the line's buckets

	// Newcomers are in order as they come. A retry comes with the place it had, which is before
	// most of them.
	again heap[*waiter]
	fresh list[waiter]

	costs   []int64 // of all in again and fresh, in each of the line's buckets
	delayed int     // on their way, in Queue.delayed or line.outside

	parkedAt    *bucket // the bucket that keeps the head from leaving; nil: nobody waits
	parkedIndex int32
	share       *share // of that bucket
	tag         uint64 // what its order there goes by: the share's count when it began to wait there
	passed      int    // how often the head had its turn at one bucket while another kept it
	round       uint64 // of Queue.round, in which moves counts
	moves       int    // from one bucket to another
}

// laneKey tells the lanes of a line apart.
type laneKey struct {
	level level
	flow  string
}

func (l *lane) before(o *lane) bool {
	if l.tag != o.tag {
		return int64(l.tag-o.tag) < 0
	}
	return l.head().place < o.head().place
}

func (l *lane) index() *int32 { return &l.parkedIndex }

// indexOf is where b is among the buckets that l waits for; -1: it doesn't.
func (l *lane) indexOf(b *bucket) int { return slices.Index(l.line.buckets, b) }

func (l *lane) waiting() int { return len(l.again) + l.fresh.n }

// head is the waiter whose turn it is. The lane has one.
func (l *lane) head() *waiter {
	w, ok := l.again.top()
	if newcomer := l.fresh.front; !ok || newcomer != nil && newcomer.before(w) {
		return newcomer
	}
	return w
}

// ahead is the cost, in the i-th bucket, of those who leave before one of the given place, or before a
// newcomer.
func (l *lane) ahead(place Place, i int) int64 {
	if place == 0 {
		return l.costs[i]
	}
	var cost int64
	for _, w := range l.again {
		if w.place < place {
			cost += w.costAt(i)
		}
	}
	for w := l.fresh.front; w != nil && w.place < place; w = w.order.after {
		cost += w.costAt(i)
	}
	return cost
}

// heads reports whether w, who waits or is delayed, is the head of its lane.
func (l *lane) heads(w *waiter) bool { return l.parkedAt != nil && l.head() == w }

// insertLocked puts w into its lane, which may make it the head.
func (q *Queue) insertLocked(w *waiter) {
	l := w.lane
	w.state = waiting
	if at := l.parkedAt; at != nil && at.lease != nil {
		q.touch(at.lease) // there is one more to ask for
	}
	if w.place != 0 {
		l.again.push(w)
		for i, b := range l.line.buckets {
			b.hurry(b.takes(w.costAt(i))) // those behind it leave later
		}
	} else {
		q.places++
		w.place = q.places
		l.fresh.push(w)
	}
	for i := range l.costs {
		l.costs[i] += w.costAt(i)
	}
	if q.cfg.MaxWait > 0 {
		q.arrivals.add(w, q.waiting)
	}
	l.line.waiting++
	if l.parkedAt != nil {
		l.parkedAt.refix(l)
	}
}

// removeLocked takes w, who waits or is delayed, out of the queue; the rest of its lane closes up.
// Where w waited, the bucket at which its lane was parked is to be dispatched afterwards: its oldest
// head may be another.
func (q *Queue) removeLocked(w *waiter) {
	l := w.lane
	if l.heads(w) {
		l.passed = 0
	}
	w.held = uint8(1 + l.indexOf(l.parkedAt))
	switch w.state {
	case delayed:
		q.delayed.remove(delayedWaiter{w})
		l.delayed--
	case outside:
		l.line.outside.remove(w)
		l.delayed--
	default:
		if i := int(w.at); i < len(l.again) && l.again[i] == w {
			l.again.remove(w)
		} else {
			l.fresh.remove(w)
		}
		for i := range l.costs {
			l.costs[i] -= w.costAt(i)
		}
		l.line.waiting--
		q.hasRoom(l.line)
	}
	for _, b := range l.line.buckets {
		b.waiting--
		if b.lease != nil {
			q.touch(b.lease)
		}
		q.touchGate(b)
		if b.learn != nil && len(b.learn.quotas) > 0 { // of which less is kept for later where fewer wait
			q.stirred = append(q.stirred, b)
		}
	}
	q.waiting--

	if b := l.parkedAt; b != nil {
		if l.waiting() > 0 {
			b.refix(l)
		} else {
			q.unparkLocked(l)
		}
	}
	if l.waiting() == 0 && l.delayed == 0 {
		q.dropLaneLocked(l)
	}
}

// refuseLocked ends the wait of w with an error.
func (q *Queue) refuseLocked(w *waiter, why reason, by *bucket, earliest, now time.Duration) {
	q.removeLocked(w)
	if i := w.lane.indexOf(by); i >= 0 {
		w.held = uint8(1 + i)
	}
	due := earliest
	if due == never { // unknown
		due = now
	}
	if why == tooLate && max(due, now) >= w.deadline {
		why = pastDeadline
	}
	w.why, w.deadline = why, earliest
	if by != nil {
		w.because = by.because(now)
	}
	for _, b := range w.lane.line.buckets {
		b.counts.Refused++
	}
	q.endLocked(w, refused)
}

// endLocked tells w what became of it, when the lock is given up.
func (q *Queue) endLocked(w *waiter, state waiterState) {
	q.unclaimLocked(w)
	w.state = state
	q.woken.push(w)
}

// waitEnds is when MaxWait runs out for w.
func (q *Queue) waitEnds(w *waiter) time.Duration { return q.maxWaitAfter(w.joined) }

// maxWaitAfter is when MaxWait runs out for who joins at t; never without it.
func (q *Queue) maxWaitAfter(t time.Duration) time.Duration {
	if q.cfg.MaxWait <= 0 {
		return never
	}
	return t + q.cfg.MaxWait
}

// late reports whether a departure that is due at t comes too late for w, who is told of it at now.
func (q *Queue) late(w *waiter, t, now time.Duration) bool {
	return max(t, now) >= w.deadline || t > q.waitEnds(w)
}

// lateAt is late for who heads its lane, and is held by by. Where that is for a slot, one may come back sooner;
// of a pool, to a member that lets it go before the one that has a slot does.
func (q *Queue) lateAt(by *bucket, w *waiter, t, now time.Duration) bool {
	if !q.late(w, t, now) {
		return false
	}
	if by == nil || !(by.isPool() && by.slots > 0) && by.fullUntil(w.lane.key.level, now) <= now {
		return true
	}
	cost := w.costAt(w.lane.indexOf(by))
	return q.late(w, by.earliest(max(w.joined, now), now, 0, cost, w.lane.key.level), now)
}

// arrivals are those who wait, in the order of joining, and some who don't any more: who joined first
// is the first whose MaxWait runs out. They aren't linked, to save every waiter the links.
type arrivals []*waiter

// add adds w, the last of n who wait, and now and then leaves those behind who don't.
func (a *arrivals) add(w *waiter, n int) {
	if len(*a) > 2*n+64 {
		*a = slices.Clip(slices.DeleteFunc(*a, func(w *waiter) bool { return w.state != waiting }))
	}
	*a = append(*a, w)
}

// first returns who waits and joined first; nil: nobody.
func (a *arrivals) first() *waiter {
	for len(*a) > 0 {
		if w := (*a)[0]; w.state == waiting {
			return w
		}
		(*a)[0] = nil
		*a = (*a)[1:]
	}
	return nil
}
