package limit

import (
	"math"
	"math/bits"
	"time"
)

// maxNS is where sums of spans stop growing: about 146 years, so that one more sum of two such
// spans still fits an int64.
const maxNS = math.MaxInt64 / 2

// A span is a length of time, or a moment since the epoch, of ns + frac·2⁻⁶⁴ nanoseconds. The
// fraction makes a rate exact that doesn't divide the second, however long it runs.
type span struct {
	ns   int64
	frac uint64
}

func at(t time.Duration) span { return span{ns: int64(t)} }

func (s span) less(o span) bool { return s.ns < o.ns || s.ns == o.ns && s.frac < o.frac }

func (s span) max(o span) span {
	if s.less(o) {
		return o
	}
	return s
}

// add saturates at maxNS: a debt of a century is for ever anyway.
func (s span) add(o span) span {
	frac, carry := bits.Add64(s.frac, o.frac, 0)
	ns := s.ns + o.ns + int64(carry)
	if ns > maxNS {
		return span{ns: maxNS}
	}
	return span{ns: ns, frac: frac}
}

func (s span) sub(o span) span {
	frac, borrow := bits.Sub64(s.frac, o.frac, 0)
	return span{ns: s.ns - o.ns - int64(borrow), frac: frac}
}

// times saturates at maxNS. Neither s nor k is negative.
func (s span) times(k int64) span {
	if k == 1 {
		return s
	}
	carry, frac := bits.Mul64(s.frac, uint64(k))
	over, ns := bits.Mul64(uint64(s.ns), uint64(k))
	if ns += carry; over > 0 || ns > maxNS || ns < carry {
		return span{ns: maxNS}
	}
	return span{ns: int64(ns), frac: frac}
}

// ceil is the first whole nanosecond that isn't before s.
func (s span) ceil() time.Duration {
	if s.frac > 0 {
		return time.Duration(s.ns + 1)
	}
	return time.Duration(s.ns)
}
