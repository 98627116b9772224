package leakyqueue

import (
	"time"

	"github.com/outflow-go/outflow/limit"
)

// A Ticket is what a departed request holds: a slot in each of its buckets that limits concurrency.
// It is safe for concurrent use. The zero Ticket holds nothing.
type Ticket struct {
	q *Queue

	// The rest is guarded by q.mu.
	slot  *bucket   // nil: nothing to give back, or given back
	more  []*bucket // further slots, where several rules limit concurrency
	since time.Duration
	place Place

	// What was charged for the departure, for Settle.
	buckets []*bucket // in the memory of few if they fit
	few     [4]*bucket
	due     time.Duration
	cost    int64
	costs   []int32 // of each bucket, where they aren't all the same

	// Of each bucket, in the memory of fewFlights if they fit; none if no bucket learns.
	flights    []limit.Flight
	fewFlights [2]limit.Flight
	answered   bool
	tracked    bool // the answer matters, whatever it is; set before the departure, and not guarded

	// What was leased for the departure, for Settle.
	lease  *lease // nil: nothing was
	leased Leased

	order links[Ticket] // in Queue.out
}

func ticketLinks(t *Ticket) *links[Ticket] { return &t.order }

// Done gives back what the ticket holds. The first call does; further calls, also concurrent ones,
// do nothing.
func (t *Ticket) Done() {
	if t == nil || t.q == nil {
		return
	}
	t.q.mu.Lock()
	now := t.q.now()
	t.q.answeredLocked(t, &Answer{Verdict: Unanswered}, now)
	if t.slot != nil {
		t.q.giveBackLocked(t, now)
	}
	t.q.unlock(now)
}

// Tracked reports whether [Ticket.Answered] is to be called whatever the answer is. Of one that isn't tracked,
// only an answer that says something of limits matters.
func (t *Ticket) Tracked() bool { return t != nil && t.tracked }

// costAt is what was charged to the i-th bucket.
func (t *Ticket) costAt(i int) int64 {
	if t.costs != nil {
		return int64(t.costs[i])
	}
	return t.cost
}

// Place returns the request's place in the queue's order, for [Demand.Place].
func (t *Ticket) Place() Place { return t.place }

// issueLocked takes a slot from each bucket that has any, for a request that leaves.
//
//go:noinline
func (q *Queue) issueLocked(t *Ticket, buckets []*bucket, r *request, due, now time.Duration) {
	if t == nil {
		for i, b := range buckets {
			if b.learn != nil {
				b.learn.departs(false, due, now, r.costAt(i))
			}
		}
		return
	}
	t.flights, t.answered = t.fewFlights[:0], false
	t.lease, t.leased = nil, Leased{}
	if last := len(buckets) - 1; buckets[last].lease != nil {
		t.lease = buckets[last].lease
		t.leased = t.lease.taken
		buckets = buckets[:last] // of which nothing is held
	}
	t.q, t.since, t.place, t.due, t.cost = q, now, r.place, due, r.cost
	t.slot, t.more, t.order = nil, nil, links[Ticket]{}
	t.buckets = append(t.few[:0], buckets...)
	if r.costs == nil {
		t.costs = nil
	}
	for i, b := range buckets {
		if b.pool != nil {
			b = b.pool.chosen
			t.buckets[i] = b
		}
		switch {
		case b.learn == nil:
		case b.learn.calm:
			b.learn.departs(false, due, now, r.costAt(i))
		default:
			for len(t.flights) < i {
				t.flights = append(t.flights, limit.Flight{})
			}
			t.flights = append(t.flights, b.learn.departs(true, due, now, r.costAt(i)))
		}
		if b.slots == 0 {
			continue
		}
		b.out++
		q.touchGate(b)
		if t.slot == nil {
			t.slot = b
		} else {
			t.more = append(t.more, b)
		}
	}
	t.tracked = len(t.flights) > 0
	if t.slot != nil {
		q.out.push(t)
	}
}

// giveBackLocked returns the ticket's slots and lets those leave who waited for one. The ticket
// holds a slot.
func (q *Queue) giveBackLocked(t *Ticket, now time.Duration) {
	q.out.remove(t)
	freed, more := t.slot, t.more
	t.slot, t.more = nil, nil
	freed.out--
	q.touchGate(freed)
	for _, b := range more {
		b.out--
		q.touchGate(b)
	}
	q.returnedLocked(freed, now)
	for _, b := range more {
		q.returnedLocked(b, now)
	}
}

// returnedLocked lets those leave who waited for a slot of b.
func (q *Queue) returnedLocked(b *bucket, now time.Duration) {
	if b.pool != nil { // which goes by the members that have a slot
		q.freedLocked(b)
	}
	q.dispatchLocked(b, now)
}

// expireHoldsLocked gives back tickets that were held for MaxHold.
func (q *Queue) expireHoldsLocked(now time.Duration) {
	if q.cfg.MaxHold <= 0 {
		return
	}
	for t := q.out.front; t != nil && t.since+q.cfg.MaxHold <= now; t = q.out.front {
		t.slot.counts.HoldsExpired++
		for _, b := range t.more {
			b.counts.HoldsExpired++
		}
		q.giveBackLocked(t, now)
	}
}
