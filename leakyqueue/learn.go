package leakyqueue

import (
	"math"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// Learning says what a rule makes of what upstreams answer: see [Rule.Learn]. The zero Learning is usable.
type Learning struct {
	// Unit is what the rule's costs count, in the words of [Quota].Unit: a quota that counts something else is
	// no matter of this rule. Defaults to "requests".
	Unit string

	// Spread says how what a server has left is used up until it is renewed.
	Spread limit.Spread

	// CountsOnly has refusals change nothing but what they ask for: no limit is learnt.
	CountsOnly bool
}

// keepLearnt is how long what was learnt is remembered of a bucket that nobody uses.
const keepLearnt = 15 * time.Minute

// Learn has the rule's buckets find out, from the answers to those who have left, what their upstream allows: see
// [limit.Learner] for how. Where limits are declared, they hold all the same, and only a refusal has a bucket stay
// below them. It is called before the rule is used. Departures of its buckets need a ticket as long as there is
// something to be learnt, and [Ticket.Answered] is to be called for each.
func (r *Rule) Learn(l Learning) {
	if l.Unit == "" {
		l.Unit = "requests"
	}
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	r.learning = &l
	if r.pool != nil {
		for _, m := range r.pool.members {
			r.q.learnAnewLocked(m)
		}
	}
}

// learnt is what a bucket has learnt of its upstream.
type learnt struct {
	learner limit.Learner
	quotas  []quota
	slots   *limit.Gradient // with an adaptive concurrency
	used    time.Duration   // when something left
	calm    bool            // it holds back nobody, and needn't be told of departures
}

// newLearnt returns what a new bucket has learnt, or nil if the rule doesn't learn.
func (r *Rule) newLearnt() *learnt {
	minRate, maxRate, rates := r.set.AdaptiveRate()
	minSlots, maxSlots, adapts := r.set.AdaptiveConcurrency()
	rates = rates && r.pacer == nil // else the fleet learns it
	if r.learning == nil && !rates && !adapts {
		return nil
	}
	bounds := limit.LearnerBounds{Passive: r.learning != nil && r.learning.CountsOnly}
	if rates {
		bounds = limit.LearnerBounds{Min: minRate, Max: maxRate}
	}
	if declared := r.set.Rate(); declared > 0 {
		bounds.Declared = declared
	}
	// Whoever declares a limit knows how to begin.
	bounds.NoWindow = bounds.Declared > 0 || rates || r.set.Slots() > 0 || adapts || r.set.MaxCost() < MaxCost
	l := &learnt{learner: *limit.NewLearner(bounds)}
	if adapts {
		l.slots = new(limit.NewGradient(minSlots, maxSlots))
	}
	l.calm = l.learner.Calm() && l.slots == nil
	return l
}

// crowdedUntil is when there is room again in flight, if nothing is answered; now: there is room.
func (l *learnt) crowdedUntil(now time.Duration) time.Duration {
	if l.isCalm() {
		return now
	}
	n, grows := l.learner.Slots(now)
	inFlight, _ := l.learner.InFlight()
	if n > 0 && inFlight >= n {
		return min(grows, never)
	}
	for i := range l.quotas {
		if until := l.quotas[i].AskingUntil(now); until > now {
			return until
		}
	}
	return now
}

// earliest is when a request may leave as far as what was learnt goes.
func (l *learnt) earliest(b *bucket, since time.Duration, ahead, cost int64) time.Duration {
	if l.isCalm() {
		return since
	}
	since = l.learner.Earliest(since, ahead)
	if len(l.quotas) > 0 {
		since = l.within(b, since, ahead, cost)
	}
	return since
}

// mark is by how much what was learnt adds to [bucket.mark].
func (l *learnt) mark(now time.Duration) time.Duration {
	if l.isCalm() {
		return 0
	}
	return max(0, l.learner.Earliest(now, 0)-now)
}

// departs notes that a request leaves; of one without a ticket nothing but a refusal will be heard.
func (l *learnt) departs(tracked bool, due, now time.Duration, cost int64) limit.Flight {
	l.used = now
	_, inFlight := l.learner.InFlight()
	for i := range l.quotas {
		if l.quotas[i].foreign { // what that counts isn't known
			l.quotas[i].Depart(now, 0, math.MaxInt64)
		} else {
			l.quotas[i].Depart(now, inFlight, l.learner.Sent())
		}
	}
	if !tracked {
		l.learner.Pass(due, now, cost)
		return limit.Flight{}
	}
	return l.learner.Depart(due, now, cost)
}

// isCalm reports whether departures needn't be tracked.
func (l *learnt) isCalm() bool { return l == nil || l.calm }

// calmsLocked notes whether b's departures need to be tracked.
func (q *Queue) calmsLocked(b *bucket) {
	l := b.learn
	calm := l.learner.Calm() && l.slots == nil && len(l.quotas) == 0
	if calm == l.calm {
		return
	}
	l.calm = calm
	for i := -1; i < len(b.alsoKeys); i++ {
		k := b.key
		if i >= 0 {
			k = b.alsoKeys[i]
		}
		if calm {
			k.Rule.alert.Add(-1)
		} else {
			k.Rule.alert.Add(1)
		}
	}
}

// knows reports whether what was learnt is worth remembering.
func (l *learnt) knows(now time.Duration) bool {
	if l == nil || now-l.used > keepLearnt {
		return false
	}
	if inFlight, _ := l.learner.InFlight(); inFlight > 0 || l.learner.Knows() || l.slots != nil {
		return true
	}
	for i := range l.quotas {
		if l.quotas[i].Known(now) {
			return true
		}
	}
	return false
}

// adaptSlotsLocked has as many slots as the gradient finds.
func (q *Queue) adaptSlotsLocked(b *bucket, now time.Duration) {
	n := b.learn.slots.Slots()
	if declared := b.key.Rule.set.Slots(); declared > 0 {
		n = min(n, declared)
	}
	before := b.slots
	if b.slots, b.ordinary = n, b.key.Rule.set.OrdinaryOf(n); b.fleet != nil {
		b.gate()
	}
	grew := b.slots > before
	if grew {
		q.returnedLocked(b, now)
	}
}

// because is what an upstream's answers have to do with waiting.
type because uint8

const (
	notUpstream because = iota
	limitedBy
	overloadedBy
)

var upstreams = [...]error{limitedBy: ErrLimited, overloadedBy: ErrOverloaded}

// because tells whether b holds back those who wait for what its upstream has answered.
func (b *bucket) because(now time.Duration) because {
	if b.isPool() {
		for _, m := range b.pool.members {
			if why := m.because(now); why != notUpstream {
				return why
			}
		}
		return notUpstream
	}
	switch l := b.learn; {
	case b.blamedUntil > now:
		return b.blamed
	case l != nil && l.learner.Down():
		return overloadedBy
	case l != nil && l.learner.Rate() > 0 && l.learner.Earliest(now, 0) > now:
		return limitedBy
	}
	return notUpstream
}

// learnAnewLocked forgets what was learnt under other limits, but not what the upstream counts.
func (q *Queue) learnAnewLocked(b *bucket) {
	before := b.learn
	b.learn = b.key.Rule.newLearnt()
	if b.learn != nil && before != nil {
		b.learn.learner.Inherit(&before.learner)
		b.learn.quotas = before.quotas
		b.learn.calm = b.learn.calm && len(b.learn.quotas) == 0
	}
	if calm := b.learn.isCalm(); calm != before.isCalm() {
		for _, k := range append(b.alsoKeys, b.key) {
			if calm {
				k.Rule.alert.Add(-1)
			} else {
				k.Rule.alert.Add(1)
			}
		}
	}
	if b.learn != nil && b.learn.slots != nil {
		q.adaptSlotsLocked(b, q.now())
	}
}
