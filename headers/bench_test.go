package headers

import (
	"maps"
	"net/http"
	"testing"
	"time"
)

var arrival = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

// plain is a typical response that says nothing about limits.
var plain = http.Header{
	"Date":                      {"Thu, 15 Jan 2026 12:00:00 GMT"},
	"Content-Type":              {"application/json; charset=utf-8"},
	"Content-Length":            {"5120"},
	"Server":                    {"nginx"},
	"Cache-Control":             {"private, max-age=60, s-maxage=60"},
	"Etag":                      {`W/"644b5b0155e6404a9cc4bd9d8b1ae730"`},
	"Vary":                      {"Accept, Authorization, Cookie"},
	"X-Request-Id":              {"8A1C:2F4B:10A3B2:2177C1:65A51B80"},
	"Strict-Transport-Security": {"max-age=31536000; includeSubdomains; preload"},
	"Connection":                {"keep-alive"},
}

// github is plain with what api.github.com adds.
var github = with(plain, http.Header{
	"X-Ratelimit-Limit":     {"5000"},
	"X-Ratelimit-Remaining": {"4987"},
	"X-Ratelimit-Reset":     {"1768480200"},
	"X-Ratelimit-Used":      {"13"},
	"X-Ratelimit-Resource":  {"core"},
})

// openai has two dimensions.
var openai = with(plain, http.Header{
	"X-Ratelimit-Limit-Requests":     {"60"},
	"X-Ratelimit-Limit-Tokens":       {"150000"},
	"X-Ratelimit-Remaining-Requests": {"59"},
	"X-Ratelimit-Remaining-Tokens":   {"149984"},
	"X-Ratelimit-Reset-Requests":     {"1s"},
	"X-Ratelimit-Reset-Tokens":       {"6m0s"},
})

// draft8 is what express-rate-limit sends.
var draft8 = with(plain, http.Header{
	"Ratelimit":        {`"100-in-15min"; r=99; t=753`},
	"Ratelimit-Policy": {`"100-in-15min"; q=100; w=900; pk=:YmIwY2Q1MTM2YWU1:`},
})

func with(headers ...http.Header) http.Header {
	all := http.Header{}
	for _, h := range headers {
		maps.Copy(all, h)
	}
	return all
}

func BenchmarkParseHeader(b *testing.B) {
	for _, bench := range []struct {
		name   string
		status int
		header http.Header
	}{
		{"plain", 200, plain},
		{"github", 200, github},
		{"openai", 200, openai},
		{"draft8", 200, draft8},
		{"retry-after", 429, with(plain, http.Header{"Retry-After": {"120"}})},
		{"retry-after-date", 429, with(plain, http.Header{"Retry-After": {"Thu, 15 Jan 2026 12:01:00 GMT"}})},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ParseHeader(bench.status, bench.header, arrival)
			}
		})
	}
}
