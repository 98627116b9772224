package testserver

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Quota is what is left of a limit after the request that is being answered.
type Quota struct {
	Limit     int64
	Remaining int64
	Reset     time.Duration // until it is renewed, from now
	Window    time.Duration // 0: it isn't renewed by time
}

// A Dialect writes a quota as headers. The ones below are written as their specifications say; a
// test that wants a lying server writes its own, or uses [Stamp].
type Dialect func(h http.Header, q Quota)

// RateLimitFields is the current IETF draft (draft-ietf-httpapi-ratelimit-headers-10): RateLimit and
// RateLimit-Policy, structured fields with one policy named "default".
func RateLimitFields(h http.Header, q Quota) {
	h.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, q.Limit, ceilSeconds(q.Window)))
	h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, q.Remaining, ceilSeconds(q.Reset)))
}

// RateLimitDictionary is the IETF draft as of its version 07: one RateLimit field with limit, remaining and
// reset, the last in seconds from now, and a policy without a name.
func RateLimitDictionary(h http.Header, q Quota) {
	h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%d", q.Limit, ceilSeconds(q.Window)))
	h.Set("RateLimit", fmt.Sprintf("limit=%d, remaining=%d, reset=%d", q.Limit, q.Remaining, ceilSeconds(q.Reset)))
}

// RateLimitTriple is the IETF draft in its older form: RateLimit-Limit, -Remaining and -Reset, the
// last in seconds from now.
func RateLimitTriple(h http.Header, q Quota) {
	triple(h, "RateLimit", q, ceilSeconds(q.Reset))
}

// XRateLimit is X-RateLimit-Limit, -Remaining and -Reset, the last in Unix seconds, as GitHub has it.
func XRateLimit(h http.Header, q Quota) {
	at := time.Now().Add(q.Reset + time.Second - 1)
	triple(h, "X-RateLimit", q, at.Unix())
}

// XRateLimitDelta is X-RateLimit-Limit, -Remaining and -Reset, the last in seconds from now.
func XRateLimitDelta(h http.Header, q Quota) {
	triple(h, "X-RateLimit", q, ceilSeconds(q.Reset))
}

func triple(h http.Header, prefix string, q Quota, reset int64) {
	h.Set(prefix+"-Limit", strconv.FormatInt(q.Limit, 10))
	h.Set(prefix+"-Remaining", strconv.FormatInt(q.Remaining, 10))
	h.Set(prefix+"-Reset", strconv.FormatInt(reset, 10))
}

// Stamp enforces nothing and sets headers, given as names and values in turn, on every answer:
// whatever a hostile server might say of its limits.
func Stamp(namesAndValues ...string) *Policy {
	pairs(namesAndValues)
	return newPolicy(http.StatusOK, func(time.Time) meter { return stamp{} }).Advertise(func(h http.Header, _ Quota) {
		set(h, namesAndValues)
	})
}

type stamp struct{ uncounted }

func (stamp) judge(time.Duration, *http.Request, int) ruling { return ruling{} }

// pairs panics unless names and values come in pairs, at the line that got it wrong instead of in a
// server's goroutine.
func pairs(namesAndValues []string) {
	if len(namesAndValues)%2 != 0 {
		panic("testserver: a header name without a value")
	}
}

// set adds rather than replaces a name that is given more than once.
func set(h http.Header, namesAndValues []string) {
	for i := 0; i < len(namesAndValues); i += 2 {
		h.Del(namesAndValues[i])
	}
	for i := 0; i < len(namesAndValues); i += 2 {
		h.Add(namesAndValues[i], namesAndValues[i+1])
	}
}
