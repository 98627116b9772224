package testserver

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Policy is one thing that an upstream enforces: which requests it concerns, how they are counted,
// and how a refusal looks. Make one with [GCRA], [Window], [SlidingLog], [SlidingCounter],
// [Concurrency], [BrownOut], [Script] or [Stamp], and refine it with the methods, each of which changes
// and returns the policy.
type Policy struct {
	newMeter   func(start time.Time) meter
	costOf     func(*http.Request) int // nil: 1 each
	counts     bool                    // its meters are counters
	windows    *windows                // nil: it has none
	mux        *http.ServeMux          // nil: all requests
	chargesAll bool                    // refused requests are charged
	keyOf      func(*http.Request) string
	status     int
	retryAfter func(wait time.Duration) string
	dialect    Dialect
	refuseWith func(Refusal) http.Handler
	claimed    bool

	meters map[string]meter // by key; guarded by the upstream's lock
}

// A meter counts the requests of one key. now is the time since the upstream's start.
type meter interface {
	// judge says whether there is room for one more request, of that cost. It counts nothing.
	judge(now time.Duration, r *http.Request, cost int) ruling
	// charge counts a request that every policy has admitted.
	charge(now time.Duration, cost int)
	// release is called when the handler of a charged request has ended.
	release()
	// quota says what is left.
	quota(now time.Duration) Quota
}

// A ruling is what a meter has decided. The zero ruling admits.
type ruling struct {
	refused bool
	wait    time.Duration // until there may be room; 0: unknown
	answer  http.Handler  // what to answer with; nil: what the policy says
}

// newPolicy takes a function that makes a meter for an upstream that started at start.
func newPolicy(status int, newMeter func(start time.Time) meter) *Policy {
	return &Policy{newMeter: newMeter, status: status, meters: make(map[string]meter)}
}

// On confines the policy to requests that match one of these http.ServeMux patterns: "POST /v1/files",
// "api.example.com/", "/2010-04-01/Accounts/{sid}/". It panics if a pattern is malformed, or conflicts with
// another.
func (p *Policy) On(patterns ...string) *Policy {
	p.mux = http.NewServeMux()
	for _, pattern := range patterns {
		p.mux.Handle(pattern, http.NotFoundHandler())
	}
	return p
}

// ChargingAll charges each request as 1 also when it, or another policy, refuses it, so that one who doesn't
// stop asking is never served. The hint of a refusal has that in it. It panics unless the policy counts:
// GCRA, Window, SlidingLog and SlidingCounter do. Default: a refusal costs nothing.
func (p *Policy) ChargingAll() *Policy {
	if !p.counts {
		panic("testserver: only GCRA, Window, SlidingLog and SlidingCounter charge")
	}
	p.chargesAll = true
	return p
}

// By gives every key a count of its own. See [PathSegment] and [HeaderValue].
func (p *Policy) By(key func(*http.Request) string) *Policy {
	p.keyOf = key
	return p
}

// Status sets the status of a refusal. Default: 429, for a brown-out 503.
func (p *Policy) Status(code int) *Policy {
	p.status = code
	return p
}

// RetryAfter sends this value, whatever it is, as the Retry-After of a refusal. Default: none is sent.
func (p *Policy) RetryAfter(value string) *Policy {
	return p.RetryAfterFunc(func(time.Duration) string { return value })
}

// RetryAfterFunc sends what f makes of the time until there is room: see [DeltaSeconds] and
// [HTTPDate]. The time is 0 if it is unknown, as for a concurrency; "" sends nothing.
func (p *Policy) RetryAfterFunc(f func(wait time.Duration) string) *Policy {
	p.retryAfter = f
	return p
}

// Advertise sends what is left of the limit with every answer, refusals included. Default: nothing.
func (p *Policy) Advertise(d Dialect) *Policy {
	p.dialect = d
	return p
}

// RefuseWith sets what a refusal is answered with, in place of the status and a line of text. The
// headers of RetryAfter and Advertise are already set when h is called.
func (p *Policy) RefuseWith(h http.Handler) *Policy {
	return p.RefuseWithFunc(func(Refusal) http.Handler { return h })
}

// RefuseWithFunc is RefuseWith for a refusal that says what it knows. f is called while the upstream judges,
// so it doesn't wait for anything.
func (p *Policy) RefuseWithFunc(f func(Refusal) http.Handler) *Policy {
	p.refuseWith = f
	return p
}

// A Refusal is what a policy knows when it refuses.
type Refusal struct {
	Quota Quota         // what is left
	Cost  int           // of the request
	Wait  time.Duration // until there may be room; 0: unknown
}

// PathSegment keys by the i-th segment of the path: of "/v1/files", 0 is "v1" and 1 is "files".
func PathSegment(i int) func(*http.Request) string {
	return func(r *http.Request) string {
		segments := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if i < len(segments) {
			return segments[i]
		}
		return ""
	}
}

// HeaderValue keys by a header, such as "Authorization".
func HeaderValue(name string) func(*http.Request) string {
	return func(r *http.Request) string { return r.Header.Get(name) }
}

// DeltaSeconds writes a wait as a Retry-After in whole seconds, rounded up; an unknown one as "".
func DeltaSeconds(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return strconv.FormatInt(ceilSeconds(wait), 10)
}

// HTTPDate writes a wait as a Retry-After with a date, rounded up to the second; an unknown one as "".
func HTTPDate(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	at := time.Now().Add(wait + time.Second - 1).Truncate(time.Second)
	return at.UTC().Format(http.TimeFormat)
}

func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// claim takes the policy for one upstream, whose lock guards its meters.
func (p *Policy) claim() {
	if p.claimed {
		panic("testserver: a Policy serves one Upstream; make another")
	}
	p.claimed = true
}

func (p *Policy) resetLocked() { clear(p.meters) }

func (p *Policy) appliesTo(r *http.Request) bool {
	if p.mux == nil {
		return true
	}
	_, pattern := p.mux.Handler(r)
	return pattern != ""
}

func (p *Policy) key(r *http.Request) string {
	if p.keyOf == nil {
		return ""
	}
	return p.keyOf(r)
}

func (p *Policy) meterLocked(key string, start time.Time) meter {
	m, ok := p.meters[key]
	if !ok {
		m = p.newMeter(start)
		p.meters[key] = m
	}
	return m
}

// hint sets the Retry-After of a refusal.
func (p *Policy) hint(h http.Header, wait time.Duration) {
	if p.retryAfter == nil {
		return
	}
	if v := p.retryAfter(wait); v != "" {
		h.Set("Retry-After", v)
	}
}

func (p *Policy) announce(h http.Header, q Quota) {
	if p.dialect != nil {
		p.dialect(h, q)
	}
}

func (c charge) refusal(v ruling, now time.Duration) http.Handler {
	p := c.policy
	switch {
	case v.answer != nil:
		return v.answer
	case p.refuseWith != nil:
		return p.refuseWith(Refusal{Quota: c.meter.quota(now), Cost: c.cost, Wait: v.wait})
	default:
		return Reply(p.status, fmt.Sprintf("%d %s\n", p.status, http.StatusText(p.status)))
	}
}
