package limit

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Set is several limits that hold jointly: a departure waits for the latest of their answers, and
// is then charged to all of them. The zero Set holds nobody back. A Set is immutable.
type Set struct {
	limits   []Limit
	rates    []meter
	bursts   bool // some rate has one
	windows  []compiled
	slots    int
	ordinary int  // slots
	headroom bool // some limit has it

	// What is to be learnt.
	rate, concurrency bounds
	adaptiveHeadroom  float64 // the largest share
}

// compiled is a window with what is worth doing only once.
type compiled struct {
	window
	limit Limit
	loc   *time.Location // of a calendar window
}

// Join compiles limits into a Set. Its error wraps [ErrInvalid], and says which of them is wrong and
// why. Of several concurrencies the smallest counts, and so it does of adaptive limits of a kind.
func Join(limits ...Limit) (Set, error) {
	var s Set
	for i, l := range limits {
		if err := l.Validate(); err != nil {
			return Set{}, fmt.Errorf("limits[%d]: %w", i, err)
		}
		s.headroom = s.headroom || l.headroom > 0
		switch l.kind {
		case rateLimit:
			s.rates = append(s.rates, newMeter(l))
			s.bursts = s.bursts || l.burst > 1
		case concurrency:
			n := int(l.n)
			if s.slots == 0 || n < s.slots {
				s.slots = n
			}
			if n -= int(l.kept(int64(n))); s.ordinary == 0 || n < s.ordinary {
				s.ordinary = n
			}
		case adaptiveRate:
			s.rate.join(l)
		case adaptiveConcurrency:
			s.concurrency.join(l)
			s.adaptiveHeadroom = max(s.adaptiveHeadroom, l.headroom)
		default:
			w := compiled{window: newWindow(l), limit: l}
			if l.phase.calendar() {
				w.loc, _ = l.location() // Validate has loaded it, too
			}
			s.windows = append(s.windows, w)
		}
	}
	s.limits = slices.Clone(limits)
	return s, nil
}

// Limits returns a copy of what was joined, in its order.
func (s Set) Limits() []Limit { return slices.Clone(s.limits) }

// Slots returns how many requests may be out at once; 0: any number. What is adaptive isn't counted.
func (s Set) Slots() int { return s.slots }

// OrdinarySlots returns how many of the slots requests of ordinary priority may have, while those of
// high priority want theirs; 0: any number. It is at least 1 if there are slots at all.
func (s Set) OrdinarySlots() int { return s.ordinary }

// Headroom reports whether any of the limits keeps a share for high priority.
func (s Set) Headroom() bool { return s.headroom }

// MaxCost returns the largest cost that can ever leave: that of the smallest window, its burst
// included. Rates and concurrencies have none, so without windows it is [math.MaxInt64].
func (s Set) MaxCost() int64 {
	most := int64(math.MaxInt64)
	for i := range s.windows {
		most = min(most, s.windows[i].n)
	}
	return most
}

// Rate returns the slowest of the rates, in units per second; 0: there are none.
func (s Set) Rate() float64 {
	slowest := 0.0
	for _, l := range s.limits {
		if l.kind != rateLimit {
			continue
		}
		if r := l.n / l.per.Seconds(); slowest == 0 || r < slowest {
			slowest = r
		}
	}
	return slowest
}

// NewState returns the state of a bucket from which nothing has left yet: its bursts are full, and its
// windows empty. The epoch is the wall-clock time at which the moments that the state is asked about
// are 0, from 1970 to 2100; only windows that begin by the clock, by the key or by the calendar need
// it, and it may be zero without them. The key is that of the bucket, for [Limit.ByKey].
func (s Set) NewState(epoch time.Time, key string) State {
	return s.newState(origin{wall: epoch.UnixNano(), key: key})
}

func (s Set) newState(o origin) State {
	st := State{rates: s.rates, last: noMoment, drained: noMoment, origin: o}
	if len(s.rates) > 0 {
		st.tats = make([]span, len(s.rates))
	}
	if s.bursts {
		st.lows = make([]lows, len(s.rates))
	}
	st.more = s.bursts || len(s.windows) > 0
	if len(s.windows) == 0 {
		return st
	}
	st.windows = make([]windowState, len(s.windows))
	for i := range s.windows {
		st.windows[i] = s.windows[i].newState(st.origin)
	}
	return st
}

func (w *compiled) newState(o origin) windowState {
	switch w.kind {
	case slidingWindow:
		return &slidingLog{window: w.window, record: newRecord()}
	case slidingCounter:
		return newCounter(w.window, o)
	default:
		return newFixedLog(w.window, w.limit, w.loc, o)
	}
}

// A State is what a bucket remembers of its departures. It isn't safe for concurrent use. The zero
// State is that of the zero Set.
type State struct {
	rates   []meter
	tats    []span        // the theoretical arrival time of each rate
	last    time.Duration // the latest moment charged
	more    bool          // than rates of burst 1
	lows    []lows        // of each rate, if one has a burst
	drained time.Duration // what rates were charged before this moment isn't given back
	windows []windowState
	origin  origin
}

// Clone returns a state that goes its own way from here.
func (st *State) Clone() State {
	c := *st
	c.tats = slices.Clone(st.tats)
	c.lows = slices.Clone(st.lows)
	c.windows = slices.Clone(st.windows)
	for i := range c.windows {
		c.windows[i] = c.windows[i].clone()
	}
	return c
}

// Earliest returns the first moment at which a request of the given cost may leave when all of ahead,
// the costs of those before it, have left as soon as they could. It changes nothing. The cost is 1 or
// more, ahead 0 or more. A cost that can never leave ([Set.MaxCost]) is answered with [Never].
//
// Rates count from since, which may lie before now: a request that should have left a little while
// ago, and finds its timer late, catches up. It may lie after now, too: nobody leaves before a pause
// ends. Windows count from now, or since if that is later: what leaves late arrives late. So the answer
// isn't before since, and if it isn't after now, the request may leave now.
//
// A request of high priority may use what [Limit.WithHeadroom] keeps; the others may not.
//
// The answer is never too late. With none ahead it is exact. Behind others it is exact for a single
// limit if those ahead have cost 1 each, the priority of this request, and nothing else that holds them;
// for a rate their costs don't matter. It may be too early behind others where several limits hold
// jointly, where large requests leave a gap at the end of a window, and, of limits with headroom, for
// windows that have no end of their own.
func (st *State) Earliest(since, now time.Duration, ahead, cost int64, high bool) time.Duration {
	t := since
	for i := range st.rates {
		m := &st.rates[i]
		tat := st.tats[i]
		if ahead > 0 {
			tat = tat.max(at(since)).add(m.interval.times(ahead))
		}
		spare := m.ordinary - cost
		if high {
			spare = m.burst - cost
		}
		if spare > 0 {
			tat = tat.sub(m.interval.times(spare))
		}
		if r := tat.ceil(); r > t {
			t = r
		}
	}
	if st.more {
		t = st.open(t, max(since, now), now, ahead, cost, high)
	}
	return t
}

// open returns the first moment, not before t, at which all windows let a request leave. If it isn't
// after now, that holds for now.
func (st *State) open(t, from, now time.Duration, ahead, cost int64, high bool) time.Duration {
	if ahead > 0 {
		// Each window by itself: how those ahead are held jointly isn't known.
		for _, w := range st.windows {
			if e := w.earliest(from, ahead, cost, high); e > from {
				t = max(t, e)
			}
		}
	}
	// Where one has the request wait, another may be shut then. They all open for good within their
	// lengths, so this ends; should it not, it is asked again at the moment returned.
	for range 100 {
		still := true
		for _, w := range st.windows {
			from := max(t, now)
			if e := w.earliest(from, 0, cost, high); e > from {
				t, still = e, false
			}
		}
		if still || t >= Never {
			break
		}
	}
	return min(t, Never)
}

// Charge takes the cost of a departure that was due at a moment that [State.Earliest] returned and that
// really left at now. Rates are charged at due, so that those who follow catch up; windows at now, since
// what left late counts late. A departure before it was allowed is charged as debt: those who come
// later wait for it. now must not go back from one call to the next.
func (st *State) Charge(due, now time.Duration, cost int64) {
	st.last = max(st.last, due)
	for i := range st.rates {
		tat := st.tats[i]
		// due is a whole nanosecond. Where it is the first after the exact moment, which is kept,
		// rounding doesn't add up.
		if tat.ceil() < due {
			tat = at(due)
		}
		st.tats[i] = tat.add(st.rates[i].interval.times(cost))
	}
	if st.more {
		st.chargeMore(due, now, cost)
	}
}

// chargeMore charges what isn't a mere rate, and notes what rates with a burst need. It is kept out of the
// way of the most frequent case.
func (st *State) chargeMore(due, now time.Duration, cost int64) {
	st.note(due, cost)
	for _, w := range st.windows {
		w.charge(now, cost)
	}
}

// Refund gives back what Charge(due, now, cost) took for a departure that did not take place. Windows
// are as if it had not been, as long as they remember it. Rates are, too, unless others were charged
// since then who would not have used what was free without it: then less is given back, or nothing. A
// refund never lets more leave than the limit allows. Rates give nothing back of what was charged
// before a [State.Drain].
func (st *State) Refund(due, now time.Duration, cost int64) { st.Settle(due, now, cost, 0) }

// Settle corrects an earlier Charge(due, now, from) whose cost turned out to be to. If that is more,
// the difference is charged as debt, even beyond what a window holds: those who come later wait for it.
// If it is less, the difference is given back: by windows that still remember the departure all of it,
// by rates as much as would still be free if the cost had been right at once, or less, never more. What
// a rate would have lost by being idle with a full burst isn't given back; one with burst 1 spaces
// departures, and gives nothing back once another has left.
func (st *State) Settle(due, now time.Duration, from, to int64) {
	for i := range st.rates {
		if to >= from {
			st.tats[i] = st.tats[i].add(st.rates[i].interval.times(to - from))
		} else if due >= st.drained {
			st.giveBack(i, due, from-to)
		}
	}
	for _, w := range st.windows {
		w.settle(now, to-from)
	}
}

// Drain takes what rates have saved up as burst, so that the first unit may leave at t and the others
// follow at the rate. It never makes a departure earlier. Windows save nothing up, and stay as they are.
func (st *State) Drain(t time.Duration) {
	st.drained = max(st.drained, t, st.last+1)
	for i := range st.rates {
		m := &st.rates[i]
		st.tats[i] = st.tats[i].max(at(t).add(m.interval.times(m.burst - 1)))
	}
}

// Align has the fixed window that runs at now end at reset, as a server told: from then on it is a plain
// window of known phase. It is for [FixedWindow], whatever phase was declared, but not for calendar
// windows. A reset that moves is followed. A reset told in whole seconds should be rounded up; that the
// window may have begun up to two seconds (or a sixteenth of it, if that is less) before is allowed for.
//
// Align reports whether it did so: not if reset is past, or more than two windows away, nor if there is
// no such window. Of several, the only one that can be meant is aligned, or none: see
// [State.AlignWindow]. The phase is forgotten two windows after the last departure and the last reset.
func (st *State) Align(reset, now time.Duration) bool { return st.AlignWindow(0, reset, now) }

// AlignWindow is [State.Align] for the fixed window of length d, where there are several; 0: whichever.
func (st *State) AlignWindow(d, reset, now time.Duration) bool {
	var found *fixedLog
	for _, w := range st.windows {
		f, ok := w.(*fixedLog)
		if !ok || f.cal != nil || d != 0 && f.d != d || !f.plausible(reset, now) {
			continue
		}
		if found != nil && found.d != f.d {
			return false
		}
		found = f
	}
	if found == nil {
		return false
	}
	for _, w := range st.windows {
		if f, ok := w.(*fixedLog); ok && f.cal == nil && f.d == found.d {
			f.align(reset, now)
		}
	}
	return true
}

// Mark returns a moment that moves by about as much as any turn: of two marks with only charges and
// drains between them, no answer of [State.Earliest] got later by more than the later mark less the
// earlier one, and [State.Leap], for the same cost and the same ahead or less. That holds for a century.
func (st *State) Mark(now time.Duration) time.Duration {
	sum := at(now)
	for _, tat := range st.tats {
		sum = sum.add(tat.max(at(now)))
	}
	return sum.ceil()
}

// Leap returns by how much a turn may get later without [State.Mark] moving: 0 without windows. A turn
// that just misses a window has to wait for the next.
func (st *State) Leap() time.Duration {
	var sum time.Duration
	for _, w := range st.windows {
		sum += 4 * w.declared().d
	}
	return sum
}

// Interval returns how long the slowest limit takes for one unit, on average and rounded up; 0 without
// rates and windows.
func (st *State) Interval() time.Duration {
	var t time.Duration
	for i := range st.rates {
		t = max(t, st.rates[i].interval.ceil())
	}
	for _, w := range st.windows {
		w := w.declared()
		t = max(t, time.Duration((int64(w.span())+w.n-1)/w.n))
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
	for _, w := range st.windows {
		if !w.full(now) {
			return false
		}
	}
	return true
}
