package leakyqueue

import (
	"cmp"
	"fmt"
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
//
// The error is [ErrInvalid], for a key that isn't of a rule of this queue; then nothing is paused.
func (q *Queue) Pause(until time.Time, keys ...Key) error {
	for i, k := range keys {
		if k.Rule == nil || k.Rule.q != q {
			return fmt.Errorf("leakyqueue: %w: keys[%d] isn't of a rule of this queue", ErrInvalid, i)
		}
	}
	q.mu.Lock()
	now := q.now()
	end := now + min(time.Until(until), longest)
	if len(keys) == 0 {
		q.pauseLocked(q.bucketLocked(Key{Rule: q.own}, now), end, now)
	}
	for _, k := range keys {
		q.pauseLocked(q.bucketLocked(k, now), end, now)
	}
	q.unlock(now)
	return nil
}

func (q *Queue) pauseLocked(b *bucket, end, now time.Duration) {
	if most := now + q.cfg.MaxPause; end > most {
		if b.shutUntil <= now {
			b.saidUntil = 0
		}
		b.saidUntil = max(b.saidUntil, end)
		b.shutUntil = max(b.shutUntil, most)
		end = most
	}
	if end <= now || end <= b.pausedUntil && b.shutUntil <= now {
		return
	}
	b.pausedUntil = max(b.pausedUntil, end)
	b.state.Drain(b.pausedUntil)
	b.counts.Pauses++
	q.usedLocked(b, now)
	if b.waiting > 0 && (b.mark(now) >= b.inTimeUntil || b.shutUntil > now) {
		q.tellLateLocked(b, now)
	}
	q.dispatchLocked(b, now)
}

// tellLateLocked refuses those who wait for b and can't make their deadline.
func (q *Queue) tellLateLocked(b *bucket, now time.Duration) {
	b.inTimeUntil = never
	for _, l := range q.lanesOf(b) {
		at := l.parkedAt
		var ahead int64
		for _, w := range l.inOrder() {
			by, t := q.earliestLocked(l.buckets, ahead, int64(w.cost), now, now)
			switch {
			case b.shutUntil > now:
				q.refuseLocked(w, tooLate, b, b.saidUntil, now)
			case q.late(w, t, now):
				q.refuseLocked(w, tooLate, by, t, now)
			default:
				ahead += int64(w.cost)
				b.expect(min(w.deadline, q.waitEnds(w))-t, now)
			}
		}
		if at != nil && at != b {
			q.dispatchLocked(at, now)
		}
	}
	for _, d := range slices.Clone(q.delayed) {
		switch {
		case !slices.Contains(d.lane.buckets, b):
		case b.shutUntil > now || b.pausedUntil >= d.deadline:
			q.refuseLocked(d.waiter, tooLate, b, max(b.pausedUntil, b.saidUntil), now)
		default:
			b.expect(d.deadline-max(d.joined, b.pausedUntil), now)
		}
	}
}

// inOrder lists those who wait in the order of their turns.
func (l *lane) inOrder() []*waiter {
	all := make([]*waiter, 0, l.waiting())
	all = append(all, l.again...)
	for w := l.fresh.front; w != nil; w = w.order.after {
		all = append(all, w)
	}
	if len(l.again) > 0 {
		slices.SortFunc(all, func(a, b *waiter) int { return cmp.Compare(a.place, b.place) })
	}
	return all
}
