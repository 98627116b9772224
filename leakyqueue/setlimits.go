package leakyqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// SetLimits has other limits hold for all of the rule's buckets from now on. What has left counts under
// them, too: of a rate the used part of the burst stays used, and a window goes on counting, as
// [limit.Set.Adopt] says. Those who wait leave at the new pace; who can't make its deadline any more is
// refused with ErrDeadline, and who asks for more than the new limits ever let go with ErrQueueFull.
// Slots that are out stay out, even if they are more than there are now.
//
// The error names the limit that is wrong and its value; then nothing has changed.
func (r *Rule) SetLimits(limits ...limit.Limit) error {
	set, err := limit.Join(limits...)
	if err != nil {
		return fmt.Errorf("leakyqueue: rule %q: %w", r.name, err)
	}
	if r.pacer != nil {
		if err := r.pacer.Check(Shared{Rule: r.name, Limits: set.Limits()}); err != nil {
			return fmt.Errorf("leakyqueue: rule %q: %w", r.name, err)
		}
	}
	q := r.q
	q.mu.Lock()
	now := q.now()
	r.set, r.maxCost = set, set.MaxCost()
	r.slots.Store(slotsOf(set))
	for value, b := range r.buckets {
		switch {
		case b.isPool():
		case b.key == Key{Rule: r, Value: value}:
			q.adoptLocked(b, set, now)
		case b.key.Rule != r && len(limits) > 0: // which hold in buckets of its own
			b.forgetAlso(slices.Index(b.alsoKeys, Key{Rule: r, Value: value}))
		}
	}
	if r.pool != nil {
		r.pool.at.slots, r.pool.at.ordinary = set.Slots(), set.OrdinarySlots()
		q.changedLocked(r.pool.at, now)
	}
	q.unlock(now)
	return nil
}

func (q *Queue) adoptLocked(b *bucket, set limit.Set, now time.Duration) {
	b.state = set.Adopt(&b.state, now)
	if b.unpaused != nil {
		b.unpaused = new(set.Adopt(b.unpaused, now))
	}
	b.slots, b.ordinary = set.Slots(), set.OrdinarySlots()
	if b.fleet != nil {
		b.fleet.declare(set)
		b.fleet.allLeases(q.closeLease) // they open anew, for these limits
		b.gate()
		q.touchGate(b)
	}
	q.learnAnewLocked(b)
	if b.pool == nil {
		q.changedLocked(b, now)
	}
}

// changedLocked tells those who wait for b of its new limits.
func (q *Queue) changedLocked(b *bucket, now time.Duration) {
	q.refuseTooCostlyLocked(b, now)
	if b.waiting > 0 {
		q.tellLateLocked(b, now)
	}
	q.freedLocked(b)
	q.dispatchLocked(b, now)
}

// refuseTooCostlyLocked refuses those who wait for b and would wait for ever.
func (q *Queue) refuseTooCostlyLocked(b *bucket, now time.Duration) {
	for _, l := range q.lanesOf(b) {
		at, i := l.parkedAt, l.indexOf(b)
		for _, w := range l.inOrder() {
			if w.costAt(i) > b.key.Rule.maxCost {
				q.refuseLocked(w, crowdedOut, b, never, now)
			}
		}
		if at != nil && at != b {
			q.dispatchLocked(at, now)
		}
	}
}
