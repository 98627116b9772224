package leakyqueue

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// fleet is what a bucket needs that is shared with other queues. Queue.mu guards it.
//
// The bucket's own state goes on counting what leaves from here. It holds nobody, since the lease does, until there is
// an outage: then it takes over, at a share of the limits.
type fleet struct {
	member   Member
	outage   Outage
	queues   int           // that share it; 0: unknown
	leases   bool          // it has rates or windows
	interval time.Duration // of its slowest rate; 0: it has none
	slack    time.Duration // how late a departure may be used
	keeps    bool          // what isn't used is worth giving back
	alone    *bucket       // the lease of this bucket and no other; nil: there is none yet
	joint    []*bucket     // the leases of this one and others

	gated   bool // it has a concurrency
	granted int
	until   time.Duration // nobody is to use what was granted from then on
	wanted  int           // what the pacer was told last
	toldOut int           // and of how many that are out
	touched bool          // in Queue.gates
}

// minKept is the interval above which a rate's departure that isn't used is given back: it takes longer than
// giving it back does.
const minKept = 5 * time.Millisecond

// Share has the rule's buckets be one each with those of the same name and key in other queues that the pacer has. It
// is called before the rule is used, and not for pools: their members share nothing.
//
// Rates, windows and concurrencies then hold for all of those queues together, and so do pauses. AdaptiveConcurrency
// adapts in each queue by itself. The error is [ErrInvalid] for a pool, and else the pacer's, which says what about the
// limits can't be shared.
func (r *Rule) Share(p Pacer, s Sharing) error {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	if r.pool != nil {
		return fmt.Errorf("leakyqueue: %w: %q is a pool, which can't be shared", ErrInvalid, r.name)
	}
	if err := p.Check(Shared{Rule: r.name, Limits: r.set.Limits()}); err != nil {
		return fmt.Errorf("leakyqueue: rule %q: %w", r.name, err)
	}
	r.pacer, r.sharing = p, s
	return nil
}

// sharedAs is what b is known as to the Pacer.
func (b *bucket) sharedAs() Shared {
	s := Shared{Rule: b.key.Rule.name, Key: b.key.Value, Limits: b.key.Rule.set.Limits()}
	if group := b.key.Rule.sharing.Group; group != nil {
		s.Group = group(s.Key)
	}
	return s
}

// joinFleet has a new bucket be shared.
func (q *Queue) joinFleet(b *bucket) {
	b.fleet = &fleet{until: never}
	b.fleet.declare(b.key.Rule.set)
	b.fleet.member = b.key.Rule.pacer.Join(b.sharedAs(), &watching{q, b})
	b.gate()
}

// declare takes up what the limits are.
func (f *fleet) declare(set limit.Set) {
	f.leases, f.gated, f.slack = false, set.Slots() > 0, math.MaxInt64
	if f.interval = 0; set.Rate() > 0 {
		f.interval = time.Duration(min(float64(time.Second)/set.Rate(), float64(longest)))
	}
	f.keeps = f.interval >= minKept
	for _, l := range set.Limits() {
		if _, ok := l.Slots(); ok {
			continue
		}
		f.leases = true
		if _, d, ok := l.Window(); ok {
			f.keeps = true
			f.slack = min(f.slack, d/100, 50*time.Millisecond)
		}
	}
	if _, _, adapts := set.AdaptiveConcurrency(); adapts && len(set.Limits()) == 1 {
		f.leases = false
	}
}

// leaveFleet ends it for a bucket that is forgotten.
func (q *Queue) leaveFleet(b *bucket) {
	for len(b.fleet.joint) > 0 {
		q.dropLease(b.fleet.joint[0])
	}
	if b.fleet.alone != nil {
		q.dropLease(b.fleet.alone)
	}
	b.fleet.member.Leave(b.out)
}

// leaveAllLocked ends it for all: the queue is closed.
func (q *Queue) leaveAllLocked() {
	for b := range q.all {
		if b.fleet != nil {
			q.leaveFleet(b)
		}
	}
}

// allLeases calls f for each lease of b.
func (f *fleet) allLeases(do func(*lease)) {
	if f.alone != nil {
		do(f.alone.lease)
	}
	for _, b := range f.joint {
		do(b.lease)
	}
}

// holdsNobody reports whether b's own rates and windows are for another to look after, or nobody.
func (b *bucket) holdsNobody() bool { return b.fleet != nil && b.fleet.outage.Mode != ShareLocally }

// gate has b have as many slots as it was granted.
func (b *bucket) gate() {
	if !b.fleet.gated {
		return
	}
	set := b.key.Rule.set
	switch b.fleet.outage.Mode {
	case ShareLocally:
		b.slots = max(1, int(float64(set.Slots())*b.fleet.outage.Share))
	case LetAllGo:
		b.slots = limit.MaxConcurrent
	default:
		b.slots = b.fleet.granted
	}
	if b.learn != nil && b.learn.slots != nil {
		b.slots = min(b.slots, b.learn.slots.Slots())
	}
	if b.slots <= 0 {
		b.slots, b.ordinary = -1, -1 // 0 is any number
		return
	}
	b.ordinary = set.OrdinaryOf(b.slots)
}

// gateShut reports whether the slots may be those of others by now, since it was not heard in time that they are still held
// here. That is looked at for each departure, and not left to a timer: a process that was halted goes on anywhere.
func (b *bucket) gateShut(now time.Duration) bool {
	return b.fleet != nil && now >= b.fleet.until && b.fleet.outage.Mode == NoOutage
}

// touchGate has the slots be looked at that b asks for.
func (q *Queue) touchGate(b *bucket) {
	if f := b.fleet; f != nil && f.gated && !f.touched {
		f.touched = true
		q.gates = append(q.gates, b)
	}
}

// wantsLocked is how many slots b wants, if that is to be told.
func (b *bucket) wantsLocked() (want int, tell bool) {
	f := b.fleet
	want = min(b.out+b.waiting, b.key.Rule.set.Slots())
	switch {
	case want > f.wanted, want <= f.wanted/2 && f.wanted > 0, f.toldOut > f.granted && b.out < f.toldOut:
		f.wanted, f.toldOut = want, b.out
		return want, true
	}
	return want, false
}

// askLocked tells pacers what is wanted of them.
func (q *Queue) askLocked(now time.Duration) {
	if q.closed {
		q.touched, q.gates = nil, nil
		return
	}
	for len(q.touched) > 0 {
		l := q.touched[len(q.touched)-1]
		q.touched = q.touched[:len(q.touched)-1]
		l.touched = false
		if ask, ok := l.asksLocked(now); ok {
			q.openLease(l)
			l.with.from.Ask(ask)
		} else if !l.asking && len(l.hand) == 0 && l.at.parked.n > 0 && l.notUntil <= now && l.looked != q.round {
			// Nobody has a slot to leave with: they are to wait for that, not here.
			l.looked = q.round
			q.dispatchLocked(l.at, now)
		}
	}
	for len(q.gates) > 0 {
		b := q.gates[len(q.gates)-1]
		q.gates = q.gates[:len(q.gates)-1]
		b.fleet.touched = false
		if want, tell := b.wantsLocked(); tell && !b.gone {
			b.fleet.member.Slots(want, b.out)
		}
	}
}

// pauseFleetLocked pauses b here and in the rest of the fleet.
func (q *Queue) pauseFleetLocked(b *bucket, end, now time.Duration) {
	if b.fleet != nil && end > now {
		b.fleet.member.Pause(q.epoch.Add(end))
	}
	q.pauseLocked(b, end, now)
}

// watching is told what happens to a shared bucket elsewhere.
type watching struct {
	q *Queue
	b *bucket
}

func (w *watching) do(f func(b *bucket, now time.Duration)) {
	w.q.mu.Lock()
	now := w.q.now()
	if !w.b.gone {
		f(w.b, now)
	}
	w.q.unlock(now)
}

func (w *watching) Paused(until time.Time) {
	w.do(func(b *bucket, now time.Duration) { w.q.pauseLocked(b, until.Sub(w.q.epoch), now) })
}

func (w *watching) Resumed() { w.do(w.q.resumeLocked) }

func (w *watching) Slots(n int, until time.Time, lost bool) (out int) {
	w.do(func(b *bucket, now time.Duration) {
		b.fleet.granted, b.fleet.until = n, never
		if !until.IsZero() {
			b.fleet.until = until.Sub(w.q.epoch)
		}
		defer func() { out = b.out }()
		if lost {
			b.counts.SlotsLost++
		}
		b.gate()
		b.fleet.toldOut = b.out
		w.q.touchGate(b)
		w.q.returnedLocked(b, now)
	})
	return out
}

// Queues takes up how many share the bucket: what an upstream says is left is for all of them.
func (w *watching) Queues(n int) {
	w.do(func(b *bucket, now time.Duration) {
		fewer := n < b.fleet.queues
		b.fleet.queues = n
		if fewer {
			w.q.returnedLocked(b, now)
		}
	})
}

// Sooner has what is leased for later be leased anew.
func (w *watching) Sooner(after time.Time) {
	w.do(func(b *bucket, now time.Duration) {
		t := after.Sub(w.q.epoch)
		b.fleet.allLeases(func(l *lease) {
			n := 0
			for n < len(l.hand) && l.hand[len(l.hand)-1-n].due > t {
				n++
			}
			l.tail = min(l.tail, max(t, now)) // what it was isn't so any more
			if n > 0 {
				l.giveBack(n)
				w.q.touch(l)
				w.q.dispatchLocked(l.at, now)
			}
		})
	})
}

// Outage has the bucket's own state take over, or the lease. Of the limits that state has a share, in which what has
// left from here counts, and no burst: it follows on what was leased.
func (w *watching) Outage(o Outage) {
	w.do(func(b *bucket, now time.Duration) {
		f, q := b.fleet, w.q
		if f.outage == o {
			return
		}
		f.outage = o
		set := b.key.Rule.set
		switch o.Mode {
		case ShareLocally:
			b.state = shareOf(set, o.Share).Adopt(&b.state, now)
			b.state.Drain(now)
		case NoOutage:
			b.state = set.Adopt(&b.state, now)
		}
		b.unpaused = nil
		b.gate()
		f.allLeases(func(l *lease) {
			l.giveBack(len(l.hand))
			q.touch(l)
		})
		if o.Mode == RefuseAll {
			q.refuseAllLocked(b, now)
			return
		}
		f.allLeases(func(l *lease) { q.dispatchLocked(l.at, now) })
		q.returnedLocked(b, now)
	})
}

// refuseAllLocked refuses who waits for b, since the store of its limits is gone.
func (q *Queue) refuseAllLocked(b *bucket, now time.Duration) {
	for _, l := range q.lanesOf(b) {
		at := l.parkedAt
		for _, w := range l.inOrder() {
			q.refuseLocked(w, noStore, b, never, now)
		}
		if at != nil {
			q.dispatchLocked(at, now)
		}
	}
}

// shareOf are the limits of which so much is this queue's.
func shareOf(set limit.Set, share float64) limit.Set {
	limits := set.Limits()
	for i, l := range limits {
		limits[i] = l.Scaled(share)
	}
	scaled, err := limit.Join(limits...)
	if err != nil { // too slow to be a limit: what is left of it is the whole
		return set
	}
	return scaled
}

// refusesAll is the first of the buckets that lets nobody go since its store is gone; nil: all do.
func refusesAll(buckets []*bucket) *bucket {
	for _, b := range buckets {
		if b.fleet != nil && b.fleet.outage.Mode == RefuseAll {
			return b
		}
	}
	return nil
}

// heard passes on what an upstream said.
func (f *fleet) heard(b *bucket, a *Answer) {
	inFlight := int64(b.out)
	if b.learn != nil {
		_, units := b.learn.learner.InFlight()
		inFlight = max(inFlight, units)
	}
	f.member.Heard(*a, int(inFlight))
}

// settleLeaseLocked corrects what was leased for a departure of b that took more, or less.
func (q *Queue) settleLeaseLocked(t *Ticket, b *bucket, more int64) {
	l := t.lease
	i := slices.Index(l.of, b)
	if i < 0 || more == 0 || l.bypassed() || t.leased.Costs == nil {
		return
	}
	if more > 0 {
		l.owed[i] += more
		l.owes = true
	} else {
		back := Leased{Token: t.leased.Token, Costs: make([]int64, len(l.of))}
		back.Costs[i] = -more
		l.back = append(l.back, back)
	}
	q.touch(l)
}
