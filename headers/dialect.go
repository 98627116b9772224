package headers

import (
	"cmp"
	"net/http"
	"time"
)

// Dialect is what the wire doesn't tell: the vendor's documentation does. A server that sends a reset of
// 30000 means 30 s in milliseconds (KuCoin) or 8 h in seconds, and both are usual. The zero Dialect adds
// nothing, and a nil one is a zero one.
type Dialect struct {
	// ResetUnit is the unit of a plain number in a reset field that is no Unix time. 0: a second.
	ResetUnit time.Duration
	// RetryAfterUnit is that of a plain number in Retry-After. 0: a second.
	RetryAfterUnit time.Duration
	// WindowUnit is that of a plain number in a field with the length of a window. 0: a second.
	WindowUnit time.Duration

	// Window and Unit are those of a quota without a name of which the response doesn't tell them.
	Window time.Duration
	Unit   string

	// Windows are what the members of a list are, in fields with one for each of several limits (Strava:
	// X-RateLimit-Limit: 600,30000).
	Windows []Window
}

// Window is one of several windows that a server counts in.
type Window struct {
	Name   string
	Length time.Duration
}

// Parse is like [Parse], for servers that speak this dialect.
func (d *Dialect) Parse(resp *http.Response, now time.Time) Signal { return d.parse(resp, now) }

// ParseHeader is like [ParseHeader], for servers that speak this dialect.
func (d *Dialect) ParseHeader(status int, h http.Header, now time.Time) Signal {
	r := reader{dialect: d, status: status, base: baseTime{header: h, now: now}}
	r.readHeader(h)
	return r.signal()
}

// retryAfter is parseRetryAfter in the dialect's unit.
func (d *Dialect) retryAfter(line string, base *baseTime) (time.Duration, bool) {
	if d.RetryAfterUnit > 0 {
		if wait, ok := parseRetryAfter(line, d.RetryAfterUnit, base); ok {
			return wait, true
		}
	}
	return parseRetryAfter(line, 0, base)
}

// complete adds to a quota what only the dialect tells.
func (d *Dialect) complete(q *Quota) {
	if d == nil || q.Name != "" {
		return
	}
	q.Window = cmp.Or(q.Window, max(0, d.Window))
	if q.Unit == "requests" {
		q.Unit = cmp.Or(d.Unit, q.Unit)
	}
}

func (r *reader) windows() []Window {
	if r.dialect == nil {
		return nil
	}
	return r.dialect.Windows
}

// reset is parseReset in the dialect's unit.
func (r *reader) reset(line string, c clock) (time.Duration, bool) {
	unit := time.Second
	if r.dialect != nil && r.dialect.ResetUnit > 0 && c == byMagnitude {
		unit = r.dialect.ResetUnit
	}
	return parseResetIn(line, c, unit, &r.base)
}

// windowUnit is the unit of a window's number.
func (r *reader) windowUnit(c clock) time.Duration {
	switch {
	case c == inMillis:
		return time.Millisecond
	case r.dialect != nil && r.dialect.WindowUnit > 0:
		return r.dialect.WindowUnit
	}
	return time.Second
}
