package limit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxText is the longest text that Parse reads, in bytes.
const maxText = 128

// periods are the names that a rate's period may have; the first of each length is the one that
// String writes. Any other length is written as a Go duration: "5/2s", "1/1m30s".
var periods = []struct {
	name   string
	length time.Duration
}{
	{"s", time.Second}, {"sec", time.Second}, {"second", time.Second},
	{"m", time.Minute}, {"min", time.Minute}, {"minute", time.Minute},
	{"h", time.Hour}, {"hour", time.Hour},
	{"day", 24 * time.Hour}, {"d", 24 * time.Hour},
}

// String prints the limit in the form that [Parse] reads: "100/s", "100/s burst 20", "5000/h fixed",
// "concurrent 10". A limit that isn't valid prints too, as what it was declared to be.
func (l Limit) String() string {
	number := strconv.FormatFloat(l.n, numberFormat(l.n), -1, 64)
	var s string
	usual := 0 // the burst that isn't worth a word
	switch l.kind {
	case rateLimit:
		s, usual = number+"/"+periodName(l.per), 1
	case concurrency:
		s, usual = "concurrent "+strconv.FormatFloat(l.n, 'f', 0, 64), l.burst
	case slidingWindow:
		s = number + "/" + periodName(l.per) + " sliding"
	case slidingCounter:
		s = number + "/" + periodName(l.per) + " sliding counter"
	case fixedWindow:
		switch l.phase {
		case daily:
			s = fmt.Sprintf("%s/day at %02d:%02d %s", number, l.hour, l.minute, l.zone)
		case monthly:
			s = fmt.Sprintf("%s/month on %d at %02d:%02d %s", number, l.day, l.hour, l.minute, l.zone)
		default:
			s = number + "/" + periodName(l.per) + " fixed" + [...]string{byClock: " by clock", byKey: " by key"}[l.phase]
		}
	case adaptiveRate, adaptiveConcurrency:
		s = l.adaptiveText()
	default:
		return "invalid"
	}
	if l.burst != usual {
		s += " burst " + strconv.Itoa(l.burst)
	}
	if l.headroom != 0 {
		s += " headroom " + percent(l.headroom)
	}
	return s
}

// percent moves the decimal point instead of multiplying, so that a share comes back as it was.
func percent(share float64) string {
	digits, ok := strings.CutPrefix(strconv.FormatFloat(share, 'f', -1, 64), "0.")
	if !ok {
		return strconv.FormatFloat(100*share, 'g', -1, 64) + "%" // not a share
	}
	digits += strings.Repeat("0", max(0, 2-len(digits)))
	whole, part := strings.TrimLeft(digits[:2], "0"), digits[2:]
	if whole == "" {
		whole = "0"
	}
	if part != "" {
		part = "." + part
	}
	return whole + part + "%"
}

// numberFormat keeps everyday numbers free of exponents and very small or large ones short.
func numberFormat(n float64) byte {
	if n >= 1e-6 && n < 1e15 {
		return 'f'
	}
	return 'g'
}

func periodName(d time.Duration) string {
	for _, p := range periods {
		if p.length == d {
			return p.name
		}
	}
	return d.String()
}

// Parse reads a limit as [Limit.String] prints it, with any number of blanks between its words and
// in any letter case, but for the names of places:
//
//	100/s                                   a rate; the period is s, m, h, day, or a Go duration as in 5/2s
//	concurrent 10                           a concurrency
//	300/m sliding                           SlidingWindow
//	300/m sliding counter                   SlidingCounter
//	5000/h fixed                            FixedWindow
//	5000/h fixed by clock                   FixedWindow(…).ByClock()
//	5000/h fixed by key                     FixedWindow(…).ByKey()
//	1000/day at 00:00 America/Los_Angeles   Daily
//	10000/month on 1 at 00:00 UTC           Monthly
//	adaptive 1/s to 100/s                   AdaptiveRate; each of both rates may have any period
//	adaptive concurrent 1 to 64             AdaptiveConcurrency
//
// After any of them may come "burst 20", where there is a burst, and then "headroom 10%".
//
// The error wraps [ErrInvalid] and quotes the text; a limit that is out of range is one too.
func Parse(text string) (Limit, error) {
	if len(text) > maxText {
		return Limit{}, fmt.Errorf("%w: text of %d bytes: want at most %d", ErrInvalid, len(text), maxText)
	}
	l, err := parse(strings.Fields(text))
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return Limit{}, fmt.Errorf("parse %q: %w", text, err)
	}
	return l, nil
}

var errForm = fmt.Errorf(`%w: want "n/period", "n/period fixed", "n/period sliding", "n/day at hh:mm place", `+
	`"n/month on day at hh:mm place", "concurrent n", "adaptive n/period to n/period" or "adaptive concurrent n to n", then "burst b", then "headroom p%%"`, ErrInvalid)

func parse(words []string) (Limit, error) {
	rest := words
	// next takes the words given if they come next, in any letter case.
	next := func(want ...string) bool {
		if len(rest) < len(want) {
			return false
		}
		for i, w := range want {
			if !strings.EqualFold(rest[i], w) {
				return false
			}
		}
		rest = rest[len(want):]
		return true
	}
	// take is the word that comes next, "" if none does.
	take := func() string {
		if len(rest) == 0 {
			return ""
		}
		word := rest[0]
		rest = rest[1:]
		return word
	}
	if len(words) == 0 {
		return Limit{}, errForm
	}
	var l Limit
	var err error
	if next("concurrent") {
		if len(rest) == 0 {
			return Limit{}, errForm
		}
		var n int
		n, err = parseCount("concurrent", take())
		l = Concurrent(n)
	} else if next("adaptive") {
		l, err = parseAdaptive(next, take)
	} else {
		l, err = parseTimed(take(), next, take)
	}
	if err == nil && len(rest) > 1 && next("burst") {
		var b int
		b, err = parseCount("burst", take())
		l = l.WithBurst(b)
	}
	if err == nil && len(rest) > 1 && next("headroom") {
		var share float64
		share, err = parsePercent("headroom", take())
		l = l.WithHeadroom(share)
	}
	if err == nil && len(rest) > 0 {
		err = errForm
	}
	return l, err
}

// parseTimed reads what is n per something, from the first word and those that next and take give.
func parseTimed(first string, next func(...string) bool, take func() string) (Limit, error) {
	number, period, ok := strings.Cut(strings.ToLower(first), "/")
	if !ok {
		return Limit{}, fmt.Errorf(`%w: %q has no "/": want n/period`, ErrInvalid, first)
	}
	n, err := parseNumber("n", number)
	if err != nil {
		return Limit{}, err
	}
	switch {
	case period == "month":
		if !next("on") {
			return Limit{}, fmt.Errorf("%w: a month begins on some day: want n/month on day at hh:mm place", ErrInvalid)
		}
		day, err := parseCount("day", take())
		if err != nil {
			return Limit{}, err
		}
		if !next("at") {
			return Limit{}, fmt.Errorf("%w: a month begins at some time: want n/month on day at hh:mm place", ErrInvalid)
		}
		return parseAt(Limit{kind: fixedWindow, phase: monthly, n: n, per: longestMonth, day: day}, take(), take())
	case period == "day" && next("at"):
		return parseAt(Limit{kind: fixedWindow, phase: daily, n: n, per: longestDay}, take(), take())
	}
	l := Limit{n: n}
	switch {
	case next("fixed", "by", "clock"):
		l.kind, l.phase = fixedWindow, byClock
	case next("fixed", "by", "key"):
		l.kind, l.phase = fixedWindow, byKey
	case next("fixed"):
		l.kind = fixedWindow
	case next("sliding", "counter"):
		l.kind = slidingCounter
	case next("sliding"):
		l.kind = slidingWindow
	default:
		l.kind, l.burst = rateLimit, 1
	}
	l.per, err = parsePeriod(period)
	return l, err
}

// parseAt reads when and where a calendar window begins. Names of places are told apart by their
// letter case; UTC and Local, which are no places, aren't.
func parseAt(l Limit, clock, zone string) (Limit, error) {
	hour, minute, ok := strings.Cut(clock, ":")
	if !ok || len(minute) != 2 {
		return Limit{}, fmt.Errorf("%w: time is %q, want hh:mm", ErrInvalid, clock)
	}
	var err error
	if l.hour, err = parseCount("hour", hour); err != nil {
		return Limit{}, err
	}
	if l.minute, err = parseCount("minute", minute); err != nil {
		return Limit{}, err
	}
	l.zone = zone
	for _, name := range []string{"UTC", "Local"} {
		if strings.EqualFold(zone, name) {
			l.zone = name
		}
	}
	return l, nil
}

func parseNumber(field, word string) (float64, error) {
	n, err := strconv.ParseFloat(word, 64)
	if err != nil || strings.Trim(word, "0123456789.e+-") != "" {
		return 0, fmt.Errorf("%w: %s is %q, want a decimal number", ErrInvalid, field, word)
	}
	return n, nil
}

func parsePercent(field, word string) (float64, error) {
	number, ok := strings.CutSuffix(word, "%")
	share, err := strconv.ParseFloat(number+"e-2", 64)
	if !ok || err != nil || strings.Trim(number, "0123456789.-") != "" {
		return 0, fmt.Errorf("%w: %s is %q, want a percentage, as in 10%%", ErrInvalid, field, word)
	}
	return share, nil
}

func parsePeriod(word string) (time.Duration, error) {
	for _, p := range periods {
		if p.name == word {
			return p.length, nil
		}
	}
	d, err := time.ParseDuration(word)
	if err != nil {
		return 0, fmt.Errorf("%w: period is %q, want s, m, h, day or a Go duration", ErrInvalid, word)
	}
	return d, nil
}

func parseCount(field, word string) (int, error) {
	n, err := strconv.ParseInt(word, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is %q, want a whole number", ErrInvalid, field, word)
	}
	return int(n), nil
}

// MarshalText implements [encoding.TextMarshaler]: the text of [Limit.String], or the error of
// [Limit.Validate].
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with [Parse]. After an error l is as it was.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
