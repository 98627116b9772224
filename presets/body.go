package presets

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A body is what a request's body says at its top level, and how many tokens it may be.
type body struct {
	names, values []string // values as they are in the JSON; "" if a name isn't there
	tokens        int
}

const (
	maxBody       = 64 << 20 // of a body of JSON; no API takes as much
	maxForm       = 1 << 20
	maxValue      = 4 << 10
	maxNumber     = 1 << 24
	bytesPerToken = 4    // of English text, as OpenAI has it; code and other scripts are near it
	imageTokens   = 1500 // of an image of about a megapixel
	longestWord   = 4096 // what is longer without a break is no text but an image, in base64
	unknownTokens = 1000 // of a body that can't be looked at and doesn't tell its length
)

// read looks for the named fields in a body of JSON, or in a form. The request's own body is left alone: it is
// another one, of GetBody, that is read, as a retry's would be. Without GetBody nothing is found.
func read(req *http.Request, names ...string) body { return open(req, false, names) }

// lookUp is the value of one field that is a string, of a body of which nothing else is of interest.
func lookUp(req *http.Request, name string) string { return open(req, true, []string{name}).text(name) }

// open reads the body, and no further than it takes to find all names if that is enough.
func open(req *http.Request, enough bool, names []string) body {
	b := body{names: names, values: make([]string, len(names)), tokens: unknownTokens}
	if req.ContentLength > 0 {
		b.tokens = int(req.ContentLength / bytesPerToken)
	}
	if req.GetBody == nil || req.Body == nil || req.Body == http.NoBody {
		return b
	}
	r, err := req.GetBody()
	if err != nil {
		return b
	}
	defer r.Close()
	if strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		text, _ := io.ReadAll(io.LimitReader(r, maxForm))
		form, _ := url.ParseQuery(string(text))
		for i, name := range names {
			b.values[i] = strconv.Quote(form.Get(name))
		}
		return b
	}
	b.scan(bufio.NewReader(io.LimitReader(r, maxBody)), enough)
	return b
}

// text is the value of a field that is a string, or the beginning of a long one, and else "".
func (b body) text(name string) string {
	value := b.values[slices.Index(b.names, name)]
	var s string
	if json.Unmarshal([]byte(value), &s) != nil && len(value) == maxValue {
		_ = json.Unmarshal([]byte(strings.TrimRight(value, `\`)+`"`), &s)
	}
	return s
}

// number is the value of a field that is a whole number up to maxNumber, and else 0.
func (b body) number(name string) int {
	n, err := strconv.Atoi(b.values[slices.Index(b.names, name)])
	if err != nil {
		return 0
	}
	return min(max(n, 0), maxNumber)
}

// scan goes through the JSON once and keeps nothing of it but the values that are looked for. It doesn't
// care whether it is well formed: that is for the upstream to say. If it is enough to have found all that is
// looked for, it ends there, and the number of tokens isn't told.
func (b *body) scan(r *bufio.Reader, enough bool) {
	var (
		depth                int
		inString, escaped    bool
		colon                bool   // at depth 1: a value is next, not a name
		name                 []byte // at depth 1
		value                []byte // of the field at index want
		want                 = -1
		length, word, images int
		missing              = len(b.names)
	)
	keep := func() {
		if want >= 0 {
			b.values[want] = strings.Trim(string(value), " \t\r\n")
			missing--
		}
		want, value = -1, value[:0]
	}
	for !enough || missing > 0 {
		c, err := r.ReadByte()
		if err != nil {
			break
		}
		length++
		word++
		if c <= ' ' || c == '"' || c == '\\' {
			if word > longestWord {
				length -= word
				images++
			}
			word = 0
		}
		if want >= 0 && (inString || depth > 1 || c != ',' && c != '}') && len(value) < maxValue {
			value = append(value, c)
		}
		if inString {
			switch {
			case escaped:
				escaped = false
			case c == '\\':
				escaped = true
			case c == '"':
				inString = false
			default:
				if depth == 1 && !colon && len(name) < maxValue {
					name = append(name, c)
				}
			}
			continue
		}
		switch c {
		case '"':
			inString = true
			if depth == 1 && !colon {
				name = name[:0]
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				keep()
			}
		case ':':
			if depth == 1 && !colon {
				colon = true
				want = slices.Index(b.names, string(name))
			}
		case ',':
			if depth == 1 {
				keep()
				colon = false
			}
		}
	}
	b.tokens = (length+bytesPerToken-1)/bytesPerToken + images*imageTokens
}
