package limit

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"golang.org/x/time/rate"
)

const (
	// MaxRate is the highest rate a limit may state, in departures per second.
	MaxRate = 1e9

	// MaxSpan is the longest time a limit may need to fill its burst again, so that no sum of
	// departures overflows: ten years of 365 days.
	MaxSpan = 10 * 365 * 24 * time.Hour

	// MaxBurst is the largest burst a rate may have, in units of cost.
	MaxBurst = 1 << 30

	// MaxConcurrent is the largest number of slots a concurrency limit may state.
	MaxConcurrent = 1 << 30

	// MinHeadroom is the smallest share but none that [Limit.WithHeadroom] may keep.
	MinHeadroom = 1e-6
)

// ErrInvalid is what every error about a limit's values wraps.
var ErrInvalid = errors.New("invalid limit")

// A Limit is one declared bound: a rate, a window or a concurrency, stated or to be learnt. It is a comparable value without
// state; any number of buckets may share it. The zero Limit is not valid.
//
// Constructors don't fail, so that limits can be written as a literal list: [Limit.Validate] says
// what is wrong, and so does everything that takes limits, when it is constructed.
type Limit struct {
	kind     kind
	phase    phase         // fixed windows only
	n        float64       // departures each per, or slots; of an adaptive limit the most
	least    float64       // of an adaptive limit: departures a second, or slots
	per      time.Duration // rates and windows; for calendar windows the longest one
	burst    int           // rates: 1 or more; windows: on top of n
	headroom float64       // the share that is kept for high priority

	// Calendar windows only. The zone is kept by its name, so that limits compare and print.
	day, hour, minute int
	zone              string
}

type kind uint8

const (
	invalid kind = iota
	rateLimit
	concurrency
	slidingWindow
	slidingCounter
	fixedWindow
	adaptiveRate
	adaptiveConcurrency
)

// PerSecond limits to n departures a second, evenly spaced unless [Limit.WithBurst] says otherwise.
// n is above 0 and at most [MaxRate]; it need not be whole: PerSecond(0.5) is one every two seconds.
func PerSecond(n float64) Limit { return Per(n, time.Second) }

// Per limits to n departures each d, evenly spaced: d/n apart unless [Limit.WithBurst] says
// otherwise. n and d are above 0; the rate is at most [MaxRate], and burst·d/n at most [MaxSpan].
func Per(n float64, d time.Duration) Limit {
	return Limit{kind: rateLimit, n: n, per: d, burst: 1}
}

// FromRate is the limit of a [rate.Limiter] with the given rate and burst, for those who have their
// limits in golang.org/x/time/rate's terms. [rate.Inf] is no limit and is not valid.
func FromRate(r rate.Limit, burst int) Limit {
	n := float64(r)
	if r == rate.Inf {
		n = math.Inf(1)
	}
	return PerSecond(n).WithBurst(burst)
}

// Concurrent limits to n requests out at once, from 1 to [MaxConcurrent].
func Concurrent(n int) Limit { return Limit{kind: concurrency, n: float64(n)} }

// WithBurst lets b units leave at once after a rate was left unused for long enough; b is 1 to
// [MaxBurst]. In any window W at most b + n·W/d units leave, so b comes on top of the rate: a quota of n
// per d is not PerSecond(n/d) with burst n, which admits almost 2n in one d.
//
// On a window b comes on top of its n: n+b units may leave in each window. It is for upstreams that
// grant such a burst; 0, the default, is none. A fixed window whose phase is declared has no burst.
func (l Limit) WithBurst(b int) Limit {
	l.burst = b
	return l
}

// Rate returns the limit in golang.org/x/time/rate's unit, departures per second, and whether the
// limit is a rate at all.
func (l Limit) Rate() (rate.Limit, bool) {
	if l.kind != rateLimit {
		return 0, false
	}
	return rate.Limit(l.n / l.per.Seconds()), true
}

// Burst returns what [Limit.WithBurst] set: for a rate how many units may leave at once, for a window
// how many come on top of its n. A concurrency has none.
func (l Limit) Burst() int { return l.burst }

// Slots returns how many requests may be out at once, and whether the limit is a concurrency at all.
func (l Limit) Slots() (int, bool) {
	if l.kind != concurrency {
		return 0, false
	}
	return int(l.n), true
}

// WithHeadroom keeps a share of the limit, from 0 (none, the default) to below 1, for requests of high
// priority; no share but 0 is below [MinHeadroom]. What is kept is rounded up to whole units, but
// leaves one to the others.
//
// Of a window's n the share is kept while the window is young, and lent out steadily as it ends: with
// the share s, what is kept shrinks to s·n·(time until the window's end)/d, but not below one unit
// until just before the end, so that one urgent request may leave at any time and all of the quota is
// used. Where a window has no end of its own (a sliding one, or a fixed one of unknown phase) it ends
// when the oldest departure drops out of it. A sliding counter keeps its last unit for good. In a window from which nothing has left yet, any request
// that fits may leave, so that a large one doesn't wait for ever.
//
// Of a rate's burst the share is kept for good; the whole rate stays usable. Of a concurrency's slots
// it is kept, too: whether they are lent out is for the queue to decide.
func (l Limit) WithHeadroom(share float64) Limit {
	l.headroom = share
	return l
}

// Headroom returns the share of the limit that is kept for high priority: 0 if none is.
func (l Limit) Headroom() float64 { return l.headroom }

// kept is the share of n as whole units, but never all of them.
func (l Limit) kept(n int64) int64 {
	// What is meant by 0.07 of 100 is 7, not the 8 that rounding up 7.000000000000001 makes.
	return min(int64(math.Ceil(l.headroom*float64(n)-1e-9)), n-1)
}

// Validate says what is wrong with the limit: an error that wraps [ErrInvalid] and names the field
// and its value, or nil.
func (l Limit) Validate() error {
	var err error
	switch l.kind {
	case rateLimit:
		err = l.validateRate()
	case concurrency:
		switch {
		case l.n < 1 || l.n > MaxConcurrent:
			err = fmt.Errorf("%w: concurrent %.0f: want 1 to %d", ErrInvalid, l.n, MaxConcurrent)
		case l.burst != 0:
			err = fmt.Errorf("%w: concurrent %.0f: burst %d: a concurrency has no burst", ErrInvalid, l.n, l.burst)
		}
	case slidingWindow, slidingCounter, fixedWindow:
		err = l.validateWindow()
	case adaptiveRate, adaptiveConcurrency:
		err = l.validateAdaptive()
	default:
		return fmt.Errorf("%w: zero Limit: want PerSecond, Per, Concurrent, a window or an adaptive limit", ErrInvalid)
	}
	if err == nil && l.phase != unknownPhase && l.kind != fixedWindow {
		err = fmt.Errorf("%w: %v: only a fixed window has a phase", ErrInvalid, l.WithHeadroom(0))
	}
	if err == nil && l.headroom != 0 && !(l.headroom >= MinHeadroom && l.headroom < 1) {
		err = fmt.Errorf("%w: %v: headroom is %v, want 0, or %v to below 1", ErrInvalid, l.WithHeadroom(0), l.headroom, float64(MinHeadroom))
	}
	return err
}

func (l Limit) validateRate() error {
	if math.IsNaN(l.n) || math.IsInf(l.n, 0) || l.n <= 0 {
		return fmt.Errorf("%w: rate of %v per %v: n is %v, want a finite number above 0", ErrInvalid, l.n, l.per, l.n)
	}
	if l.per <= 0 {
		return fmt.Errorf("%w: rate of %v per %v: d is %v, want a duration above 0", ErrInvalid, l.n, l.per, l.per)
	}
	if r, _ := l.Rate(); r > MaxRate {
		return fmt.Errorf("%w: rate of %v per %v: %v per second, want at most %v", ErrInvalid, l.n, l.per, float64(r), float64(MaxRate))
	}
	if l.burst < 1 || l.burst > MaxBurst {
		return fmt.Errorf("%w: rate of %v per %v: burst is %d, want 1 to %d", ErrInvalid, l.n, l.per, l.burst, MaxBurst)
	}
	if float64(l.per)/l.n*float64(l.burst) > float64(MaxSpan) {
		return fmt.Errorf("%w: rate of %v per %v: a burst of %d takes longer than %v to fill", ErrInvalid, l.n, l.per, l.burst, MaxSpan)
	}
	return nil
}

// interval returns T, the time between departures of cost 1, rounded up to a multiple of 2⁻⁶⁴ ns.
// The limit is a valid rate.
func (l Limit) interval() span {
	n := new(big.Rat).SetFloat64(l.n)
	t := new(big.Rat).SetInt64(int64(l.per))
	t.Quo(t, n)
	scaled := new(big.Int).Lsh(t.Num(), 64)
	quotient, remainder := scaled.QuoRem(scaled, t.Denom(), new(big.Int))
	if remainder.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	fraction := new(big.Int).And(quotient, new(big.Int).SetUint64(math.MaxUint64))
	return span{ns: new(big.Int).Rsh(quotient, 64).Int64(), frac: fraction.Uint64()}
}
