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
// The key of a pool's member pauses that one alone, and a pool's key with the Value "" all of them.
//
// The error is [ErrInvalid], for a key that isn't of a rule of this queue, or not of a pool's; then nothing is paused.
func (q *Queue) Pause(until time.Time, keys ...Key) error {
	return q.eachBucket(keys, func(b *bucket, now time.Duration) {
		q.pauseFleetLocked(b, now+min(time.Until(until), longest), now)
	})
}

// Resume ends the pauses of the keys' buckets, or of the queue's own without any, also those that an
// upstream asked for. As at the end of any pause, one leaves at once if the rate lets it, and the others
// follow at the rate. The error is that of Pause.
func (q *Queue) Resume(keys ...Key) error {
	return q.eachBucket(keys, func(b *bucket, now time.Duration) {
		if b.fleet != nil {
			b.fleet.member.Resume()
		}
		q.resumeLocked(b, now)
	})
}

// eachBucket calls f for the buckets of the keys, or the queue's own without any.
func (q *Queue) eachBucket(keys []Key, f func(b *bucket, now time.Duration)) error {
	for i, k := range keys {
		if k.Rule == nil || k.Rule.q != q {
			return fmt.Errorf("leakyqueue: %w: keys[%d] isn't of a rule of this queue", ErrInvalid, i)
		}
		if k.Rule.pool != nil && k.Rule.buckets[k.Value] == nil { // which never change
			return fmt.Errorf("leakyqueue: %w: keys[%d].Value is %q, which is no member of the pool %q", ErrInvalid, i, k.Value, k.Rule.name)
		}
	}
	q.mu.Lock()
	now := q.now()
	if len(keys) == 0 {
		f(q.bucketLocked(Key{Rule: q.own}, now), now)
	}
	for _, k := range keys {
		b := q.bucketLocked(k, now)
		if !b.isPool() {
			f(b, now)
			continue
		}
		for _, m := range b.pool.members {
			f(m, now)
		}
	}
	q.unlock(now)
	return nil
}

func (q *Queue) resumeLocked(b *bucket, now time.Duration) {
	if b.pausedUntil <= now && b.shutUntil <= now {
		return
	}
	at := b.place()
	before := at.mark(now)
	b.pausedUntil, b.shutUntil, b.blamedUntil = now, now, now
	if b.unpaused != nil {
		b.state, b.unpaused = *b.unpaused, nil
		b.state.Drain(now)
	}
	if b.pool != nil {
		b.pool.pausesLocked()
	}
	at.hurry(before - at.mark(now)) // who came during the pause reckoned with it
	q.freedLocked(b)
	q.usedLocked(b, now)
	q.dispatchLocked(b, now)
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
	if b.unpaused == nil {
		b.unpaused = new(b.state.Clone())
	}
	b.pausedUntil = max(b.pausedUntil, end)
	b.state.Drain(b.pausedUntil)
	if b.fleet != nil {
		b.fleet.allLeases(func(l *lease) { l.voidLocked(b.pausedUntil) })
	}
	b.counts.Pauses++
	q.usedLocked(b, now)
	if b.pool != nil {
		b.pool.pausesLocked()
	}
	if at := b.place(); at.waiting > 0 && (at.mark(now) >= at.inTimeUntil || at.shutUntil > now) {
		q.tellLateLocked(at, now)
	}
	q.dispatchLocked(b, now)
}

// tellLateLocked refuses those who wait for b and can't make their deadline.
func (q *Queue) tellLateLocked(b *bucket, now time.Duration) {
	b.inTimeUntil = never
	for _, l := range q.lanesOf(b) {
		at := l.parkedAt
		ahead := make([]int64, len(l.line.buckets))
		for _, w := range l.inOrder() {
			r := w.request()
			by, t := q.earliestLocked(l.line.buckets, &r, func(i int) int64 { return ahead[i] }, now, now)
			switch {
			case b.shutUntil > now:
				q.refuseLocked(w, tooLate, b, b.saidUntil, now)
			case q.late(w, t, now):
				q.refuseLocked(w, tooLate, by, t, now)
			default:
				for i := range ahead {
					ahead[i] += w.costAt(i)
				}
				b.expect(min(w.deadline, q.waitEnds(w))-t, now)
			}
		}
		if at != nil && at != b {
			q.dispatchLocked(at, now)
		}
	}
	for _, d := range slices.Clone(q.delayed) {
		switch {
		case !slices.Contains(d.lane.line.buckets, b):
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
