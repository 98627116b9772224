package headers_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/outflow-go/outflow/headers"
)

// GitHub's primary limit is a 403, and only the header tells it from a lack of permissions.
func ExampleParseHeader() {
	h := http.Header{}
	h.Set("Date", "Thu, 15 Jan 2026 12:00:00 GMT")
	h.Set("X-RateLimit-Limit", "5000")
	h.Set("X-RateLimit-Remaining", "0")
	h.Set("X-RateLimit-Reset", "1768479900")
	h.Set("X-RateLimit-Resource", "core")

	signal := headers.ParseHeader(http.StatusForbidden, h, time.Now())

	fmt.Println(signal.Cause)
	for _, q := range signal.Quotas {
		fmt.Printf("%s: %d of %d %s left, renewed in %v\n", q.Name, q.Remaining, q.Limit, q.Unit, q.Reset)
	}
	// Output:
	// limited
	// core: 0 of 5000 requests left, renewed in 25m0s
}

// Google's wait is in the body only. It can still be read afterwards.
func ExampleParse() {
	resp := &http.Response{
		StatusCode: http.StatusTooManyRequests,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"error":{"status":"RESOURCE_EXHAUSTED","details":[
			{"reason":"MODEL_CAPACITY_EXHAUSTED"},{"retryDelay":"30s"}]}}`)),
	}

	signal := headers.Parse(resp, time.Now())
	body, _ := io.ReadAll(resp.Body)

	fmt.Println(signal.Cause, signal.RetryAfter, len(body))
	// Output: overloaded 30s 116
}

// KuCoin documents that its reset is in milliseconds, and nothing on the wire tells.
func ExampleDialect() {
	h := http.Header{"Gw-Ratelimit-Limit": {"2000"}, "Gw-Ratelimit-Remaining": {"1997"}, "Gw-Ratelimit-Reset": {"22273"}}
	kucoin := headers.Dialect{ResetUnit: time.Millisecond, Window: 30 * time.Second, Unit: "weight"}

	for _, q := range kucoin.ParseHeader(http.StatusOK, h, time.Now()).Quotas {
		fmt.Printf("%d of %d %s per %v left, renewed in %v\n", q.Remaining, q.Limit, q.Unit, q.Window, q.Reset)
	}
	// Output: 1997 of 2000 weight per 30s left, renewed in 22.273s
}

// Retry-After may be seconds, a date, or what servers make of it.
func ExampleParseHeader_retryAfter() {
	h := http.Header{"Date": {"Thu, 15 Jan 2026 12:00:00 GMT"}}
	for _, value := range []string{"120", "2.5", "Thu, 15 Jan 2026 12:02:00 GMT", "9223372037", "-1"} {
		h.Set("Retry-After", value)
		signal := headers.ParseHeader(http.StatusServiceUnavailable, h, time.Now())
		fmt.Println(signal.Cause, signal.RetryAfter)
	}
	// Output:
	// overloaded 2m0s
	// overloaded 2.5s
	// overloaded 2m0s
	// overloaded 2562047h47m16s
	// overloaded 0s
}
