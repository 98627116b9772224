package leakyqueue

import (
	"cmp"
	"slices"
	"time"
)

// Counts is what has happened at a bucket since it came to be. A request with several keys counts at
// each of their buckets.
type Counts struct {
	Departed     uint64 // left
	Refused      uint64 // ended with an Error that has a Reason of ours
	Cancelled    uint64 // the context ended in the queue
	Pauses       uint64 // began, or grew longer
	Limited      uint64 // answers that refused this client
	Overloaded   uint64 // answers that said that the upstream is unwell for everybody
	HoldsExpired uint64 // tickets given back by MaxHold
	SlotsLost    uint64 // times that slots shared with other queues went to those, while they were held here

	// Of rules that are only measured: see Queue.Measure.
	Late uint64        // would have been held by rates or windows
	Held time.Duration // for how long, together
	Full uint64        // would have found no slot
}

// BucketStats is a bucket at one moment.
type BucketStats struct {
	Rule, Key string
	Waiting   int           // requests in the queue that this bucket holds, delayed retries included
	InFlight  int           // tickets that hold a slot; 0 without a concurrency limit
	Held      time.Duration // for how long the oldest of those has been out: a leak shows here
	Paused    time.Duration // how much longer the pause lasts; 0: none
	Next      time.Duration // how long until the next request of cost 1 may leave, concurrency apart

	// What was learnt of the upstream: see Rule.Learn.
	Rate   float64 // the pace, per second; 0: there is none
	Slots  int     // how many may be in flight; 0: any number
	Down   bool    // it is taken to be down, and only probes leave
	Counts Counts
}

// Stats returns the state of every bucket that isn't idle or was in use a short time ago, ordered by
// rule and key. Of a pool it has one for each member, and one with the Key "" for those who wait, in which
// what has left with the members is added up. It takes time in proportion to their number.
func (q *Queue) Stats() []BucketStats {
	q.mu.Lock()
	now := q.now()
	held := make(map[*bucket]time.Duration)
	for t := q.out.back; t != nil; t = t.order.before {
		held[t.slot] = now - t.since
		for _, b := range t.more {
			held[b] = now - t.since
		}
	}
	stats := make([]BucketStats, 0, q.buckets.n)
	for b := range q.all {
		s := BucketStats{
			Rule:     b.key.Rule.name,
			Key:      b.key.Value,
			Waiting:  b.waiting,
			InFlight: b.out,
			Held:     held[b],
			Paused:   max(0, b.pausedUntil-now),
			Next:     b.earliest(now, now, 0, 1, normalLevel) - now,
			Counts:   b.counts,
		}
		if b.isPool() {
			b.pool.statsLocked(&s, held)
		}
		if l := b.learn; l != nil {
			s.Rate, s.Down = l.learner.Rate(), l.learner.Down()
			if s.Slots, _ = l.learner.Slots(now); l.slots != nil {
				s.Slots = b.slots
			}
		}
		stats = append(stats, s)
	}
	q.mu.Unlock()
	slices.SortFunc(stats, func(a, b BucketStats) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	return stats
}
