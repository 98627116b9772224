package headers

import (
	"bytes"
	"slices"
	"strings"
)

// maxName bounds the names that are looked at; longer ones are nobody's.
const maxName = 128

// longestWord is the longest key of words, so that a name full of hyphens costs no more lookups
// than a real one.
const longestWord = len("interval-milliseconds")

// mayMatter is a quick look at a name: whether it has "limit" or "retry" in it, in any case, as all
// names in the tables do. It looks for the rarest letter of each, so it is one comparison per byte.
func mayMatter(name string) bool {
	for i := 2; i+2 < len(name); i++ {
		switch name[i] | 0x20 {
		case 'm':
			if strings.EqualFold(name[i-2:i+3], "limit") {
				return true
			}
		case 't':
			if strings.EqualFold(name[i-2:i+3], "retry") {
				return true
			}
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
		return 0, word{}, nil, false
	}
	switch {
	case !known:
		vendor := bytes.TrimSuffix(bytes.TrimPrefix(prefix, []byte("x-")), []byte("-"))
		if len(dimension) > 0 {
			vendor = slices.Concat(vendor, []byte("-"), dimension)
		}
		dimension = vendor
	case w.dimension != "":
		dimension = []byte(w.dimension)
	}
	return f.generation, w, dimension, true
}
