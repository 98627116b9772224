package headers

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// The ranks of waits in a body, behind those of a header.
const (
	rankInJSON = len(hints) + iota
	rankInProse
	rankInDocs
)

// bodyReader collects what a body says. What of it counts is clear only at the end: prose is, if it is of a
// refusal, and in a success it is if a code says that it is none.
type bodyReader struct {
	*reader
	said   judgement
	inJSON waitHint
	prose  waitHint
	crowd  bool // a phrase says that the limit is one on how many are in flight
	counts []phraseCounts
}

type phraseCounts struct {
	phrase *phrase
	found  found
}

// readBody takes the beginning of a body.
func (r *reader) readBody(text string) {
	b := bodyReader{reader: r}
	text = strings.TrimLeft(strings.TrimPrefix(text, "\ufeff"), " \t\r\n")
	switch {
	case text == "":
		return
	case text[0] == '{' || text[0] == '[' || text[0] == '"':
		scanJSON(text, b.visit)
	case text[0] == '<':
		if !isHTML(text) {
			scanXML(text, b.visit)
		}
	case !b.success():
		b.readText(text)
	}
	b.conclude()
}

// success reports whether the status is one, so that only a known place may say otherwise.
func (b *bodyReader) success() bool { return b.status < http.StatusBadRequest }

// isHTML reports whether a document is a page for people, whose text is anybody's.
func isHTML(s string) bool {
	for _, tag := range [...]string{"<!doctype html", "<html"} {
		if len(s) >= len(tag) && strings.EqualFold(s[:len(tag)], tag) {
			return true
		}
	}
	return false
}

// readText takes plain text. What is in quotes in it may be a code.
func (b *bodyReader) readText(text string) {
	b.readProse(text, true)
	for i, quoted := range strings.Split(text, `"`) {
		if i%2 == 1 {
			b.said = b.said.or(code(quoted))
		}
	}
}

// visit takes a text or a number on its way through a document.
func (b *bodyReader) visit(path []string, text string, quoted bool) {
	if len(path) == 0 {
		return
	}
	var room [maxName]byte
	key := appendFold(room[:0], path[len(path)-1])
	judges := !b.success() || accepted[foldPath(path)]
	if unit, ok := waitKeys[string(key)]; ok {
		b.readWait(text, unit)
	} else if string(key) == "seconds" && len(path) > 1 { // protobuf's Duration as some print it
		if unit, ok := waitKeys[fold(path[len(path)-2])]; ok && unit == 0 {
			b.readWait(text, unit)
		}
	}
	if codeKeys[string(key)] && judges {
		b.said = b.said.or(code(text))
	}
	if messageKeys[string(key)] && quoted {
		b.readProse(text, judges)
	}
	if stock, ok := stocks[string(key)]; ok && foldPath(path[:len(path)-1]) == stock.path {
		b.readStock(stock, text)
	}
	if string(key) == "global" && text == "true" && len(path) == 1 && b.status == http.StatusTooManyRequests { // Discord
		b.scope = ScopeGlobal
	}
}

// readWait takes a wait, which in a body may be in words.
func (b *bodyReader) readWait(text string, unit time.Duration) {
	wait, ok := parseWait(text, unit, &b.base)
	if !ok && unit == 0 {
		var n int
		wait, n = proseWait(text, &b.base)
		ok = n > 0 && n == len(text)
	}
	b.inJSON.put(rankInJSON, wait, ok)
}

// foldPath joins the folded keys of a path.
func foldPath(path []string) string {
	folded := make([]string, len(path))
	for i, key := range path {
		folded[i] = fold(key)
	}
	return strings.Join(folded, ".")
}

// readProse takes a text for people. judges: its verdict counts. That of a 503 is in its status, which is
// more careful with words.
func (b *bodyReader) readProse(text string, judges bool) {
	judges = judges && verdicts[b.status].cause != Overloaded
	for i := range phrases {
		p := &phrases[i]
		f, ok := p.match(text, &b.base)
		if !ok {
			continue
		}
		if judges {
			b.said = b.said.or(p.judgement)
		}
		b.crowd = b.crowd || p.concurrency
		b.prose.put(rankInProse, f.wait, f.waits)
		if p.quota != "" {
			b.counts = append(b.counts, phraseCounts{p, f})
		}
	}
}

// readStock takes a number that is a part of a quota.
func (b *bodyReader) readStock(s stock, text string) {
	n, ok := parseCount(text)
	if !ok {
		return
	}
	d := b.quota(custom, word{unit: s.unit}, []byte(s.quota))
	if s.part == limit {
		d.putLimit(n)
	} else {
		d.putRemaining(n)
	}
}

// conclude hands on what counts.
func (b *bodyReader) conclude() {
	b.said.inBody = b.said.said
	b.ask = b.ask.or(b.said)
	b.ask.concurrency = b.ask.concurrency || b.crowd
	refused := b.ask.said && b.ask.cause != None
	if b.success() && !refused {
		return
	}
	b.hint.merge(b.inJSON)
	if when := verdicts[b.status].when; !refused && !b.hint.given && (when == ifRefused || when == ifSaid) {
		return
	}
	b.hint.merge(b.prose)
	for _, c := range b.counts {
		d := b.quota(custom, word{unit: c.phrase.unit}, []byte(c.phrase.quota))
		d.putLimit(c.found.limit)
		d.putRemaining(c.found.remaining)
		if c.found.waits {
			d.putReset(c.found.wait, 0)
		}
	}
	// What the documentation says is for when nothing else tells how long to wait.
	if !slices.ContainsFunc(b.drafts(), func(d draft) bool { return d.remaining == 0 }) {
		b.hint.put(rankInDocs, b.ask.wait, b.ask.wait > 0)
	}
}
