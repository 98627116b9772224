package limit

import (
	"fmt"
	"slices"
	"time"
)

// A Set is several limits that hold jointly: a departure waits for the latest of their answers, and
// is then charged to all of them. The zero Set holds nobody back. A Set is immutable.
type Set struct {
	limits []Limit
	rates  []meter
	slots  int
}

// meter is what a rate's arithmetic needs of its declaration.
type meter struct {
	interval span
	burst    int64
}

// Join compiles limits into a Set. Its error wraps [ErrInvalid], and says which of them is wrong and
// why. Of several concurrencies the smallest counts.
func Join(limits ...Limit) (Set, error) {
	var s Set
	for i, l := range limits {
		if err := l.Validate(); err != nil {
			return Set{}, fmt.Errorf("limits[%d]: %w", i, err)
		}
		switch l.kind {
		case rateLimit:
			s.rates = append(s.rates, meter{interval: l.interval(), burst: int64(l.burst)})
		case concurrency:
			if n := int(l.n); s.slots == 0 || n < s.slots {
				s.slots = n
			}
		}
	}
	s.limits = slices.Clone(limits)
	return s, nil
}

// Limits returns a copy of what was joined, in its order.
func (s Set) Limits() []Limit { return slices.Clone(s.limits) }

// Slots returns how many requests may be out at once; 0: any number.
func (s Set) Slots() int { return s.slots }

// NewState returns the state of a bucket from which nothing has left yet: its bursts are full.
func (s Set) NewState() State {
	st := State{rates: s.rates}
	if len(s.rates) > 0 {
		st.tats = make([]span, len(s.rates))
	}
	return st
}

// A State is what a bucket remembers of its departures. It isn't safe for concurrent use. The zero
// State is that of the zero Set.
type State struct {
	rates   []meter
	tats    []span        // the theoretical arrival time of each rate
	last    time.Duration // the latest moment charged
	drained time.Duration // charges before this moment aren't refunded
}

// Clone returns a state that goes its own way from here.
func (st *State) Clone() State {
	c := *st
	c.tats = slices.Clone(st.tats)
	return c
}

// Earliest returns the first moment, not before now, at which a request of the given cost may leave
// when all of ahead, the costs of those before it, have left as soon as they could. It changes
// nothing. The cost is 1 or more, ahead 0 or more. The answer is never too late, and for a single rate
// it is exact, as long as nothing else holds those ahead.
func (st *State) Earliest(now time.Duration, ahead, cost int64) time.Duration {
	t := now
	for i := range st.rates {
		m := &st.rates[i]
		tat := st.tats[i]
		if ahead > 0 {
			tat = tat.max(at(now)).add(m.interval.times(ahead))
		}
		if spare := m.burst - cost; spare > 0 {
			tat = tat.sub(m.interval.times(spare))
		}
		if r := tat.ceil(); r > t {
			t = r
		}
	}
	return t
}

// Charge takes the cost of a departure at t, which is a moment that [State.Earliest] allowed for
// that cost. A moment before that is charged as debt: those who come later wait for it.
func (st *State) Charge(t time.Duration, cost int64) {
	st.last = max(st.last, t)
	for i := range st.rates {
		tat := st.tats[i]
		// t is a whole nanosecond. Where it is the first after the exact moment, which is kept,
		// rounding doesn't add up.
		if tat.ceil() < t {
			tat = at(t)
		}
		st.tats[i] = tat.add(st.rates[i].interval.times(cost))
	}
}

// Refund gives back what was charged at t for a departure that did not take place. Where others were
// charged since then, whose departures came at the time they did because of it, less is given back, or
// nothing: a refund never lets more leave than the limit allows. It gives nothing back of what was
// charged before a [State.Drain].
func (st *State) Refund(t time.Duration, cost int64) {
	if t < st.drained {
		return
	}
	for i := range st.rates {
		back := st.rates[i].interval.times(cost)
		if used := at(st.last - t); used.less(back) {
			st.tats[i] = st.tats[i].sub(back.sub(used))
		}
	}
}

// Drain takes what is saved up as burst, so that the first unit may leave at t and the others
// follow at the rate. It never makes a departure earlier.
func (st *State) Drain(t time.Duration) {
	st.drained = max(st.drained, t)
	for i := range st.rates {
		m := &st.rates[i]
		st.tats[i] = st.tats[i].max(at(t).add(m.interval.times(m.burst - 1)))
	}
}

// Mark returns a moment that moves by at least as much as any turn: of two marks with only charges
// and drains between them, no answer of [State.Earliest] got later by more than the later mark
// less the earlier one, for the same cost and the same ahead or less. That holds for a century.
func (st *State) Mark(now time.Duration) time.Duration {
	sum := at(now)
	for _, tat := range st.tats {
		sum = sum.add(tat.max(at(now)))
	}
	return sum.ceil()
}

// Interval returns how long the slowest rate takes for one unit, rounded up; 0 without a rate.
func (st *State) Interval() time.Duration {
	var t time.Duration
	for i := range st.rates {
		t = max(t, st.rates[i].interval.ceil())
	}
	return t
}

// Full reports whether the state at now can't be told from a new one: whatever leaves from now on
// leaves as it would from [Set.NewState].
func (st *State) Full(now time.Duration) bool {
	for _, tat := range st.tats {
		if at(now).less(tat) {
			return false
		}
	}
	return true
}
