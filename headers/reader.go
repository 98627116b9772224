package headers

import (
	"strings"
	"time"
)

// unknown marks a Limit, Remaining or Reset that the response doesn't tell.
const unknown = -1

// maxQuotas is how many quotas a response may describe. One that names more is not believed at all:
// which of them to keep would depend on the order of a map.
const maxQuotas = 64

const (
	maxField   = 16 << 10 // bytes of a count, a list of them, or a structured field
	maxMembers = 64       // of a structured field
)

// reader takes the fields of one response, in any order and with the same result, for a header is a
// map. What it learns of quotas is kept as drafts until all is known.
type reader struct {
	base    baseTime
	hint    waitHint
	drafts  []draft
	spare   draft
	tooMany bool // more than maxQuotas; what comes then goes to spare
}

// waitHint is the best hint so far.
type waitHint struct {
	given bool // a valid hint was there, even if it was a wait of 0
	rank  int  // which of hints it came from
	wait  time.Duration
}

// read takes one field.
func (r *reader) read(name string, values []string) {
	if len(name) > maxName {
		return
	}
	var room [maxName]byte
	lower := appendLower(room[:0], name)
	for rank := range hints {
		if hints[rank].name == string(lower) {
			r.readHint(rank, values)
			return
		}
	}
	g, w, dimension, ok := identify(lower)
	if !ok {
		return
	}
	switch w.part {
	case limit:
		r.readLimit(g, dimension, values)
	case policy:
		r.readItems(g, values)
	case state:
		r.readState(g, values)
	default:
		r.readPart(w, g, dimension, values)
	}
}

// readHint takes a field that asks for a wait: the longest of its values, and no worse field's.
func (r *reader) readHint(rank int, values []string) {
	for _, line := range values {
		wait, ok := parseRetryAfter(line, hints[rank].unit, &r.base)
		if !ok {
			continue
		}
		r.hint.given = true
		if wait == 0 {
			continue // 0 asks for nothing, so the next best field may speak
		}
		switch {
		case r.hint.wait == 0 || rank < r.hint.rank:
			r.hint.rank, r.hint.wait = rank, wait
		case rank == r.hint.rank:
			r.hint.wait = max(r.hint.wait, wait)
		}
	}
}

// readPart takes a field with one fact about one quota. Two values of one fact are two answers of
// two proxies, of which the tighter counts.
func (r *reader) readPart(w word, g generation, dimension []byte, values []string) {
	for _, line := range values {
		switch w.part {
		case remaining:
			r.readRemaining(g, dimension, line)
		case reset:
			if d, ok := parseReset(line, w.clock, &r.base); ok {
				r.draft(g, dimension).putReset(d, w.better)
			}
		case window:
			if d, ok := parseWindow(line, w.clock); ok {
				r.draft(g, dimension).putWindow(d)
			}
		case label:
			if s := unquote(trim(line)); s != "" {
				r.draft(g, dimension).putLabel(s, w.better)
			}
		}
	}
}

// readRemaining takes a count, or a list of them. What follows a ';' is no part of it.
func (r *reader) readRemaining(g generation, dimension []byte, line string) {
	if len(line) > maxField {
		return
	}
	for member := ""; line != ""; {
		member, line, _ = strings.Cut(line, ",")
		member, _, _ = strings.Cut(member, ";")
		if n, ok := parseCount(member); ok {
			r.draft(g, dimension).putRemaining(n)
		}
	}
}

// readLimit takes a field with the limit, and what servers put beside it or in its place: the
// policies of the IETF drafts to 05 ("100, 100;w=60"), a rate ("60r/m"), the window ("5m", from
// AspNetCoreRateLimit).
func (r *reader) readLimit(g generation, dimension []byte, values []string) {
	for _, line := range values {
		if len(line) > maxField {
			continue
		}
		for member := ""; line != ""; {
			member, line = cutOutside(line, ',')
			text, params := cutOutside(member, ';')
			if params != "" {
				if it, ok := scanItem(member, &r.base); ok && it.window > 0 {
					r.putItem(g, it)
					continue
				}
			}
			text = unquote(trim(text))
			if n, ok := parseLimit(text); ok {
				r.draft(g, dimension).putLimit(n)
			} else if n, d, ok := parseRate(text); ok {
				q := r.draft(g, dimension)
				q.putLimit(n)
				q.putWindow(d)
			} else if d, _, ok := parseDuration(text); ok {
				r.draft(g, dimension).putWindow(d)
			}
		}
	}
}

// parseRate reads a limit with its window, "60r/m".
func parseRate(s string) (n int64, window time.Duration, ok bool) {
	count, unit, found := strings.Cut(s, "r/")
	if !found {
		return 0, 0, false
	}
	n, ok = parseLimit(count)
	if !ok {
		return 0, 0, false
	}
	window, ok = parseWindow("1"+unit, inSeconds)
	return n, window, ok
}

// parseWindow reads the length of a window: a number of seconds or of what its name says, a
// duration, or a word ("month").
func parseWindow(s string, c clock) (time.Duration, bool) {
	s = unquote(trim(s))
	if d, ok := parseDecimal(s); ok {
		if c == inMillis {
			return d.times(time.Millisecond), true
		}
		return d.times(time.Second), true
	}
	if d, _, ok := parseDuration(s); ok {
		return d, true
	}
	d, ok := dimensions[strings.ToLower(s)]
	return d.window, ok && d.window > 0
}
