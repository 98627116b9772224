package limit

import "time"

// Never is a moment that doesn't come: the answer for a cost that can never fit, and the end of all
// arithmetic with moments. It is about 146 years after the epoch.
const Never = time.Duration(maxNS)

// window is what the arithmetic needs of a window's declaration.
type window struct {
	kind  kind
	n     int64         // the burst included
	d     time.Duration // as declared
	guard time.Duration
	kept  int64 // for high priority, of n
}

func newWindow(l Limit) window {
	n := int64(l.n) + int64(l.burst)
	return window{kind: l.kind, n: n, d: l.per, guard: guardOf(l.per), kept: l.kept(n)}
}

// guardOf is how much the time that requests take on their way may vary without one of them being
// refused. It costs at most 1 % of the time.
func guardOf(d time.Duration) time.Duration { return min(d/100, 50*time.Millisecond) }

// windowState is what a bucket remembers under one window. Only charge, note, settle and adopt
// change it.
type windowState interface {
	// earliest returns the first moment, not before t, at which a cost may leave behind others.
	earliest(t time.Duration, ahead, cost int64, high bool) time.Duration
	charge(now time.Duration, cost int64)
	// note is charge for a departure that may count as one to come, and so forgets nothing.
	note(now time.Duration, cost int64)
	// settle changes what was charged at now by so many units.
	settle(now time.Duration, more int64)
	// full reports whether the state at now can't be told from a new one.
	full(now time.Duration) bool
	clone() windowState
	declared() *window
	// past is what left, as far as the state knows.
	past() past
	// adopt takes over what it can from the state of a window of the same kind, and reports whether
	// that was all.
	adopt(windowState) bool
}

// slidingLog is the exact log: each unit is remembered until it is d old, and a guard more.
type slidingLog struct {
	window
	record record
	width  time.Duration // what left within that time shares an entry
}

func (s *slidingLog) declared() *window { return &s.window }

// span is how long a unit counts.
func (w *window) span() time.Duration { return w.d + w.guard }

// earliest looks for the k-th unit from now, the last one of the request. Each unit leaves a span after
// the one that is n before it. With the departures that still count, and those ahead that leave as soon
// as they can one by one, that chain ends after some whole spans at a departure that was, or at now.
func (s *slidingLog) earliest(t time.Duration, ahead, cost int64, high bool) time.Duration {
	if cost > s.n {
		return Never
	}
	span := s.span()
	first := s.record.after(t - span) // the oldest that counts at t
	expired := s.record.upTo(first)
	used := s.record.total() - expired
	if used == 0 && ahead == 0 {
		return t
	}
	begun, k := t, addSat(ahead, cost)
	cycles := (k - 1) / s.n
	// So many of the oldest units must be gone.
	must := k - cycles*s.n - (s.n - used)
	if must > 0 {
		first = s.holding(first, expired+must)
		t = s.record.entry(first).at + span
		first = s.holding(first+1, s.record.entry(first).total+1)
	} else {
		first = s.holding(first, expired+1)
	}
	if cycles > 0 {
		// The reserve is left out: nobody leaves earlier for it.
		return later(t, cycles, span)
	}
	if high || s.kept == 0 {
		return t
	}
	// From t on there is room but for the reserve, which is lent out until the oldest departure that
	// still counts then drops out. If there is none, it is the first of those ahead, which leaves at
	// begun at the earliest.
	end, room := begun+span, s.n-k
	if first < s.record.n {
		end = s.record.entry(first).at + span
		room -= s.record.total() - s.record.upTo(first)
	} else if ahead == 0 {
		return t
	}
	return max(t, end-s.lent(room, span))
}

// later is t and so many times d.
func later(t time.Duration, times int64, d time.Duration) time.Duration {
	return min(t+time.Duration(mulSat(times, int64(d))), Never)
}

// holding is the first entry, from the i-th on, that reaches a total; record.n if none does.
func (s *slidingLog) holding(i int, total int64) int {
	r := &s.record
	// Most often it is one of the first.
	for range 4 {
		if i >= r.n || r.entry(i).total >= total {
			return i
		}
		i++
	}
	low, high := i, r.n
	for low < high {
		if mid := int(uint(low+high) >> 1); r.entry(mid).total >= total {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// lent is how long before the end of a window of some length its last so many free units, 0 or more,
// aren't kept for high priority any more.
func (w *window) lent(room int64, length time.Duration) time.Duration {
	if room == 0 {
		return w.guard
	}
	return max(w.guard, time.Duration(min(maxNS, mulDiv(room, int64(length), w.kept))))
}

func (s *slidingLog) charge(now time.Duration, cost int64) {
	s.record.drop(now - s.span())
	s.note(now, cost)
}

func (s *slidingLog) note(now time.Duration, cost int64) {
	s.record.add(now, cost, s.width, noMoment)
}

func (s *slidingLog) settle(now time.Duration, more int64) {
	s.record.settle(now, more, s.width == 0)
}

func (s *slidingLog) full(now time.Duration) bool {
	return s.record.upTo(s.record.after(now-s.span())) == s.record.total()
}

func (s *slidingLog) clone() windowState {
	c := *s
	c.record = s.record.clone()
	return &c
}
