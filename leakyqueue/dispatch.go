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
// could have been, since then.
func (q *Queue) blockedLocked(buckets []*bucket, place Place, cost int64, since, now time.Duration) (*bucket, time.Duration) {
	for _, b := range buckets {
		if b.full() {
			return b, never
		}
		if oldest, ok := b.parked.top(); ok && oldest.head().place < place {
			return b, never
		}
		if b.slots == b.out+1 && b.claimed(place, now) {
			return b, b.claimedUntil
		}
	}
	var by *bucket
	t := since
	for _, b := range buckets {
		from := max(t, b.pausedUntil)
		if b.slots == 0 && b.claimed(place, now) {
			from = max(from, b.claimedUntil)
		}
		if e := b.state.Earliest(from, now, 0, cost, false); e > t {
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
	due := q.dueLocked(b, now)
	for {
		l, ok := b.parked.top()
		if !ok {
			q.wakeLocked(b, never)
			return
		}
		w := l.head()
		by, t := q.blockedLocked(l.buckets, w.place, int64(w.cost), max(w.joined, due), now)
		switch {
		case t != never && q.late(w, t, now):
			q.refuseLocked(w, tooLate, by, t, now)
		case by == nil:
			q.departLocked(w, t, now)
		case by == b:
			q.wakeLocked(b, t)
			return
		default:
			q.unparkLocked(l)
			q.parkLocked(l, by, t)
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
	if l.passed < q.patience {
		return
	}
	w := l.head()
	for _, b := range l.buckets {
		until := t
		if b.slots > 0 {
			until = min(t, now+(now-w.joined)/8)
		} else if free := b.state.Earliest(max(now, b.pausedUntil), now, 0, int64(w.cost), false); t == never || t-free > b.departure() {
			continue
		}
		if b.claimedBy == 0 || b.claimedUntil <= now || w.place <= b.claimedBy {
			// A claim never gets shorter, since b wakes for others when it was to end.
			b.claimedBy, b.claimedUntil = w.place, max(b.claimedUntil, until)
		}
	}
}

// unclaimLocked gives up what w has claimed.
func (q *Queue) unclaimLocked(w *waiter, now time.Duration) {
	for _, b := range w.lane.buckets {
		if b.claimedBy == w.place {
			b.claimedBy = 0
			q.dispatchLocked(b, now)
		}
	}
}

// parkLocked has l wait for b, who lets its head leave at t at the earliest.
func (q *Queue) parkLocked(l *lane, b *bucket, t time.Duration) {
	l.parkedAt = b
	b.parked.push(l)
	if oldest, _ := b.parked.top(); oldest == l {
		q.wakeLocked(b, t)
	}
}

func (q *Queue) unparkLocked(l *lane) {
	b := l.parkedAt
	b.parked.remove(l)
	l.parkedAt = nil
	if len(b.parked) == 0 {
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
	q.removeLocked(w)
	q.chargeLocked(w.lane.buckets, int64(w.cost), t, now)
	q.issueLocked(w.ticket, w.lane.buckets, w.place, now)
	w.lane.passed = 0
	w.deadline, w.at = t, int32(min(now-t, math.MaxInt32))
	q.endLocked(w, departed)
}

func (q *Queue) chargeLocked(buckets []*bucket, cost int64, t, now time.Duration) {
	for _, b := range buckets {
		b.state.Charge(t, now, cost)
		b.counts.Departed++
		q.usedLocked(b, now)
	}
}

// joinLocked has w wait for its turn, which may have come.
func (q *Queue) joinLocked(w *waiter, now time.Duration) {
	l := w.lane
	if w.state == delayed { // others may have come before it meanwhile: its turn is to be looked at anew
		for _, b := range l.buckets {
			b.expect(0, now)
		}
	}
	q.insertLocked(w)
	if l.parkedAt == nil {
		by, t := q.blockedLocked(l.buckets, w.place, int64(w.cost), max(w.joined, now-q.cfg.Slack), now)
		switch {
		case t != never && q.late(w, t, now):
			q.refuseLocked(w, tooLate, by, t, now)
		case by == nil:
			q.departLocked(w, t, now)
		default:
			q.parkLocked(l, by, t)
		}
		return
	}
	if l.head() == w {
		q.dispatchLocked(l.parkedAt, now)
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

// unlock sets the timer, gives up q.mu, and only then wakes those whose wait has ended, so that none
// of them runs into the lock.
func (q *Queue) unlock(now time.Duration) {
	q.scheduleLocked(now)
	if q.closing && !q.closed && q.waiting == 0 && q.out.n == 0 {
		q.closed = true
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
