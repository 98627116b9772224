package limit

import (
	"fmt"
	"math"
	"time"
)

// MinWindow is the shortest window a limit may state. What comes faster is a rate.
const MinWindow = time.Millisecond

// phase is what is declared of when a fixed window begins.
type phase uint8

const (
	unknownPhase phase = iota // until the server tells its reset: see State.Align
	byClock
	byKey
	daily
	monthly
)

func (p phase) calendar() bool { return p == daily || p == monthly }

const (
	longestDay   = 25 * time.Hour // the one on which the clocks go back
	longestMonth = 31*24*time.Hour + time.Hour
)

// SlidingWindow limits to n units in any time span of length d: the k-th leaves no sooner than d after
// the (k−n)-th. n is 1 to [MaxBurst], d is [MinWindow] to [MaxSpan]. It is exact, and for that
// remembers each moment at which something left in the last d: up to n of them, of 16 bytes each.
// [SlidingCounter] and [FixedWindow] need a fixed amount of memory.
func SlidingWindow(n int, d time.Duration) Limit {
	return Limit{kind: slidingWindow, n: float64(n), per: d}
}

// SlidingCounter limits as upstreams do that estimate a sliding window from two counters: with prev
// units in the previous window, curr in the current one, and elapsed of it gone, c more leave as soon as
//
//	prev·(1 − elapsed/d) + curr + c ≤ n
//
// The windows begin at multiples of d since the Unix epoch, by the wall clock. n and d are as for
// [SlidingWindow].
//
// It is an estimate: in some spans of length d more than n leave, but less than 2n. Under random loads
// that change every few minutes an exact log of 100 a minute would have refused 0.05 % of what left (a
// load mostly far below the limit), 0.4 % (one that swings from a tenth to several times of it) and 2 %
// (one near it); under a load that saturates it, nothing. Cloudflare counted 0.003 % of wrong decisions
// in its traffic, of which little comes near a limit.
func SlidingCounter(n int, d time.Duration) Limit {
	return Limit{kind: slidingCounter, n: float64(n), per: d}
}

// FixedWindow limits to n units in each window of length d, where it is known that the upstream counts
// like that, but not when its windows begin. n and d are as for [SlidingWindow].
//
// Until the server tells when its window ends ([State.Align]) the limit is read strictly: no span of
// length d, wherever it begins, has more than n units. That takes little memory, and in return counts
// what left within d/16 as if all of it had left last. From the first reset on it is a plain fixed
// window. [Limit.ByClock] and [Limit.ByKey] declare the phase instead, and so do [Daily] and [Monthly].
func FixedWindow(n int, d time.Duration) Limit {
	return Limit{kind: fixedWindow, n: float64(n), per: d}
}

// ByClock has a fixed window begin at multiples of its length since the Unix epoch, in UTC: on the
// minute, on the hour. Around the boundary between two windows up to 2n units may leave at once: it is
// for upstreams that count so.
func (l Limit) ByClock() Limit {
	l.phase = byClock
	return l
}

// ByKey has a fixed window begin at a moment of its own for each key of a bucket: at multiples of its
// length since the Unix epoch, and later by the 64-bit FNV-1a hash of the key, in nanoseconds, modulo
// that length. It is for upstreams that spread their windows so, and for many buckets that should not
// all begin anew at the same moment.
func (l Limit) ByKey() Limit {
	l.phase = byKey
	return l
}

// Daily limits to n units a day, where a day begins at hour:minute by the clocks at loc, which is a
// place that [time.LoadLocation] knows by its name, [time.UTC] or [time.Local]. A limit keeps that name
// and not the location, so one made by [time.FixedZone] is not valid.
//
// A day begins at the first moment at which the clocks there show hour:minute or later. So where clocks
// go forward over that time, it begins as they do; where they go back over it, it begins when they show
// the time first. A day in which clocks change has 23 or 25 hours (or what else the place decreed).
//
// Where names of zones come from: see the package time. A program that may run without zone files can
// import time/tzdata; this package doesn't, since it adds 450 kB.
func Daily(n, hour, minute int, loc *time.Location) Limit {
	return Limit{kind: fixedWindow, phase: daily, n: float64(n), per: longestDay, hour: hour, minute: minute, zone: zoneName(loc)}
}

// Monthly limits to n units a month, where a month begins on the given day, 1 to 28, at hour:minute by
// the clocks at loc; loc, and what happens when clocks change, are as for [Daily].
func Monthly(n, day, hour, minute int, loc *time.Location) Limit {
	return Limit{kind: fixedWindow, phase: monthly, n: float64(n), per: longestMonth, day: day, hour: hour, minute: minute, zone: zoneName(loc)}
}

// zoneName is the name by which loc can be loaded again. A fixed zone may bear a name that means
// something else; that is found out here, where it can still be seen.
func zoneName(loc *time.Location) string {
	if loc == nil {
		return ""
	}
	name := loc.String()
	named, err := time.LoadLocation(name)
	if err != nil {
		return name // Validate says what is wrong with it
	}
	for month := time.January; month <= time.December; month++ {
		t := time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC)
		_, a := t.In(loc).Zone()
		_, b := t.In(named).Zone()
		if a != b {
			return "fixed zone " + name
		}
	}
	return name
}

// Window returns how many units may leave in a window, its burst apart, and how long it lasts: for
// [Daily] and [Monthly] how long the longest does. ok is false if the limit isn't a window.
func (l Limit) Window() (n int, d time.Duration, ok bool) {
	switch l.kind {
	case slidingWindow, slidingCounter, fixedWindow:
		return int(l.n), l.per, true
	default:
		return 0, 0, false
	}
}

func (l Limit) validateWindow() error {
	bare := l.WithBurst(0).WithHeadroom(0)
	if l.n < 1 || l.n > MaxBurst || l.n != math.Trunc(l.n) {
		return fmt.Errorf("%w: %v: n is %v, want a whole number from 1 to %d", ErrInvalid, bare, l.n, MaxBurst)
	}
	if l.burst < 0 || l.burst > MaxBurst {
		return fmt.Errorf("%w: %v: burst is %d, want 0 to %d", ErrInvalid, bare, l.burst, MaxBurst)
	}
	if l.phase != unknownPhase && l.burst != 0 {
		return fmt.Errorf("%w: %v: burst is %d: a fixed window of known phase has no burst", ErrInvalid, bare, l.burst)
	}
	if l.per < MinWindow || l.per > MaxSpan {
		return fmt.Errorf("%w: %v: d is %v, want %v to %v", ErrInvalid, bare, l.per, MinWindow, MaxSpan)
	}
	if !l.phase.calendar() {
		if l.zone != "" {
			return fmt.Errorf("%w: %v: a calendar window has its phase from the calendar", ErrInvalid, bare)
		}
		return nil
	}
	if l.per != longestDay && l.per != longestMonth {
		return fmt.Errorf("%w: %v: d is %v: a calendar window has its length from the calendar", ErrInvalid, bare, l.per)
	}
	if l.phase == monthly && (l.day < 1 || l.day > 28) {
		return fmt.Errorf("%w: %v: day is %d, want 1 to 28", ErrInvalid, bare, l.day)
	}
	if l.hour < 0 || l.hour > 23 {
		return fmt.Errorf("%w: %v: hour is %d, want 0 to 23", ErrInvalid, bare, l.hour)
	}
	if l.minute < 0 || l.minute > 59 {
		return fmt.Errorf("%w: %v: minute is %d, want 0 to 59", ErrInvalid, bare, l.minute)
	}
	_, err := l.location()
	return err
}

func (l Limit) location() (*time.Location, error) {
	if l.zone == "" {
		return nil, fmt.Errorf("%w: zone is empty, want the name of a place, as in America/Los_Angeles, or UTC", ErrInvalid)
	}
	loc, err := time.LoadLocation(l.zone)
	if err != nil {
		return nil, fmt.Errorf("%w: zone is %q, want the name of a place in the IANA time zone database, as in America/Los_Angeles, or UTC: %v", ErrInvalid, l.zone, err)
	}
	return loc, nil
}
