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

// String prints the limit in the form that [Parse] reads: "100/s", "100/s burst 20",
// "concurrent 10". A limit that isn't valid prints too, as what it was declared to be.
func (l Limit) String() string {
	switch l.kind {
	case rateLimit:
		s := strconv.FormatFloat(l.n, numberFormat(l.n), -1, 64) + "/" + periodName(l.per)
		if l.burst != 1 {
			s += " burst " + strconv.Itoa(l.burst)
		}
		return s
	case concurrency:
		return "concurrent " + strconv.FormatFloat(l.n, 'f', 0, 64)
	default:
		return "invalid"
	}
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
// in any letter case:
//
//	100/s                   a rate; the period is s, m, h, day, or a Go duration as in 5/2s
//	100/s burst 20          a rate with a burst
//	concurrent 10           a concurrency
//
// The error wraps [ErrInvalid] and quotes the text; a limit that is out of range is one too.
func Parse(text string) (Limit, error) {
	if len(text) > maxText {
		return Limit{}, fmt.Errorf("%w: text of %d bytes: want at most %d", ErrInvalid, len(text), maxText)
	}
	l, err := parse(strings.Fields(strings.ToLower(text)))
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return Limit{}, fmt.Errorf("parse %q: %w", text, err)
	}
	return l, nil
}

func parse(words []string) (Limit, error) {
	switch {
	case len(words) == 2 && words[0] == "concurrent":
		n, err := parseCount("concurrent", words[1])
		return Concurrent(n), err
	case len(words) == 1:
		return parseRate(words[0])
	case len(words) == 3 && words[1] == "burst":
		l, err := parseRate(words[0])
		if err != nil {
			return Limit{}, err
		}
		b, err := parseCount("burst", words[2])
		return l.WithBurst(b), err
	default:
		return Limit{}, fmt.Errorf(`%w: want "n/period", "n/period burst b" or "concurrent n"`, ErrInvalid)
	}
}

func parseRate(word string) (Limit, error) {
	number, period, ok := strings.Cut(word, "/")
	if !ok {
		return Limit{}, fmt.Errorf(`%w: %q has no "/": want n/period`, ErrInvalid, word)
	}
	if strings.Trim(number, "0123456789.e+-") != "" {
		return Limit{}, fmt.Errorf("%w: n is %q, want a decimal number", ErrInvalid, number)
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return Limit{}, fmt.Errorf("%w: n is %q, want a decimal number", ErrInvalid, number)
	}
	d, err := parsePeriod(period)
	return Per(n, d), err
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
