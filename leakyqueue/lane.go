package leakyqueue

import (
	"encoding/binary"
	"maps"
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

	order links[waiter] // in lane.fresh, then in Queue.woken
	cost  int32
	at    int32 // its index in lane.again or Queue.delayed; then how late it left, in nanoseconds
	state waiterState
	why   reason // it was refused
	held  uint8  // 1 + the index in lane.buckets of the last bucket to hold it back; 0: none did
}

type waiterState uint8

const (
	waiting waiterState = iota
	delayed
	departed
	refused
	cancelled
)

// reason says which error a waiter is refused with.
type reason uint8

const (
	tooLate      reason = iota // by MaxWait or MaxPause
	pastDeadline               // of its context
	closed
)

func orderLinks(w *waiter) *links[waiter] { return &w.order }

func (w *waiter) before(o *waiter) bool { return w.place < o.place }
func (w *waiter) index() *int32         { return &w.at }

// heldBy is the last bucket to hold w back, nil if none did.
func (w *waiter) heldBy() *bucket {
	if w.held == 0 {
		return nil
	}
	return w.lane.buckets[w.held-1]
}

// blamed is the bucket to name in an error: the one that held w back, or else the first of them.
func (w *waiter) blamed() *bucket {
	if b := w.heldBy(); b != nil {
		return b
	}
	return w.lane.buckets[0]
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

// lane is the waiters that wait for the same buckets, in their order. It lives as long as it has any.
type lane struct {
	id      string // in Queue.lanes, if it has several buckets
	buckets []*bucket

	// Newcomers are in order as they come. A retry comes with the place it had, which is before
	// most of them.
	again heap[*waiter]
	fresh list[waiter]

	cost    int64 // of all in again and fresh
	delayed int   // on their way, in Queue.delayed

	parkedAt    *bucket // the bucket that keeps the head from leaving; nil: nobody waits
	parkedIndex int32
	passed      int // how often the head had its turn at one bucket while another kept it
}

func (l *lane) before(o *lane) bool { return l.head().place < o.head().place }
func (l *lane) index() *int32       { return &l.parkedIndex }

func (l *lane) waiting() int { return len(l.again) + l.fresh.n }

// head is the waiter whose turn it is. The lane has one.
func (l *lane) head() *waiter {
	w, ok := l.again.top()
	if newcomer := l.fresh.front; !ok || newcomer != nil && newcomer.before(w) {
		return newcomer
	}
	return w
}

// ahead is the cost of those who leave before one of the given place, or before a newcomer.
func (l *lane) ahead(place Place) int64 {
	if place == 0 {
		return l.cost
	}
	var cost int64
	for _, w := range l.again {
		if w.place < place {
			cost += int64(w.cost)
		}
	}
	for w := l.fresh.front; w != nil && w.place < place; w = w.order.after {
		cost += int64(w.cost)
	}
	return cost
}

// heads reports whether w, who waits or is delayed, is the head of its lane.
func (l *lane) heads(w *waiter) bool { return l.parkedAt != nil && l.head() == w }

// leads reports whether l is the first of those parked at b, if it is parked there at all.
func (l *lane) leads(b *bucket) bool { return l.parkedAt == b && l.parkedIndex == 0 }

// laneID tells lanes of several buckets apart.
//
//go:noinline
func laneID(buckets []*bucket) string {
	var few [4 * binary.MaxVarintLen64]byte
	id := few[:0]
	for _, b := range buckets {
		id = binary.AppendUvarint(id, b.id)
	}
	return string(id)
}

// findLane returns the lane of those who wait for these buckets; nil: nobody does.
func (q *Queue) findLane(buckets []*bucket) *lane {
	if len(buckets) == 1 {
		return buckets[0].alone
	}
	return q.lanes[laneID(buckets)]
}

//go:noinline
func (q *Queue) newLane(buckets []*bucket) *lane {
	l := &lane{buckets: slices.Clone(buckets), fresh: list[waiter]{linksOf: orderLinks}}
	if len(buckets) == 1 {
		buckets[0].alone = l
	} else {
		l.id = laneID(buckets)
		q.lanes[l.id] = l
		for _, b := range buckets {
			if b.joint == nil {
				b.joint = make(map[*lane]struct{})
			}
			b.joint[l] = struct{}{}
		}
	}
	return l
}

// lanesOf lists the lanes of those whom b holds, parked there or not.
func (q *Queue) lanesOf(b *bucket) []*lane {
	lanes := make([]*lane, 0, 1+len(b.joint))
	if b.alone != nil {
		lanes = append(lanes, b.alone)
	}
	return slices.AppendSeq(lanes, maps.Keys(b.joint))
}

func (q *Queue) dropLane(l *lane) {
	if len(l.buckets) == 1 {
		l.buckets[0].alone = nil
	} else {
		delete(q.lanes, l.id)
		for _, b := range l.buckets {
			delete(b.joint, l)
		}
	}
}

// insertLocked puts w into its lane, which may make it the head.
func (q *Queue) insertLocked(w *waiter) {
	l := w.lane
	w.state = waiting
	if w.place != 0 {
		l.again.push(w)
		for _, b := range l.buckets {
			b.hurry(b.takes(w.cost)) // those behind it leave later
		}
	} else {
		q.places++
		w.place = q.places
		l.fresh.push(w)
	}
	l.cost += int64(w.cost)
	if q.cfg.MaxWait > 0 {
		q.arrivals.add(w, q.waiting)
	}
	if l.parkedAt != nil {
		l.parkedAt.parked.fix(l)
	}
}

// removeLocked takes w, who waits or is delayed, out of the queue; the rest of its lane closes up.
// Where w waited, the bucket at which its lane was parked is to be dispatched afterwards: its oldest
// head may be another.
func (q *Queue) removeLocked(w *waiter) {
	l := w.lane
	w.held = uint8(1 + slices.Index(l.buckets, l.parkedAt))
	if w.state == delayed {
		q.delayed.remove(delayedWaiter{w})
		l.delayed--
	} else {
		if i := int(w.at); i < len(l.again) && l.again[i] == w {
			l.again.remove(w)
		} else {
			l.fresh.remove(w)
		}
		l.cost -= int64(w.cost)
	}
	for _, b := range l.buckets {
		b.waiting--
	}
	q.waiting--

	if b := l.parkedAt; b != nil {
		if l.waiting() > 0 {
			b.parked.fix(l)
		} else {
			q.unparkLocked(l)
		}
	}
	if l.waiting() == 0 && l.delayed == 0 {
		q.dropLane(l)
	}
}

// refuseLocked ends the wait of w with an error.
func (q *Queue) refuseLocked(w *waiter, why reason, by *bucket, earliest, now time.Duration) {
	q.removeLocked(w)
	if i := slices.Index(w.lane.buckets, by); i >= 0 {
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
	for _, b := range w.lane.buckets {
		b.counts.Refused++
	}
	q.endLocked(w, refused)
}

// endLocked tells w what became of it, when the lock is given up.
func (q *Queue) endLocked(w *waiter, state waiterState) {
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
