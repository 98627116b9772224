package leakyqueue

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Demand is what a request asks of the queue. The zero Demand is a newcomer of cost 1 in the
// queue's own bucket.
type Demand struct {
	// Cost is how much of each rate the request takes, from 1 to MaxCost. Zero: 1.
	Cost int

	// Keys are the buckets that hold the request, jointly: it leaves when all of them let it, and is
	// charged to all of them then. None: the queue's own. A key may come only once.
	Keys []Key

	// Place is the place that an earlier departure of the same request had, so that a retry goes
	// before all who came after it. Zero: a newcomer, who goes last.
	Place Place

	// Priority says who goes first where several wait. Zero: Normal.
	Priority Priority

	// Flow names those with whom the request shares a fair part of each bucket: a tenant, say, that is
	// not to be delayed by another tenant's thousands. Flows of one priority take turns, as
	// Config.Weights says. "": those who wait for the same buckets are a flow.
	Flow string

	// Delay is how long the request stays out of line before it takes its place, or a newcomer the
	// last one: others may leave meanwhile. It is part of neither MaxWaiting nor MaxWait.
	Delay time.Duration
}

// delay is Delay within its bounds.
func (d *Demand) delay() time.Duration { return min(max(d.Delay, 0), longest) }

// demandedLocked returns what a demand asks for, with its buckets in the memory of few if they fit, and
// its costs, if they differ, in that of t.
func (q *Queue) demandedLocked(few []*bucket, d *Demand, t *Ticket, now time.Duration) (_ []*bucket, r request, _ error) {
	cost := cmp.Or(d.Cost, 1)
	if cost < 1 || cost > MaxCost {
		return nil, r, invalidCost(d)
	}
	level, err := levelOf(d.Priority)
	if err != nil {
		return nil, r, err
	}
	if len(d.Keys) == 0 {
		if int64(cost) > q.own.maxCost {
			return nil, r, neverFits(cost, q.own, q.own.maxCost)
		}
		few = append(few, q.bucketLocked(Key{Rule: q.own}, now))
	}
	mixed, alias := false, false
	for i, k := range d.Keys {
		if k.Cost < 0 || k.Cost > MaxCost {
			return nil, r, invalidKeyCost(i, k.Cost)
		}
		if k.Rule == nil || k.Rule.q != q {
			return nil, r, invalidKey(i, "isn't of a rule of this queue")
		}
		if k.Rule.pool != nil && k.Value != "" {
			return nil, r, invalidMember(i, k)
		}
		b := q.bucketLocked(k, now)
		if slices.Contains(few, b) {
			if b.key.Rule == k.Rule && b.key.Value == k.Value && len(b.alsoKeys) == 0 {
				return nil, r, invalidKey(i, "is there twice")
			}
			alias = true // the upstream counts both in one
			continue
		}
		if most := min(k.Rule.maxCost, b.key.Rule.maxCost); int64(cmp.Or(k.Cost, cost)) > most {
			return nil, r, neverFits(cmp.Or(k.Cost, cost), k.Rule, most)
		}
		few = append(few, b)
		if k.Cost != 0 && k.Cost != cost {
			mixed = true
		}
	}
	r = request{key: laneKey{level, d.Flow}, place: cmp.Or(d.Place, q.places+1), cost: int64(cost)}
	if mixed {
		if t == nil {
			return nil, r, needsTicketFor("Demand.Keys have costs of their own")
		}
		t.costs = t.costs[:0]
		for i, k := range d.Keys {
			if alias && slices.ContainsFunc(d.Keys[:i], func(o Key) bool { return o.Rule.buckets[o.Value] == k.Rule.buckets[k.Value] }) {
				continue
			}
			t.costs = append(t.costs, int32(cmp.Or(k.Cost, cost)))
		}
		r.costs = t.costs
	}
	if few, r.shared = q.withLease(few, now); r.costs != nil && len(few) > len(r.costs) {
		t.costs = append(t.costs, costOfLease(few, r.costs))
		r.costs = t.costs
	}
	if q.waiting > 0 {
		r.lane = q.findLine(few).find(r.key)
	}
	return few, r, nil
}

// Errors are made in functions of their own, to keep their variables off the stack of everybody else.

//go:noinline
func invalidCost(d *Demand) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Cost is %d, want 1 to %d", ErrInvalid, d.Cost, MaxCost)
}

//go:noinline
func invalidKey(i int, why string) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Keys[%d] %s", ErrInvalid, i, why)
}

//go:noinline
func invalidMember(i int, k Key) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Keys[%d].Value is %q, want \"\": the pool %q chooses the member", ErrInvalid, i, k.Value, k.Rule.name)
}

//go:noinline
func neverFits(cost int, r *Rule, most int64) error {
	return fmt.Errorf("leakyqueue: %w: a cost of %d never leaves: %q lets %d go in a window", ErrInvalid, cost, r.name, most)
}

//go:noinline
func invalidKeyCost(i, cost int) error {
	return fmt.Errorf("leakyqueue: %w: Demand.Keys[%d].Cost is %d, want 1 to %d, or 0 for Demand.Cost", ErrInvalid, i, cost, MaxCost)
}

func needNoTicket(buckets []*bucket) error {
	for _, b := range buckets {
		if b.slots != 0 || b.pool != nil || b.learn != nil && !b.learn.calm {
			return needsTicket(b)
		}
	}
	return nil
}

//go:noinline
func needsTicket(b *bucket) error {
	if b.pool != nil {
		return needsTicketFor(fmt.Sprintf("%q is a pool", b.key))
	}
	if b.slots == 0 {
		return needsTicketFor(fmt.Sprintf("%q learns from answers", b.key))
	}
	return needsTicketFor(fmt.Sprintf("%q limits concurrency", b.key))
}

//go:noinline
func needsTicketFor(why string) error {
	return fmt.Errorf("leakyqueue: %w: %s, so the departure needs a ticket", ErrInvalid, why)
}
