package headers

import (
	"net/http"
	"time"
)

// Signal is what one response said about limits, in the same words for every dialect.
// The zero Signal is a response that said nothing.
type Signal struct {
	// Cause says whether the response refuses the request because of a limit, and whose.
	Cause Cause

	// RetryAfter is how long the server asked to wait, from now: between 0 and [MaxRetryAfter].
	// 0 means that it gave no usable hint (none, malformed, 0, or a date that is past), never
	// that the request may be repeated at once. It is delivered whatever the status is, also
	// where it is no throttle (a poll interval on a 202, a redirect's delay).
	RetryAfter time.Duration

	// Quotas are the limits that the response describes, ordered by name. It is nil when the
	// response says nothing.
	Quotas []Quota
}

// Quota is the state of one limit as the server counts it.
type Quota struct {
	Name      string        // as the server names it: "core", "tokens", a policy's name; "" if it doesn't
	Limit     int64         // how many per window; -1: unknown
	Remaining int64         // how many are left; -1: unknown. It may exceed Limit
	Reset     time.Duration // until it is renewed, from now; 0: already; -1: unknown
	Window    time.Duration // the length of the window; 0: unknown
	Unit      string        // what is counted: "requests" unless the server says otherwise
}

// Cause says why a response refused a request, as far as limits go.
type Cause uint8

const (
	// None: the response is no refusal for reasons of load or limits.
	None Cause = iota
	// Limited: this client has used up what it is allowed, and has to back off.
	Limited
	// Overloaded: the upstream is unwell for everybody. It says nothing about this client's quota.
	Overloaded
)

// String returns the cause's name in lower case.
func (c Cause) String() string {
	switch c {
	case None:
		return "none"
	case Limited:
		return "limited"
	case Overloaded:
		return "overloaded"
	}
	return "unknown"
}

// ParseHeader reads the signal of a response from its status and header alone. now is when the
// response arrived; it is used for absolute times only, and only when the header has no usable Date.
//
// It never fails: what it can't read is as good as absent. It doesn't modify h.
func ParseHeader(status int, h http.Header, now time.Time) Signal {
	r := reader{base: baseTime{header: h, now: now}}
	for name, values := range h {
		if mayMatter(name) {
			r.read(name, values)
		}
	}
	s := Signal{RetryAfter: r.hint.wait, Quotas: r.quotas()}
	s.Cause = cause(status, r.hint.given || exhausted(s.Quotas))
	return s
}

// cause judges a status. refused says that something else in the response tells of a limit.
func cause(status int, refused bool) Cause {
	if v, ok := verdicts[status]; ok && (refused || !v.onlyIfRefused) {
		return v.cause
	}
	return None
}

// exhausted reports whether nothing is left of some quota.
func exhausted(quotas []Quota) bool {
	for i := range quotas {
		if quotas[i].Remaining == 0 {
			return true
		}
	}
	return false
}
