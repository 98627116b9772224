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
)

// ErrInvalid is what every error about a limit's values wraps.
var ErrInvalid = errors.New("invalid limit")

// A Limit is one declared bound: a rate or a concurrency. It is a comparable value without state;
// any number of buckets may share it. The zero Limit is not valid.
//
// Constructors don't fail, so that limits can be written as a literal list: [Limit.Validate] says
// what is wrong, and so does everything that takes limits, when it is constructed.
type Limit struct {
	kind  kind
	n     float64       // departures each per, or slots
	per   time.Duration // rates only
	burst int           // rates only: 1 or more
}

type kind uint8

const (
	invalid kind = iota
	rateLimit
	concurrency
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

// WithBurst lets b units leave at once after the limit was left unused for long enough; b is 1 to
// [MaxBurst]. In any window W at most b + n·W/d units leave, so b comes on top of the rate: a quota of n
// per d is not PerSecond(n/d) with burst n, which admits almost 2n in one d.
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

// Burst returns how many units may leave at once: 0 for a limit that isn't a rate.
func (l Limit) Burst() int { return l.burst }

// Slots returns how many requests may be out at once, and whether the limit is a concurrency at all.
func (l Limit) Slots() (int, bool) {
	if l.kind != concurrency {
		return 0, false
	}
	return int(l.n), true
}

// Validate says what is wrong with the limit: an error that wraps [ErrInvalid] and names the field
// and its value, or nil.
func (l Limit) Validate() error {
	switch l.kind {
	case rateLimit:
		return l.validateRate()
	case concurrency:
		switch {
		case l.n < 1 || l.n > MaxConcurrent:
			return fmt.Errorf("%w: concurrent %.0f: want 1 to %d", ErrInvalid, l.n, MaxConcurrent)
		case l.burst != 0:
			return fmt.Errorf("%w: concurrent %.0f: burst %d: a concurrency has no burst", ErrInvalid, l.n, l.burst)
		}
		return nil
	default:
		return fmt.Errorf("%w: zero Limit: want PerSecond, Per or Concurrent", ErrInvalid)
	}
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
