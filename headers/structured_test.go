package headers

import (
	"reflect"
	"testing"

	"github.com/dunglas/httpsfv"
)

// fields are RateLimit fields at arrival. strict: RFC 9651 accepts them.
var fields = []struct {
	value  string
	strict bool
	want   string
}{
	{`"default";r=50;t=30`, true, "default 50/-1 30s per 0s"},
	{`"20-in-15min"; r=0; t=899`, true, "20-in-15min 0/-1 14m59s per 0s"},
	{`quota;t=1`, true, "quota -1/-1 1s per 0s"}, // the draft's own example
	{`"a";r=5;t=1,` + "\t" + `"b";r=6;t=2`, true, "a 5/-1 1s per 0s; b 6/-1 2s per 0s"},
	{`"a";r=50;r=10;t=30`, true, "a 10/-1 30s per 0s"}, // the last one wins
	{`"a";r=50;r=-1;t=30`, true, "a -1/-1 30s per 0s"},
	{`"a";r=-1;t=30`, true, "a -1/-1 30s per 0s"},
	{`"a";r=5;t=3;t=x`, true, "a 5/-1 -1ns per 0s"},
	{`"a";r=5;t=-3`, true, "a 5/-1 -1ns per 0s"},
	{`"a";r=5;t`, true, "a 5/-1 -1ns per 0s"},
	{`"a";r=5;t=?1`, true, "a 5/-1 -1ns per 0s"},
	{`"a";r=5;t="9"`, true, "a 5/-1 -1ns per 0s"},
	{`"a";r=5;t=@1768478430`, true, "a 5/-1 30s per 0s"}, // a Date, RFC 9651 §3.3.7
	{`"a";r=5;t=1768478430`, true, "a 5/-1 30s per 0s"},
	{`"a";r=5.5;t=0.25`, true, "a 5/-1 250ms per 0s"},
	{`"a";q=100;r=5;t=1;w=60`, true, "a 5/100 1s per 1m0s"},
	{`"a";r=5;pk=:cHsdsRa894==:`, true, "a 5/-1 -1ns per 0s"}, // pad bits that aren't zero
	{`"a";r=5;pk="user-12345"`, true, "a 5/-1 -1ns per 0s"},
	{`"a\"b";r=5`, true, `a"b 5/-1 -1ns per 0s`},
	{`"a,b;c";r=5`, true, "a,b;c 5/-1 -1ns per 0s"},
	{`"a";r=5;w=9999999999999`, true, "a 5/-1 -1ns per 2562047h47m16s"},
	{`"a"`, true, ""},
	{`"a";x=1`, true, ""},
	{`("a" "b");r=5`, true, ""},
	{`:YQ==:;r=5`, true, ""},
	{`?1;r=5`, true, ""},
	{`limit=10, remaining=9, reset=50, foo=7`, true, " 9/10 50s per 0s"},
	{`limit=10`, true, " -1/10 -1ns per 0s"},
	{`limit=(10 20), remaining=9`, true, " 9/-1 -1ns per 0s"},
	{`foo=7`, true, ""},
	// the lenient scan
	{`"fixed window";"api";q=500;w=300`, false, "api -1/500 -1ns per 5m0s"},
	{`120;w=60;`, false, " -1/120 -1ns per 1m0s"},
	{`"a";r=5,`, false, "a 5/-1 -1ns per 0s"},
	{`"a";r=5,,"b";r=6`, false, "a 5/-1 -1ns per 0s; b 6/-1 -1ns per 0s"},
	{`"a";r=5, "b;r=6`, false, "a 5/-1 -1ns per 0s"},
	{`"a";r=5, "b";r=12345678901234567890`, false, "a 5/-1 -1ns per 0s"},
	{`"a";r=5, "b";r=1e3`, false, "a 5/-1 -1ns per 0s"},
	{`"a";r=5, "b";r=`, false, "a 5/-1 -1ns per 0s"},
	{`"a";r=5, "b";R=6`, false, "a 5/-1 -1ns per 0s"},
	{`"a";r=5, ("b" "c");r=6;`, false, "a 5/-1 -1ns per 0s"},
	{`"défault";r=50;t=30, "a";r=5`, false, "a 5/-1 -1ns per 0s"},
	{`"a";r=5 ; t=3`, false, "a 5/-1 3s per 0s"},
	{`limit=100, remaining=1, reset=1, "a";r=5`, false, "a 5/-1 -1ns per 0s"},
	{`limit=100;w=60, "a";r=5`, false, "a 5/-1 -1ns per 0s"},
	{`"default;r=50;t=30`, false, ""},
	{`"default";R=50;T=30`, false, ""},
	{`limit=12,    \`, false, ""},
	{`;r=5`, false, ""},
	{`-5;w=60;`, false, ""},
	{`"a\b";r=5`, false, ""},
}

func TestRateLimitField(t *testing.T) {
	for _, test := range fields {
		if got := quotas(parse(200, "RateLimit", test.value)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.value, got, test.want)
		}
		_, list := httpsfv.UnmarshalList([]string{test.value})
		_, dictionary := httpsfv.UnmarshalDictionary([]string{test.value})
		if strict := list == nil || dictionary == nil; strict != test.strict {
			t.Errorf("%s: RFC 9651 accepts it: %v, want %v", test.value, strict, test.strict)
		}
	}
}

// What RFC 9651 accepts, the lenient scan reads the same way.
func TestLenientAgreesWithStrict(t *testing.T) {
	for _, test := range fields {
		checkLenient(t, []string{test.value})
	}
	checkLenient(t, []string{`"a";r=1`, `"b";r=2`})
	checkLenient(t, []string{`"a`, `b";r=2`})
	checkLenient(t, []string{`"a";x=%"f%c3%bc;,";r=2`})
	checkLenient(t, []string{`"a";r=-0`})
	checkLenient(t, []string{``})
}

func checkLenient(t *testing.T, lines []string) {
	t.Helper()
	base := baseTime{now: arrival}
	strict, ok := strictItems(lines, &base)
	if !ok {
		return
	}
	if lenient := lenientItems(lines, &base); !reflect.DeepEqual(strict, lenient) {
		t.Errorf("%q:\nstrict  %+v\nlenient %+v", lines, strict, lenient)
	}
}

func TestFieldOverSeveralLines(t *testing.T) {
	s := parse(200,
		"RateLimit-Policy", `"sliding";q=100;w=60;burst=1000`,
		"RateLimit-Policy", `"fixed";q=5000;w=3600;burst=0`,
		"RateLimit", `"sliding";r=50;t=44`)
	if got, want := quotas(s), "fixed -1/5000 -1ns per 1h0m0s; sliding 50/100 44s per 1m0s"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestWindowSaturates(t *testing.T) {
	q := parse(200, "X-RateLimit-Limit", "5", "X-RateLimit-Period", "99999999999999999999").Quotas
	if len(q) != 1 || q[0].Window != MaxRetryAfter {
		t.Errorf("%+v", q)
	}
}
