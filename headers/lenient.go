package headers

import (
	"encoding/base64"
	"strings"
	"time"
)

// The lenient scan reads fields that RFC 9651 rejects as a whole, but of which most is well-formed:
// a second name (Hugging Face: "fixed window";"api";q=500;w=300), an empty parameter (Printful:
// 120;w=60;), or one bad member among good ones. It gives up on a member rather than guess.

// lenientItems reads the good members of a field.
func lenientItems(values []string, base *baseTime) []item {
	var items []item
	field := strings.Join(values, ", ") // as RFC 9110 §5.3 has it: a string may span two lines
	for member := ""; field != ""; {
		member, field = cutOutside(field, ',')
		if it, ok := scanItem(member, base); ok {
			items = append(items, it)
		}
	}
	return items
}

// scanItem reads one member. It has none for a member without a parameter that we know, or with
// anything in it that can't be read.
func scanItem(member string, base *baseTime) (it item, ok bool) {
	it = newItem()
	for first, param := true, ""; member != ""; first = false {
		param, member = cutOutside(member, ';')
		param = trim(param)
		key, value, hasValue := strings.Cut(param, "=")
		switch {
		case param == "" && !first:
			continue
		case first || param[0] == '"':
			b, valid := scanBare(param)
			if !valid || !it.start(b) {
				return item{}, false
			}
		case !hasValue:
			it.set(key, bare{}, base)
		default:
			b, valid := scanBare(value)
			if !valid {
				return item{}, false
			}
			it.set(key, b, base)
		}
	}
	return it, it.known
}

// scanBare reads a bare item. Of types that mean nothing here it makes the zero bare.
func scanBare(s string) (b bare, ok bool) {
	if s == "" {
		return bare{}, false
	}
	if s[0] == '"' {
		b.text, ok = scanString(s)
		b.isText = true
		return b, ok
	}
	if strings.HasPrefix(s, `%"`) {
		return bare{}, true // a display string; nothing we know has that type
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == '(' || s[i] == ')' {
			return bare{}, false
		}
	}
	digits, negative := strings.CutPrefix(s, "-")
	switch {
	case isDigit(s[0]) || negative:
		// 15 digits is what RFC 9651 allows; a longer number says that the member is broken.
		number, ok := parseDecimal(digits)
		negative = negative && number != decimal{} // -0 is 0
		return bare{isNumber: true, number: number, negative: negative}, ok && number.whole < 1e15
	case s[0] == '@':
		digits, negative := strings.CutPrefix(s[1:], "-")
		number, ok := parseDecimal(digits)
		if negative {
			number.whole = -number.whole
		}
		return bare{at: time.Unix(number.whole, 0)}, ok && number.nano == 0 && !number.over
	case s[0] == ':':
		encoded := strings.Trim(s, ":")
		if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			encoded = string(decoded)
		}
		return bare{text: encoded}, true
	case isLetter(s[0]) || s[0] == '*':
		return bare{isText: true, text: s}, isToken(s)
	}
	return bare{}, true
}

// isToken reports whether s has only what RFC 9651 §3.3.4 allows in a token.
func isToken(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && !isDigit(s[i]) && strings.IndexByte("!#$%&'*+-.^_`|~:/", s[i]) < 0 {
			return false
		}
	}
	return true
}

// scanString reads a quoted string of printable ASCII.
func scanString(s string) (string, bool) {
	if len(s) < 2 || s[len(s)-1] != '"' {
		return "", false
	}
	s = s[1 : len(s)-1]
	escaped := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] < ' ' || s[i] >= 0x7f || s[i] == '"':
			return "", false
		case s[i] == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
			escaped = true
		}
	}
	if escaped {
		s = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(s)
	}
	return s, true
}

// cutOutside cuts s at the first sep that is outside of quotes.
func cutOutside(s string, sep byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
