package headers

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCounts(t *testing.T) {
	for _, test := range []struct {
		limit, remaining         string
		wantLimit, wantRemaining int64
	}{
		{"5000", "4987", 5000, 4987},
		{`"98"`, ` "97" `, 98, 97},
		{"100.0", "94.9", 100, 94},
		{"100", "0.0", 100, 0},
		{"100", "0.9", 100, 0},
		{"0.04512", "1", unknown, 1}, // Amazon: a rate
		{"0.0", "0", 0, 0},
		{"-1", "-1", unknown, unknown},
		{"unlimited", "UNLIMITED", unknown, unknown},
		{"99999999999999999999", "99999999999999999998", unknown, unknown},
		{"9223372036854775807", "9223372036854775807", 9223372036854775807, 9223372036854775807},
		{"100", "-3", 100, 0}, // over-consumed
		{"0", "-3", 0, unknown},
		{"-5", "-3", unknown, unknown},
		{"100", "-99999999999999999999", 100, unknown},
		{"100", "5,000", 100, 0}, // a list, of 5 and 0
		{"5", "10", 5, 10},       // more left than allowed: as it says
		{"100", "1e3", 100, unknown},
		{"100", "0x5", 100, unknown},
		{"100", "+5", 100, unknown},
		{"100", "ten", 100, unknown},
		{"100, 60", "50, 3", 60, 3},
		{"100, x", "x, 3", 100, 3},
		{"100", "6   ; using 50% of throughput, that is 6 units/s", 100, 6},
		{"100;w=21600", "90;w=21600", 100, 90},
	} {
		q := parse(200, "X-RateLimit-Limit", test.limit, "X-RateLimit-Remaining", test.remaining).Quotas
		if len(q) != 1 || q[0].Limit != test.wantLimit || q[0].Remaining != test.wantRemaining {
			t.Errorf("%q, %q: %+v", test.limit, test.remaining, q)
		}
	}
}

func TestTighterOfTwoLines(t *testing.T) {
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		pairs := []string{}
		for _, i := range order {
			pairs = append(pairs,
				"X-RateLimit-Limit", []string{"100", "60"}[i],
				"X-RateLimit-Remaining", []string{"50", "3"}[i],
				"X-RateLimit-Reset", []string{"30", "40"}[i])
		}
		q := parse(200, pairs...).Quotas
		if want := (Quota{Limit: 60, Remaining: 3, Reset: 40 * time.Second, Unit: "requests"}); len(q) != 1 || q[0] != want {
			t.Errorf("%+v", q)
		}
	}
}

// quotas prints what a response says in short, for tables.
func quotas(s Signal) string {
	var all []string
	for _, q := range s.Quotas {
		all = append(all, fmt.Sprintf("%s %d/%d %v per %v", q.Name, q.Remaining, q.Limit, q.Reset, q.Window))
	}
	return strings.Join(all, "; ")
}

func TestQuotas(t *testing.T) {
	for _, test := range []struct {
		name   string
		header []string
		want   string
	}{
		// names
		{"GitHub", []string{"X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "59", "X-RateLimit-Used", "1", "X-RateLimit-Resource", "core"},
			"core 59/60 -1ns per 0s"},
		{"GitLab", []string{"RateLimit-Limit", "60", "RateLimit-Observed", "67", "RateLimit-Remaining", "33", "RateLimit-Name", "throttle", "RateLimit-ResetTime", "Thu, 15 Jan 2026 12:00:30 GMT"},
			"throttle 33/60 30s per 0s"},
		{"resource goes before name", []string{"X-RateLimit-Limit", "60", "X-RateLimit-Name", "a", "X-RateLimit-Resource", "b"},
			"b -1/60 -1ns per 0s"},
		{"a name alone", []string{"RateLimit-Reason", "conf-global-based"},
			"conf-global-based -1/-1 -1ns per 0s"},
		{"a name beside another quota", []string{"RateLimit-Reason", "burst", "X-RateLimit-Limit-Tokens", "5"},
			"tokens -1/5 -1ns per 0s"},
		{"a name from another family", []string{"X-RateLimit-Limit", "350", "RateLimit-Reason", "jira-burst-based"},
			"jira-burst-based -1/350 -1ns per 0s"},
		{"an unknown vendor", []string{"X-Contentful-RateLimit-Reset", "45"},
			"contentful -1/-1 45s per 0s"},
		{"an unknown vendor with a dimension", []string{"X-Acme-RateLimit-Limit-Minute", "45"},
			"acme-minute -1/45 -1ns per 1m0s"},
		// dimensions
		{"behind", []string{"X-RateLimit-Limit-Tokens", "10", "X-RateLimit-Remaining-Tokens", "9", "X-RateLimit-Reset-Tokens", "6m0s"},
			"tokens 9/10 6m0s per 0s"},
		{"in front", []string{"Anthropic-RateLimit-Input-Tokens-Limit", "10", "Anthropic-RateLimit-Input-Tokens-Remaining", "9"},
			"input-tokens 9/10 -1ns per 0s"},
		{"with a word in it", []string{"X-RateLimit-Rapid-Free-Plans-Hard-Limit-Limit", "10", "X-RateLimit-Rapid-Free-Plans-Hard-Limit-Remaining", "9"},
			"rapid-free-plans-hard-limit 9/10 -1ns per 0s"},
		{"a window by its word", []string{"X-RateLimit-Limit-Minute", "5", "X-RateLimit-Remaining-Minute", "4"},
			"minute 4/5 -1ns per 1m0s"},
		{"a window by its length", []string{"X-RateLimit-Limit-10s", "5"},
			"10s -1/5 -1ns per 10s"},
		{"names that mean nothing", []string{"X-RateLimited", "1", "X-RateLimit-Foo", "2", "X-RateLimit-", "3", "RateLimits", "4", "X-Limit", "5", "X-RateLimit-User-Name", "6"},
			""},
		// windows
		{"period", []string{"X-RateLimit-Limit", "5", "X-RateLimit-Period", "3600"}, " -1/5 -1ns per 1h0m0s"},
		{"period in words", []string{"X-RateLimit-Limit", "5", "X-RateLimit-Period", "month"}, " -1/5 -1ns per 720h0m0s"},
		{"interval", []string{"X-Rate-Limit-Limit", "3", "X-Rate-Limit-Interval", "1s"}, " -1/3 -1ns per 1s"},
		{"interval in ms", []string{"X-Rate-Limit-Api-Key-Interval-Ms", "10000", "X-Rate-Limit-Api-Key-Max", "300"}, "api-key -1/300 -1ns per 10s"},
		{"rate", []string{"X-RateLimit-Limit", "60r/m"}, " -1/60 -1ns per 1m0s"},
		{"the period in the limit", []string{"X-Rate-Limit-Limit", "1d", "X-Rate-Limit-Remaining", "3"}, " 3/-1 -1ns per 24h0m0s"},
		{"zero", []string{"X-RateLimit-Limit", "5", "X-RateLimit-Period", "0"}, " -1/5 -1ns per 0s"},
		{"negative", []string{"X-RateLimit-Limit", "5", "X-RateLimit-Period", "-5"}, " -1/5 -1ns per 0s"},
		// IETF, by generation
		{"00 to 05", []string{"RateLimit-Limit", "100, 100;w=60", "RateLimit-Remaining", "99", "RateLimit-Reset", "50"},
			" 99/100 50s per 1m0s"},
		{"polli-00", []string{"RateLimit-Limit", "100, 100;window=60, 10000;window=86400", "RateLimit-Remaining", "99"},
			" 99/100 -1ns per 1m0s;  -1/10000 -1ns per 24h0m0s"},
		{"06", []string{"RateLimit-Limit", "100", "RateLimit-Policy", "100;w=60", "RateLimit-Remaining", "99"},
			" 99/100 -1ns per 1m0s"},
		{"06, another policy", []string{"RateLimit-Limit", "15", "RateLimit-Policy", "100;w=60", "RateLimit-Remaining", "9"},
			" 9/15 -1ns per 0s;  -1/100 -1ns per 1m0s"},
		{"07", []string{"RateLimit", "limit=5, remaining=4, reset=60", "RateLimit-Policy", "5;w=60"},
			" 4/5 1m0s per 1m0s"},
		{"08", []string{"RateLimit", `"basic";r=60;t=58`, "RateLimit-Policy", `"basic";q=100;w=60`},
			"basic 60/100 58s per 1m0s"},
		{"08, no common policy", []string{"RateLimit", `"default";r=50;t=30`, "RateLimit-Policy", `"burst";q=100;w=60`},
			"burst -1/100 -1ns per 1m0s; default 50/-1 30s per 0s"},
		{"08, partitions", []string{"RateLimit", `"a";r=1;pk=:AQ==:, "a";r=2;pk=:Ag==:`, "RateLimit-Policy", `"a";q=9;pk=:Ag==:`},
			"a 1/-1 -1ns per 0s; a 2/9 -1ns per 0s"},
		{"08, one policy twice", []string{"RateLimit", `"a";r=2;t=5, "a";r=1;t=3`},
			"a 1/-1 5s per 0s"},
		{"Docker Hub", []string{"RateLimit-Limit", "100;w=21600", "RateLimit-Remaining", "90;w=21600"},
			" 90/100 -1ns per 6h0m0s"},
		{"Docker Hub with two policies", []string{"RateLimit-Limit", "100;w=21600, 5;w=1", "RateLimit-Remaining", "90"},
			" 90/-1 -1ns per 0s;  -1/5 -1ns per 1s;  -1/100 -1ns per 6h0m0s"},
		{"Envoy", []string{"X-RateLimit-Limit", `10, 10;w=1;name="per-ip", 1000;w=3600`},
			" -1/1000 -1ns per 1h0m0s; per-ip -1/10 -1ns per 1s"},
		{"Hugging Face", []string{"RateLimit", `"api";r=489;t=189`, "RateLimit-Policy", `"fixed window";"api";q=500;w=300`},
			"api 489/500 3m9s per 5m0s"},
		{"Printful", []string{"X-RateLimit-Policy", "120;w=60;", "X-RateLimit-Limit", "120"},
			" -1/120 -1ns per 1m0s"},
		{"a policy twice", []string{"X-RateLimit-Limit", "10, 10;w=1, 10;w=1"}, " -1/10 -1ns per 1s"},
		// one limit in several generations
		{"trio beats X-", []string{"RateLimit-Limit", "10", "RateLimit-Remaining", "8", "RateLimit-Reset", "1", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "9", "X-RateLimit-Reset", "1768478460"},
			" 8/10 1s per 0s"},
		{"gaps are filled", []string{"X-Rate-Limit", "400", "RateLimit-Remaining", "384", "RateLimit-Reset", "50"},
			" 384/400 50s per 0s"},
		{"dictionary beats trio beats X-", []string{"RateLimit", "limit=10, remaining=1", "RateLimit-Limit", "10", "RateLimit-Remaining", "2", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "7"},
			" 1/10 7s per 0s"},
		{"list beats X-", []string{"RateLimit", `"a";r=1;t=9`, "RateLimit-Policy", `"a";q=10;w=60`, "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "7"},
			"a 1/10 9s per 1m0s"},
		{"by what remains", []string{"RateLimit", `"a";r=3;t=9`, "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "3"},
			"a 3/10 9s per 0s"},
		{"a name beats none", []string{"X-RateLimit-Limit-Second", "1", "X-RateLimit-Remaining-Second", "0", "X-RateLimit-Limit-Minute", "5", "RateLimit-Limit", "1", "RateLimit-Remaining", "0", "RateLimit-Reset", "1"},
			"minute -1/5 -1ns per 1m0s; second 0/1 1s per 1s"},
		{"the limit matches better than what remains", []string{"RateLimit", `"a";r=3, "b";r=5`, "RateLimit-Policy", `"b";q=10`, "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "7"},
			"a 3/-1 -1ns per 0s; b 5/10 7s per 0s"},
		{"one name is one limit", []string{"RateLimit-Policy", `"tokens";q=100;w=60`, "X-RateLimit-Limit-Tokens", "60", "X-RateLimit-Remaining-Tokens", "7"},
			"tokens 7/100 -1ns per 1m0s"},
		{"a list's names are free text", []string{"RateLimit-Policy", `"minute";q=100`}, "minute -1/100 -1ns per 0s"},
		{"nothing but zeros", []string{"X-RateLimit-Limit", "0", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "0"}, " 0/0 0s per 0s"},
		{"two limits are two", []string{"RateLimit-Limit", "10", "X-RateLimit-Limit", "1000"},
			" -1/10 -1ns per 0s;  -1/1000 -1ns per 0s"},
		{"the better match", []string{"RateLimit", `"a";r=3, "b";r=3`, "RateLimit-Policy", `"b";q=10`, "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "7"},
			"a 3/-1 -1ns per 0s; b 3/10 7s per 0s"},
	} {
		if got := quotas(parse(200, test.header...)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"X-RateLimit-Limit", "5", "requests"},
		{"X-RateLimit-Limit-Requests", "5", "requests"},
		{"X-RateLimit-Limit-Tokens", "5", "tokens"},
		{"Anthropic-RateLimit-Output-Tokens-Limit", "5", "output-tokens"},
		{"X-RateLimit-Complexity-Limit", "5", "cost"},
		{"X-Sentry-Rate-Limit-ConcurrentLimit", "5", "concurrency"},
		{"RateLimit-Policy", `"a";q=5`, "requests"},
		{"RateLimit-Policy", `"a";q=5;qu="requests"`, "requests"},
		{"RateLimit-Policy", `"a";q=5;qu="bytes"`, "bytes"},
		{"RateLimit-Policy", `"a";q=5;qu="content-bytes"`, "bytes"},
		{"RateLimit-Policy", `"a";q=5;qu="concurrent-requests"`, "concurrency"},
		{"RateLimit-Policy", `"a";q=5;qu="apples"`, "apples"},
	} {
		if q := parse(200, test.name, test.value).Quotas; len(q) != 1 || q[0].Unit != test.want {
			t.Errorf("%s %s: %+v", test.name, test.value, q)
		}
	}
}
