package headers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// answer is a response with a body, as net/http hands it over. header are name and value pairs.
func answer(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// said prints what a response says beside its quotas.
func said(s Signal) string {
	text := fmt.Sprint(s.Cause, " ", s.RetryAfter)
	if s.Concurrency {
		text += " concurrency"
	}
	if s.Scope != ScopeUnknown {
		text += " " + s.Scope.String()
	}
	if q := quotas(s); q != "" {
		text += " " + q
	}
	return text
}

func TestBodies(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"nothing", 429, ``, "limited 0s"},
		{"unknown", 400, `{"error":"bad request"}`, "none 0s"},
		{"a permission", 403, `{"message":"Must have admin rights to Repository."}`, "none 0s"},
		{"a permission for now", 403, `{"message":"Suspended. Try again in 24 hours."}`, "none 0s"},
		{"no status for limits", 500, `{"code":"ThrottlingException","retry_after":5}`, "none 0s"},
		{"a payment", 402, `{"error":"rate_limit_exceeded","retry_after":5}`, "none 0s"},

		{"GitHub, primary", 403, `{"message":"API rate limit exceeded for user ID 1."}`, "limited 0s"},
		{"GitHub, secondary", 403, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`, "limited 1m0s"},
		{"GitHub, secondary, as 429", 429, `{"message":"You have exceeded a secondary rate limit."}`, "limited 1m0s"},
		{"GitHub, abuse", 403, `{"message":"You have triggered an abuse detection mechanism."}`, "limited 1m0s"},

		{"Google", 403, `{"error":{"errors":[{"domain":"usageLimits","reason":"userRateLimitExceeded"}],"code":403}}`, "limited 0s"},
		{"Google, daily", 403, `{"error":{"errors":[{"reason":"dailyLimitExceeded"}]}}`, "limited 0s"},
		{"Google RetryInfo", 429, `{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"1.5s"}]}}`, "limited 1.5s"},
		{"Google, capacity, whatever the order", 429, `{"error":{"details":[{"reason":"MODEL_CAPACITY_EXHAUSTED"}],"status":"RESOURCE_EXHAUSTED"}}`, "overloaded 0s"},
		{"Google, in flight", 429, `{"error":{"message":"Too many concurrent requests for user."}}`, "limited 0s concurrency"},
		{"Gemini, prose", 429, `{"error":{"message":"Please retry in 57.25s."}}`, "limited 57.25s"},

		{"AWS JSON", 400, `{"__type":"com.amazon.coral.availability#ThrottlingException","message":"Rate exceeded"}`, "limited 0s"},
		{"AWS JSON with an address", 400, `{"__type":"ThrottlingException:http://internal.amazon.com/coral/"}`, "limited 0s"},
		{"DynamoDB", 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`, "limited 0s"},
		{"AWS query", 400, `<ErrorResponse xmlns="x"><Error><Type>Sender</Type><Code>Throttling</Code></Error></ErrorResponse>`, "limited 0s"},
		{"EC2", 503, "<?xml version=\"1.0\"?>\n<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>", "limited 0s"},
		{"S3", 503, `<Error><Code>SlowDown</Code></Error>`, "limited 0s"},
		{"S3, unwell", 503, `<Error><Code>ServiceUnavailable</Code></Error>`, "overloaded 0s"},
		{"AWS, another error", 400, `{"__type":"ValidationException"}`, "none 0s"},

		{"IETF quota", 429, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}`, "limited 0s"},
		{"IETF capacity, on a 429", 429, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"}`, "overloaded 0s"},
		{"IETF quota, on a 503", 503, `{"type":"https://example.org/problems/quota-exceeded"}`, "limited 0s"},

		{"Discord", 429, `{"message":"You are being rate limited.","retry_after":64.57,"global":false}`, "limited 1m4.57s"},
		{"Discord, global", 429, `{"retry_after":1,"global":true}`, "limited 1s global"},
		{"Telegram", 429, `{"ok":false,"description":"Too Many Requests: retry after 3","parameters":{"retry_after":41}}`, "limited 41s"},
		{"Matrix", 429, `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":2500}`, "limited 2.5s"},
		{"Matrix, negative", 429, `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":-5}`, "limited 0s"},
		{"spelled otherwise", 429, `{"error":{"retryAfterMs": "1500"}}`, "limited 1.5s"},
		{"as a duration", 429, `{"retry-after":"1m30s"}`, "limited 1m30s"},
		{"in words", 429, `{"retry_after":"5 seconds"}`, "limited 5s"},
		{"in words and more", 429, `{"retry_after":"5 seconds or so"}`, "limited 0s"},
		{"in parts", 429, `{"error":{"details":[{"retryDelay":{"seconds":"5","nanos":1}}]}}`, "limited 5s"},
		{"a part of something else", 429, `{"uptime":{"seconds":5}}`, "limited 0s"},
		{"the longest", 429, `[{"retry_after":3},{"retry_after":7},{"retry_after":5}]`, "limited 7s"},
		{"no number", 429, `{"retry_after":null,"retry_after_ms":1e3,"retryDelay":"soon","retry_in_seconds":-0}`, "limited 0s"},
		{"a wait by itself is no limit", 400, `{"retry_after":5}`, "none 5s"},
		{"a wait makes a 403 one", 403, `{"retry_after":5}`, "limited 5s"},

		{"Twilio", 429, `{"code": 20429, "message": "Too Many Requests"}`, "limited 0s concurrency"},
		{"Kraken", 429, `{"error":["EOrder:Rate limit exceeded"]}`, "limited 0s"},
		{"Binance", 418, `{"code":-1003,"msg":"Way too much request weight used; IP banned until 1768478460000. Please use the websocket."}`, "limited 1m0s"},
		{"Binance, another", 400, `{"code":-1021,"msg":"Timestamp for this request is outside of the recvWindow."}`, "none 0s"},
		{"no Binance", 400, `{"code":1003}`, "none 0s"},
		{"Linear", 400, `{"errors":[{"message":"x","extensions":{"code":"RATELIMITED"}}]}`, "limited 0s"},
		{"Heroku", 403, `{"id":"rate_limit"}`, "limited 0s"},
		{"Salesforce", 403, `[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`, "limited 0s"},
		{"Facebook", 400, `{"error":{"message":"(#4) Application request limit reached","code":4}}`, "limited 0s"},
		{"Slack", 429, `{"ok":false,"error":"ratelimited"}`, "limited 0s"},
		{"Stripe, a lock", 429, `{"error":{"code":"lock_timeout","type":"invalid_request_error"}}`, "none 0s"},
		{"Stripe, a lock, whatever the order", 429, `{"error":{"type":"rate_limit_error","code":"lock_timeout"}}`, "none 0s"},
		{"Anthropic", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "overloaded 0s"},
		{"Anthropic, in flight", 429, `{"error":{"type":"rate_limit_error","message":"Number of concurrent connections has exceeded your rate limit."}}`, "limited 0s concurrency"},
		{"Microsoft Graph, in flight", 429, `{"error":{"code":"ApplicationThrottled","message":"Application is over its MailboxConcurrency limit."}}`, "limited 0s concurrency"},
		{"ElevenLabs", 429, `{"detail":{"status":"system_busy"}}`, "overloaded 0s"},
		{"ElevenLabs, in flight", 429, `{"detail":{"status":"too_many_concurrent_requests"}}`, "limited 0s concurrency"},
		{"Mistral", 429, `{"type":"service_tier_capacity_exceeded"}`, "overloaded 0s"},

		{"Groq", 429, `{"error":{"message":"Rate limit reached. Please try again in 7m12.5s. Visit https://x"}}`, "limited 7m12.5s"},
		{"OpenAI", 429, `{"error":{"message":"Please try again in 86ms."}}`, "limited 86ms"},
		{"Azure OpenAI", 429, `{"error":{"message":"Please retry after 6 seconds."}}`, "limited 6s"},
		{"Mailgun", 420, `{"message":"limit exceeded, try again after Thu, 15 Jan 2026 12:00:29 UTC"}`, "limited 29s"},
		{"Mailgun, no time", 420, `{"message":"Enhance your calm"}`, "none 0s"},
		{"crates.io", 429, `Please try again after Thu, 15 Jan 2026 12:04:53 GMT or email help@crates.io`, "limited 4m53s"},
		{"Django", 429, `{"detail":"Request was throttled. Expected available in 42 seconds."}`, "limited 42s"},
		{"two units", 429, `Try again in 1 minute and 20 seconds`, "limited 1m20s"},
		{"hours", 429, `TRY AGAIN IN 2 Hours`, "limited 2h0m0s"},
		{"RFC 3339", 429, `retry after 2026-01-15T12:01:00Z.`, "limited 1m0s"},
		{"no time", 429, `try again in 3 attempts`, "limited 0s"},
		{"past", 429, `try again after Thu, 15 Jan 2026 11:00:00 GMT`, "limited 0s"},
		{"cut off", 429, `try again in `, "limited 0s"},
		{"MailHops", 401, `401: Rate Limit Exceeded`, "limited 0s"},
		{"Cerebras", 429, `code "queue_exceeded"`, "overloaded 0s"},
		{"a page for people", 403, `<!DOCTYPE html><html><title>rate limit exceeded</title></html>`, "none 0s"},
		{"a page on a 429", 429, `<html><p>try again in 5 seconds</p></html>`, "limited 0s"},

		{"Shopify's stock on a 429", 429, `{"extensions":{"cost":{"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":3,"restoreRate":50}}}}`, "limited 0s graphql-cost 3/1000 -1ns per 0s"},
		{"the byte order mark", 403, "\ufeff  {\"id\":\"rate_limit\"}", "limited 0s"},
		{"cut off in a code", 400, `{"error":{"code":"RATE_LIM`, "none 0s"},
		{"cut off in a number", 429, `{"retry_after":12`, "limited 0s"},
		{"malformed", 429, `{}}}{"retry_after":5,,]`, "limited 5s"},
		{"deep", 429, strings.Repeat(`[`, 5000) + `{"retry_after":5}`, "limited 0s"},
	} {
		if got := said(Parse(answer(test.status, test.body), arrival)); got != test.want {
			t.Errorf("%s: %d %s\n got %s\nwant %s", test.name, test.status, test.body, got, test.want)
		}
	}
}

// What the header says goes before what the body says.
func TestHeaderGoesBeforeBody(t *testing.T) {
	got := said(Parse(answer(429, `{"retry_after":64.57}`, "Retry-After", "65"), arrival))
	if got != "limited 1m5s" {
		t.Error(got)
	}
	got = said(Parse(answer(429, `{"retry_after":64.57}`, "Retry-After", "0"), arrival))
	if got != "limited 1m4.57s" {
		t.Error("a wait of 0 asks for nothing:", got)
	}
}

// GitHub documents a minute for its secondary limit, and the reset for when nothing is left.
func TestSecondaryLimitDoesNotWaitForTheReset(t *testing.T) {
	const body = `{"message":"You have exceeded a secondary rate limit."}`
	trio := []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Reset", "1768480200", "X-RateLimit-Resource", "core"}
	for remaining, want := range map[string]time.Duration{"4321": time.Minute, "0": 0} {
		got := Parse(answer(403, body, append(trio, "X-RateLimit-Remaining", remaining)...), arrival)
		if got.Cause != Limited || got.RetryAfter != want {
			t.Errorf("%s left: %+v", remaining, got)
		}
	}
	if got := Parse(answer(403, body, append(trio, "Retry-After", "7")...), arrival); got.RetryAfter != 7*time.Second {
		t.Errorf("%+v", got)
	}
}

// request is one that a response answers.
func request(method, address string) *http.Request {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return &http.Request{Method: method, URL: u}
}

func TestSuccessThatIsNone(t *testing.T) {
	const (
		get, post = http.MethodGet, http.MethodPost
		json, xml = "application/json", "application/xml"
		throttled = `{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":7}}}}`
		slowDown  = `<Error><Code>SlowDown</Code></Error>`
	)
	for _, test := range []struct {
		name                       string
		method, url, content, body string
		want                       string
	}{
		{"Shopify", post, "https://x.myshopify.com/admin/api/2025-01/graphql.json", json, throttled, "limited 0s graphql-cost 7/1000 -1ns per 0s"},
		{"GitHub", post, "https://api.github.com/graphql", json, `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`, "limited 0s"},
		{"Kraken", post, "https://api.kraken.com/0/private/Balance", json, `{"error":["EAPI:Rate limit exceeded"]}`, "limited 0s"},
		{"monday.com", post, "https://api.monday.com/v2", json, `{"errors":[{"extensions":{"code":"COMPLEXITY_BUDGET_EXHAUSTED","retry_in_seconds":15}}]}`, "limited 15s"},
		{"Slack", post, "https://slack.com/api/chat.postMessage", json, `{"ok":false,"error":"ratelimited"}`, "limited 0s"},
		{"Slack, another error", post, "https://slack.com/api/chat.postMessage", json, `{"ok":false,"error":"not_in_channel"}`, "none 0s"},
		{"S3", post, "https://b.s3.amazonaws.com/k?uploadId=1", xml, slowDown, "limited 0s"},
		{"no S3 upload", get, "https://b.s3.amazonaws.com/k", xml, slowDown, "none 0s"},
		{"somebody's JSON", get, "https://api.example.com/v1/things", json, throttled, "none 0s"},
		{"a host that only ends so", get, "https://notslack.com/", json, `{"error":"ratelimited"}`, "none 0s"},
		{"a field of that name elsewhere", post, "https://api.github.com/graphql", json, `{"data":{"error":"rate_limited","code":"THROTTLED","message":"too many requests","retry_after":5}}`, "none 0s"},
		{"no error", post, "https://api.github.com/graphql", json, `{"data":{"title":"Rate limit exceeded"},"errors":[]}`, "none 0s"},
		{"text", post, "https://api.github.com/graphql", "text/plain", `rate limit exceeded`, "none 0s"},
	} {
		resp := answer(200, test.body, "Content-Type", test.content, "X-Amz-Request-Id", "x")
		resp.Request = request(test.method, test.url)
		if got := said(Parse(resp, arrival)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestLooksAtBody(t *testing.T) {
	graphql := request(http.MethodPost, "https://api.example.com/graphql")
	for _, test := range []struct {
		name   string
		change func(*http.Response)
		want   bool
	}{
		{"a refusal", func(*http.Response) {}, true},
		{"of unknown length", func(r *http.Response) { r.ContentLength = -1 }, true},
		{"without a type", func(r *http.Response) { r.Header.Del("Content-Type") }, true},
		{"problem", func(r *http.Response) { r.Header.Set("Content-Type", "application/problem+json; charset=utf-8") }, true},
		{"in capitals", func(r *http.Response) { r.Header.Set("Content-Type", "Application/JSON") }, true},
		{"AWS's JSON", func(r *http.Response) { r.Header.Set("Content-Type", "application/x-amz-json-1.1") }, true},
		{"a sequence of JSON", func(r *http.Response) { r.Header.Set("Content-Type", "application/json-seq") }, false},
		{"XML", func(r *http.Response) { r.Header.Set("Content-Type", "application/xml") }, true},
		{"text", func(r *http.Response) { r.Header.Set("Content-Type", "text/plain") }, true},
		{"events", func(r *http.Response) { r.Header.Set("Content-Type", "text/event-stream") }, false},
		{"a stream of JSON", func(r *http.Response) { r.Header.Set("Content-Type", "application/stream+json") }, false},
		{"lines of JSON", func(r *http.Response) { r.Header.Set("Content-Type", "application/x-ndjson") }, false},
		{"an image", func(r *http.Response) { r.Header.Set("Content-Type", "image/png") }, false},
		{"compressed", func(r *http.Response) { r.Header.Set("Content-Encoding", "br") }, false},
		{"not compressed", func(r *http.Response) { r.Header.Set("Content-Encoding", "identity") }, true},
		{"no body", func(r *http.Response) { r.Body = http.NoBody }, false},
		{"nil body", func(r *http.Response) { r.Body = nil }, false},
		{"nil header", func(r *http.Response) { r.Header = nil }, true},
		{"404", func(r *http.Response) { r.StatusCode = 404 }, false},
		{"500", func(r *http.Response) { r.StatusCode = 500 }, false},
		{"200", func(r *http.Response) { r.StatusCode = 200 }, false},
		{"200 to a query", func(r *http.Response) { r.StatusCode, r.Request = 200, graphql }, true},
		{"201 to a query", func(r *http.Response) { r.StatusCode, r.Request = 201, graphql }, false},
		{"200 of no type", func(r *http.Response) { r.StatusCode, r.Header = 200, nil }, true},
		{"200 of no type and length", func(r *http.Response) {
			r.StatusCode, r.Header, r.ContentLength, r.Request = 200, nil, -1, graphql
		}, false},
		{"101", func(r *http.Response) { r.StatusCode, r.Body = 101, readWriteCloser{} }, false},
		{"writable", func(r *http.Response) { r.Body = readWriteCloser{} }, false},
	} {
		resp := answer(429, `{}`, "Content-Type", "application/json")
		test.change(resp)
		if got := LooksAtBody(resp); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
		body := resp.Body
		Parse(resp, arrival)
		if touched := resp.Body != body; touched != test.want {
			t.Errorf("%s: touched: %v", test.name, touched)
		}
	}
	if LooksAtBody(nil) || Parse(nil, arrival).Cause != None {
		t.Error("nil")
	}
}

type readWriteCloser struct{}

func (readWriteCloser) Read([]byte) (int, error)    { panic("read") }
func (readWriteCloser) Write(p []byte) (int, error) { panic("written") }
func (readWriteCloser) Close() error                { panic("closed") }

// recorder is a body that tells what was done to it.
type recorder struct {
	io.Reader
	reads, closes int
	closeErr      error
}

func (r *recorder) Read(p []byte) (int, error) { r.reads++; return r.Reader.Read(p) }
func (r *recorder) Close() error               { r.closes++; return r.closeErr }

func TestBodyIsGivenBack(t *testing.T) {
	for _, size := range []int{0, 1, 100, maxPeek - 1, maxPeek, maxPeek + 1, 10 * maxPeek} {
		text := strings.Repeat("x", size)
		for name, as := range map[string]func(io.Reader) io.Reader{
			"at once":           func(r io.Reader) io.Reader { return r },
			"byte by byte":      iotest.OneByteReader,
			"by halves":         iotest.HalfReader,
			"EOF with the data": iotest.DataErrReader,
		} {
			for _, length := range []int64{-1, int64(size), 0, 10} {
				body := &recorder{Reader: as(strings.NewReader(text)), closeErr: errors.New("closed badly")}
				resp := answer(429, "")
				resp.Body, resp.ContentLength = body, length
				Parse(resp, arrival)
				Parse(resp, arrival)
				got, err := io.ReadAll(resp.Body)
				if err != nil || string(got) != text {
					t.Errorf("%s: %d bytes became %d, %v", name, size, len(got), err)
				}
				if body.closes != 0 {
					t.Error("closed too early")
				}
				if err := resp.Body.Close(); err != body.closeErr {
					t.Error("close:", err)
				}
				resp.Body.Close()
				if body.closes != 1 {
					t.Errorf("closed %d times", body.closes)
				}
				if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != http.ErrBodyReadAfterClose {
					t.Errorf("read %d after close: %v", n, err)
				}
			}
		}
	}
}

func TestReadErrorIsRepeated(t *testing.T) {
	broken := errors.New("connection reset")
	resp := answer(429, "")
	resp.ContentLength = -1
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"retry_after":5}  `), iotest.ErrReader(broken)))
	if got := Parse(resp, arrival).RetryAfter; got != 5*time.Second {
		t.Error(got)
	}
	for range 2 {
		text, err := io.ReadAll(resp.Body)
		if err != broken {
			t.Errorf("%q, %v", text, err)
		}
	}
	resp.Body = io.NopCloser(iotest.ErrReader(broken))
	if got := Parse(resp, arrival).Cause; got != Limited {
		t.Error(got)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != broken {
		t.Error(err)
	}
}

// A body that trickles on isn't waited for: not after the end of a document, and not beyond some reads.
func TestPeekIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		most int
	}{
		"a document and then nothing": {`{"retry_after":5}`, 1},
		"no document":                 {`{"a":`, maxReads},
		"text":                        {`soon`, maxReads},
	} {
		body := &recorder{Reader: &trickle{text: test.text}}
		resp := answer(429, "")
		resp.Body, resp.ContentLength = body, -1
		Parse(resp, arrival)
		if body.reads > test.most {
			t.Errorf("%s: %d reads", name, body.reads)
		}
	}
	body := &recorder{Reader: strings.NewReader(strings.Repeat("x", 1<<20))}
	resp := answer(429, "")
	resp.Body, resp.ContentLength = body, -1
	Parse(resp, arrival)
	if rest, _ := io.Copy(io.Discard, body); rest != 1<<20-maxPeek {
		t.Errorf("%d bytes left", rest)
	}
}

// trickle is a text, and then a blank with every read, for ever.
type trickle struct{ text string }

func (s *trickle) Read(p []byte) (int, error) {
	if s.text == "" {
		s.text = " "
	}
	n := copy(p, s.text)
	s.text = s.text[n:]
	return n, nil
}

// The real thing: what a server sends in pieces comes back as it was, and its signal is read.
func TestParseOfARealResponse(t *testing.T) {
	const text = `{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"30s"}]}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		for _, piece := range strings.SplitAfter(text, ",") {
			io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := said(Parse(resp, time.Now())); got != "limited 30s" {
		t.Error(got)
	}
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
}

// A stalled body ends with the request's context, and Parse with it.
func TestParseEndsWithTheContext(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		w.(http.Flusher).Flush()
		<-stop
	}))
	defer server.Close()
	defer close(stop)
	client := server.Client()
	client.Timeout = 50 * time.Millisecond
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := Parse(resp, time.Now()).Cause; got != Limited {
		t.Error(got)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
		t.Error("the error is gone")
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	body := io.ReadCloser(readWriteCloser{})
	resp := &http.Response{StatusCode: 200, Header: plain, Body: body, Request: request("GET", "https://api.example.com/v1/things")}
	for name, header := range map[string]http.Header{"plain": plain, "retry after": with(plain, http.Header{"Retry-After": {"7"}})} {
		resp.Header = header
		if got := testing.AllocsPerRun(100, func() { Parse(resp, arrival) }); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	resp.Header = githubReal
	if got := testing.AllocsPerRun(100, func() { Parse(resp, arrival) }); got > 2 {
		t.Errorf("github: %v allocations", got)
	}
}
