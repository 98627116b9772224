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

	// Priority says who goes first where several wait. Zero: Normal.
	Priority Priority

	// Flow names those with whom the request shares a fair part of each bucket: a tenant, say, that is
	// not to be delayed by another tenant's thousands. Flows of one priority take turns, as
	// Config.Weights says. "": those who wait for the same buckets are a flow.
	Flow string

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
	buckets, r, err := q.demandedLocked(few[:0], d, t, now)
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
		if by, at := q.blockedLocked(buckets, &r, true, now, now); by == nil {
			if d.Place == 0 {
				q.places = r.place
			}
			q.chargeLocked(buckets, &r, at, now)
			q.issueLocked(t, buckets, &r, at, now)
			q.unlock(now)
			q.keepSpare(spare)
			return nil, r.place, nil
		}
	}
	w, refused := q.enqueueLocked(ctx, buckets, &r, d, t, spare, now)
	q.unlock(now)
	if refused != nil {
		q.keepSpare(spare)
		return nil, 0, refused
	}
	return w, 0, nil
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
			return 0, nil, q.refusal(ErrDeadline, b, 0, b.saidUntil)
		}
	}
	full := false
	if n := q.findLine(buckets); n != nil && d.Place == 0 && q.cfg.Overflow != Block && q.fullLocked(n) {
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
		return 0, nil, q.refusal(ErrQueueFull, by, 0, t)
	case t >= deadline:
		err := q.refusal(ErrDeadline, by, 0, t)
		err.Cause = context.DeadlineExceeded
		return 0, nil, err
	case t > last:
		return 0, nil, q.refusal(ErrDeadline, by, 0, t)
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

// demandedLocked returns what a demand asks for, with its buckets in the memory of few if they fit, and
// its costs, if they differ, in that of t.
func (q *Queue) demandedLocked(few []*bucket, d *Demand, t *Ticket, now time.Duration) (_ []*bucket, r request, _ error) {
	cost := cmp.Or(d.Cost, 1)
	if cost < 1 || cost > MaxCost {
		return nil, r, invalidCost(d)
	}
	level, err := levelOf(d.Priority)
	if err != nil {
		return nil, r, err
	}
	if len(d.Keys) == 0 {
		if int64(cost) > q.own.maxCost {
			return nil, r, neverFits(cost, q.own)
		}
		few = append(few, q.bucketLocked(Key{Rule: q.own}, now))
	}
	mixed := false
	for i, k := range d.Keys {
		if k.Cost < 0 || k.Cost > MaxCost {
			return nil, r, invalidKeyCost(i, k.Cost)
		}
		if k.Rule == nil || k.Rule.q != q {
			return nil, r, invalidKey(i, "isn't of a rule of this queue")
		}
		if k.Rule.pool != nil && k.Value != "" {
			return nil, r, invalidMember(i, k)
		}
		b := q.bucketLocked(k, now)
		if slices.Contains(few, b) {
			return nil, r, invalidKey(i, "is there twice")
		}
		if int64(cmp.Or(k.Cost, cost)) > k.Rule.maxCost {
			return nil, r, neverFits(cmp.Or(k.Cost, cost), k.Rule)
		}
		few = append(few, b)
		if k.Cost != 0 && k.Cost != cost {
			mixed = true
		}
	}
	r = request{key: laneKey{level, d.Flow}, place: cmp.Or(d.Place, q.places+1), cost: int64(cost)}
	if mixed {
		if t == nil {
			return nil, r, needsTicketFor("Demand.Keys have costs of their own")
		}
		t.costs = t.costs[:0]
		for _, k := range d.Keys {
			t.costs = append(t.costs, int32(cmp.Or(k.Cost, cost)))
		}
		r.costs = t.costs
	}
	if q.waiting > 0 {
		r.lane = q.findLine(few).find(r.key)
	}
	return few, r, nil
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

//go:noinline
func invalidMember(i int, k Key) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Keys[%d].Value is %q, want \"\": the pool %q chooses the member", ErrInvalid, i, k.Value, k.Rule.name)
}

//go:noinline
func neverFits(cost int, r *Rule) error {
	return fmt.Errorf("leakyqueue: %w: a cost of %d never leaves: %q lets %d go in a window", ErrInvalid, cost, r.name, r.maxCost)
}

//go:noinline
func invalidKeyCost(i, cost int) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Keys[%d].Cost is %d, want 1 to %d, or 0 for Demand.Cost", ErrInvalid, i, cost, MaxCost)
}

func needNoTicket(buckets []*bucket) error {
	for _, b := range buckets {
		if b.slots > 0 || b.pool != nil {
			return needsTicket(b)
		}
	}
	return nil
}

//go:noinline
func needsTicket(b *bucket) error {
	if b.pool != nil {
		return needsTicketFor(fmt.Sprintf("%q is a pool", b.key))
	}
	return needsTicketFor(fmt.Sprintf("%q limits concurrency", b.key))
}

//go:noinline
func needsTicketFor(why string) error {
	return fmt.Errorf("leakyqueue: %w: %s, so the departure needs a ticket", ErrInvalid, why)
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
	for _, b := range l.line.buckets {
		b.counts.Cancelled++
	}
	if w.state != departed {
		at, headed := l.parkedAt, l.heads(w)
		q.removeLocked(w)
		w.state = cancelled
		// Where it headed no line, or one whose next head asks for just as much of the same, nobody's
		// turn has changed.
		if headed && !(l.parkedAt == at && at.front(now) == l && l.head().asksAsMuchAs(w)) {
			q.dispatchLocked(at, now)
		}
		q.unclaimLocked(w)
		return
	}
	w.state = cancelled
	for i := range l.line.buckets {
		b := w.leftFrom(i)
		b.settle(w.deadline, w.deadline+time.Duration(w.at), w.costAt(i), 0, now) // the deadline is when it was charged
		b.counts.Departed--
	}
	if w.ticket != nil && w.ticket.slot != nil {
		q.giveBackLocked(w.ticket, now)
	}
	for _, b := range l.line.buckets {
		q.dispatchLocked(b, now)
	}
}
