package leakyqueue

import (
	"encoding/binary"
	"slices"
	"sort"
	"time"
)

// Requests of shared buckets wait for those as for any other, and beside them for a bucket of their own: that of the
// lease, whose departures are at hand or have been asked for. It comes last among their buckets. Thereby whoever waits
// is in order at the lease, in the order that every bucket has.

// lease is what makes a bucket that of a lease. Queue.mu guards all of it.
type lease struct {
	q    *Queue
	at   *bucket
	id   string    // of the buckets, in Queue.leases; "": there is one, and this is its own
	of   []*bucket // those that are shared, in the order of the demand
	with *tenancy  // nil: it isn't open

	hand     []leased      // first due first
	gone     int64         // the total up to those that are no longer at hand
	total    int64         // the total of all that ever came
	tail     time.Duration // when one more was to be due, as of the last grant
	lead     time.Duration
	asking   bool
	notUntil time.Duration // nothing is to be asked for before
	owed     []int64
	owes     bool
	taken    Leased // last
	back     []Leased
	touched  bool   // in Queue.touched
	looked   uint64 // Queue.round in which those were looked at who wait, although nothing is asked for
}

// tenancy is a lease while it is open with one Lessor, who may have an answer for one that isn't any more.
type tenancy struct {
	lease *lease
	from  Lessor
}

// leased is a departure at hand.
type leased struct {
	due   time.Duration
	until time.Duration // afterwards it is stale
	total int64         // of units, up to and with this one
	units int64
	Leased
}

// withLease appends the bucket of the lease of those of the buckets that are shared, if any is.
func (q *Queue) withLease(buckets []*bucket, now time.Duration) (_ []*bucket, shared bool) {
	var leased *bucket
	for _, b := range buckets {
		if b.fleet == nil {
			continue
		}
		shared = true
		switch {
		case !b.fleet.leases:
		case leased == nil:
			leased = b
		default:
			return append(buckets, q.jointLease(buckets, now)), true
		}
	}
	if leased == nil {
		return buckets, shared
	}
	if leased.fleet.alone == nil {
		leased.fleet.alone = q.newLease("", []*bucket{leased}, now)
	}
	return append(buckets, leased.fleet.alone), true
}

// costOfLease is what counts as the cost in a lease: the highest of those in the buckets that it is of.
func costOfLease(buckets []*bucket, costs []int32) int32 {
	var most int32
	for i, c := range costs {
		if f := buckets[i].fleet; f != nil && f.leases {
			most = max(most, c)
		}
	}
	return most
}

//go:noinline
func (q *Queue) jointLease(buckets []*bucket, now time.Duration) *bucket {
	var few [4]*bucket
	of := few[:0]
	for _, b := range buckets {
		if b.fleet != nil && b.fleet.leases {
			of = append(of, b)
		}
	}
	var fewer [4 * binary.MaxVarintLen64]byte
	id := appendLineID(fewer[:0], of)
	if b := q.leases[string(id)]; b != nil {
		return b
	}
	b := q.newLease(string(id), slices.Clone(of), now)
	if q.leases == nil {
		q.leases = make(map[string]*bucket)
	}
	q.leases[b.lease.id] = b
	for _, s := range b.lease.of {
		s.fleet.joint = append(s.fleet.joint, b)
	}
	return b
}

//go:noinline
func (q *Queue) newLease(id string, of []*bucket, now time.Duration) *bucket {
	q.ids++
	b := &bucket{id: q.ids, key: of[len(of)-1].key, highSeen: -longest, order: &noOrder, wake: never, used: now}
	b.lease = &lease{q: q, at: b, id: id, of: of, owed: make([]int64, len(of)), tail: now}
	return b
}

// dropLease forgets a lease of a bucket that is forgotten.
func (q *Queue) dropLease(b *bucket) {
	l := b.lease
	if l.id != "" {
		delete(q.leases, l.id)
		for _, s := range l.of {
			s.fleet.joint = slices.DeleteFunc(s.fleet.joint, func(o *bucket) bool { return o == b })
		}
	}
	q.closeLease(l)
}

// closeLease gives back what is at hand. The lease opens again when it has to ask.
func (q *Queue) closeLease(l *lease) {
	l.giveBack(len(l.hand))
	if l.with != nil {
		l.with.from.Close(l.back, l.owed)
	}
	l.with, l.asking, l.back, l.owed, l.owes = nil, false, nil, make([]int64, len(l.of)), false
}

// openLease has a lease be open.
func (q *Queue) openLease(l *lease) {
	if l.with != nil {
		return
	}
	of := make([]Shared, len(l.of))
	for i, b := range l.of {
		of[i] = b.sharedAs()
	}
	l.with = &tenancy{lease: l}
	l.with.from = l.of[0].key.Rule.pacer.Open(of, l.with)
}

// bypassed reports whether nothing is leased, since it can't be: what the buckets have is to be gone by.
func (l *lease) bypassed() bool {
	for _, b := range l.of {
		if b.fleet.outage.Mode != NoOutage {
			return true
		}
	}
	return false
}

// atHand is how many units there are.
func (l *lease) atHand() int64 { return l.total - l.gone }

// leaves is when a request may leave as far as is known: never if nothing is at hand for it.
func (l *lease) leaves(since, now time.Duration, cost int64) time.Duration {
	if l.bypassed() {
		return since
	}
	l.prune(now)
	if i := l.covers(cost); i < len(l.hand) {
		return max(since, l.hand[i].due)
	}
	if l.notUntil > now {
		return l.notUntil
	}
	if since > now+l.lead {
		return since // there is time to ask until then
	}
	l.q.touch(l)
	return never
}

// covers is the index of the departure with which those at hand add up to so many units.
func (l *lease) covers(units int64) int {
	if len(l.hand) > 0 && l.hand[0].total-l.gone >= units {
		return 0
	}
	return sort.Search(len(l.hand), func(i int) bool { return l.hand[i].total-l.gone >= units })
}

// earliest is a lower bound of when a request may leave behind others: what is not at hand is leased
// at the tail.
func (l *lease) earliest(since, now time.Duration, ahead, cost int64) time.Duration {
	if l.bypassed() {
		return since
	}
	l.prune(now)
	if i := l.covers(ahead + cost); i < len(l.hand) {
		return max(since, l.hand[i].due)
	}
	t := max(l.tail, now)
	if l.tail > now { // the rates are at their bounds, and whoever comes is behind
		for _, b := range l.of {
			one := b.fleet.interval
			if n := ahead + cost - l.atHand() - 1; n > 0 && one > 0 {
				t = max(t, l.tail+min(longest, time.Duration(min(float64(one)*float64(n), float64(longest)))))
			}
		}
	}
	return max(since, t)
}

// leaseSlack is how late a leased departure may be used at least, unless there is to be no slack at all. One that isn't
// used is lost to the fleet, and where processes wait for a CPU timers are late by 20 to 40 ms.
const leaseSlack = 50 * time.Millisecond

// slack is how late a departure may be used: of what windows count no later than their guard, and what it takes to come
// here.
func (l *lease) slack() time.Duration {
	slack := l.q.cfg.Slack
	if slack > 0 {
		slack = max(slack, leaseSlack)
	}
	for _, b := range l.of {
		slack = min(slack, b.fleet.slack)
	}
	return slack + l.lead
}

// prune drops departures that nobody has used for too long.
func (l *lease) prune(now time.Duration) {
	if len(l.hand) == 0 || l.hand[0].due >= now {
		return
	}
	n := 0
	for n < len(l.hand) && l.hand[n].until < now {
		n++
	}
	if n > 0 {
		l.giveBackFirst(n)
	}
}

func (l *lease) giveBackFirst(n int) {
	for i := range n {
		l.back = append(l.back, l.hand[i].Leased)
	}
	l.gone = l.hand[n-1].total
	l.hand = slices.Delete(l.hand, 0, n)
	l.q.touch(l)
}

// giveBack gives back the last n at hand.
func (l *lease) giveBack(n int) {
	from := len(l.hand) - n
	for i := from; i < len(l.hand); i++ {
		l.back = append(l.back, l.hand[i].Leased)
		l.total -= l.hand[i].units
	}
	l.hand = l.hand[:from]
}

// take uses what is at hand for a request that leaves from the buckets.
func (l *lease) take(buckets []*bucket, r *request) {
	if l.bypassed() {
		return
	}
	n := l.covers(r.costAt(len(buckets)-1)) + 1
	if n > len(l.hand) { // cannot be: it was asked whether it may leave
		n = len(l.hand)
	}
	if n > 0 {
		l.settle(buckets, r, n)
		l.gone, l.taken = l.hand[n-1].total, l.hand[n-1].Leased
	}
	if n == len(l.hand) {
		l.hand = l.hand[:0]
	} else {
		l.hand = l.hand[n:]
	}
	l.q.touch(l)
}

// settle corrects what was leased with the first n at hand, which are for other costs than r's, mostly of another.
func (l *lease) settle(buckets []*bucket, r *request, n int) {
	var surplus []int64
	j := 0
	for i, b := range buckets {
		if j == len(l.of) || b != l.of[j] {
			continue
		}
		more := r.costAt(i)
		for k := range n {
			more -= l.hand[k].Costs[j]
		}
		switch {
		case more > 0:
			l.owed[j] += more
			l.owes = true
		case more < 0:
			if surplus == nil {
				surplus = make([]int64, len(l.of))
			}
			surplus[j] = min(-more, l.hand[n-1].Costs[j])
		}
		j++
	}
	if surplus != nil {
		l.back = append(l.back, Leased{Token: l.hand[n-1].Token, Costs: surplus})
	}
}

// touch has the lease be looked at before the lock is given up: it may have to ask for more, or give back.
func (q *Queue) touch(l *lease) {
	if !l.touched {
		l.touched = true
		q.touched = append(q.touched, l)
	}
}

// Granted takes what was leased. It is for the Lessor.
func (t *tenancy) Granted(g Grant) {
	l := t.lease
	q := l.q
	q.mu.Lock()
	now := q.now()
	if t != l.with { // it was closed meanwhile
		if len(g.Leased) > 0 {
			t.from.Close(g.Leased, nil)
		}
		q.unlock(now)
		return
	}
	l.asking = false
	from := g.From.Sub(q.epoch)
	l.tail, l.lead = from+g.Tail, g.Lead
	l.notUntil = now + max(0, g.Retry)
	l.holdLocked(g.Leased, from, now)
	q.touch(l)
	b := l.at
	if b.waiting > 0 && b.mark(now) >= b.inTimeUntil {
		q.tellLateLocked(b, now)
	}
	q.dispatchLocked(b, now)
	q.unlock(now)
}

// holdLocked has departures be at hand, unless they are void already.
func (l *lease) holdLocked(came []Leased, from, now time.Duration) {
	var notBefore time.Duration
	for _, b := range l.of {
		notBefore = max(notBefore, b.pausedUntil)
	}
	slack, bypassed := l.slack(), l.bypassed()
	for _, d := range came {
		due := from + d.Due
		if due < notBefore || bypassed || len(d.Costs) != len(l.of) {
			l.back = append(l.back, d)
			continue
		}
		if n := len(l.hand); n > 0 {
			due = max(due, l.hand[n-1].due)
		}
		units := slices.Max(d.Costs)
		l.total += units
		l.hand = append(l.hand, leased{due: due, until: due + slack, total: l.total, units: units, Leased: d})
	}
}

// voidLocked gives back what is due before t: a pause lasts until then.
func (l *lease) voidLocked(t time.Duration) {
	n := sort.Search(len(l.hand), func(i int) bool { return l.hand[i].due >= t })
	if n > 0 {
		l.giveBackFirst(n)
	}
}
