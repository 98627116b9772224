package headers

import (
	"math"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that a Signal tells, a little over 292 years: what a server asks
// beyond it saturates here. It is as far as [time.Duration] reaches, in whole seconds, and no advice
// to wait that long: compare it with a cap before adding anything to it.
const MaxRetryAfter = math.MaxInt64 / time.Second * time.Second

// A number in Retry-After is a delay, unless as a Unix time it would lie this close to now: then it
// is one (openclaw/clawhub#421 sends 1771404540). 999999999 stays the 31 years that it says.
const (
	instantPast   = day
	instantFuture = 366 * day
)

// parseRetryAfter reads a whole Retry-After field line: the longest of its valid members. Proxies
// join several answers ("2814, 2"), and the comma in an HTTP-date separates nothing.
func parseRetryAfter(s string, unit time.Duration, base *baseTime) (wait time.Duration, ok bool) {
	for member := ""; s != ""; {
		member, s = cutMember(s)
		if w, valid := parseWait(member, unit, base); valid {
			wait, ok = max(wait, w), true
		}
	}
	return wait, ok
}

// parseWait reads one wait. With a unit, only a number of those is one; otherwise it may be a number
// of seconds, a Unix time, a Go duration, an HTTP-date or an RFC 3339 time.
func parseWait(s string, unit time.Duration, base *baseTime) (time.Duration, bool) {
	s = unquote(trim(s))
	if d, ok := parseDecimal(s); ok {
		if unit != 0 {
			return d.times(unit), true
		}
		if t, ok := nearInstant(d, base); ok {
			return base.until(t), true
		}
		return d.times(time.Second), true
	}
	if unit != 0 {
		return 0, false
	}
	if d, _, ok := parseDuration(s); ok {
		return d, true
	}
	if t, ok := parseTime(s, base); ok {
		return base.until(t), true
	}
	return 0, false
}

// nearInstant reads d as a Unix time in s, ms, µs or ns, if that is near to now.
func nearInstant(d decimal, base *baseTime) (time.Time, bool) {
	if d.over || d.whole < epochScales[0].from {
		return time.Time{}, false
	}
	for i := range epochScales {
		t := epochScales[i].at(d)
		if age := base.time().Sub(t); age <= instantPast && age >= -instantFuture {
			return t, true
		}
	}
	return time.Time{}, false
}

// cutMember cuts the first member off a list of numbers and dates. A comma after a weekday belongs to
// the member.
func cutMember(s string) (member, rest string) {
	n := strings.IndexByte(s, ',')
	if n >= 0 && isWeekday(strings.TrimPrefix(trim(s[:n]), `"`)) {
		if next := strings.IndexByte(s[n+1:], ','); next >= 0 {
			n += 1 + next
		} else {
			n = -1
		}
	}
	if n < 0 {
		return s, ""
	}
	return s[:n], s[n+1:]
}

// isWeekday reports whether s begins like the name of a day and is letters only.
func isWeekday(s string) bool {
	const names = "SunMonTueWedThuFriSat"
	for i := 0; i < len(names); i += 3 {
		if len(s) >= 3 && strings.EqualFold(s[:3], names[i:i+3]) {
			return isWord(s)
		}
	}
	return false
}
