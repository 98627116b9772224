package headers

import (
	"strings"
	"time"
)

// proseUnits are the words for units of time.
var proseUnits = map[string]time.Duration{
	"ms": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day,
}

// found is what a phrase held.
type found struct {
	wait             time.Duration
	waits            bool
	limit, remaining int64
}

// match finds a phrase in a text. Letter case doesn't matter.
func (p *phrase) match(text string, base *baseTime) (f found, ok bool) {
	f.limit, f.remaining = unknown, unknown
	lead, rest, _ := strings.Cut(p.text, "{")
	i := indexFold(text, lead)
	if i < 0 {
		return f, false
	}
	text = text[i+len(lead):]
	for rest != "" {
		name, after, _ := strings.Cut(rest, "}")
		next := ""
		next, rest, _ = strings.Cut(after, "{")
		n := 0
		switch name {
		case "":
			f.wait, n = proseWait(text, base)
			f.waits = n > 0
		case "limit":
			f.limit, n = proseCount(text)
		case "remaining":
			f.remaining, n = proseCount(text)
		}
		if n == 0 || len(text)-n < len(next) || !strings.EqualFold(text[n:n+len(next)], next) {
			return found{}, false
		}
		text = text[n+len(next):]
	}
	return f, true
}

// indexFold is strings.Index whatever the case. sub is in lower case.
func indexFold(s, sub string) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i]|0x20 == sub[0]|0x20 && strings.EqualFold(s[i:i+len(sub)], sub) {
			return i
		}
	}
	return -1
}

func proseCount(s string) (n int64, length int) {
	d, length := scanDecimal(s)
	if d.over {
		return unknown, length
	}
	return d.whole, length
}

// proseWait reads the wait or the time that a text begins with, and returns how long that is: 0 if it
// begins with none.
func proseWait(s string, base *baseTime) (wait time.Duration, length int) {
	blank := len(s) - len(strings.TrimLeft(s, " \t:\"'"))
	s = s[blank:]
	if d, n := proseTime(s, base); n > 0 {
		return d, blank + n
	}
	total, length := time.Duration(0), 0
	for {
		d, n, unit := proseDuration(s[length:], base)
		if n == 0 {
			break
		}
		length += n
		total = min(total, MaxRetryAfter-d) + d
		more := len(s[length:]) - len(strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(s[length:], " ,"), "and "), " "))
		if _, next := scanDecimal(s[length+more:]); !unit || next == 0 || more == 0 {
			break
		}
		if _, n, unit := proseDuration(s[length+more:], base); n == 0 || !unit {
			break // another sentence's number
		}
		length += more
	}
	if length == 0 {
		return 0, 0
	}
	return total, blank + length
}

// proseTime reads a date that ends in GMT or UTC, or an RFC 3339 time.
func proseTime(s string, base *baseTime) (wait time.Duration, length int) {
	head := s[:min(len(s), 48)]
	if head == "" {
		return 0, 0
	}
	if isDigit(head[0]) {
		n := strings.IndexAny(head, " \"',;)")
		if n < 0 {
			n = len(head)
		}
		for n > 0 && head[n-1] == '.' {
			n--
		}
		if t, ok := parseRFC3339(head[:n]); ok {
			return base.until(t), n
		}
		return 0, 0
	}
	for _, zone := range [...]string{"gmt", "utc"} {
		if n := indexFold(head, zone); n > 0 {
			if t, ok := parseDate(head[:n+len(zone)], base.time()); ok {
				return base.until(t), n + len(zone)
			}
		}
	}
	return 0, 0
}

// proseDuration reads one number with its unit, a Go duration, or a number alone: of seconds, or a Unix
// time. A number of something else is none.
func proseDuration(s string, base *baseTime) (wait time.Duration, length int, unit bool) {
	number, n := scanDecimal(s)
	if n == 0 {
		return 0, 0, false
	}
	end := n
	for end < len(s) && (isLetter(s[end]) || isDigit(s[end]) || s[end] == '.' && end+1 < len(s) && isDigit(s[end+1])) {
		end++
	}
	if end > n { // 7m12.5s
		if d, _, ok := parseDuration(s[:end]); ok {
			return d, end, true
		}
	}
	start := n
	if end == n {
		for end < len(s) && s[end] == ' ' {
			end++
		}
		for start = end; end < len(s) && isLetter(s[end]); {
			end++
		}
	}
	word := s[start:end]
	if u, ok := proseUnits[strings.ToLower(word)]; ok {
		return number.times(u), end, true
	}
	if t, ok := nearInstant(number, base); ok {
		return base.until(t), n, false
	}
	if word != "" {
		return 0, 0, false
	}
	return number.times(time.Second), n, false
}
