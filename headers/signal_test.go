package headers

import (
	"go/build"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// parse is ParseHeader at arrival, of name and value pairs. A name may come several times.
func parse(status int, pairs ...string) Signal {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return ParseHeader(status, h, arrival)
}

func TestCauseByStatus(t *testing.T) {
	retryAfter := []string{"Retry-After", "5"}
	nothingLeft := []string{"X-RateLimit-Remaining", "0"}
	someLeft := []string{"X-RateLimit-Remaining", "1"}
	for _, test := range []struct {
		status int
		header []string
		want   Cause
	}{
		{429, nil, Limited},
		{429, someLeft, Limited}, // GitLab, Discord and Xero refuse with much left
		{503, nil, Overloaded},
		{503, nothingLeft, Overloaded},
		{529, nil, Overloaded},
		{403, nil, None}, // permissions
		{403, someLeft, None},
		{403, nothingLeft, Limited},
		{403, retryAfter, Limited},
		{403, []string{"Retry-After", "0"}, Limited}, // valid, if useless
		{403, []string{"Retry-After", "soon"}, None},
		{403, []string{"Retry-After", "-1"}, None},
		{418, nil, None},
		{418, retryAfter, Limited},
		{420, nil, None},
		{420, retryAfter, Limited},
		{420, nothingLeft, Limited},
		{200, retryAfter, None},
		{200, nothingLeft, None},
		{202, retryAfter, None},
		{301, retryAfter, None},
		{404, retryAfter, None},
		{409, retryAfter, None},
		{413, retryAfter, None},
		{401, nothingLeft, None},
		{400, nothingLeft, None},
		{500, nothingLeft, None},
		{402, nil, None},
		{502, nil, None},
	} {
		if got := parse(test.status, test.header...).Cause; got != test.want {
			t.Errorf("%d %v: %v, want %v", test.status, test.header, got, test.want)
		}
	}
}

func TestRetryAfterIsDeliveredWhateverTheStatus(t *testing.T) {
	for _, status := range []int{200, 201, 202, 301, 307, 400, 403, 404, 409, 413, 429, 500, 503} {
		if got := parse(status, "Retry-After", "30").RetryAfter; got != 30*time.Second {
			t.Errorf("%d: %v", status, got)
		}
	}
}

func TestNothingSaid(t *testing.T) {
	for _, h := range []http.Header{nil, {}, plain} {
		if got := ParseHeader(200, h, arrival); !reflect.DeepEqual(got, Signal{}) {
			t.Errorf("%v: %+v", h, got)
		}
	}
	got := parse(200, "X-RateLimit-Limit", "", "X-RateLimit-Remaining", " ", "X-RateLimit-Reset", "soon", "X-RateLimit-Resource", "")
	if got.Quotas != nil {
		t.Errorf("empty fields and garbage: %+v", got)
	}
}

// A number that can't be right is unknown, but the quota was named.
func TestQuotaOfWhichAllIsUnknown(t *testing.T) {
	got := printSignal(parse(200, "X-RateLimit-Limit", "-1", "X-RateLimit-Remaining", "99999999999999999999"))
	want := "none, retry after 0s\n  \"\" limit -1 remaining -1 reset -1ns window 0s requests"
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestHeaderIsNotModified(t *testing.T) {
	for _, h := range []http.Header{github, openai, draft8} {
		before := http.Header(maps.Clone(h)).Clone()
		ParseHeader(200, h, arrival)
		if !reflect.DeepEqual(h, before) {
			t.Errorf("%v became %v", before, h)
		}
	}
}

func TestNamesInAnyCase(t *testing.T) {
	for _, spell := range []func(string) string{strings.ToLower, strings.ToUpper, http.CanonicalHeaderKey} {
		h := http.Header{}
		for name, values := range github {
			h[spell(name)] = values
		}
		if got, want := printSignal(ParseHeader(200, h, arrival)), printSignal(ParseHeader(200, github, arrival)); got != want {
			t.Errorf("%v: %s\nwant %s", h, got, want)
		}
	}
	two := ParseHeader(429, http.Header{"Retry-After": {"10"}, "retry-after": {"40"}, "RETRY-AFTER": {"20"}}, arrival)
	if two.RetryAfter != 40*time.Second {
		t.Errorf("spellings are lines of one field: %v", two.RetryAfter)
	}
}

// Go iterates over a map in another order each time.
func TestOrderOfTheMapDoesNotMatter(t *testing.T) {
	h := with(github, openai, draft8, http.Header{
		"date":                       {"Thu, 15 Jan 2026 11:00:00 GMT"},
		"DATE":                       {"Thu, 15 Jan 2026 10:00:00 GMT"},
		"x-ratelimit-resource":       {"search"},
		"x-ratelimit-limit":          {"30"},
		"Ratelimit-Limit":            {"5000, 5000;w=3600, 10;w=1"},
		"Ratelimit-Remaining":        {"4987"},
		"X-Ratelimit-Reset-After":    {"7", "9"},
		"X-Contentful-Ratelimit-Max": {"8"},
		"X-Ratelimit-Policy":         {`"complexity";q=77;w=1`},
		"X-Ratelimit-Max-Complexity": {"77"},
		"Retry-After":                {"3"},
		"X-Retry-After":              {"9"},
	})
	delete(h, "Date")
	first := printSignal(ParseHeader(429, h, arrival))
	for range 200 {
		if again := printSignal(ParseHeader(429, h, arrival)); again != first {
			t.Fatalf("first %s\nthen %s", first, again)
		}
	}
}

func TestCauseString(t *testing.T) {
	for c, want := range map[Cause]string{None: "none", Limited: "limited", Overloaded: "overloaded", 9: "unknown"} {
		if c.String() != want {
			t.Errorf("%d: %q", c, c.String())
		}
	}
}

func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		name   string
		header http.Header
		most   float64
	}{
		{"plain", plain, 0},
		{"retry after", with(plain, http.Header{"Retry-After": {"7"}}), 0},
		{"github", github, 2},
	} {
		if got := testing.AllocsPerRun(100, func() { ParseHeader(429, test.header, arrival) }); got > test.most {
			t.Errorf("%s: %v allocations", test.name, got)
		}
	}
}

func TestImportsNothingOfOurs(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range p.Imports {
		if strings.HasPrefix(path, "github.com/outflow-go/") {
			t.Error("imports", path)
		}
	}
}
