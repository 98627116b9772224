package leakyqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// A pool is one bucket at which requests wait, and a bucket for each member, which has the limits' state,
// the slots and the pauses. The order among those who wait, with its lanes and shares, is the pool's alone.

// pool is what the bucket of a pool and those of its members share. Queue.mu guards it.
type pool struct {
	at       *bucket   // where requests wait; it has no state of its own
	members  []*bucket // the least recently used first
	chosen   *bucket   // the member that the departure goes with which was charged last
	heaviest int64     // the highest cost that waits, or has while others did
}

// AddPool adds a rule whose requests each leave with one of its members, with whichever may leave first:
// a set of credentials, say, each of which the upstream limits by itself. The limits hold for each member
// alike. Requests wait for the pool as for any bucket, in one order, and a member that is limited or paused
// doesn't hold up those who may leave with another.
//
// A [Demand] names the pool by a [Key] with the Value ""; one that names a member is [ErrInvalid]. Its
// departure needs a ticket, which tells the member: see [Ticket.Member]. A Key with a member's Value is for
// [Queue.Pause] and [Queue.Resume]; there "" means all of the members. A departure takes time in proportion
// to their number. A pool is not for [Queue.Measure].
//
// Members are 1 or more, distinct and not empty. They show in statistics and errors, so secrets don't
// belong there. The error names what is wrong and its value.
func (q *Queue) AddPool(name string, members []string, limits ...limit.Limit) (*Rule, error) {
	if len(members) == 0 {
		return nil, fmt.Errorf("leakyqueue: pool %q: %w: there are no members, want 1 or more", name, ErrInvalid)
	}
	for i, m := range members {
		if m == "" {
			return nil, fmt.Errorf("leakyqueue: pool %q: %w: members[%d] is %q, want a name", name, ErrInvalid, i, m)
		}
		if first := slices.Index(members, m); first < i {
			return nil, fmt.Errorf("leakyqueue: pool %q: %w: members[%d] is %q, which members[%d] is already", name, ErrInvalid, i, m, first)
		}
	}
	r, err := q.newRule(name, limits)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	p := new(pool)
	p.at = q.makeBucket(Key{Rule: r}, now)
	p.at.pool, p.at.state = p, limit.State{}
	if p.at.learn != nil { // its members learn
		if !p.at.learn.calm {
			r.alert.Add(-1)
		}
		p.at.learn, p.at.slots, p.at.ordinary = nil, 0, 0
	}
	for _, m := range members {
		b := q.makeBucket(Key{Rule: r, Value: m}, now)
		b.pool = p
		p.members = append(p.members, b)
	}
	r.pool = p
	q.rules = append(q.rules, r)
	q.pools = append(q.pools, p)
	return r, nil
}

// Member returns the member of a pool with which the ticket's request has left; "" if it hasn't left, or
// by no such pool.
func (t *Ticket) Member(r *Rule) string {
	if t == nil || t.q == nil {
		return ""
	}
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	for _, b := range t.buckets {
		if b.key.Rule == r && b.pool != nil {
			return b.key.Value
		}
	}
	return ""
}

// NeedsTicket reports whether a departure that the rule holds needs a ticket: it takes a slot, leaves
// with a member of a pool, or there is something to be learnt from its answer.
func (r *Rule) NeedsTicket() bool { return r.pool != nil || r.slots.Load() > 0 || r.alert.Load() > 0 }

// isPool reports whether b is where requests wait for a pool's members.
func (b *bucket) isPool() bool { return b.pool != nil && b.pool.at == b }

// place is where those wait whom b holds: at itself, or at its pool.
func (b *bucket) place() *bucket {
	if b.pool != nil {
		return b.pool.at
	}
	return b
}

// leaves is when a request may leave as far as b goes: [bucket.earliest], but of a pool's members only
// those that have a slot count; never if all of them wait for one.
func (b *bucket) leaves(since, now time.Duration, cost int64, l level) time.Duration {
	if b.isPool() {
		return b.pool.leaves(since, now, cost, l)
	}
	if b.lease != nil {
		return b.lease.leaves(since, now, cost)
	}
	return b.earliest(since, now, 0, cost, l)
}

func (p *pool) leaves(since, now time.Duration, cost int64, l level) time.Duration {
	t := never
	for _, m := range p.members {
		from := since
		switch full := m.fullUntil(l, now); {
		case full == never:
			continue
		case full > now:
			from = max(from, full)
		}
		t = min(t, m.earliest(from, now, 0, cost, l))
	}
	return t
}

// earliest is never too late: when a request leaves, it and all ahead of it, whose last departures are no
// later, were charged to the members, so that one of them was charged with at least a fair part. Without
// the heaviest of them, which may leave with as little free as is left of a window or a burst, that has
// to have been free by then.
func (p *pool) earliest(since, now time.Duration, ahead, cost int64, l level) time.Duration {
	if ahead > 0 {
		n := int64(len(p.members))
		ahead = max(0, (ahead+cost+n-1)/n-max(cost, p.heaviest))
	}
	t := never
	for _, m := range p.members {
		t = min(t, m.earliest(since, now, ahead, cost, l))
	}
	return t
}

func (p *pool) fullUntil(l level, now time.Duration) time.Duration {
	t := never
	for _, m := range p.members {
		t = min(t, m.fullUntil(l, now))
	}
	return t
}

// mark is the sum: whatever makes the turn of the first member later, and so that of the pool, moves it at
// least as far.
func (p *pool) mark(now time.Duration) time.Duration {
	var sum time.Duration
	for _, m := range p.members {
		sum = min(sum+min(m.mark(now), longest), longest)
	}
	return sum
}

func (p *pool) leap() time.Duration {
	var sum time.Duration
	for _, m := range p.members {
		sum = min(sum+min(m.state.Leap(), longest), longest)
	}
	return sum
}

// lastSlot reports whether there is but one slot left to take: of those members, that is, which aren't
// paused.
func (b *bucket) lastSlot(now time.Duration) bool {
	if !b.isPool() {
		return b.slots == b.out+1
	}
	free := 0
	for _, m := range b.pool.members {
		if m.pausedUntil <= now {
			free += max(0, m.slots-m.out)
		}
	}
	return free == 1
}

// choose returns the member for a departure at now: of those with a slot the one that could have left
// first, and of several the least recently used.
func (p *pool) choose(cost int64, l level, now time.Duration) *bucket {
	chosen, first := 0, never
	for i, m := range p.members {
		if m.fullUntil(l, now) > now {
			continue
		}
		if e := m.earliest(0, now, 0, cost, l); e < first {
			chosen, first = i, e
		}
	}
	p.chosen = p.members[chosen]
	copy(p.members[chosen:], p.members[chosen+1:])
	p.members[len(p.members)-1] = p.chosen
	return p.chosen
}

// pausesLocked has the pool be paused for as long as all of its members are.
func (p *pool) pausesLocked() {
	p.at.pausedUntil, p.at.shutUntil, p.at.saidUntil = never, never, never
	for _, m := range p.members {
		p.at.pausedUntil = min(p.at.pausedUntil, m.pausedUntil)
		p.at.shutUntil = min(p.at.shutUntil, m.shutUntil)
		p.at.saidUntil = min(p.at.saidUntil, m.saidUntil)
	}
}

// statsLocked adds up what happened at the members of a pool.
func (p *pool) statsLocked(s *BucketStats, held map[*bucket]time.Duration) {
	for _, m := range p.members {
		s.InFlight += m.out
		s.Held = max(s.Held, held[m])
		s.Counts.Departed += m.counts.Departed
		s.Counts.Pauses += m.counts.Pauses
		s.Counts.HoldsExpired += m.counts.HoldsExpired
	}
}

// leftFrom is the bucket that was charged for w's departure from the i-th of those it waited for.
func (w *waiter) leftFrom(i int) *bucket {
	if b := w.lane.line.buckets[i]; !b.isPool() {
		return b
	}
	return w.ticket.buckets[i]
}

// all yields every bucket.
func (q *Queue) all(yield func(*bucket) bool) {
	for b := q.buckets.front; b != nil; b = b.inUse.after {
		if !yield(b) {
			return
		}
	}
	for _, p := range q.pools {
		if !yield(p.at) {
			return
		}
		for _, m := range p.members {
			if !yield(m) {
				return
			}
		}
	}
}
