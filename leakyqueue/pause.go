package leakyqueue

import (
	"slices"
	"time"
)

// Pause has nobody leave from the keys' buckets, or from the queue's own without any, before until.
// Those who wait go on waiting, except that who can't make its deadline any more, or would wait
// longer than MaxWait, is refused at once with ErrDeadline. A pause longer than MaxPause refuses
// everybody, as Config.MaxPause says.
//
// Of two pauses the later end counts: a pause never gets shorter. What a rate has saved up as burst
// is lost with a pause, so that afterwards one leaves and the others follow at the rate.
func (q *Queue) Pause(until time.Time, keys ...Key) {
	q.mu.Lock()
	now, end := q.now(), until.Sub(q.epoch)
	if len(keys) == 0 {
		q.pauseLocked(q.bucketLocked(Key{Rule: q.own}), end, now)
	}
	for _, k := range keys {
		q.pauseLocked(q.bucketLocked(k), end, now)
	}
	q.unlock(now)
}

func (q *Queue) pauseLocked(b *bucket, end, now time.Duration) {
	if longest := now + q.cfg.MaxPause; end > longest {
		if b.shutUntil <= now {
			b.saidUntil = 0
		}
		b.saidUntil = max(b.saidUntil, end)
		b.shutUntil = max(b.shutUntil, longest)
		end = longest
	}
	if end <= now || end <= b.pausedUntil && b.shutUntil <= now {
		return
	}
	b.pausedUntil = max(b.pausedUntil, end)
	b.state.Drain(b.pausedUntil)
	b.counts.Pauses++
	q.usedLocked(b, now)
	q.tellLateLocked(b, now)
}

// tellLateLocked refuses those who wait for b and can't make their deadline, and sees to the others.
func (q *Queue) tellLateLocked(b *bucket, now time.Duration) {
	for _, l := range q.lanes {
		if !slices.Contains(l.buckets, b) {
			continue
		}
		at := l.parkedAt
		var ahead int64
		for _, w := range l.inOrder() {
			by, t := q.earliestLocked(l.buckets, ahead, w.cost, now)
			switch {
			case b.shutUntil > now:
				q.refuseLocked(w, ErrDeadline, b, b.saidUntil, now)
			case q.late(w, t, now):
				q.refuseLocked(w, ErrDeadline, by, t, now)
			default:
				ahead += w.cost
			}
		}
		if at != nil {
			q.dispatchLocked(at, now)
		}
	}
	for _, d := range slices.Clone(q.delayed) {
		if slices.Contains(d.lane.buckets, b) && (b.shutUntil > now || b.pausedUntil >= d.deadline) {
			q.refuseLocked(d.waiter, ErrDeadline, b, max(b.pausedUntil, b.saidUntil), now)
		}
	}
}

// inOrder lists those who wait in the order of their turns.
func (l *lane) inOrder() []*waiter {
	all := make([]*waiter, 0, l.waiting())
	all = append(all, l.again...)
	slices.SortFunc(all, func(a, b *waiter) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	for w := l.fresh.front; w != nil; w = w.order.after {
		all = append(all, w)
	}
	return all
}
