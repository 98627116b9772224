package limit

import (
	"fmt"
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
	s.limits = append(s.limits, limits...)
	return s, nil
}

// Limits returns a copy of what was joined, in its order.
func (s Set) Limits() []Limit { return append([]Limit(nil), s.limits...) }

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
	rates []meter
	tats  []span // the theoretical arrival time of each rate
}

// Earliest returns the first moment, not before now, at which a request of the given cost may leave
// when all of ahead, the costs of those before it, have left as soon as they could. It changes
// nothing. The cost is 1 or more, ahead 0 or more. The answer is exact as long as nothing but this
// State holds those ahead.
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

// Refund gives back the cost of a departure that was charged and did not take place. It may leave a
// little less than there was before the charge, and never more.
func (st *State) Refund(cost int64) {
	for i := range st.rates {
		st.tats[i] = st.tats[i].sub(st.rates[i].interval.times(cost))
	}
}

// Drain takes what is saved up as burst, so that the first unit may leave at t and the others
// follow at the rate. It never makes a departure earlier.
func (st *State) Drain(t time.Duration) {
	for i := range st.rates {
		m := &st.rates[i]
		st.tats[i] = st.tats[i].max(at(t).add(m.interval.times(m.burst - 1)))
	}
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
