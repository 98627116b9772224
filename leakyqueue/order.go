package leakyqueue

import (
	"fmt"
	"time"
)

// Who goes first at a bucket is decided in three steps: the higher priority; among those of one
// priority the flow that has had less; and within a flow who came first.

// A Priority says who goes first where several wait: the higher. The zero Priority is Normal.
//
// A lower priority isn't starved: while somebody of it waits at a bucket, it gets at least one of 16
// departures from there, or one of 20 where all the levels above wait, too. What a limit keeps as
// headroom is not for it even then.
type Priority int8

// The priorities that there are.
const (
	Background Priority = iota - 2
	Low
	Normal
	High // and above: may use a limit's headroom
	Urgent
)

// level is a priority as an index, the highest first.
type level uint8

const (
	levels      = int(Urgent-Background) + 1
	normalLevel = level(Urgent - Normal)
	highLevel   = level(Urgent - High)

	// turnEvery is how many departures higher levels may have in a row while a lower one waits.
	turnEvery = 15
)

// levelOf is the level of a priority, or what is wrong with it.
func levelOf(p Priority) (level, error) {
	if p < Background || p > Urgent {
		return 0, invalidPriority(p)
	}
	return level(Urgent - p), nil
}

//go:noinline
func invalidPriority(p Priority) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Priority is %d, want %d to %d", ErrInvalid, p, Background, Urgent)
}

// high reports whether the level may use what is kept as headroom.
func (l level) high() bool { return l <= highLevel }

// request is what decides on a departure: of a head, or of somebody who has just come.
type request struct {
	key   laneKey
	lane  *lane // nil: nobody else of the same key waits for the same buckets
	place Place
	cost  int64
	costs []int32 // of each of its buckets, where they aren't all the same

	shared bool // some of its buckets are
}

func (w *waiter) request() request {
	r := request{key: w.lane.key, lane: w.lane, place: w.place, cost: int64(w.cost)}
	if w.mixed {
		r.costs = w.ticket.costs
	}
	return r
}

// costAt is what the request takes of its i-th bucket.
func (r *request) costAt(i int) int64 {
	if r.costs != nil {
		return int64(r.costs[i])
	}
	return r.cost
}

// order is what a bucket knows of those who wait. One for which nobody has waited yet has none: most of
// a million keys are like that.
type order struct {
	parked parked
	shares shares
}

var noOrder order // never written to: there is no lane that could

// parked are the lanes whose head a bucket keeps from leaving.
type parked struct {
	levels [levels]heap[*lane]
	owed   [levels]uint8 // departures of higher levels since this one had its turn
	n      int
}

// front is the lane whose turn it is at b; nil: none is parked. It is of the highest level, unless a
// lower one was left out for too long, and isn't kept by the headroom.
func (b *bucket) front(now time.Duration) *lane {
	p := &b.parked
	if p.n == 0 {
		return nil
	}
	var front *lane
	for i := range p.levels {
		l := p.first(level(i))
		switch {
		case l == nil:
		case front == nil:
			front = l
		case p.owed[i] >= turnEvery && !b.keeps(l, front.key.level, b.headCost(front), now):
			return l
		}
	}
	return front
}

// keeps reports whether headroom has l, of ordinary priority, leave later than one of the given level and
// cost.
func (b *bucket) keeps(l *lane, than level, cost int64, now time.Duration) bool {
	if !than.high() || l.key.level.high() || !b.key.Rule.set.Headroom() {
		return false
	}
	if b.fullUntil(l.key.level, now) > b.fullUntil(than, now) {
		return true
	}
	return b.leaves(now, now, b.headCost(l), l.key.level) > b.leaves(now, now, cost, than)
}

// headCost is what the head of l takes of b.
func (b *bucket) headCost(l *lane) int64 { return l.head().costAt(l.indexOf(b)) }

// first is the first lane of a level. Two lanes of one flow share its count, which grows when either of
// them leaves: the other is put where it belongs when it gets to the top.
func (p *parked) first(i level) *lane {
	for {
		l, ok := p.levels[i].top()
		if !ok || int64(l.share.served-l.tag) <= 0 {
			return l
		}
		l.tag = l.share.served
		p.levels[i].fix(l)
	}
}

func (p *parked) push(l *lane) {
	p.levels[l.key.level].push(l)
	p.n++
}

func (p *parked) remove(l *lane) {
	p.levels[l.key.level].remove(l)
	p.n--
}

// departed counts a departure of one level as one that was denied to those below.
func (p *parked) departed(l level) {
	p.owed[l] = 0
	for i := int(l) + 1; i < levels; i++ {
		if len(p.levels[i]) > 0 {
			p.owed[i] = min(p.owed[i]+1, turnEvery)
		} else {
			p.owed[i] = 0
		}
	}
}

// goesBefore reports whether front, who is parked at b, has its turn before r, for whom b is the i-th
// of its buckets.
func (b *bucket) goesBefore(front *lane, r *request, i int, now time.Duration) bool {
	if front == r.lane {
		return false
	}
	if front.key.level != r.key.level {
		return front.key.level < r.key.level ||
			b.parked.owed[front.key.level] >= turnEvery && !b.keeps(front, r.key.level, r.costAt(i), now)
	}
	if tag := b.tagOf(r, i); tag != front.tag {
		return int64(front.tag-tag) < 0
	}
	return front.head().place < r.place
}

// tagOf is what the order at b makes of r's flow.
func (b *bucket) tagOf(r *request, i int) uint64 {
	virtual := b.shares.virtual[r.key.level]
	if r.lane == nil {
		return virtual
	}
	return later(virtual, r.lane.shares[i].served)
}

// refix puts l, which is parked at b, where it belongs after its head has changed.
func (b *bucket) refix(l *lane) {
	b.parked.levels[l.key.level].fix(l)
}

// mayMove reports whether l, which has its turn, gives way once more to who goes first elsewhere. Each
// bucket has an order of its own, so that without a bound two lanes might give way to each other for
// ever.
func (q *Queue) mayMove(l *lane) bool {
	if l.round != q.round {
		l.round, l.moves = q.round, 0
	}
	l.moves++
	return l.moves <= 2*len(l.line.buckets)
}

// firstPlace is that of the oldest head parked, for a stable order of what is due at once.
func (p *parked) firstPlace() Place {
	for i := range p.levels {
		if l, ok := p.levels[i].top(); ok {
			return l.head().place
		}
	}
	return 0
}

// departs notes a departure of r from b, the i-th of its buckets, for the order of the others.
func (b *bucket) departs(r *request, i int) {
	if r.lane != nil {
		b.shares.serve(r.lane.shares[i], r.key.level, r.costAt(i), r.lane.weight)
	}
	if b.parked.n > 0 {
		b.parked.departed(r.key.level)
	}
}
