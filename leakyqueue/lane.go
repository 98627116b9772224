package leakyqueue

import (
	"context"
	"encoding/binary"
	"time"
)

// A Place is a request's position in the queue's order: lower leaves first. The zero Place is that
// of a newcomer, who is given the next free one.
type Place uint64

// waiter is a request in the queue. Queue.mu guards it until ready is closed; then it belongs to the
// goroutine that waits.
type waiter struct {
	ready chan struct{} // closed when state is departed or refused
	lane  *lane
	state waiterState

	place    Place
	cost     int64
	ticket   *Ticket
	asked    time.Duration // when it came
	joined   time.Duration // since when it waits for its turn, which a delayed retry does later
	deadline time.Duration // of its context, or never

	left time.Duration // when it departed
	held *bucket       // the last to hold it back
	err  *Error

	order   links[waiter] // in lane.fresh, then in Queue.woken
	arrival links[waiter] // in Queue.arrivals
	at      int           // in lane.again or Queue.delayed
}

type waiterState uint8

const (
	waiting waiterState = iota
	delayed
	departed
	refused
)

func orderLinks(w *waiter) *links[waiter]   { return &w.order }
func arrivalLinks(w *waiter) *links[waiter] { return &w.arrival }

func (w *waiter) before(o *waiter) bool { return w.place < o.place }
func (w *waiter) index() *int           { return &w.at }

// blamed is the bucket that kept w, or its lane's head, from leaving; the first of its buckets if
// none did. It is read by the goroutine that waits, after the wait has ended.
func (w *waiter) blamed() *bucket {
	if w.held != nil {
		return w.held
	}
	return w.lane.buckets[0]
}

// delayedWaiter orders waiters by the moment at which they may join their lane.
type delayedWaiter struct{ *waiter }

func (w delayedWaiter) before(o delayedWaiter) bool { return w.joined < o.joined }

// lane is the waiters that wait for the same buckets, in their order. It lives as long as it has any.
type lane struct {
	id      string
	buckets []*bucket

	// A retry keeps its place, and it left before anybody who waits for the first time did, so
	// all of again goes before all of fresh; and fresh is in order as it comes.
	again heap[*waiter]
	fresh list[waiter]

	cost    int64 // of all in again and fresh
	delayed int   // on their way, in Queue.delayed

	parkedAt    *bucket // the bucket that keeps the head from leaving; nil: nobody waits
	parkedIndex int
}

func (l *lane) before(o *lane) bool { return l.head().place < o.head().place }
func (l *lane) index() *int         { return &l.parkedIndex }

func (l *lane) waiting() int { return len(l.again) + l.fresh.n }

// head is the waiter whose turn it is. The lane has one.
func (l *lane) head() *waiter {
	if w, ok := l.again.top(); ok {
		return w
	}
	return l.fresh.front
}

// ahead is the cost of those who leave before one of the given place, or before a newcomer.
func (l *lane) ahead(place Place) int64 {
	if place == 0 {
		return l.cost
	}
	var cost int64
	for _, w := range l.again {
		if w.place < place {
			cost += w.cost
		}
	}
	return cost
}

// laneID tells lanes apart by what they wait for.
func laneID(buckets []*bucket) string {
	var few [4 * binary.MaxVarintLen64]byte
	id := few[:0]
	for _, b := range buckets {
		id = binary.AppendUvarint(id, b.id)
	}
	return string(id)
}

// laneLocked returns the lane of those who wait for these buckets, and makes it if need be.
func (q *Queue) laneLocked(buckets []*bucket) *lane {
	id := laneID(buckets)
	l := q.lanes[id]
	if l == nil {
		l = &lane{id: id, buckets: append([]*bucket(nil), buckets...), fresh: list[waiter]{linksOf: orderLinks}}
		q.lanes[id] = l
	}
	return l
}

// insertLocked puts w into its lane, which may make it the head.
func (q *Queue) insertLocked(w *waiter, retry bool) {
	l := w.lane
	w.state = waiting
	if retry {
		l.again.push(w)
	} else {
		l.fresh.push(w)
	}
	l.cost += w.cost
	if q.cfg.MaxWait > 0 {
		q.arrivals.push(w)
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
	w.held = l.parkedAt
	if w.state == delayed {
		q.delayed.remove(delayedWaiter{w})
		l.delayed--
	} else {
		if at := w.at; at < len(l.again) && l.again[at] == w {
			l.again.remove(w)
		} else {
			l.fresh.remove(w)
		}
		l.cost -= w.cost
		if q.cfg.MaxWait > 0 {
			q.arrivals.remove(w)
		}
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
		delete(q.lanes, l.id)
	}
}

// endLocked tells w what became of it, when the lock is given up.
func (q *Queue) endLocked(w *waiter, state waiterState) {
	w.state = state
	q.woken.push(w)
}

// refuseLocked ends the wait of w with an error.
func (q *Queue) refuseLocked(w *waiter, reason error, by *bucket, earliest, now time.Duration) {
	q.removeLocked(w)
	w.err = q.refusal(reason, by, now-w.asked, earliest)
	if reason == ErrDeadline && max(earliest, now) >= w.deadline {
		w.err.Cause = context.DeadlineExceeded
	}
	for _, b := range w.lane.buckets {
		b.counts.Refused++
	}
	q.endLocked(w, refused)
}

// waitEnds is when MaxWait runs out for w.
func (q *Queue) waitEnds(w *waiter) time.Duration {
	if q.cfg.MaxWait <= 0 {
		return never
	}
	return w.joined + q.cfg.MaxWait
}

// late reports whether a departure that is due at t comes too late for w, who is told of it at now.
func (q *Queue) late(w *waiter, t, now time.Duration) bool {
	return max(t, now) >= w.deadline || t > q.waitEnds(w)
}
