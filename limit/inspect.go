package limit

import (
	"math/big"
	"time"
)

// A Kind is what a [Limit] counts, for those who do its arithmetic elsewhere: in a store that many
// processes share.
type Kind uint8

// The kinds of limits. The zero Kind is that of the zero Limit.
const (
	NoKind                  Kind = iota
	KindRate                     // [PerSecond], [Per], [FromRate]
	KindConcurrent               // [Concurrent]
	KindSlidingWindow            // [SlidingWindow]
	KindSlidingCounter           // [SlidingCounter]
	KindFixedWindow              // [FixedWindow], [Daily], [Monthly]
	KindAdaptiveRate             // [AdaptiveRate]
	KindAdaptiveConcurrency      // [AdaptiveConcurrency]
)

// Kind returns what the limit counts.
func (l Limit) Kind() Kind {
	switch l.kind {
	case rateLimit:
		return KindRate
	case concurrency:
		return KindConcurrent
	case slidingWindow:
		return KindSlidingWindow
	case slidingCounter:
		return KindSlidingCounter
	case fixedWindow:
		return KindFixedWindow
	case adaptiveRate:
		return KindAdaptiveRate
	case adaptiveConcurrency:
		return KindAdaptiveConcurrency
	default:
		return NoKind
	}
}

// Interval returns the exact time between departures of cost 1, in nanoseconds, and whether the limit is
// a valid rate.
func (l Limit) Interval() (*big.Rat, bool) {
	if l.kind != rateLimit || l.Validate() != nil {
		return nil, false
	}
	t := new(big.Rat).SetInt64(int64(l.per))
	return t.Quo(t, new(big.Rat).SetFloat64(l.n)), true
}

// Kept returns how many units [Limit.WithHeadroom] keeps for high priority: of a rate's burst, of what a
// window holds, its burst included, or of a concurrency's slots. The limit is valid.
func (l Limit) Kept() int {
	switch l.kind {
	case rateLimit:
		return int(l.kept(int64(l.burst)))
	case slidingWindow, slidingCounter, fixedWindow:
		return int(newWindow(l).kept)
	case concurrency:
		return int(l.kept(int64(l.n)))
	default:
		return 0
	}
}

// Guard returns how far from the ends of a window nothing leaves, or how much longer than its length a
// unit counts in it: by so much the time that requests take on their way may vary. It is 0 for what isn't
// a window.
func (l Limit) Guard() time.Duration {
	if _, d, ok := l.Window(); ok {
		return guardOf(d)
	}
	return 0
}

// Calendar reports whether the limit is one of the windows of [Daily] and [Monthly], whose lengths differ.
func (l Limit) Calendar() bool { return l.kind == fixedWindow && l.phase.calendar() }

// WindowAt returns when the window begins and ends in which t is, for a bucket with the given key. ok is
// false if the limit is none whose windows begin by the clock, by the key or by the calendar, or isn't
// valid.
func (l Limit) WindowAt(t time.Time, key string) (start, end time.Time, ok bool) {
	if l.kind != slidingCounter && (l.kind != fixedWindow || l.phase == unknownPhase) {
		return time.Time{}, time.Time{}, false
	}
	if l.Validate() != nil {
		return time.Time{}, time.Time{}, false
	}
	o := origin{wall: t.UnixNano(), key: key}
	var begin, after time.Duration
	if l.kind == slidingCounter {
		begin = newCounter(newWindow(l), o).begin(0)
		after = begin + l.per
	} else {
		var loc *time.Location
		if l.phase.calendar() {
			loc, _ = l.location() // Validate has loaded it, too
		}
		begin, after = newFixedLog(newWindow(l), l, loc, o).at(0)
	}
	return t.Add(begin), t.Add(after), true
}
