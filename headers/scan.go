package headers

import "strings"

// The scanners of this file read the beginning of a document: what is cut off is missing, and what is
// malformed is passed over. They keep no tree; each text is handed on as it comes, with the keys on the
// way to it. Arrays have no key, so their members look like their parents' own.

// maxDepth is how deep a document is followed; nobody hides a limit deeper.
const maxDepth = 24

// scanJSON visits the texts and numbers of a document. quoted tells a text from a number or literal. Of
// a text, the escapes are left as they are. path is only valid during the call.
func scanJSON(s string, visit func(path []string, text string, quoted bool)) {
	var room, key [maxDepth + 1]string
	depth, pending := 0, ""
	emit := func(text string, quoted bool) {
		path := room[:0]
		for _, k := range key[:depth] {
			if k != "" {
				path = append(path, k)
			}
		}
		if pending != "" {
			path = append(path, pending)
		}
		visit(path, text, quoted)
	}
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '{' || c == '[':
			if depth == maxDepth {
				return
			}
			key[depth] = pending
			depth++
			pending = ""
			i++
		case c == '}' || c == ']':
			depth = max(0, depth-1)
			pending = ""
			i++
		case c == ',':
			pending = ""
			i++
		case c == '"':
			text, n := cutJSONString(s[i:])
			if n == 0 {
				return // cut off
			}
			i += n
			if isKey, after := colonFollows(s[i:]); isKey {
				pending = text
				i += after
			} else {
				emit(text, true)
				pending = ""
			}
		case isLetter(c) || isDigit(c) || c == '-':
			n := 1
			for i+n < len(s) && (isLetter(s[i+n]) || isDigit(s[i+n]) || strings.IndexByte("+-.", s[i+n]) >= 0) {
				n++
			}
			if i+n < len(s) || depth == 0 { // else it may be cut off
				emit(s[i:i+n], false)
			}
			pending = ""
			i += n
		default:
			i++
		}
	}
}

// cutJSONString returns the string that s begins with and its length with the quotes, 0 if it has no end.
func cutJSONString(s string) (text string, n int) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[1:i], i + 1
		}
	}
	return "", 0
}

// colonFollows reports whether the next sign is a colon, and where it ends.
func colonFollows(s string) (ok bool, end int) {
	for i := range len(s) {
		switch s[i] {
		case ' ', '\t', '\n', '\r':
		case ':':
			return true, i + 1
		default:
			return false, 0
		}
	}
	return false, 0
}

// scanXML visits the texts of elements. It knows no attributes, entities or CDATA.
func scanXML(s string, visit func(path []string, text string, quoted bool)) {
	var path [maxDepth]string
	depth := 0
	for s != "" {
		text, rest, ok := strings.Cut(s, "<")
		if !ok {
			return
		}
		if text = strings.TrimSpace(text); text != "" && depth > 0 {
			visit(path[:depth], text, true)
		}
		tag, rest, ok := strings.Cut(rest, ">")
		if !ok {
			return
		}
		s = rest
		switch {
		case tag == "" || tag[0] == '?' || tag[0] == '!' || tag[len(tag)-1] == '/':
		case tag[0] == '/':
			depth = max(0, depth-1)
		case depth == maxDepth:
			return
		default:
			name, _, _ := strings.Cut(tag, " ")
			path[depth] = name[strings.IndexByte(name, ':')+1:]
			depth++
		}
	}
}

// wholeJSON reports whether s holds a whole object or array, so that there is nothing to wait for.
func wholeJSON(s []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				return depth == 0
			}
		}
	}
	return false
}
