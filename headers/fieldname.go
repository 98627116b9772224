package headers

import (
	"bytes"
	"math/bits"
	"slices"
)

// maxName bounds the names that are looked at; longer ones are nobody's.
const maxName = 128

// longestWord is the longest key of words, so that a name full of hyphens costs no more lookups
// than a real one.
const longestWord = len("interval-milliseconds")

// saysNothing knows the commonest fields, in net/http's spelling, that say nothing about limits: most of a
// header needs no closer look than this.
func saysNothing(name string) bool {
	switch name {
	case "Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Cache-Control", "Connection",
		"Content-Length", "Content-Security-Policy", "Content-Type", "Date", "Etag", "Last-Modified", "Link",
		"Location", "Permissions-Policy", "Referrer-Policy", "Server", "Set-Cookie",
		"Strict-Transport-Security", "Vary", "Via", "X-Content-Type-Options", "X-Frame-Options",
		"X-Github-Media-Type", "X-Github-Request-Id", "X-Request-Id", "X-Xss-Protection":
		return true
	}
	return false
}

// needles are parts of names of which one is in every name that the tables know, each with the index of
// one of its rarer letters, which isn't the first. The search stops only where that letter follows the
// one before it, so it is one look per byte.
var needles = [...]struct {
	text   string
	letter int
}{
	{"limit", 2},
	{"retry", 4},
	{"remaining-t", 2},     // Etsy
	{"call-remaining", 7},  // Cohere
	{"errortype", 6},       // AWS
	{"usage", 3},           // Facebook
	{"weight", 3},          // Binance
	{"x-mbx", 2},           // Binance
	{"t-requests", 4},      // Twilio
	{"x-kubernetes-pf", 2}, // Kubernetes
}

// atLetter has at a byte, in either case, bit n if it is the letter of needles[n], and beforeLetter if it is
// the one before.
var atLetter, beforeLetter = func() (at, before [256]uint16) {
	set := func(to *[256]uint16, c byte, bit uint16) {
		to[c] |= bit
		if isLetter(c) {
			to[c^0x20] |= bit
		}
	}
	for n := range needles {
		set(&at, needles[n].text[needles[n].letter], 1<<n)
		set(&before, needles[n].text[needles[n].letter-1], 1<<n)
	}
	return at, before
}()

// mayMatter is a quick look at a name: whether it has a needle in it, in any case.
func mayMatter(name string) bool {
	for i := 1; i < len(name); i++ {
		if try := atLetter[name[i]]; try != 0 {
			if try &= beforeLetter[name[i-1]]; try != 0 && hasNeedle(name, i, try) {
				return true
			}
		}
	}
	return false
}

// hasNeedle reports whether one of the needles to try is in name, with its letter at i.
func hasNeedle(name string, i int, try uint16) bool {
	for ; try != 0; try &= try - 1 {
		needle := &needles[bits.TrailingZeros16(try)]
		from := i - needle.letter
		if from < 0 || len(name)-from < len(needle.text) {
			continue
		}
		n := 0
		for n < len(needle.text) && name[from+n]|0x20 == needle.text[n]|0x20 {
			n++
		}
		if n == len(needle.text) {
			return true
		}
	}
	return false
}

// appendLower appends name in lower case, of ASCII letters only: a field name has no others.
func appendLower(to []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		to = append(to, c)
	}
	return to
}

// cutMarker splits a name in lower case around "ratelimit" or "rate-limit".
func cutMarker(name []byte) (prefix, rest []byte, ok bool) {
	prefix, rest, _ = bytes.Cut(name, []byte("limit"))
	prefix, ok = bytes.CutSuffix(bytes.TrimSuffix(prefix, []byte("-")), []byte("rate"))
	if !ok {
		return nil, nil, false
	}
	if len(rest) == 0 {
		return prefix, nil, true
	}
	return prefix, rest[1:], rest[0] == '-' && len(rest) > 1
}

// cutWord finds the word in what follows the marker, at either end, and the longest there. The
// remainder is the dimension; it may have a word in it itself (free-plans-hard-limit-limit).
func cutWord(rest []byte) (w word, dimension []byte, ok bool) {
	if w, ok = words[string(rest)]; ok {
		return w, nil, true
	}
	for i := 1; i < len(rest); i++ {
		if rest[i] != '-' || len(rest)-i-1 > longestWord {
			continue
		}
		if w, ok = words[string(rest[i+1:])]; ok && !w.alone {
			return w, rest[:i], true
		}
	}
	for i := min(len(rest)-2, longestWord); i > 0; i-- {
		if rest[i] != '-' {
			continue
		}
		if w, ok = words[string(rest[:i])]; ok && !w.alone {
			return w, rest[i+1:], true
		}
	}
	return word{}, nil, false
}

// identify splits a name, in lower case, into what the tables know of it.
func identify(name []byte) (g generation, w word, dimension []byte, ok bool) {
	if w, ok := ownFields[string(name)]; ok {
		return custom, w, []byte(w.dimension), true
	}
	for i := range prefixes {
		if rest, ok := bytes.CutPrefix(name, []byte(prefixes[i].prefix)); ok {
			return custom, prefixes[i].word, slices.Concat([]byte(prefixes[i].name), rest), true
		}
	}
	prefix, rest, ok := cutMarker(name)
	if !ok {
		return 0, word{}, nil, false
	}
	f, known := families[string(prefix)]
	if !known {
		f.generation = custom
	}
	if len(rest) == 0 {
		w = word{part: f.bare}
	} else if w, dimension, ok = cutWord(rest); !ok {
		w, dimension = word{part: pairs}, rest
	}
	if w.dimension != "" {
		dimension = []byte(w.dimension)
	}
	if vendor := bytes.TrimSuffix(bytes.TrimPrefix(prefix, []byte("x-")), []byte("-")); !known {
		if len(dimension) > 0 {
			vendor = slices.Concat(vendor, []byte("-"), dimension)
		}
		dimension = vendor
	}
	return f.generation, w, dimension, true
}
