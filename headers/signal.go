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

	// Concurrency says that the refusal is about how many requests are in flight, not how fast they come:
	// fewer of them help, and waiting alone doesn't.
	Concurrency bool

	// Scope says who else the limit counts, and Bucket is the server's own name of what it counted
	// this request in (Discord): requests with one Bucket share one limit, whatever their routes. It
	// is "" if the response doesn't tell.
	Scope  Scope
	Bucket string

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
	Unit      string        // what is counted: "requests" unless the server says otherwise; "percent" of what isn't told
	Partition string        // the IETF partition key (pk): opaque, to be compared only; "" if there is none
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

// Scope says who else a limit counts.
type Scope uint8

const (
	// ScopeUnknown: the response doesn't say.
	ScopeUnknown Scope = iota
	// ScopeUser: this client, on this route.
	ScopeUser
	// ScopeShared: the resource, whoever uses it. It doesn't count against this client.
	ScopeShared
	// ScopeGlobal: the whole account, on every route.
	ScopeGlobal
)

// scopes are the values of X-RateLimit-Scope that are no names.
var scopes = map[string]Scope{"user": ScopeUser, "shared": ScopeShared, "global": ScopeGlobal}

// String returns the scope's name in lower case.
func (s Scope) String() string {
	switch s {
	case ScopeUnknown:
		return "unknown"
	case ScopeUser:
		return "user"
	case ScopeShared:
		return "shared"
	case ScopeGlobal:
		return "global"
	}
	return "invalid"
}

// ParseHeader reads the signal of a response from its status and header alone. now is when the
// response arrived; it is used for absolute times only, and only when the header has no usable Date.
//
// It never fails: what it can't read is as good as absent. It doesn't modify h.
func ParseHeader(status int, h http.Header, now time.Time) Signal {
	return (*Dialect)(nil).ParseHeader(status, h, now)
}

// signal puts together what was read.
func (r *reader) signal() Signal {
	s := Signal{RetryAfter: r.hint.wait, Quotas: r.quotas(), Bucket: r.bucket, Scope: r.scope}
	s.Cause = r.cause(s.Quotas)
	s.Concurrency = s.Cause == Limited && (r.ask.concurrency || crowded(s.Quotas))
	return s
}

// cause judges the status.
func (r *reader) cause(quotas []Quota) Cause {
	v, ok := verdicts[r.status]
	switch {
	case r.ask.said && (ok || r.ask.inBody && r.status < 300):
		return r.ask.cause
	case !ok || v.when == ifSaid:
		return None
	case v.when != always && !r.hint.given && !exhausted(quotas):
		return None
	}
	return v.cause
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

// crowded reports whether it is a limit on how many are in flight that refused: nothing is left of one,
// or it is the only one named, and of all others something is. A limit of none at all until some time is
// how Okta reports that its limit of concurrent requests is exceeded.
func crowded(quotas []Quota) bool {
	found := false
	for i := range quotas {
		q := &quotas[i]
		switch {
		case q.Unit == "concurrency" && (q.Remaining == 0 || len(quotas) == 1 && q.Remaining < 0 && q.Limit < 0):
			found = true
		case q.Name == "" && q.Limit == 0 && q.Remaining == 0 && q.Reset > 0:
			found = true
		case q.Remaining == 0:
			return false
		}
	}
	return found
}
