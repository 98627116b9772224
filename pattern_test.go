package outflow

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Trap 21: route matching on the wrong form of the path or host (gofri has everything as "core").
func TestPatternMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, method, url string
		want                 bool
	}{
		{"/", "GET", "http://api.test", true},
		{"/", "PATCH", "https://other.test:8443/x?y", true},
		{"api.test/", "GET", "http://api.test/v1/x", true},
		{"api.test/", "GET", "http://evil.api.test/v1/x", false},
		{"api.test/", "GET", "http://api.test.evil/v1/x", false},

		// Host and port: the port plays no part, and neither does the letter case of either side.
		{"api.test/v1/", "GET", "http://api.test:8080/v1/x", true},
		{"api.test/v1/", "GET", "http://API.Test/v1/x", true},
		{"API.test/v1/", "GET", "http://api.TEST:443/v1/x", true},
		{"api.test/v1/", "GET", "http://api.test:/v1/x", true},
		{"[::1]/v1/", "GET", "http://[::1]:8080/v1/x", true},
		{"[::1]/v1/", "GET", "http://[::1]/v1/x", true},
		{"[::1]/v1/", "GET", "http://[::2]/v1/x", false},

		// Methods: GET covers HEAD, and the empty method of a client's request is GET.
		{"GET /x", "HEAD", "http://a.test/x", true},
		{"GET /x", "", "http://a.test/x", true},
		{"HEAD /x", "GET", "http://a.test/x", false},
		{"POST /x", "GET", "http://a.test/x", false},
		{"POST \t a.test/x", "POST", "http://a.test/x", true},
		{"GET\t/x", "GET", "http://a.test/x", true},
		{"GET\t /x", "GET", "http://a.test/x", true},

		// Paths are compared unescaped, segment by segment: an escaped slash separates nothing.
		{"/search/code", "GET", "http://a.test/search/code", true},
		{"/search/code", "GET", "http://a.test/se%61rch/code", true},
		{"/se%61rch/code", "GET", "http://a.test/search/code", true},
		{"/search/code", "GET", "http://a.test/search%2Fcode", false},
		{"/search%2Fcode", "GET", "http://a.test/search%2fcode", true},
		{"/search/{what}", "GET", "http://a.test/search/a%2Fb", true},
		{"/search/{what}", "GET", "http://a.test/search/a/b", false},
		{"/caf%C3%A9", "GET", "http://a.test/café", true},
		{"/Case", "GET", "http://a.test/case", false},

		// The ends of a path.
		{"/v1/", "GET", "http://a.test/v1/", true},
		{"/v1/", "GET", "http://a.test/v1/files/7", true},
		{"/v1/", "GET", "http://a.test/v1", false},
		{"/v1", "GET", "http://a.test/v1/", false},
		{"/v1/{$}", "GET", "http://a.test/v1/", true},
		{"/v1/{$}", "GET", "http://a.test/v1", false},
		{"/v1/{$}", "GET", "http://a.test/v1/x", false},
		{"/{$}", "GET", "http://a.test", true},
		{"/{$}", "GET", "http://a.test/x", false},
		{"/v1/{rest...}", "GET", "http://a.test/v1/", true},
		{"/v1/{rest...}", "GET", "http://a.test/v1/a/b/", true},
		{"/v1/{rest...}", "GET", "http://a.test/v1", false},
		{"/v1/{id}", "GET", "http://a.test/v1/", false},
		{"/v1/{id}/", "GET", "http://a.test/v1/7/", true},
		{"/v1/{id}/", "GET", "http://a.test/v1/7", false},

		// ServeMux has no wildcard without its opening brace: this is text.
		{"/v1/x...}", "GET", "http://a.test/v1/x...%7D", true},
		{"/v1/x...}", "GET", "http://a.test/v1/other/path", false},
		{"/...}", "GET", "http://a.test/...%7D", true},

		// A client may send a path that isn't clean; servers see it cleaned.
		{"/v1/x", "GET", "http://a.test//v1///x", true},
		{"/v1/x", "GET", "http://a.test/v1/./x", true},
		{"/v1/x", "GET", "http://a.test/v2/../v1/x", true},
		{"/v1/", "GET", "http://a.test/v1/../v2", false},
		{"/v1/.well-known", "GET", "http://a.test/v1/.well-known", true},
	} {
		t.Run(tt.pattern+" "+tt.method+" "+tt.url, func(t *testing.T) {
			p, err := parsePattern(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			req := clientRequest(t, tt.method, tt.url)
			if _, got := p.match(req, -1); got != tt.want {
				t.Errorf("match = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPatternTellsWildcards(t *testing.T) {
	for _, tt := range []struct {
		pattern, wildcard, url, want string
	}{
		{"/Accounts/{sid}/", "sid", "http://a.test/Accounts/AC7/Calls.json", "AC7"},
		{"/Accounts/{sid}/", "sid", "http://a.test/Accounts/A%20C%2F7/", "A C/7"},
		{"/{a}/{b}", "a", "http://a.test/x/y", "x"},
		{"/{a}/{b}", "b", "http://a.test/x/y", "y"},
		{"/{a}/{b}", "b", "http://a.test//x/./y", "y"},
		{"/v1/{rest...}", "rest", "http://a.test/v1/x/y%2Fz", "x/y/z"},
		{"/v1/{rest...}", "rest", "http://a.test/v1/", ""},
	} {
		t.Run(tt.pattern+" "+tt.url, func(t *testing.T) {
			p, err := parsePattern(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := p.match(clientRequest(t, "GET", tt.url), p.wildcard(tt.wildcard))
			if !ok || got != tt.want {
				t.Errorf("%s = %q, %v, want %q", tt.wildcard, got, ok, tt.want)
			}
		})
	}
}

// A request may have been built by hand, without url.Parse and with the path in one form only.
func TestPatternMatchesURLsMadeByHand(t *testing.T) {
	p, err := parsePattern("api.test/a b/{x}")
	if err == nil {
		t.Fatalf("ServeMux reads a blank as the end of a method, so this is none: %+v", p)
	}
	if p, err = parsePattern("api.test/a%20b/{x}"); err != nil {
		t.Fatal(err)
	}
	for _, u := range []*url.URL{
		{Scheme: "http", Host: "api.test", Path: "/a b/c"},
		{Scheme: "http", Host: "api.test", Path: "/a b/c", RawPath: "/a%20b/c"},
		{Scheme: "http", Host: "api.test", Path: "/a b/c", RawPath: "/stale"},
	} {
		if got, ok := p.match(&http.Request{Method: "GET", URL: u}, p.wildcard("x")); !ok || got != "c" {
			t.Errorf("%#v: %q, %v", u, got, ok)
		}
	}
}

func clientRequest(t *testing.T, method, target string) *http.Request {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}}
}

// FuzzPattern holds the matcher to ServeMux: what is a pattern, what it matches, and what its
// wildcards stand for.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][4]string{
		{"/", "GET", "a.test", "/"},
		{"GET a.test/v1/{id}", "HEAD", "A.test:80", "/v1/7"},
		{"POST\t /v1/{id}/x/{rest...}", "POST", "", "/v1/a%2Fb/x/y/z"},
		{"/v1/{$}", "GET", "a.test", "/v1/"},
		{"/...}", "GET", "a.test", "/x"},
		{"/%7Bx%7D/", "GET", "a.test", "/{x}/%zz"},
		{"GET /{x}/{x}", "GET", "a.test", "/a//b/../c"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, text, method, host, path string) {
		text = lowerHost(text)
		u, err := url.Parse("http://" + strings.ToLower(host) + path)
		if err != nil || !agree(text, method, u) {
			t.Skip()
		}
		oracle, wellFormed := newOracle(text)
		p, err := parsePattern(text)
		if (err == nil) != wellFormed {
			t.Fatalf("parsePattern(%q): %v, but ServeMux takes it: %v", text, err, wellFormed)
		}
		if !wellFormed {
			return
		}
		req := &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}}
		answer := httptest.NewRecorder()
		oracle.ServeHTTP(answer, req)
		if answer.Code == http.StatusTemporaryRedirect {
			return // ServeMux's own, which a client's path doesn't get
		}
		matched := answer.Code == http.StatusOK
		if _, got := p.match(req, -1); got != matched {
			t.Fatalf("%q matches %s %v: %v, ServeMux has %v", text, method, u, got, matched)
		}
		for _, s := range p.segments {
			if !matched || !s.wildcard || s.text == "" {
				continue
			}
			if got, _ := p.match(req, p.wildcard(s.text)); got != answer.Header().Get("Value-"+s.text) {
				t.Fatalf("%q, %v: %s is %q, ServeMux has %q", text, u, s.text, got, answer.Header().Get("Value-"+s.text))
			}
		}
	})
}

// newOracle is a ServeMux with one pattern, which answers 200 and with its wildcards.
func newOracle(text string) (mux *http.ServeMux, wellFormed bool) {
	defer func() { wellFormed = recover() == nil }()
	mux = http.NewServeMux()
	mux.HandleFunc(text, func(w http.ResponseWriter, r *http.Request) {
		for part := range strings.SplitSeq(text, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
				w.Header().Set("Value-"+name, r.PathValue(name))
			}
		}
	})
	return mux, true
}

// lowerHost writes the pattern's host, which ServeMux compares byte by byte, in lower case.
func lowerHost(text string) string {
	start := strings.LastIndexAny(text[:max(strings.IndexByte(text, '/'), 0)], " \t") + 1
	end := max(strings.IndexByte(text, '/'), start)
	return text[:start] + strings.ToLower(text[start:end]) + text[end:]
}

// agree reports whether the two are meant to agree: they differ, on purpose or by a quirk of
// ServeMux, in what is ruled out here.
func agree(text, method string, u *url.URL) bool {
	before, path, _ := strings.Cut(text, "/")
	path = "/" + path
	switch {
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
	case method == "" || method == http.MethodConnect || strings.HasPrefix(text, "CONNECT"):
		// A server isn't sent an empty method, and ServeMux takes CONNECT's path as it is.
	case strings.ContainsAny(before+u.Host, ":[]") && strings.ContainsAny(before, ":[]"):
		// Ports are refused in patterns; of an IPv6 host ServeMux drops the brackets.
	case strings.HasPrefix(u.Host, "["):
	case cleanPath(path) != path:
		// ServeMux takes an empty segment for a wildcard, but never sees one.
	case hasSlashSegment(path) || hasSlashSegment(u.EscapedPath()):
		// To ServeMux a segment %2F is the end of the path.
	default:
		return isASCII(before + u.Host)
	}
	return false
}

func hasSlashSegment(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if strings.EqualFold(part, "%2f") {
			return true
		}
	}
	return false
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
