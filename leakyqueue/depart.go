package leakyqueue

import (
	"context"
	"time"
)

// A Departure tells how a request left.
type Departure struct {
	Place  Place         // for Demand.Place, should the request come again
	Queued time.Duration // how long it waited, Demand.Delay included
	Held   string        // the last bucket that held it back, as in Error.Bucket; "" if none did

	at time.Duration // when
}

// Wait returns when one request of cost 1 may leave, or says why it won't, with an [*Error]. It is
// for queues without a concurrency limit, which need [Queue.Acquire]: in those it returns
// [ErrInvalid].
func (q *Queue) Wait(ctx context.Context) error {
	w, _, _, err := q.enter(ctx, &newcomer, nil)
	if w != nil {
		_, err = q.await(ctx, w, 0)
	}
	return err
}

var newcomer Demand // never changes

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
	w, place, at, err := q.enter(ctx, &d, t)
	if w != nil {
		return q.await(ctx, w, d.delay())
	}
	return Departure{Place: place, at: at}, err
}

// Enter is the first half of Depart: it returns at once, with the error if the request may not wait,
// and else with its turn, for which [Turn.Await] waits. Who holds something until it is certain that
// a retry is let in gives it up between the two.
func (q *Queue) Enter(ctx context.Context, d Demand, t *Ticket) (Turn, error) {
	w, place, at, err := q.enter(ctx, &d, t)
	return Turn{q: q, w: w, ticket: t, delay: d.delay(), place: place, at: at}, err
}

// A Turn is a request that is let in: it has left, or waits. It ends with one call of Await or Cancel.
type Turn struct {
	q      *Queue
	w      *waiter // nil: it has left
	ticket *Ticket
	delay  time.Duration
	place  Place
	at     time.Duration
}

// enter lets the request leave at once, and returns its place, or refuses it, or returns a waiter for
// it.
//
// A goroutine begins with 2 KiB of stack. What it takes to come in, and to wait, is kept small enough
// to fit, since to move to a larger stack costs more than all the rest: so what is rarely needed is in
// functions that aren't inlined.
func (q *Queue) enter(ctx context.Context, d *Demand, t *Ticket) (_ *waiter, _ Place, at time.Duration, _ error) {
	if ctx.Err() != nil {
		return nil, 0, 0, ended(ctx, nil, 0)
	}
	spare := q.spareWaiter()
	q.mu.Lock()
	now := q.now()
	var few [4]*bucket
	buckets, r, err := q.demandedLocked(few[:0], d, t, now)
	if err == nil && t == nil {
		err = needNoTicket(buckets)
	}
	if err == nil && (q.closed || q.closing && d.Place == 0) {
		err = q.refusal(ErrClosed, nil, 0, never)
	}
	if err == nil && r.shared {
		if b := refusesAll(buckets); b != nil {
			err = q.refusal(ErrStoreUnavailable, b, 0, never)
		}
	}
	if err != nil {
		q.unlock(now)
		q.keepSpare(spare)
		return nil, 0, 0, err
	}
	if d.Delay <= 0 {
		if by, at := q.blockedLocked(buckets, &r, true, now, now); by == nil {
			if d.Place == 0 {
				q.places = r.place
			}
			q.chargeLocked(buckets, &r, at, now)
			if r.lane != nil && r.lane.parkedAt != nil { // a retry went before its lane's head
				q.stirred = append(q.stirred, r.lane.parkedAt)
			}
			q.issueLocked(t, buckets, &r, at, now)
			q.unlock(now)
			q.keepSpare(spare)
			return nil, r.place, now, nil
		}
	}
	w, refused := q.enqueueLocked(ctx, buckets, &r, d, t, spare, now)
	q.unlock(now)
	if refused != nil {
		q.keepSpare(spare)
		return nil, 0, 0, refused
	}
	return w, 0, 0, nil
}

// enqueueLocked puts a request that can't leave now into the queue, or says why it may not wait.
func (q *Queue) enqueueLocked(ctx context.Context, buckets []*bucket, r *request, d *Demand, t *Ticket, w *waiter, now time.Duration) (*waiter, *Error) {
	deadline := deadlineOf(ctx, now)
	margin, victim, err := q.refusedLocked(buckets, r, d, deadline, now)
	if err != nil {
		for _, b := range buckets {
			b.counts.Refused++
		}
		return nil, err
	}
	if victim != nil {
		q.crowdOutLocked(victim, now)
	}
	l := q.laneFor(buckets, r.key)
	for i, b := range buckets {
		if b.waiting == 0 {
			b.inTimeUntil = never
			if b.pool != nil {
				b.pool.heaviest = 0
			}
		}
		if b.pool != nil {
			b.pool.heaviest = max(b.pool.heaviest, r.costAt(i))
		}
		b.waiting++
		b.expect(margin, now)
		if r.key.level.high() {
			b.highSeen = now
		}
	}
	q.waiting++
	if w == nil {
		w = newWaiter()
	}
	w.lane, w.place, w.ticket, w.joined, w.deadline, w.cost, w.mixed = l, d.Place, t, now, deadline, int32(r.cost), r.costs != nil
	switch {
	case d.Delay > 0:
		w.state = delayed
		w.joined += d.delay()
		l.delayed++
		q.delayed.push(delayedWaiter{w})
	case d.Place == 0 && q.cfg.Overflow == Block && q.fullLocked(l.line):
		q.leaveOutside(w)
	default:
		q.joinLocked(w, now)
	}
	return w, nil
}

// refusedLocked says why a request that can't leave now may not wait either; nil: it may, if the victim,
// unless that is nil, gives way, and its turn may be later by margin than it is to be expected.
func (q *Queue) refusedLocked(buckets []*bucket, r *request, d *Demand, deadline, now time.Duration) (margin time.Duration, victim *waiter, _ *Error) {
	for _, b := range buckets {
		if b.shutUntil > now {
			return 0, nil, q.refusalLocked(ErrDeadline, b, b.saidUntil, now)
		}
	}
	full := false
	if n := q.findLine(buckets); n != nil && d.Place == 0 && q.fullLocked(n) {
		if q.cfg.Overflow == Block {
			return never, nil, nil // it is looked at when it comes in
		}
		victim = q.givesWay(n, r.key.level)
		full = victim == nil
	}
	since := now + d.delay()
	last := min(deadline, q.maxWaitAfter(since))
	if last == never && !full {
		return never, victim, nil
	}
	by, t := q.behindLocked(buckets, r, d.Place, victim, now)
	t = max(t, since) // those ahead leave meanwhile
	switch {
	case full:
		return 0, nil, q.refusalLocked(ErrQueueFull, by, t, now)
	case t >= deadline:
		err := q.refusalLocked(ErrDeadline, by, t, now)
		err.Cause = context.DeadlineExceeded
		return 0, nil, err
	case t > last:
		return 0, nil, q.refusalLocked(ErrDeadline, by, t, now)
	}
	return last - t, victim, nil
}

// behindLocked returns when a request could leave after those who are ahead of it in its lane, but for
// without, and which bucket has it wait so long.
func (q *Queue) behindLocked(buckets []*bucket, r *request, place Place, without *waiter, now time.Duration) (*bucket, time.Duration) {
	l := r.lane
	if l == nil || l.parkedAt == nil {
		return q.earliestLocked(buckets, r, func(int) int64 { return 0 }, now, now)
	}
	by, t := q.earliestLocked(buckets, r, func(i int) int64 {
		if without != nil && without.lane == l {
			return l.ahead(place, i) - without.costAt(i)
		}
		return l.ahead(place, i)
	}, q.dueLocked(l.parkedAt, now), now)
	return by, max(t, now)
}

// earliestLocked returns when a request could leave after those who are ahead of it in its own lane,
// whose costs in each bucket are given, if nobody else took from its buckets, and which bucket has it
// wait that long.
func (q *Queue) earliestLocked(buckets []*bucket, r *request, ahead func(i int) int64, since, now time.Duration) (*bucket, time.Duration) {
	by, t := buckets[0], since
	for i, b := range buckets {
		if e := b.earliest(max(since, b.shutUntil), now, ahead(i), r.costAt(i), r.key.level); e > t {
			by, t = b, e
		}
	}
	return by, t
}

// Await returns when the request has departed, was refused, or ctx has ended. The context is that of
// Enter, or one with the same deadline.
func (t Turn) Await(ctx context.Context) (Departure, error) {
	if t.w == nil {
		return Departure{Place: t.place, at: t.at}, nil
	}
	return t.q.await(ctx, t.w, t.delay)
}

// await returns when w has departed, was refused, or ctx has ended. The delay is what it had before it
// joined its lane.
func (q *Queue) await(ctx context.Context, w *waiter, delay time.Duration) (Departure, error) {
	select {
	case <-w.ready:
	case <-ctx.Done():
		if now, cancelled := q.cancel(w); cancelled {
			return Departure{}, ended(ctx, w.blamed(), now-w.joined+delay)
		}
		<-w.ready // who was refused already is told why
	}
	queued := q.now() - w.joined + delay
	if w.state == refused {
		return Departure{}, q.refusedWaiter(w, queued)
	}
	left := Departure{Place: w.place, Queued: queued, at: w.deadline + time.Duration(w.at)}
	if b := w.heldBy(); b != nil {
		left.Held = b.key.String()
	}
	return left, nil
}
