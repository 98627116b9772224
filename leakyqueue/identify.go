package leakyqueue

import (
	"slices"
	"time"
)

// identifyLocked notes that the upstream counts what b holds under a name of its own. If another bucket has that
// name already, they are one, unless b has limits of its own: who waits for b waits for the other from then on.
func (q *Queue) identifyLocked(b *bucket, name string, now time.Duration) {
	if b.pool != nil || b.gone || b.named == name {
		return
	}
	to := q.named[name]
	switch {
	case to == nil:
		q.forgetName(b) // it was renamed
		if q.named == nil {
			q.named = make(map[string]*bucket)
		}
		q.named[name], b.named = b, name
	case q.canMergeLocked(b, to):
		q.mergeLocked(b, to, now)
	}
}

func (q *Queue) forgetName(b *bucket) {
	if q.named[b.named] == b {
		delete(q.named, b.named)
	}
	b.named = ""
}

// canMergeLocked reports whether what to does is all that b does, and nobody waits for both.
func (q *Queue) canMergeLocked(b, to *bucket) bool {
	if b.key.Rule != to.key.Rule && len(b.key.Rule.set.Limits()) > 0 {
		return false
	}
	for n := range b.joint {
		if slices.Contains(n.buckets, to) {
			return false
		}
	}
	return true
}

// mergeLocked has those who wait for b wait for to, in their places, and those who come for b's keys too.
func (q *Queue) mergeLocked(b, to *bucket, now time.Duration) {
	q.forgetName(b)
	for _, k := range append(b.alsoKeys, b.key) {
		k.Rule.buckets[k.Value] = to
		to.alsoKeys = append(to.alsoKeys, k)
		if k.Value == "" {
			k.Rule.plain = to
		}
		if !to.learn.isCalm() {
			k.Rule.alert.Add(1)
		}
		if !b.learn.isCalm() {
			k.Rule.alert.Add(-1)
		}
	}
	b.alsoKeys, b.gone = nil, true
	q.buckets.remove(b)

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
