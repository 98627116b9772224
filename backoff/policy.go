package backoff

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Floor is the shortest delay there is. A retry that failed in no time and was repeated at once would
// be a loop that runs as fast as it can; with Floor it makes at most a thousand turns a second.
const Floor = time.Millisecond

const (
	defaultBase = 200 * time.Millisecond
	defaultCap  = 20 * time.Second

	// Twice as long each time is what everybody expects. Decorrelated jitter draws from all the way
	// down to Base each time, so twice would grow by steps of Base only; the article has 3.
	defaultFactor             = 2
	defaultDecorrelatedFactor = 3
)

// A Policy says how long to wait before each retry. It is a plain value that can be compared; the zero
// Policy waits up to 200 ms before the first retry, twice as long before each further one, and at most
// 20 s, with full jitter.
type Policy struct {
	// Base is the exponential delay before the first retry. At least Floor; 0 means 200 ms.
	Base time.Duration

	// Cap is the longest delay, jitter included. At least Base; 0 means 20 s.
	Cap time.Duration

	// Factor is by how much the delay grows from one retry to the next. At least 1, which doesn't
	// grow; 0 means 2, or 3 with Decorrelated jitter.
	Factor float64

	// Jitter is how chance spreads the delays. The zero value is Full.
	Jitter Jitter
}

// Validate returns nil if p can be used, else an error that names the field and its value.
func (p Policy) Validate() error {
	q := p.withDefaults()
	switch {
	case q.Base < Floor:
		return fmt.Errorf("backoff: Base is %v, want %v or more, or 0 for %v", p.Base, Floor, defaultBase)
	case q.Cap <= 0:
		return fmt.Errorf("backoff: Cap is %v, want a duration above 0, or 0 for %v", p.Cap, defaultCap)
	case q.Base > q.Cap:
		return fmt.Errorf("backoff: Base is %v%s and Cap is %v%s, want Base at most Cap",
			q.Base, byDefault(p.Base), q.Cap, byDefault(p.Cap))
	case !(q.Factor >= 1) || math.IsInf(q.Factor, 1): // NaN fails every comparison
		return fmt.Errorf("backoff: Factor is %v, want a finite number of 1 or more, or 0 for %v", p.Factor, q.Jitter.factor())
	case !q.Jitter.valid():
		return fmt.Errorf("backoff: Jitter is %v, want Full, Equal, Decorrelated or None", p.Jitter)
	}
	return nil
}

// byDefault marks, in an error, a value that its user never wrote.
func byDefault(set time.Duration) string {
	if set == 0 {
		return " (the default)"
	}
	return ""
}

// Delay returns how long to wait before a retry, in [Floor, Cap]. Attempt 1 is the first retry, and
// anything below counts as 1. Prev is what Delay returned for the attempt before, and 0 or less when
// there was none. Decorrelated jitter looks at prev alone, the others at attempt alone.
//
// What the server asked for is not a prev: it says nothing about how this client spread out.
//
// Delay doesn't allocate. It expects a Policy that Validate accepts, but for no other does it panic or
// leave its bounds.
func (p Policy) Delay(attempt int, prev time.Duration) time.Duration {
	lo, hi := p.span(attempt, prev)
	// hi−lo+1 can't overflow: lo is at least Floor.
	return lo + rand.N(hi-lo+1)
}

// span returns the ends of the range from which Delay draws, with Floor ≤ lo ≤ hi ≤ max(Cap, Floor).
func (p Policy) span(attempt int, prev time.Duration) (lo, hi time.Duration) {
	p = p.withDefaults()
	ceiling := max(p.Cap, Floor)
	base := min(max(p.Base, Floor), ceiling)

	if p.Jitter == Decorrelated {
		return base, grow(min(max(prev, base), ceiling), p.Factor, ceiling)
	}
	d := grow(base, math.Pow(p.Factor, float64(max(attempt, 1)-1)), ceiling)
	switch p.Jitter {
	case None:
		return d, d
	case Equal:
		return max(d/2, Floor), d
	default:
		return Floor, d
	}
}

// grow returns d times by, at least d and at most ceiling, which must not be below d.
func grow(d time.Duration, by float64, ceiling time.Duration) time.Duration {
	grown := float64(d) * by
	// Compared as floats, before the conversion could overflow: grown is +Inf for a far attempt. What
	// is below float64(ceiling) converts to at most ceiling, although that may have been rounded up.
	// NaN, of a Factor that Validate refuses, isn't below.
	if !(grown < float64(ceiling)) {
		return ceiling
	}
	// Above 2⁵³ ns, 104 days, rounding may lose what d had.
	return max(d, time.Duration(grown))
}

func (p Policy) withDefaults() Policy {
	p.Base = cmp.Or(p.Base, defaultBase)
	p.Cap = cmp.Or(p.Cap, defaultCap)
	p.Factor = cmp.Or(p.Factor, p.Jitter.factor())
	return p
}

// factor returns what a zero Factor means with jitter j.
func (j Jitter) factor() float64 {
	if j == Decorrelated {
		return defaultDecorrelatedFactor
	}
	return defaultFactor
}
