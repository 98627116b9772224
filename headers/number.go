package headers

import (
	"math"
	"strings"
	"time"
)

// decimal is a number as headers spell it: 1*DIGIT [ "." 1*DIGIT ]. It is exact to the nanosecond,
// which a float64 is not. There is no sign, exponent, hex, underscore, NaN or infinity: the strconv
// parsers take all of those, and none of them is a number of seconds.
type decimal struct {
	whole int64 // math.MaxInt64 when over
	nano  int64 // the fraction, in 1e-9; what is finer is cut off
	over  bool  // the number is larger than an int64
}

// scanDecimal reads the number that s starts with, and returns how long it is: 0 if there is none.
func scanDecimal(s string) (d decimal, n int) {
	for n < len(s) && isDigit(s[n]) {
		digit := int64(s[n] - '0')
		if d.over || d.whole > (math.MaxInt64-digit)/10 {
			d.over, d.whole = true, math.MaxInt64
		} else {
			d.whole = d.whole*10 + digit
		}
		n++
	}
	if n == 0 || n+1 >= len(s) || s[n] != '.' || !isDigit(s[n+1]) {
		return d, n
	}
	n++
	for scale := int64(time.Second / 10); n < len(s) && isDigit(s[n]); n++ {
		d.nano += int64(s[n]-'0') * scale
		scale /= 10
	}
	return d, n
}

// parseDecimal reads s as a number and nothing else.
func parseDecimal(s string) (d decimal, ok bool) {
	d, n := scanDecimal(s)
	return d, n > 0 && n == len(s)
}

// times is d units of time, at most MaxRetryAfter. A unit is below a second or a multiple of it.
func (d decimal) times(unit time.Duration) time.Duration {
	if d.whole > int64(MaxRetryAfter/unit) {
		return MaxRetryAfter
	}
	fraction := time.Duration(d.nano)
	if unit > time.Second { // in this order, for nano times unit wouldn't fit
		fraction *= unit / time.Second
	} else {
		fraction = fraction * unit / time.Second
	}
	whole := time.Duration(d.whole) * unit
	return whole + min(fraction, MaxRetryAfter-whole)
}

// durationUnits are Go's, and a day. The longer spelling of two that start alike comes first.
var durationUnits = [...]struct {
	name string
	unit time.Duration
}{
	{"ns", time.Nanosecond},
	{"us", time.Microsecond},
	{"µs", time.Microsecond}, // U+00B5, micro sign
	{"μs", time.Microsecond}, // U+03BC, Greek letter mu
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", day},
}

const day = 24 * time.Hour

// parseDuration reads durations as Go prints them ("1m30.5s"), without a sign, and with days.
// Like a number, one that is too long saturates; over tells.
func parseDuration(s string) (d time.Duration, over, ok bool) {
	for s != "" {
		number, n := scanDecimal(s)
		if n == 0 {
			return 0, false, false
		}
		s = s[n:]
		unit, found := time.Duration(0), false
		for i := range durationUnits {
			if s, found = strings.CutPrefix(s, durationUnits[i].name); found {
				unit = durationUnits[i].unit
				break
			}
		}
		if !found {
			return 0, false, false
		}
		part := number.times(unit)
		d = min(d, MaxRetryAfter-part) + part
		over = over || d == MaxRetryAfter
		ok = true
	}
	return d, over, ok
}

// parseCount reads a limit or a remaining count. What is a number and can't be a count ("-1",
// "unlimited", beyond int64) is unknown, -1; what is no number is not ok. A fraction is cut off. Of
// the negatives only -1 is the common "unknown"; the others are counters that went over, and are
// returned as they are.
func parseCount(s string) (n int64, ok bool) {
	s = unquote(trim(s))
	digits, negative := strings.CutPrefix(s, "-")
	d, ok := parseDecimal(digits)
	switch {
	case !ok:
		return unknown, strings.EqualFold(s, "unlimited")
	case d.over:
		return unknown, true
	case negative:
		return -d.whole, true
	}
	return d.whole, true
}

// parseLimit reads a limit. One below one ("0.04512", Amazon's requests per second) is a rate that
// no whole number tells, and 0 would be a lie: unknown.
func parseLimit(s string) (n int64, ok bool) {
	if d, ok := parseDecimal(unquote(trim(s))); ok && d.whole == 0 && d.nano > 0 {
		return unknown, true
	}
	return parseCount(s)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// trim removes what HTTP calls optional whitespace, RFC 9110 §5.6.3: SP and HTAB. strings.TrimSpace
// takes NBSP and more besides.
func trim(s string) string {
	for s != "" && isBlank(s[0]) {
		s = s[1:]
	}
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// unquote removes one pair of double quotes around s.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// isWord reports whether s is letters only, and not nothing.
func isWord(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) {
			return false
		}
	}
	return s != ""
}
