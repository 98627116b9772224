package leakyqueue

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// A Demand is what a request asks of the queue. The zero Demand is a newcomer of cost 1 in the
// queue's own bucket.
type Demand struct {
	// Cost is how much of each rate the request takes, from 1 to MaxCost. Zero: 1.
	Cost int

	// Keys are the buckets that hold the request, jointly: it leaves when all of them let it, and is
	// charged to all of them then. Nil: the queue's own. A key may come only once.
	Keys []Key

	// Place is the place that an earlier departure of the same request had, so that a retry goes
	// before all who came after it. Zero: a newcomer, who goes last.
	Place Place

	// Delay is how long a retry stays out of line before it takes its place: others may leave
	// meanwhile. It isn't part of MaxWait.
	Delay time.Duration
}

// A Departure tells how a request left.
type Departure struct {
	Place  Place         // for Demand.Place, should the request come again
	Queued time.Duration // how long it waited, Demand.Delay included
	Held   string        // the last bucket that held it back, as in Error.Bucket; "" if none did
}

// Wait returns when one request of cost 1 may leave, or says why it won't, with an [*Error]. It is
// for queues without a concurrency limit, which need [Queue.Acquire]: in those it returns
// [ErrInvalid].
func (q *Queue) Wait(ctx context.Context) error {
	_, err := q.Depart(ctx, Demand{}, nil)
	return err
}

// Acquire returns when the demanded request may leave, or says why it won't, with an [*Error]. The
// caller calls Done on the ticket when the request has ended.
func (q *Queue) Acquire(ctx context.Context, d Demand) (*Ticket, error) {
	t := new(Ticket)
	if _, err := q.Depart(ctx, d, t); err != nil {
		return nil, err
	}
	return t, nil
}

// Depart is Acquire for those who want to know how the request left, or to save an allocation: the
// ticket, which is overwritten, is the caller's. It may be nil if no key of the demand has a
// concurrency limit. Where nobody waits, Depart allocates nothing.
func (q *Queue) Depart(ctx context.Context, d Demand, t *Ticket) (Departure, error) {
	if ctx.Err() != nil {
		return Departure{}, ended(ctx, nil, 0)
	}
	q.mu.Lock()
	now := q.now()
	var few [4]*bucket
	buckets, cost, err := q.demandedLocked(few[:0], d)
	if err == nil && t == nil {
		err = needsNoTicket(buckets)
	}
	if err != nil {
		q.mu.Unlock()
		return Departure{}, err
	}
	place, retry := d.Place, d.Place != 0
	if q.closed || q.closing && !retry {
		q.mu.Unlock()
		return Departure{}, q.refusal(ErrClosed, nil, 0, never)
	}
	if !retry {
		q.places++
		place = q.places
	}
	if d.Delay <= 0 {
		if by, at := q.blockedLocked(buckets, place, cost, now, now); by == nil {
			q.chargeLocked(buckets, cost, at, now)
			q.issueLocked(t, buckets, place, now)
			q.unlock(now)
			return Departure{Place: place}, nil
		}
	}
	if err := q.refusedLocked(ctx, buckets, d, cost, now); err != nil {
		for _, b := range buckets {
			b.counts.Refused++
		}
		q.unlock(now)
		return Departure{}, err
	}
	w := &waiter{ready: make(chan struct{}), place: place, cost: cost, ticket: t, asked: now, deadline: q.deadline(ctx)}
	q.enqueueLocked(w, buckets, d, now)
	q.unlock(now)
	return q.await(ctx, w)
}

// demandedLocked returns the buckets of a demand, in the memory of few if they fit, and its cost.
func (q *Queue) demandedLocked(few []*bucket, d Demand) ([]*bucket, int64, error) {
	cost := int64(cmp.Or(d.Cost, 1))
	if cost < 1 || cost > MaxCost {
		return nil, 0, fmt.Errorf("leakyqueue: %w: Demand.Cost is %d, want 1 to %d", ErrInvalid, cost, MaxCost)
	}
	if d.Keys == nil {
		few = append(few, q.bucketLocked(Key{Rule: q.own}))
	}
	for i, k := range d.Keys {
		if k.Rule == nil || k.Rule.q != q {
			return nil, 0, fmt.Errorf("leakyqueue: %w: Demand.Keys[%d].Rule isn't a rule of this queue", ErrInvalid, i)
		}
		b := q.bucketLocked(k)
		for _, other := range few {
			if other == b {
				return nil, 0, fmt.Errorf("leakyqueue: %w: Demand.Keys[%d] is %q once more", ErrInvalid, i, k)
			}
		}
		few = append(few, b)
	}
	return few, cost, nil
}

func needsNoTicket(buckets []*bucket) error {
	for _, b := range buckets {
		if b.slots > 0 {
			return fmt.Errorf("leakyqueue: %w: %q limits concurrency, so the departure needs a ticket", ErrInvalid, b.key)
		}
	}
	return nil
}

// refusedLocked says why a request that can't leave now may not wait either; nil: it may.
func (q *Queue) refusedLocked(ctx context.Context, buckets []*bucket, d Demand, cost int64, now time.Duration) *Error {
	for _, b := range buckets {
		if b.shutUntil > now {
			return q.refusal(ErrDeadline, b, 0, b.saidUntil)
		}
	}
	since := now + max(d.Delay, 0)
	by, t := q.earliestLocked(buckets, q.aheadLocked(buckets, d), cost, since)
	if l := q.lanes[laneID(buckets)]; l != nil && d.Place == 0 && q.cfg.MaxWaiting > 0 && l.waiting() >= q.cfg.MaxWaiting {
		return q.refusal(ErrQueueFull, by, 0, t)
	}
	if t >= q.deadline(ctx) {
		err := q.refusal(ErrDeadline, by, 0, t)
		err.Cause = context.DeadlineExceeded
		return err
	}
	if q.cfg.MaxWait > 0 && t > since+q.cfg.MaxWait {
		return q.refusal(ErrDeadline, by, 0, t)
	}
	return nil
}

// earliestLocked returns when a request could leave after those who are ahead of it in its own lane,
// if nobody else took from its buckets, and which bucket has it wait that long.
func (q *Queue) earliestLocked(buckets []*bucket, ahead, cost int64, since time.Duration) (*bucket, time.Duration) {
	by, t := buckets[0], since
	for _, b := range buckets {
		if e := b.state.Earliest(max(since, b.pausedUntil, b.shutUntil), ahead, cost); e > t {
			by, t = b, e
		}
	}
	return by, t
}

// aheadLocked is the cost of those who leave before the demand from its own lane.
func (q *Queue) aheadLocked(buckets []*bucket, d Demand) int64 {
	if l := q.lanes[laneID(buckets)]; l != nil {
		return l.ahead(d.Place)
	}
	return 0
}

func (q *Queue) enqueueLocked(w *waiter, buckets []*bucket, d Demand, now time.Duration) {
	w.lane = q.laneLocked(buckets)
	for _, b := range buckets {
		b.waiting++
	}
	q.waiting++
	if d.Delay > 0 {
		w.state, w.joined = delayed, now+d.Delay
		w.lane.delayed++
		q.delayed.push(delayedWaiter{w})
		return
	}
	q.joinLocked(w, d.Place != 0, now, now)
}

// await returns when w has departed, was refused, or its context ended.
func (q *Queue) await(ctx context.Context, w *waiter) (Departure, error) {
	select {
	case <-w.ready:
	case <-ctx.Done():
		q.mu.Lock()
		now := q.now()
		ctxEnded := w.state != refused // who was refused already is told why
		if ctxEnded {
			q.cancelLocked(w, now)
		}
		q.unlock(now)
		if ctxEnded {
			return Departure{}, ended(ctx, w.blamed(), now-w.asked)
		}
	}
	if w.err != nil {
		return Departure{}, w.err
	}
	d := Departure{Place: w.place, Queued: w.left - w.asked}
	if w.held != nil {
		d.Held = w.held.key.String()
	}
	return d, nil
}

// Refusal returns the [*Error] with which Depart would refuse the demand at once, and nil if the
// request would leave or wait. It takes nothing, so a later Depart may answer otherwise.
func (q *Queue) Refusal(ctx context.Context, d Demand) error {
	if ctx.Err() != nil {
		return ended(ctx, nil, 0)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	if q.closed || q.closing && d.Place == 0 {
		return q.refusal(ErrClosed, nil, 0, never)
	}
	var few [4]*bucket
	buckets, cost, err := q.demandedLocked(few[:0], d)
	if err != nil {
		return err
	}
	if err := q.refusedLocked(ctx, buckets, d, cost, now); err != nil {
		return err
	}
	return nil
}

// Earliest returns when the demanded request could leave if it came now, as far as rates and pauses
// decide it: those who wait for the same buckets go before it. It takes nothing. The error is
// [ErrInvalid].
func (q *Queue) Earliest(d Demand) (time.Time, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var few [4]*bucket
	buckets, cost, err := q.demandedLocked(few[:0], d)
	if err != nil {
		return time.Time{}, err
	}
	_, t := q.earliestLocked(buckets, q.aheadLocked(buckets, d), cost, now+max(d.Delay, 0))
	return q.epoch.Add(t), nil
}

// cancelLocked ends w's wait, and gives its turn to the next if it had come already: the caller has
// gone and would send nothing.
func (q *Queue) cancelLocked(w *waiter, now time.Duration) {
	l := w.lane
	for _, b := range l.buckets {
		b.counts.Cancelled++
	}
	if w.state != departed {
		parkedAt := l.parkedAt
		q.removeLocked(w)
		if parkedAt != nil {
			q.dispatchLocked(parkedAt, now)
		}
		return
	}
	for _, b := range l.buckets {
		b.state.Refund(w.cost)
		b.counts.Departed--
	}
	if w.ticket != nil && w.ticket.slot != nil {
		q.giveBackLocked(w.ticket, now)
	}
	for _, b := range l.buckets {
		q.dispatchLocked(b, now)
	}
}
