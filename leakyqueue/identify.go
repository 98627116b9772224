package leakyqueue

import (
	"cmp"
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
	if b.key.Rule != to.key.Rule && len(b.key.Rule.set.Limits()) > 0 || b.fleet != nil || to.fleet != nil {
		return false
	}
	for n := range b.joint {
		if slices.Contains(n.buckets, to) {
			return false
		}
	}
	return true
}

// maxAlsoKeys bounds how many keys of one bucket are remembered beside its own. One that is forgotten gets a bucket of
// its own when it comes again, until that is named.
const maxAlsoKeys = 1000

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
	for len(to.alsoKeys) > maxAlsoKeys {
		to.forgetAlso(0)
	}
	b.alsoKeys, b.gone, b.into = nil, true, to
	q.buckets.remove(b)

	to.highSeen = max(to.highSeen, b.highSeen)
	to.shutUntil, to.saidUntil = max(to.shutUntil, b.shutUntil), max(to.saidUntil, b.saidUntil)
	if b.blamedUntil > to.blamedUntil {
		to.blamed, to.blamedUntil = b.blamed, b.blamedUntil
	}
	if b.pausedUntil > max(now, to.pausedUntil) {
		q.pauseLocked(to, b.pausedUntil, now)
	}
	q.moveFlightsLocked(b, to)
	q.moveWaitersLocked(b, to, now)
	q.usedLocked(to, now)
	q.refuseTooCostlyLocked(to, now)
	q.dispatchLocked(to, now)
}

// forgetAlso forgets the i-th key that has b beside its own.
func (b *bucket) forgetAlso(i int) {
	k := b.alsoKeys[i]
	b.alsoKeys = slices.Delete(b.alsoKeys, i, i+1)
	k.Rule.forget(k.Value)
	if !b.learn.isCalm() {
		k.Rule.alert.Add(-1)
	}
}

// moveFlightsLocked has what has left from b be out from to.
func (q *Queue) moveFlightsLocked(b, to *bucket) {
	if b.learn != nil && to.learn != nil {
		to.learn.learner.Join(&b.learn.learner)
	}
	if b.out == 0 {
		return
	}
	to.out, b.out = to.out+b.out, 0
	for t := q.out.front; t != nil; t = t.order.after {
		if t.slot == b {
			t.slot = to
		}
		for i := range t.more {
			if t.more[i] == b {
				t.more[i] = to
			}
		}
	}
}

// moveWaitersLocked has those who wait for b wait for to. All of them go before the first comes, since with that some
// may leave.
func (q *Queue) moveWaitersLocked(b, to *bucket, now time.Duration) {
	var waiters, outside []*waiter
	var lines []*line
	for _, l := range q.lanesOf(b) {
		waiters = append(waiters, l.inOrder()...)
		if !slices.Contains(lines, l.line) {
			lines = append(lines, l.line)
		}
	}
	for _, n := range lines {
		for w := n.outside.front; w != nil; w = w.order.after {
			outside = append(outside, w)
		}
	}
	slices.SortFunc(waiters, func(a, b *waiter) int { return cmp.Compare(a.place, b.place) })
	for _, d := range q.delayed {
		if d.lane.indexOf(b) >= 0 {
			waiters = append(waiters, d.waiter)
		}
	}
	waiters = append(waiters, outside...)

	of := make([][]*bucket, len(waiters))
	for i, w := range waiters {
		of[i] = slices.Clone(w.lane.line.buckets)
		of[i][w.lane.indexOf(b)] = to
		if at := w.lane.parkedAt; at != nil && at != b {
			q.stirred = append(q.stirred, at)
		}
		q.removeLocked(w)
	}
	for i, w := range waiters {
		q.arriveLocked(w, of[i], now)
	}
}

// arriveLocked has w, who is in no lane, wait for the buckets in the state that it was in.
func (q *Queue) arriveLocked(w *waiter, buckets []*bucket, now time.Duration) {
	w.lane = q.laneFor(buckets, w.lane.key)
	for _, o := range buckets {
		if o.waiting == 0 {
			o.inTimeUntil = never
		}
		o.waiting++
		o.expect(0, now)
	}
	q.waiting++
	w.held = 0
	switch w.state {
	case delayed:
		w.lane.delayed++
		q.delayed.push(delayedWaiter{w})
	case outside:
		q.leaveOutside(w)
		q.hasRoom(w.lane.line)
	default:
		q.joinLocked(w, now)
	}
}

// live is b, or the bucket that has its keys now; nil: it was forgotten.
func (b *bucket) live() *bucket {
	for b != nil && b.gone {
		b = b.into
	}
	return b
}
