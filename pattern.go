package outflow

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// pattern is a ServeMux pattern that can be matched without a ServeMux, which finds the one best
// pattern of many, where a Transport wants all that match, and allocates while it does: see
// docs/decisions/0002-pattern-matching.md. ServeMux itself decides whether a pattern is well formed.
type pattern struct {
	method   string    // "": any
	host     string    // in lower case; "": any
	segments []segment // between the slashes
	rest     bool      // the last segment stands for any number of them, also none
}

// segment is one part of a path: text to be equal to, or a wildcard.
type segment struct {
	text     string
	wildcard bool // then text is its name
}

// parsePattern returns the pattern, or what ServeMux or a Transport has against it.
func parsePattern(s string) (p pattern, err error) {
	if err := wellFormed(s); err != nil {
		return pattern{}, err
	}
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		p.method, s = s[:i], strings.TrimLeft(s[i+1:], " \t")
	}
	slash := strings.IndexByte(s, '/')
	p.host = strings.ToLower(s[:slash])
	if host, port, ok := strings.Cut(p.host, ":"); ok && !strings.HasPrefix(p.host, "[") {
		return pattern{}, fmt.Errorf("%q: host has the port %q, want %q: ports play no part", s, port, host)
	}
	for part := range strings.SplitSeq(s[slash+1:], "/") {
		switch {
		case !strings.HasPrefix(part, "{"):
			p.segments = append(p.segments, segment{text: unescape(part)})
		case part == "{$}": // nothing after the slash
			p.segments = append(p.segments, segment{})
			return p, nil
		case strings.HasSuffix(part, "...}"):
			p.segments = append(p.segments, segment{text: part[1 : len(part)-4], wildcard: true})
			p.rest = true
			return p, nil
		default:
			p.segments = append(p.segments, segment{text: part[1 : len(part)-1], wildcard: true})
		}
	}
	// A slash at the end stands for everything below.
	if last := &p.segments[len(p.segments)-1]; *last == (segment{}) {
		last.wildcard = true
		p.rest = true
	}
	return p, nil
}

// wellFormed asks ServeMux, which panics with what is wrong.
func wellFormed(s string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	if s == "" {
		return errors.New(`"": want a pattern; "/" matches every request`)
	}
	http.NewServeMux().Handle(s, http.NotFoundHandler())
	return nil
}

// wildcard returns the index of the named wildcard's segment; -1: there is none.
func (p pattern) wildcard(name string) int {
	for i, s := range p.segments {
		if s.wildcard && s.text == name && name != "" {
			return i
		}
	}
	return -1
}

// match reports whether the pattern matches the request, and what segment i of its path is. As in
// ServeMux, GET matches HEAD too, segments are compared unescaped, so that an escaped slash is none,
// and a path is cleaned of empty and dot segments first.
func (p *pattern) match(req *http.Request, i int) (string, bool) {
	if !p.matchMethod(req.Method) || !p.matchHost(req.URL.Host) {
		return "", false
	}
	rest := cleanPath(req.URL.EscapedPath())[1:]
	var value string
	for n := range p.segments {
		s := &p.segments[n]
		if p.rest && n == len(p.segments)-1 {
			if n == i {
				value = unescape(rest)
			}
			return value, true
		}
		part, after, more := strings.Cut(rest, "/")
		if last := n == len(p.segments)-1; last == more {
			return "", false
		}
		switch {
		case !s.wildcard && unescape(part) != s.text:
			return "", false
		case s.wildcard && part == "":
			return "", false
		case n == i:
			value = unescape(part)
		}
		rest = after
	}
	return value, true
}

func (p *pattern) matchMethod(method string) bool {
	if method == "" {
		method = http.MethodGet
	}
	return p.method == "" || p.method == method || p.method == http.MethodGet && method == http.MethodHead
}

func (p *pattern) matchHost(host string) bool {
	if p.host == "" {
		return true
	}
	if len(host) > len(p.host) && host[len(p.host)] == ':' {
		host = host[:len(p.host)]
	}
	return strings.EqualFold(host, p.host)
}

// cleanPath is the path from the root on without empty and dot segments.
func cleanPath(p string) string {
	if p == "" {
		return "/"
	}
	if p[0] == '/' && !strings.Contains(p, "//") && !strings.Contains(p, "/.") {
		return p
	}
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// unescape returns s as it is if it isn't escaped correctly.
func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}
