package leakyqueue

import (
	"math"
	"time"
)

// Who may leave, and when, is decided here; everybody else holds a lane, a bucket or the timer.
//
// A lane with waiters is parked at one bucket: the one that keeps its head from leaving longest, or
// has no slot free, or has an older head parked already (in order: nobody overtakes at a bucket).
// A bucket with lanes parked at it is in Queue.wakes under the time at which the oldest of those
// heads may leave, unless it has to wait for a slot, which wakes it when it comes back. So one timer
// serves everybody, each departure costs O(log lanes), and whoever is parked has a wake-up to come.

// blockedLocked says which bucket keeps a request from leaving at now, and until when: never if that
// isn't a matter of time. If none does, the departure is to be charged at the moment returned: when it
// could have been, since then. In order: those who go first at a bucket keep it from leaving, too.
func (q *Queue) blockedLocked(buckets []*bucket, r *request, inOrder bool, since, now time.Duration) (*bucket, time.Duration) {
	if r.lane != nil && r.lane.parkedAt != nil && r.lane.head().place < r.place {
		return r.lane.parkedAt, never
	}
	for i, b := range buckets {
		if until := b.fullUntil(r.key.level, now); until > now {
			return b, until
		}
		if inOrder && b.parked.n > 0 {
			if front := b.front(now); b.goesBefore(front, r, i, now) {
				return b, never
			}
		}
		if b.claimed(r.place, now) && b.lastSlot(now) {
			return b, b.claimedUntil
		}
	}
	var by *bucket
	t := since
	for i, b := range buckets {
		from := t
		if b.slots == 0 && b.claimed(r.place, now) {
			from = max(from, b.claimedUntil)
		}
		if e := b.leaves(from, now, r.costAt(i), r.key.level); e > t {
			t, by = e, b
		}
	}
	if t > now {
		return by, t
	}
	return nil, t
}

// dueLocked is when b was to wake, if the timer is late, but by no more than the slack; else now.
// Departures are charged as of then, so that those who follow catch up.
func (q *Queue) dueLocked(b *bucket, now time.Duration) time.Duration {
	return max(min(b.wake, now), now-q.cfg.Slack)
}

// dispatchLocked lets everybody leave who is parked at b and may, and says when b wakes next.
func (q *Queue) dispatchLocked(b *bucket, now time.Duration) {
	b = b.place()
	due := q.dueLocked(b, now)
	for {
		l := b.front(now)
		if l == nil {
			q.wakeLocked(b, never)
			return
		}
		w := l.head()
		r := w.request()
		by, t := q.blockedLocked(l.line.buckets, &r, true, max(w.joined, due), now)
		if by != nil && by != b && !q.mayMove(l) {
			by, t = q.blockedLocked(l.line.buckets, &r, false, max(w.joined, due), now)
		}
		switch {
		case t != never && q.lateAt(by, w, t, now):
			q.refuseLocked(w, tooLate, by, t, now)
		case by == nil:
			q.departLocked(w, t, now)
		case by == b:
			q.wakeLocked(b, t)
			return
		default:
			q.unparkLocked(l)
			q.parkLocked(l, by, t, now)
			q.passOverLocked(l, t, now)
		}
	}
}

// passOverLocked counts that l's head had its turn at one bucket, but has to wait for another until t.
// Others may take the first one's turns meanwhile, and then the other's while the head waits for the
// first again: where the lanes of two buckets overlap without one having all of the other's, that
// could go on for ever. So a head that was passed over many times claims its buckets until t.
//
// The price is kept low. A rate is claimed only if it loses at most one departure, so that a slow
// bucket doesn't make a fast one wait; of a concurrency one slot is, for at most an eighth of the time
// that the head has waited.
func (q *Queue) passOverLocked(l *lane, t, now time.Duration) {
	l.passed++
	if l.passed < q.patience || l.line.last().lease != nil { // what is leased is its own
		return
	}
	w := l.head()
	for i, b := range l.line.buckets {
		until := t
		if b.slots > 0 {
			until = min(t, now+(now-w.joined)/8)
		} else if free := b.earliest(now, now, 0, w.costAt(i), l.key.level); t == never || t-free > b.departure(now) {
			continue
		}
		if b.claimedBy == 0 || b.claimedUntil <= now || w.place <= b.claimedBy {
			// A claim never gets shorter, since b wakes for others when it was to end.
			b.claimedBy, b.claimedUntil = w.place, max(b.claimedUntil, until)
		}
	}
}

// unclaimLocked gives up what w has claimed: its wait has ended.
func (q *Queue) unclaimLocked(w *waiter) {
	for _, b := range w.lane.line.buckets {
		if b.claimedBy == w.place {
			b.claimedBy = 0
			q.stirred = append(q.stirred, b)
		}
	}
}

// parkLocked has l wait for b, who lets its head leave at t at the earliest.
func (q *Queue) parkLocked(l *lane, b *bucket, t, now time.Duration) {
	l.parkedAt, l.share = b, l.shares[l.indexOf(b)]
	l.tag = later(b.shares.virtual[l.key.level], l.share.served)
	b.parked.push(l)
	if b.front(now) == l {
		q.wakeLocked(b, t)
	}
	if b.lease != nil {
		q.touch(b.lease)
	}
	for _, b := range l.line.buckets {
		q.touchGate(b)
	}
}

func (q *Queue) unparkLocked(l *lane) {
	b := l.parkedAt
	b.parked.remove(l)
	l.parkedAt = nil
	if b.parked.n == 0 {
		q.wakeLocked(b, never)
	}
}

// wakeLocked has b looked at again at t.
func (q *Queue) wakeLocked(b *bucket, t time.Duration) {
	b.wake = t
	switch {
	case t == never && b.scheduled:
		q.wakes.remove(b)
	case t == never:
	case b.scheduled:
		q.wakes.fix(b)
	default:
		q.wakes.push(b)
	}
	b.scheduled = t != never
}

// departLocked lets w leave, and charges its buckets at t.
func (q *Queue) departLocked(w *waiter, t, now time.Duration) {
	r := w.request()
	q.chargeLocked(w.lane.line.buckets, &r, t, now)
	q.removeLocked(w)
	q.issueLocked(w.ticket, w.lane.line.buckets, &r, t, now)
	w.deadline, w.at = t, int32(min(now-t, math.MaxInt32))
	q.endLocked(w, departed)
}

func (q *Queue) chargeLocked(buckets []*bucket, r *request, t, now time.Duration) {
	for i, b := range buckets {
		from := b
		if b.pool != nil {
			from = b.pool.choose(r.costAt(i), r.key.level, now)
		}
		if from.lease != nil {
			from.lease.take(buckets, r)
		} else {
			from.state.Charge(t, now, r.costAt(i))
		}
		from.unpaused = nil
		from.counts.Departed++
		if r.key.level.high() {
			b.highSeen = now
		}
		b.departs(r, i)
		if b.parked.n > 0 && (r.lane == nil || r.lane.parkedAt != b) {
			q.stirred = append(q.stirred, b) // another may go first there now
		}
		q.usedLocked(b, now)
	}
}

// joinLocked has w wait for its turn, which may have come.
func (q *Queue) joinLocked(w *waiter, now time.Duration) {
	l := w.lane
	if w.state != waiting { // others may have come before it meanwhile: its turn is to be looked at anew
		for _, b := range l.line.buckets {
			b.expect(0, now)
		}
	}
	q.insertLocked(w)
	for _, b := range l.line.buckets {
		if b.shutUntil > now {
			at := l.parkedAt
			q.refuseLocked(w, tooLate, b, b.saidUntil, now)
			if at != nil {
				q.dispatchLocked(at, now)
			}
			return
		}
	}
	if l.parkedAt == nil {
		q.beginLocked(w, now)
		return
	}
	if l.head() == w {
		q.dispatchLocked(l.parkedAt, now)
	}
}

// beginLocked has w leave or be parked, which nobody else waits in the lane of.
//
//go:noinline
func (q *Queue) beginLocked(w *waiter, now time.Duration) {
	l := w.lane
	r := w.request()
	by, t := q.blockedLocked(l.line.buckets, &r, true, max(w.joined, now-q.cfg.Slack), now)
	switch {
	case t != never && q.lateAt(by, w, t, now):
		q.refuseLocked(w, tooLate, by, t, now)
	case by == nil:
		q.departLocked(w, t, now)
	default:
		q.parkLocked(l, by, t, now)
	}
}

// fire is the timer's: it does all that has fallen due.
func (q *Queue) fire() {
	q.mu.Lock()
	now := q.now()
	q.armed = never
	for d, ok := q.delayed.top(); ok && d.joined <= now; d, ok = q.delayed.top() {
		q.delayed.remove(d)
		d.lane.delayed--
		q.joinLocked(d.waiter, now)
	}
	for b, ok := q.wakes.top(); ok && b.wake <= now; b, ok = q.wakes.top() {
		q.dispatchLocked(b, now)
	}
	for w := q.arrivals.first(); w != nil && q.waitEnds(w) < now; w = q.arrivals.first() {
		at := w.lane.parkedAt
		q.refuseLocked(w, tooLate, at, never, now)
		q.dispatchLocked(at, now)
	}
	q.expireHoldsLocked(now)
	q.evictLocked(now)
	q.unlock(now)
}

// scheduleLocked sets the timer to the next moment at which there is something to do. A timer that
// is set to an earlier moment is left alone: it fires in vain once, which is cheaper than setting it
// for everybody who leaves the queue.
func (q *Queue) scheduleLocked(now time.Duration) {
	if q.closed {
		return
	}
	next := never
	if b, ok := q.wakes.top(); ok {
		next = b.wake
	}
	if d, ok := q.delayed.top(); ok {
		next = min(next, d.joined)
	}
	if w := q.arrivals.first(); w != nil {
		next = min(next, q.waitEnds(w)+1)
	}
	if t := q.out.front; t != nil && q.cfg.MaxHold > 0 {
		next = min(next, t.since+q.cfg.MaxHold)
	}
	if b := q.buckets.front; b != nil {
		next = min(next, b.used+idleAfter)
	}
	if next < q.armed {
		q.armed = next
		q.timer.Reset(next - now)
	}
}

// unlock lets those leave, or in, who waited for a claim to end or for room, sets the timer, gives up q.mu, and only then
// wakes those whose wait has ended, so that none of them runs into the lock.
func (q *Queue) unlock(now time.Duration) {
	for len(q.stirred)+len(q.roomy)+len(q.touched)+len(q.gates) > 0 {
		q.askLocked(now)
		q.letInLocked(now)
		if last := len(q.stirred) - 1; last >= 0 {
			b := q.stirred[last]
			q.stirred = q.stirred[:last]
			q.dispatchLocked(b, now)
		}
	}
	q.scheduleLocked(now)
	q.round++
	if q.closing && !q.closed && q.waiting == 0 && q.out.n == 0 {
		q.closed = true
		q.leaveAllLocked()
		q.timer.Stop()
		close(q.drained)
	}
	if crowded := q.waiting > 0; crowded != q.crowded.Load() {
		q.crowded.Store(crowded)
	}
	w := q.woken.front
	q.woken.front, q.woken.back, q.woken.n = nil, nil, 0
	q.mu.Unlock()
	for w != nil {
		next := w.order.after
		close(w.ready)
		w = next
	}
}
