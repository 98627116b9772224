package limit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// AdaptiveRate limits to a rate that is learnt from what the upstream answers, in departures per second:
// never below min, which is above 0, nor above max, which is at least min and at most [MaxRate]. It is
// for upstreams whose limit isn't known. It has no burst and no headroom.
//
// By itself it holds nobody: whoever makes use of a [Set] learns the rate ([Set.AdaptiveRate]).
func AdaptiveRate(min, max float64) Limit { return Limit{kind: adaptiveRate, least: min, n: max} }

// AdaptiveConcurrency limits how many requests may be out at once to a number that is learnt from how
// long the upstream takes to answer and from what it refuses, by the law of [Gradient]: never below min,
// which is at least 1, nor above max, which is at least min and at most [MaxConcurrent]. It is for
// upstreams that slow down before they refuse. [Limit.WithHeadroom] keeps a share of the present number.
//
// By itself it holds nobody, and [Set.Slots] doesn't count it: whoever makes use of a [Set] keeps a
// Gradient ([Set.AdaptiveConcurrency]).
func AdaptiveConcurrency(min, max int) Limit {
	return Limit{kind: adaptiveConcurrency, least: float64(min), n: float64(max)}
}

// AdaptiveRate returns the bounds of an adaptive rate, in departures per second, and whether the limit is
// one.
func (l Limit) AdaptiveRate() (min, max float64, ok bool) {
	if l.kind != adaptiveRate {
		return 0, 0, false
	}
	return l.least, l.n, true
}

// AdaptiveConcurrency returns the bounds of an adaptive concurrency, and whether the limit is one.
func (l Limit) AdaptiveConcurrency() (min, max int, ok bool) {
	if l.kind != adaptiveConcurrency {
		return 0, 0, false
	}
	return int(l.least), int(l.n), true
}

// bounds are those within which something is learnt. The zero bounds are none.
type bounds struct{ min, max float64 }

// join holds a limit, too. Of two that each learn within their own bounds the lower counts, and that is
// never below the lower min, nor above the lower max.
func (b *bounds) join(l Limit) {
	if b.max == 0 {
		*b = bounds{l.least, l.n}
		return
	}
	b.min, b.max = min(b.min, l.least), min(b.max, l.n)
}

// AdaptiveRate returns within which bounds a rate is to be learnt, in departures per second, and whether
// one is. Of several the lower min and the lower max count.
func (s Set) AdaptiveRate() (min, max float64, ok bool) {
	return s.rate.min, s.rate.max, s.rate.max > 0
}

// AdaptiveConcurrency returns within which bounds a concurrency is to be learnt, and whether one is. Of
// several the lower min and the lower max count.
func (s Set) AdaptiveConcurrency() (min, max int, ok bool) {
	return int(s.concurrency.min), int(s.concurrency.max), s.concurrency.max > 0
}

// OrdinaryOf returns how many of the slots that an adaptive concurrency has at present, 1 or more,
// requests of ordinary priority may have, while those of high priority want theirs: at least 1. What
// [Set.OrdinarySlots] returns isn't counted.
func (s Set) OrdinaryOf(slots int) int {
	return slots - int(Limit{headroom: s.adaptiveHeadroom}.kept(int64(slots)))
}

func (l Limit) validateAdaptive() error {
	what, want, most := "adaptive rate", "a finite number above 0", float64(MaxRate)
	bad := math.IsNaN(l.least) || math.IsInf(l.least, 0) || l.least <= 0
	if l.kind == adaptiveConcurrency {
		what, want, most = "adaptive concurrency", "1 or more", MaxConcurrent
		bad = l.least < 1
	}
	switch {
	case bad:
		return fmt.Errorf("%w: %s: min is %s, want %s", ErrInvalid, what, l.bound(l.least), want)
	case !(l.n >= l.least && l.n <= most):
		return fmt.Errorf("%w: %s: max is %s, want %s, the min, to %.0f", ErrInvalid, what, l.bound(l.n), l.bound(l.least), most)
	case l.kind == adaptiveRate && 1/l.least > MaxSpan.Seconds():
		return fmt.Errorf("%w: %s: min is %s: a departure takes longer than %v", ErrInvalid, what, l.bound(l.least), MaxSpan)
	case l.burst != 0:
		return fmt.Errorf("%w: %s: burst is %d: what is learnt has no burst", ErrInvalid, what, l.burst)
	case l.kind == adaptiveRate && l.headroom != 0:
		return fmt.Errorf("%w: %s: headroom is %v: it would be a share of a burst, and there is none", ErrInvalid, what, l.headroom)
	}
	return nil
}

// bound prints a min or a max: the number of departures per second, or of slots.
func (l Limit) bound(n float64) string {
	if l.kind == adaptiveConcurrency {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, numberFormat(n), -1, 64)
}

// adaptiveText is the text of an adaptive limit without its headroom.
func (l Limit) adaptiveText() string {
	if l.kind == adaptiveConcurrency {
		return "adaptive concurrent " + l.bound(l.least) + " to " + l.bound(l.n)
	}
	return "adaptive " + l.bound(l.least) + "/s to " + l.bound(l.n) + "/s"
}

// parseAdaptive reads what comes after "adaptive".
func parseAdaptive(next func(...string) bool, take func() string) (Limit, error) {
	if next("concurrent") {
		least, err := parseCount("min", take())
		if err != nil {
			return Limit{}, err
		}
		if !next("to") {
			return Limit{}, fmt.Errorf("%w: a concurrency is learnt within bounds: want adaptive concurrent min to max", ErrInvalid)
		}
		most, err := parseCount("max", take())
		return AdaptiveConcurrency(least, most), err
	}
	least, err := parsePerSecond("min", take())
	if err != nil {
		return Limit{}, err
	}
	if !next("to") {
		return Limit{}, fmt.Errorf("%w: a rate is learnt within bounds: want adaptive n/period to n/period", ErrInvalid)
	}
	most, err := parsePerSecond("max", take())
	return AdaptiveRate(least, most), err
}

// parsePerSecond reads n/period as departures per second.
func parsePerSecond(field, word string) (float64, error) {
	number, period, ok := strings.Cut(strings.ToLower(word), "/")
	if !ok {
		return 0, fmt.Errorf(`%w: %s is %q, which has no "/": want n/period`, ErrInvalid, field, word)
	}
	n, err := parseNumber(field, number)
	if err != nil {
		return 0, err
	}
	d, err := parsePeriod(period)
	if err != nil {
		return 0, err
	}
	if d <= 0 {
		return 0, fmt.Errorf("%w: period of %s is %v, want a duration above 0", ErrInvalid, field, d)
	}
	if d == time.Second {
		return n, nil
	}
	return n / d.Seconds(), nil
}
