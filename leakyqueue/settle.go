package leakyqueue

import (
	"fmt"
	"slices"
	"time"
)

// Settle corrects what a departure was charged, once its true cost is known: the tokens that a model
// has used, say, which could only be estimated before. If it was more, the difference is charged, and
// those who come later wait for it; if it was less, it is given back, as far as that lets no more leave
// than if the cost had been right at once: see [limit.State.Settle]. The concurrency isn't touched.
//
// It holds for the buckets of the given rules, or for all that the departure was charged to. The cost is
// from 0 to MaxCost. The last of several calls counts. Before Done or after makes no difference. The
// error is [ErrInvalid], for a cost out of range, for a ticket with which nobody has left, and for rules
// that didn't hold it.
func (t *Ticket) Settle(cost int, rules ...*Rule) error {
	if cost < 0 || cost > MaxCost {
		return fmt.Errorf("leakyqueue: %w: Settle's cost is %d, want 0 to %d", ErrInvalid, cost, MaxCost)
	}
	if t == nil || t.q == nil {
		return fmt.Errorf("leakyqueue: %w: Settle: nobody has left with this ticket", ErrInvalid)
	}
	q := t.q
	q.mu.Lock()
	now := q.now()
	found := false
	for i, b := range t.buckets {
		if len(rules) > 0 && !slices.Contains(rules, b.key.Rule) {
			continue
		}
		found = true
		q.settleLocked(t, i, cost, now)
	}
	q.unlock(now)
	if !found {
		return fmt.Errorf("leakyqueue: %w: Settle: none of the rules has held the request", ErrInvalid)
	}
	return nil
}

func (q *Queue) settleLocked(t *Ticket, i, cost int, now time.Duration) {
	if t.costs == nil {
		t.costs = make([]int32, len(t.buckets))
		for i := range t.costs {
			t.costs[i] = int32(t.cost)
		}
	}
	b := q.bucketLocked(t.buckets[i].key, now) // should it have been forgotten meanwhile
	b.settle(t.due, t.since, int64(t.costs[i]), int64(cost), now)
	if t.lease != nil {
		q.settleLeaseLocked(t, b, int64(cost)-int64(t.costs[i]))
	}
	t.costs[i] = int32(cost)
	q.freedLocked(b)
	q.usedLocked(b, now)
	if at := b.place(); at.waiting > 0 && at.mark(now) >= at.inTimeUntil {
		q.tellLateLocked(at, now)
	}
	q.dispatchLocked(b, now)
}

// Measure is for limits that are only to be watched: it charges the demanded buckets as if the request
// left now, and returns for how long their rates and windows would have held it, which adds up in
// Counts.Held. It holds nobody. With a ticket it counts concurrency, too, until Done: a request for which
// there is no slot counts as held, for a time that isn't known. A rule is for Measure or for departures,
// not for both, and a pool isn't for Measure. The error is [ErrInvalid].
func (q *Queue) Measure(d Demand, t *Ticket) (time.Duration, error) {
	q.mu.Lock()
	now := q.now()
	defer q.unlock(now)
	if t == nil {
		t = new(Ticket)
	}
	var few [4]*bucket
	buckets, r, err := q.demandedLocked(few[:0], &d, t, now)
	if err != nil {
		return 0, err
	}
	for i, b := range buckets {
		if b.pool != nil {
			return 0, invalidKey(i, "is a pool, which isn't for Measure")
		}
	}
	due := now
	for i, b := range buckets {
		if b.fullUntil(r.key.level, now) > now {
			b.counts.Full++
		}
		due = max(due, b.earliest(now, now, 0, r.costAt(i), r.key.level))
	}
	for i, b := range buckets {
		// In a queue it would leave when it is due, so that is when it is charged.
		b.state.Charge(due, due, r.costAt(i))
		b.counts.Departed++
		if due > now {
			b.counts.Late++
			b.counts.Held += due - now
		}
		q.usedLocked(b, now)
	}
	q.issueLocked(t, buckets, &r, due, now)
	return due - now, nil
}
