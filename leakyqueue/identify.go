package leakyqueue

import (
	"slices"
	"time"
)

// identifyLocked notes that the upstream counts what b holds under a name of its own. If another bucket of the
// rule has that name already, they are one: who waits for b waits for the other from then on.
func (q *Queue) identifyLocked(b *bucket, name string, now time.Duration) {
	r := b.key.Rule
	if b.pool != nil || r.buckets[b.key.Value] != b && !slices.Contains(b.alsoKeys, b.key.Value) {
		return // it isn't in use any more
	}
	if r.named == nil {
		r.named = make(map[string]*bucket)
	}
	to := r.named[name]
	switch {
	case to == b:
	case to == nil:
		if r.named[b.named] == b { // it was renamed
			delete(r.named, b.named)
		}
		r.named[name], b.named = b, name
	case q.canMergeLocked(b, to):
		q.mergeLocked(b, to, now)
	}
}

// canMergeLocked reports whether nobody waits for both.
func (q *Queue) canMergeLocked(b, to *bucket) bool {
	for n := range b.joint {
		if slices.Contains(n.buckets, to) {
			return false
		}
	}
	return true
}

// mergeLocked has those who wait for b wait for to, in their places, and those who come for b's keys too.
func (q *Queue) mergeLocked(b, to *bucket, now time.Duration) {
	r := b.key.Rule
	if r.named[b.named] == b {
		delete(r.named, b.named)
	}
	for _, value := range append(b.alsoKeys, b.key.Value) {
		r.buckets[value] = to
		to.alsoKeys = append(to.alsoKeys, value)
		if value == "" {
			r.plain = to
		}
	}
	b.alsoKeys = nil
	q.buckets.remove(b)
	if b.learn != nil && !b.learn.calm {
		b.learn.calm = true
		r.alert.Add(-1)
	}

	to.shutUntil, to.saidUntil = max(to.shutUntil, b.shutUntil), max(to.saidUntil, b.saidUntil)
	if b.pausedUntil > max(now, to.pausedUntil) {
		q.pauseLocked(to, b.pausedUntil, now)
	}
	var waiters []*waiter
	for _, l := range q.lanesOf(b) {
		waiters = append(waiters, l.inOrder()...)
	}
	for _, d := range q.delayed {
		if d.lane.indexOf(b) >= 0 {
			waiters = append(waiters, d.waiter)
		}
	}
	for _, w := range waiters {
		q.moveLocked(w, b, to, now)
	}
	q.usedLocked(to, now)
	q.dispatchLocked(to, now)
}

// moveLocked has w wait for to instead of b.
func (q *Queue) moveLocked(w *waiter, b, to *bucket, now time.Duration) {
	from, state, at := w.lane, w.state, w.lane.parkedAt
	q.removeLocked(w)
	if at != nil && at != b {
		q.stirred = append(q.stirred, at)
	}
	buckets := slices.Clone(from.line.buckets)
	buckets[slices.Index(buckets, b)] = to
	w.lane = q.laneFor(buckets, from.key)
	for _, o := range buckets {
		if o.waiting == 0 {
			o.inTimeUntil = never
		}
		o.waiting++
		o.expect(0, now)
	}
	q.waiting++
	w.held = 0
	if state == delayed {
		w.state = delayed
		w.lane.delayed++
		q.delayed.push(delayedWaiter{w})
		return
	}
	w.state = waiting
	q.joinLocked(w, now)
}
