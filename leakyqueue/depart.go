package leakyqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// A Demand is what a request asks of the queue. The zero Demand is a newcomer of cost 1 in the
// queue's own bucket.
type Demand struct {
	// Cost is how much of each rate the request takes, from 1 to MaxCost. Zero: 1.
	Cost int

	// Keys are the buckets that hold the request, jointly: it leaves when all of them let it, and is
	// charged to all of them then. None: the queue's own. A key may come only once.
	Keys []Key

	// Place is the place that an earlier departure of the same request had, so that a retry goes
	// before all who came after it. Zero: a newcomer, who goes last.
	Place Place

	// Delay is how long the request stays out of line before it takes its place, or a newcomer the
	// last one: others may leave meanwhile. It is part of neither MaxWaiting nor MaxWait.
	Delay time.Duration
}

// A Departure tells how a request left.
type Departure struct {
	Place  Place         // for Demand.Place, should the request come again
	Queued time.Duration // how long it waited, Demand.Delay included
	Held   string        // the last bucket that held it back, as in Error.Bucket; "" if none did
}

// delay is Delay within its bounds.
func (d *Demand) delay() time.Duration { return min(max(d.Delay, 0), longest) }

// Wait returns when one request of cost 1 may leave, or says why it won't, with an [*Error]. It is
// for queues without a concurrency limit, which need [Queue.Acquire]: in those it returns
// [ErrInvalid].
func (q *Queue) Wait(ctx context.Context) error {
	w, _, err := q.enter(ctx, &newcomer, nil)
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
	w, place, err := q.enter(ctx, &d, t)
	if w != nil {
		return q.await(ctx, w, d.delay())
	}
	return Departure{Place: place}, err
}

// Enter is the first half of Depart: it returns at once, with the error if the request may not wait,
// and else with its turn, for which [Turn.Await] waits. Who holds something until it is certain that
// a retry is let in gives it up between the two.
func (q *Queue) Enter(ctx context.Context, d Demand, t *Ticket) (Turn, error) {
	w, place, err := q.enter(ctx, &d, t)
	return Turn{q: q, w: w, ticket: t, delay: d.delay(), place: place}, err
}

// A Turn is a request that is let in: it has left, or waits. It ends with one call of Await or Cancel.
type Turn struct {
	q      *Queue
	w      *waiter // nil: it has left
	ticket *Ticket
	delay  time.Duration
	place  Place
}

// enter lets the request leave at once, and returns its place, or refuses it, or returns a waiter for
// it.
//
// A goroutine begins with 2 KiB of stack. What it takes to come in, and to wait, is kept small enough
// to fit, since to move to a larger stack costs more than all the rest: so what is rarely needed is in
// functions that aren't inlined.
func (q *Queue) enter(ctx context.Context, d *Demand, t *Ticket) (*waiter, Place, error) {
	if ctx.Err() != nil {
		return nil, 0, ended(ctx, nil, 0)
	}
	spare := q.spareWaiter()
	q.mu.Lock()
	now := q.now()
	var few [4]*bucket
	buckets, cost, err := q.demandedLocked(few[:0], d, now)
	if err == nil && t == nil {
		err = needNoTicket(buckets)
	}
	if err == nil && (q.closed || q.closing && d.Place == 0) {
		err = q.refusal(ErrClosed, nil, 0, never)
	}
	if err != nil {
		q.unlock(now)
		q.keepSpare(spare)
		return nil, 0, err
	}
	if d.Delay <= 0 {
		place := cmp.Or(d.Place, q.places+1)
		if by, at := q.blockedLocked(buckets, place, cost, now, now); by == nil {
			if d.Place == 0 {
				q.places = place
			}
			q.chargeLocked(buckets, cost, at, now)
			q.issueLocked(t, buckets, place, now)
			q.unlock(now)
			q.keepSpare(spare)
			return nil, place, nil
		}
	}
	w, refused := q.enqueueLocked(ctx, buckets, d, t, cost, spare, now)
	q.unlock(now)
	if refused != nil {
		q.keepSpare(spare)
		return nil, 0, refused
	}
	return w, 0, nil
}

// enqueueLocked puts a request that can't leave now into the queue, or says why it may not wait.
func (q *Queue) enqueueLocked(ctx context.Context, buckets []*bucket, d *Demand, t *Ticket, cost int64, w *waiter, now time.Duration) (*waiter, *Error) {
	l := q.findLane(buckets)
	deadline := deadlineOf(ctx, now)
	margin, err := q.refusedLocked(l, buckets, d, cost, deadline, now)
	if err != nil {
		for _, b := range buckets {
			b.counts.Refused++
		}
		return nil, err
	}
	if l == nil {
		l = q.newLane(buckets)
	}
	for _, b := range buckets {
		if b.waiting == 0 {
			b.inTimeUntil = never
		}
		b.waiting++
		b.expect(margin, now)
	}
	q.waiting++
	if w == nil {
		w = newWaiter()
	}
	w.lane, w.place, w.ticket, w.joined, w.deadline, w.cost = l, d.Place, t, now, deadline, int32(cost)
	if d.Delay > 0 {
		w.state = delayed
		w.joined += d.delay()
		l.delayed++
		q.delayed.push(delayedWaiter{w})
	} else {
		q.joinLocked(w, now)
	}
	return w, nil
}

// refusedLocked says why a request that can't leave now may not wait either; nil: it may, and its turn
// may be later by margin than it is to be expected. The lane is the one it would wait in, nil if nobody
// does.
func (q *Queue) refusedLocked(l *lane, buckets []*bucket, d *Demand, cost int64, deadline, now time.Duration) (margin time.Duration, _ *Error) {
	for _, b := range buckets {
		if b.shutUntil > now {
			return 0, q.refusal(ErrDeadline, b, 0, b.saidUntil)
		}
	}
	full := l != nil && d.Place == 0 && q.cfg.MaxWaiting > 0 && l.waiting() >= q.cfg.MaxWaiting
	since := now + d.delay()
	last := min(deadline, q.maxWaitAfter(since))
	if last == never && !full {
		return never, nil
	}
	by, t := q.behindLocked(l, buckets, d.Place, cost, now)
	t = max(t, since) // those ahead leave meanwhile
	switch {
	case full:
		return 0, q.refusal(ErrQueueFull, by, 0, t)
	case t >= deadline:
		err := q.refusal(ErrDeadline, by, 0, t)
		err.Cause = context.DeadlineExceeded
		return 0, err
	case t > last:
		return 0, q.refusal(ErrDeadline, by, 0, t)
	}
	return last - t, nil
}

// behindLocked returns when a request could leave after those who are ahead of it in l, which may be
// nil, and which bucket has it wait so long.
func (q *Queue) behindLocked(l *lane, buckets []*bucket, place Place, cost int64, now time.Duration) (*bucket, time.Duration) {
	if l == nil || l.parkedAt == nil {
		return q.earliestLocked(buckets, 0, cost, now, now)
	}
	by, t := q.earliestLocked(buckets, l.ahead(place), cost, q.dueLocked(l.parkedAt, now), now)
	return by, max(t, now)
}

// earliestLocked returns when a request could leave after those who are ahead of it in its own lane,
// if nobody else took from its buckets, and which bucket has it wait that long.
func (q *Queue) earliestLocked(buckets []*bucket, ahead, cost int64, since, now time.Duration) (*bucket, time.Duration) {
	by, t := buckets[0], since
	for _, b := range buckets {
		if e := b.state.Earliest(max(since, b.pausedUntil, b.shutUntil), now, ahead, cost, false); e > t {
			by, t = b, e
		}
	}
	return by, t
}

// demandedLocked returns the buckets of a demand, in the memory of few if they fit, and its cost.
func (q *Queue) demandedLocked(few []*bucket, d *Demand, now time.Duration) ([]*bucket, int64, error) {
	cost := int64(cmp.Or(d.Cost, 1))
	if cost < 1 || cost > MaxCost {
		return nil, 0, invalidCost(d)
	}
	if len(d.Keys) == 0 {
		return append(few, q.bucketLocked(Key{Rule: q.own}, now)), cost, nil
	}
	for i, k := range d.Keys {
		if k.Rule == nil || k.Rule.q != q {
			return nil, 0, invalidKey(i, "isn't of a rule of this queue")
		}
		b := q.bucketLocked(k, now)
		if slices.Contains(few, b) {
			return nil, 0, invalidKey(i, "is there twice")
		}
		few = append(few, b)
	}
	return few, cost, nil
}

// Errors are made in functions of their own, to keep their variables off the stack of everybody else.

//go:noinline
func invalidCost(d *Demand) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Cost is %d, want 1 to %d", ErrInvalid, d.Cost, MaxCost)
}

//go:noinline
func invalidKey(i int, why string) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Keys[%d] %s", ErrInvalid, i, why)
}

func needNoTicket(buckets []*bucket) error {
	for _, b := range buckets {
		if b.slots > 0 {
			return needsTicket(b)
		}
	}
	return nil
}

//go:noinline
func needsTicket(b *bucket) error {
	return fmt.Errorf("leakyqueue: %w: %q limits concurrency, so the departure needs a ticket", ErrInvalid, b.key)
}

// Await returns when the request has departed, was refused, or ctx has ended. The context is that of
// Enter, or one with the same deadline.
func (t Turn) Await(ctx context.Context) (Departure, error) {
	if t.w == nil {
		return Departure{Place: t.place}, nil
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
	left := Departure{Place: w.place, Queued: queued}
	if b := w.heldBy(); b != nil {
		left.Held = b.key.String()
	}
	return left, nil
}

// Cancel gives up the turn of a request that won't be sent, and the slots of its ticket. Its charge
// isn't given back if the request had left when Enter returned. Further calls do nothing.
func (t Turn) Cancel() {
	if t.w != nil {
		t.q.cancel(t.w)
	} else {
		t.ticket.Done()
	}
}

// cancel ends w's wait, unless it has ended already with a refusal or a cancellation, and reports that.
func (q *Queue) cancel(w *waiter) (time.Duration, bool) {
	q.mu.Lock()
	now := q.now()
	if w.state == refused || w.state == cancelled {
		q.mu.Unlock()
		return now, false
	}
	q.cancelLocked(w, now)
	q.unlock(now)
	return now, true
}

// cancelLocked ends w's wait, and gives its turn to the next if it had come already: the caller has
// gone and would send nothing.
func (q *Queue) cancelLocked(w *waiter, now time.Duration) {
	l := w.lane
	for _, b := range l.buckets {
		b.counts.Cancelled++
	}
	if w.state != departed {
		at, headed := l.parkedAt, l.heads(w)
		q.removeLocked(w)
		w.state = cancelled
		// Where it headed no line, or one whose next head asks for just as much of the same, nobody's
		// turn has changed.
		if headed && !(l.leads(at) && l.head().cost == w.cost) {
			q.dispatchLocked(at, now)
		}
		q.unclaimLocked(w, now)
		return
	}
	w.state = cancelled
	for _, b := range l.buckets {
		b.refund(w.deadline, w.deadline+time.Duration(w.at), int64(w.cost), now) // the deadline is when it was charged
		b.counts.Departed--
	}
	if w.ticket != nil && w.ticket.slot != nil {
		q.giveBackLocked(w.ticket, now)
	}
	for _, b := range l.buckets {
		q.dispatchLocked(b, now)
	}
}
