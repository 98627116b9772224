package leakyqueue

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// A Rule is a set of limits that hold for each of its keys alike: every key has a bucket of its own.
// It belongs to the queue that made it, and is safe for concurrent use.
type Rule struct {
	q     *Queue
	name  string
	slots atomic.Int64 // of set
	alert atomic.Int64 // buckets that aren't calm
	pool  *pool        // nil: it isn't one

	// Guarded by Queue.mu.
	set     limit.Set
	maxCost int64              // the highest that ever fits
	buckets map[string]*bucket // by key
	plain   *bucket            // that of the key "", which many rules have alone
	most    int                // buckets that there were since the map was made

	learning *Learning // nil: it learns nothing; never changes once the rule is in use
	pacer    Pacer     // nil: its buckets are this queue's alone; never changes either
	sharing  Sharing
}

// Name returns the name the rule was made with.
func (r *Rule) Name() string { return r.name }

// Slots returns how many requests of one key may be out at once; 0: any number.
func (r *Rule) Slots() int { return int(r.slots.Load()) }

// A Key names one bucket of a rule.
type Key struct {
	Rule  *Rule
	Value string // "" is a key like any other; of a pool it is the pool, and others are its members

	// Cost is how much the request takes of this bucket's rates, where that isn't Demand.Cost: tokens of
	// one rule and a single request of another, say. From 1 to MaxCost; zero: Demand.Cost.
	Cost int
}

func (k Key) String() string {
	if k.Value == "" {
		return k.Rule.name
	}
	return k.Rule.name + " " + k.Value
}

// bucket is the live state of a rule's limits for one key. Queue.mu guards all of it.
type bucket struct {
	id    uint64
	key   Key
	state limit.State

	pool *pool // that it is, or is a member of; nil: it has nothing to do with any

	slots    int           // 0: any number
	ordinary int           // how many of them are for ordinary priorities, while high ones are about
	out      int           // departed with a ticket that isn't given back
	highSeen time.Duration // when somebody of high priority last came or left

	fleet    *fleet  // nil: it is shared with no other queue
	lease    *lease  // that requests wait for here; nil: it isn't one's
	learn    *learnt // nil: it learns nothing
	named    string  // the upstream's name of it
	alsoKeys []Key   // further keys that have this bucket
	gone     bool    // it is forgotten, or another bucket has its keys:
	into     *bucket // this one

	pausedUntil time.Duration
	unpaused    *limit.State  // state without the pause; nil: something has left since
	shutUntil   time.Duration // until then nobody may even wait: the pause is beyond MaxPause
	saidUntil   time.Duration // how long that pause really is

	blamed      because       // the latest refusal
	blamedUntil time.Duration // how long it pauses

	// Whoever came after claimedBy doesn't leave before claimedUntil, or doesn't take the last slot:
	// see passOverLocked.
	claimedBy    Place // 0: nobody
	claimedUntil time.Duration

	alone *line              // those who wait for this bucket and no other; nil: nobody does
	joint map[*line]struct{} // those who wait for others, too

	// Until mark gets there, nobody who waits here misses its deadline: a pause has nobody to tell.
	inTimeUntil time.Duration

	// wake is when the first of those parked here may leave as far as this bucket goes; never when a slot
	// must come back first.
	*order
	wake      time.Duration
	wakeIndex int32
	scheduled bool // in Queue.wakes

	waiting int // in lanes that this bucket holds, parked here or not
	counts  Counts

	used  time.Duration
	inUse links[bucket] // in Queue.buckets
}

func bucketLinks(b *bucket) *links[bucket] { return &b.inUse }

// before has the oldest head go first where buckets wake at the same moment, so that it isn't passed
// over at one bucket while the other's turn comes.
func (b *bucket) before(o *bucket) bool {
	if b.wake != o.wake {
		return b.wake < o.wake
	}
	return b.parked.firstPlace() < o.parked.firstPlace()
}

func (b *bucket) index() *int32 { return &b.wakeIndex }

// lentAfter is how long nobody of high priority must have been seen for the slots that are kept for
// them to be lent out.
const lentAfter = time.Minute

// fullUntil is when there is a slot again for somebody of the given level, if none is given back; now:
// there is one.
func (b *bucket) fullUntil(l level, now time.Duration) time.Duration {
	if !b.learn.isCalm() {
		if until := b.learn.crowdedUntil(now); until > now {
			return until
		}
	}
	switch {
	case b.slots == 0 && !b.isPool():
		return now
	case b.isPool():
		return b.pool.fullUntil(l, now)
	case b.gateShut(now):
		return never
	case b.out < b.ordinary:
		return now
	case b.out >= b.slots:
		return never
	}
	lent := b.place().highSeen + lentAfter
	if l.high() || lent <= now {
		return now
	}
	return lent
}

// claimed reports whether somebody who came before place has claimed b.
func (b *bucket) claimed(place Place, now time.Duration) bool {
	return b.claimedBy != 0 && b.claimedBy < place && b.claimedUntil > now
}

// departure is how long the rates take for one departure of those who wait here.
func (b *bucket) departure(now time.Duration) time.Duration {
	cost := int64(1)
	if front := b.front(now); front != nil {
		cost = b.headCost(front)
	}
	if b.isPool() {
		return b.takes(cost) / time.Duration(len(b.pool.members))
	}
	return b.takes(cost)
}

// takes is how long the rates take for a cost; those of a pool take no longer.
func (b *bucket) takes(cost int64) time.Duration {
	if b.isPool() {
		b = b.pool.members[0]
	}
	one := b.state.Interval()
	if one > longest/time.Duration(cost) {
		return longest
	}
	return one * time.Duration(cost)
}

// mark grows by at least as much as the turns of those who wait here get later, but for one leap.
func (b *bucket) mark(now time.Duration) time.Duration {
	if b.isPool() {
		return b.pool.mark(now)
	}
	if b.lease != nil {
		return max(now, b.lease.tail)
	}
	return b.state.Mark(max(now, b.pausedUntil)) + b.learn.mark(now)
}

// leap is by how much the turns of those who wait here may get later without mark growing.
func (b *bucket) leap() time.Duration {
	if b.isPool() {
		return b.pool.leap()
	}
	return b.state.Leap()
}

// expect notes that somebody waits whose turn may come later by margin, but not more.
func (b *bucket) expect(margin, now time.Duration) {
	if margin < longest {
		b.inTimeUntil = min(b.inTimeUntil, b.mark(now)+margin-b.leap())
	}
}

// freedLocked has those looked at again who wait for b and are parked elsewhere, since b lets go earlier
// than was to be expected. That matters where a window is in it: it may have been asked about the moment at
// which b lets go, and be open sooner.
func (q *Queue) freedLocked(b *bucket) {
	for n := range b.place().joint {
		for _, l := range n.lanes() {
			if at := l.parkedAt; at != nil && at != b && at.state.Leap() > 0 {
				q.stirred = append(q.stirred, at)
			}
		}
	}
}

// hurry notes that those who wait here have d less than was expected.
func (b *bucket) hurry(d time.Duration) {
	if b.inTimeUntil != never && d > 0 {
		b.inTimeUntil -= d
	}
}

// settle corrects what was charged for a departure that was due at due and left at left.
func (b *bucket) settle(due, left time.Duration, from, to int64, now time.Duration) {
	at := b.place()
	before := at.mark(now)
	b.state.Settle(due, left, from, to)
	if b.unpaused != nil {
		b.unpaused.Settle(due, left, from, to)
	}
	at.hurry(before - at.mark(now)) // who was no later for the charge is no earlier now
}

// earliest is when a request of the given cost and level may leave as far as b's rates, windows and
// pauses go: see [limit.State.Earliest].
func (b *bucket) earliest(since, now time.Duration, ahead, cost int64, l level) time.Duration {
	if b.isPool() {
		return b.pool.earliest(since, now, ahead, cost, l)
	}
	if b.lease != nil {
		return b.lease.earliest(since, now, ahead, cost)
	}
	since = b.learn.earliest(b, max(since, b.pausedUntil), ahead, cost)
	if b.holdsNobody() {
		return since
	}
	return b.state.Earliest(since, now, ahead, cost, l.high())
}

// idle reports whether a new bucket would do exactly as this one does.
func (b *bucket) idle(now time.Duration) bool {
	return b.waiting == 0 && b.out == 0 && b.pausedUntil <= now && b.shutUntil <= now && b.state.Full(now) && !b.learn.knows(now)
}

// bucketLocked returns the bucket of a key and makes it if need be.
func (q *Queue) bucketLocked(k Key, now time.Duration) *bucket {
	if b := k.Rule.plain; b != nil && k.Value == "" {
		return b
	}
	if b := k.Rule.buckets[k.Value]; b != nil {
		return b
	}
	return q.newBucket(k, now)
}

//go:noinline
func (q *Queue) newBucket(k Key, now time.Duration) *bucket {
	b := q.makeBucket(k, now)
	q.buckets.push(b)
	return b
}

// makeBucket makes a bucket that is never forgotten, unless it is in Queue.buckets.
func (q *Queue) makeBucket(k Key, now time.Duration) *bucket {
	q.ids++
	k.Cost = 0 // which is of one demand
	b := &bucket{id: q.ids, key: k, state: k.Rule.set.NewState(q.epoch, k.Value), slots: k.Rule.set.Slots(), ordinary: k.Rule.set.OrdinarySlots(), highSeen: -longest, order: &noOrder, wake: never, used: now}
	k.Rule.buckets[k.Value] = b
	if k.Value == "" {
		k.Rule.plain = b
	}
	if b.learn = k.Rule.newLearnt(); b.learn != nil {
		if !b.learn.calm {
			k.Rule.alert.Add(1)
		}
		if b.learn.slots != nil {
			q.adaptSlotsLocked(b, now)
		}
	}
	if k.Rule.pacer != nil {
		q.joinFleet(b)
	}
	return b
}

// usedLocked marks b as used now, the most recently of all. Those of pools aren't forgotten.
func (q *Queue) usedLocked(b *bucket, now time.Duration) {
	b.used = now
	if q.buckets.back != b && b.pool == nil && b.lease == nil {
		q.buckets.remove(b)
		q.buckets.push(b)
	}
}

// forget forgets a bucket.
func (q *Queue) forget(b *bucket) {
	b.gone = true
	q.forgetName(b)
	if b.fleet != nil {
		q.leaveFleet(b)
	}
	for _, k := range append(b.alsoKeys, b.key) {
		k.Rule.forget(k.Value)
		if !b.learn.isCalm() {
			k.Rule.alert.Add(-1)
		}
	}
}

// forget forgets a key. A map doesn't shrink by itself, so one of which little is left is copied.
func (r *Rule) forget(value string) {
	r.most = max(r.most, len(r.buckets))
	delete(r.buckets, value)
	if value == "" {
		r.plain = nil
	}
	if r.most > 1000 && len(r.buckets) < r.most/64 {
		few := make(map[string]*bucket, len(r.buckets))
		maps.Copy(few, r.buckets)
		r.buckets, r.most = few, len(few)
	}
}

// evictLocked forgets buckets that were not used for idleAfter and are as good as new. It looks at a
// bounded number of them, so that nobody waits for a great clean-up; the timer comes back for more.
func (q *Queue) evictLocked(now time.Duration) {
	for range evictAtOnce {
		b := q.buckets.front
		if b == nil || b.used+idleAfter > now {
			return
		}
		if b.idle(now) {
			q.buckets.remove(b)
			q.forget(b)
		} else {
			q.usedLocked(b, now) // looked at again after idleAfter
		}
	}
}
