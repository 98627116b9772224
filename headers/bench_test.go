package headers

import (
	"io"
	"maps"
	"net/http"
	"strings"
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

// githubReal is all of what api.github.com sends.
var githubReal = with(github, http.Header{
	"Server":                           {"github.com"},
	"Link":                             {`<https://api.github.com/repositories/1/issues?page=2>; rel="next"`},
	"Last-Modified":                    {"Thu, 15 Jan 2026 11:00:00 GMT"},
	"X-Oauth-Scopes":                   {"repo, user"},
	"X-Accepted-Oauth-Scopes":          {"repo"},
	"X-Accepted-Github-Permissions":    {"issues=read"},
	"X-Github-Media-Type":              {"github.v3; format=json"},
	"X-Github-Api-Version-Selected":    {"2022-11-28"},
	"X-Github-Request-Id":              {"8A1C:2F4B:10A3B2:2177C1:65A51B80"},
	"Access-Control-Expose-Headers":    {"ETag, Link, Location, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Used, X-RateLimit-Resource, X-RateLimit-Reset"},
	"Access-Control-Allow-Origin":      {"*"},
	"X-Frame-Options":                  {"deny"},
	"X-Content-Type-Options":           {"nosniff"},
	"X-Xss-Protection":                 {"0"},
	"Referrer-Policy":                  {"origin-when-cross-origin, strict-origin-when-cross-origin"},
	"Content-Security-Policy":          {"default-src 'none'"},
	"Github-Authentication-Token-Type": {"personal"},
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
		{"github with all its fields", 200, githubReal},
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

func BenchmarkParse(b *testing.B) {
	for _, bench := range []struct {
		name   string
		status int
		header http.Header
		body   string
	}{
		{"plain", 200, plain, `{"ok":true}`},
		{"github", 200, githubReal, `{"ok":true}`},
		{"refusal in JSON", 429, plain, `{"message":"You are being rate limited.","retry_after":64.57,"global":false}`},
		{"refusal in 4 KiB of JSON", 429, plain, `{"errors":[` + strings.Repeat(`{"message":"nothing to see","path":["a","b"]},`, 100)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			body := strings.NewReader(bench.body)
			closer := io.ReadCloser(readCloser{body})
			resp := &http.Response{StatusCode: bench.status, Header: bench.header, ContentLength: body.Size()}
			for b.Loop() {
				body.Reset(bench.body)
				resp.Body = closer
				Parse(resp, arrival)
			}
		})
	}
}

// readCloser is io.NopCloser without its WriterTo.
type readCloser struct{ io.Reader }

func (readCloser) Close() error { return nil }
