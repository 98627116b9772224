package headers

import (
	"cmp"
	"net/http"
	"slices"
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
	dialect *Dialect // or nil
	status  int
	base    baseTime
	hint    waitHint
	ask     judgement // the header's word on the refusal
	bucket  string
	scope   Scope
	known   int // drafts
	room    [roomy]draft
	more    []draft // which room has no room for
	spare   draft
	tooMany bool // more than maxQuotas; what comes then goes to spare
}

// waitHint is the best hint so far.
type waitHint struct {
	given bool // a valid hint was there, even if it was a wait of 0
	rank  int  // which of hints it came from
	wait  time.Duration
}

// readHeader takes all fields.
func (r *reader) readHeader(h http.Header) {
	for name, values := range h {
		if !saysNothing(name) && mayMatter(name) {
			r.read(name, values)
		}
	}
}

// read takes one field.
func (r *reader) read(name string, values []string) {
	if s, ok := common[name]; ok {
		r.readField(s.generation, s.word, s.dimension, values)
		return
	}
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
	if g, w, dimension, ok := identify(lower); ok {
		r.readField(g, w, dimension, values)
	}
}

// readField takes a field that identify knows.
func (r *reader) readField(g generation, w word, dimension []byte, values []string) {
	if w.refusal && r.status != http.StatusTooManyRequests || w.listed && r.windows() == nil {
		return
	}
	switch w.part {
	case limit:
		r.readLimit(g, w, dimension, values)
	case policy:
		r.readItems(g, values)
	case state:
		r.readState(g, values)
	default:
		for _, line := range values {
			if len(line) <= maxField {
				r.readPart(g, w, dimension, line)
			}
		}
	}
}

// readHint takes a field that asks for a wait: the longest of its values, and no worse field's.
func (r *reader) readHint(rank int, values []string) {
	for _, line := range values {
		unit := hints[rank].unit
		if unit == 0 && r.dialect != nil {
			wait, ok := r.dialect.retryAfter(line, &r.base)
			r.hint.put(rank, wait, ok)
			continue
		}
		wait, ok := parseRetryAfter(line, unit, &r.base)
		r.hint.put(rank, wait, ok)
	}
}

// put takes a wait up.
func (h *waitHint) put(rank int, wait time.Duration, ok bool) {
	if !ok {
		return
	}
	h.given = true
	switch {
	case wait == 0: // which asks for nothing, so the next best hint may speak
	case h.wait == 0 || rank < h.rank:
		h.rank, h.wait = rank, wait
	case rank == h.rank:
		h.wait = max(h.wait, wait)
	}
}

// merge takes another's best up.
func (h *waitHint) merge(o waitHint) { h.put(o.rank, o.wait, o.given) }

// readPart takes a line of a field with facts about a quota. Two values of one fact are two answers of
// two proxies, of which the tighter counts.
func (r *reader) readPart(g generation, w word, dimension []byte, line string) {
	switch w.part {
	case remaining:
		r.readRemaining(g, w, dimension, line)
	case used:
		r.readUsed(g, w, dimension, line)
	case reset:
		if d, ok := r.reset(line, w.clock); ok {
			q := r.quota(g, w, dimension)
			q.putReset(d, w.better)
			q.resetOfAll = q.resetOfAll || w.shared
		}
	case window:
		if d, ok := parseWindow(line, r.windowUnit(w.clock)); ok {
			r.quota(g, w, dimension).putWindow(d)
		}
	case label, bucket, scope, kind, global:
		r.readLabel(g, w, dimension, unquote(trim(line)))
	case reason:
		r.ask = r.ask.or(code(line))
	default:
		r.readForm(g, w, dimension, line)
	}
}

// quota returns the draft that a field is about, with what its name tells.
func (r *reader) quota(g generation, w word, dimension []byte) *draft {
	d := r.draft(g, dimension)
	d.unit = cmp.Or(d.unit, w.unit)
	d.putWindow(w.window)
	return d
}

// readLabel takes a text that names a quota, or says whose it is.
func (r *reader) readLabel(g generation, w word, dimension []byte, text string) {
	if len(text) >= 2 && text[0] == '\'' && text[len(text)-1] == '\'' { // Buildkite
		text = text[1 : len(text)-1]
	}
	if text == "" || len(text) > maxName {
		return
	}
	window := time.Duration(0)
	switch w.part {
	case global:
		if fold(text) == "true" {
			r.scope = max(r.scope, ScopeGlobal)
		}
		return
	case scope:
		if whose := scopes[fold(text)]; whose != ScopeUnknown {
			r.scope = max(r.scope, whose)
			return
		}
	case bucket:
		if r.bucket == "" || text < r.bucket {
			r.bucket = text
		}
	case kind:
		meaning := kinds[fold(text)]
		if meaning.cause != None {
			r.ask = r.ask.or(judgement{said: true, cause: meaning.cause})
			return
		}
		window = meaning.window
	}
	d := r.quota(g, w, dimension)
	d.putLabel(text, w.better)
	d.putWindow(window)
	d.labelWins = d.labelWins || w.naming
}

// readRemaining takes a count, or a list of them. What follows a ';' is no part of it.
func (r *reader) readRemaining(g generation, w word, dimension []byte, line string) {
	several := strings.Contains(line, ",")
	for i, member := 0, ""; line != ""; i++ {
		member, line, _ = strings.Cut(line, ",")
		member, _, _ = strings.Cut(member, ";")
		if n, ok := parseCount(member); ok {
			r.member(g, w, dimension, i, several).putRemaining(n)
		}
	}
}

// readUsed takes a count of what was used, or a list of them that the dialect knows. Without one, the
// list doesn't tell which limit has how many left.
func (r *reader) readUsed(g generation, w word, dimension []byte, line string) {
	several := strings.Contains(line, ",")
	if several && r.windows() == nil {
		return
	}
	for i, member := 0, ""; line != ""; i++ {
		member, line, _ = strings.Cut(line, ",")
		if n, ok := parseCount(member); ok {
			d := r.member(g, w, dimension, i, several)
			d.putUsed(n)
			d.telling = d.telling || w.unit != ""
		}
	}
}

// member returns the draft that the i-th member of a list is about.
func (r *reader) member(g generation, w word, dimension []byte, i int, several bool) *draft {
	windows := r.windows()
	if !several || i >= len(windows) {
		return r.quota(g, w, dimension)
	}
	name := []byte(windows[i].Name)
	if len(dimension) > 0 {
		name = slices.Concat(dimension, []byte("-"), name)
	}
	d := r.quota(g, w, name)
	d.putWindow(windows[i].Length)
	return d
}

// readLimit takes a field with the limit, and what servers put beside it or in its place: the
// policies of the IETF drafts to 05 ("100, 100;w=60"), a rate ("60r/m"), the window ("5m", from
// AspNetCoreRateLimit), or everything as JSON (Basecamp).
func (r *reader) readLimit(g generation, w word, dimension []byte, values []string) {
	for _, line := range values {
		if len(line) > maxField {
			continue
		}
		if rest := trim(line); rest != "" && rest[0] == '{' {
			r.readObject(g, dimension, rest)
			continue
		}
		several := strings.Contains(line, ",")
		for i, member := 0, ""; line != ""; i++ {
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
				r.member(g, w, dimension, i, several).putLimit(n)
			} else if n, d, ok := parseRate(text); ok {
				q := r.quota(g, w, dimension)
				q.putLimit(n)
				q.putWindow(d)
			} else if d, _, ok := parseDuration(text); ok {
				r.quota(g, w, dimension).putWindow(d)
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
	window, ok = parseWindow("1"+unit, time.Second)
	return n, window, ok
}

// parseWindow reads the length of a window: a number of units, a
// duration, or a word ("month").
func parseWindow(s string, unit time.Duration) (time.Duration, bool) {
	s = unquote(trim(s))
	if d, ok := parseDecimal(s); ok {
		return d.times(unit), true
	}
	if d, _, ok := parseDuration(s); ok {
		return d, true
	}
	d, ok := dimensions[strings.ToLower(s)]
	return d.window, ok && d.window > 0
}
