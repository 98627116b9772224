package outflow

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/headers"
)

// DefaultMaxAttempts is Retry.MaxAttempts where that is zero.
const DefaultMaxAttempts = 5

// Retry says which attempts are repeated, and when. The zero Retry is usable.
//
// Without CheckRetry, these are repeated: requests that the upstream refused because of a limit (429,
// and what headers.Limited covers), whose work was therefore not done; and, if the method is
// idempotent (RFC 9110 §9.2.2) or the request has an Idempotency-Key, those that ended with 502,
// 503, 504, 529 or a transport error. A transport error from before there was a connection is as good
// as a refusal. Nothing is repeated whose body can't be had again, which takes Request.GetBody;
// http.NewRequest sets it for the usual kinds of body. Bodies are never copied into memory.
//
// A repeated request goes back to the queue, to the place it had: it is charged again, and goes before
// all who came after it. Where the upstream said how long to wait, that pauses its bucket. Otherwise
// Backoff delays that one request.
//
// If a retry could not leave in time, or may not be queued, the caller gets the response at once.
type Retry struct {
	// MaxAttempts is how often a request is sent at the most, whatever the reason. 1: once. It can't
	// be negative. Defaults to DefaultMaxAttempts.
	MaxAttempts int

	// Backoff delays a retry for which the upstream gave no hint. The zero Policy is usable: full
	// jitter up to 200 ms, doubling up to 20 s. A limit without a hint pauses its bucket by the same
	// policy with equal jitter.
	Backoff backoff.Policy

	// NewBackOff makes the delays of one request, in place of Backoff. Stop ends the tries. It is
	// called, and may be from several goroutines at once, when a request needs its first delay.
	NewBackOff func() cenkalti.BackOff

	// CheckRetry decides, in place of the rules above, whether an attempt is repeated. Its context is
	// the request's, in which RequestFrom finds the request. An error is what the caller gets, unless
	// it comes with true and the request is indeed sent again: as in go-retryablehttp. MaxAttempts,
	// Budget and the need for GetBody hold all the same.
	CheckRetry retryablehttp.CheckRetry

	// PrepareRetry may change a request that is about to leave again, say to sign it anew. It is
	// given a copy. An error ends the tries and is what the caller gets.
	PrepareRetry retryablehttp.PrepareRetry

	// AttemptTimeout bounds each attempt from its departure, so that the time in the queue isn't part
	// of it, to the end of its response's body. Zero: no bound of its own. It can't be negative.
	AttemptTimeout time.Duration

	// Budget bounds the retries of all requests together.
	Budget Budget
}

// retrier is a compiled Retry.
type retrier struct {
	maxAttempts    int
	backoff        backoff.Policy
	pausing        backoff.Policy // as backoff, but never next to nothing: it is for everybody
	newBackOff     func() cenkalti.BackOff
	check          retryablehttp.CheckRetry
	prepare        retryablehttp.PrepareRetry
	attemptTimeout time.Duration
	budget         *budget
	maxPause       time.Duration // the queue's
}

func (r Retry) compile(maxPause time.Duration) (retrier, error) {
	if r.MaxAttempts < 0 {
		return retrier{}, fmt.Errorf("MaxAttempts is %d, want 1 or more, or 0 for %d", r.MaxAttempts, DefaultMaxAttempts)
	}
	if r.MaxAttempts == 0 {
		r.MaxAttempts = DefaultMaxAttempts
	}
	if r.AttemptTimeout < 0 {
		return retrier{}, fmt.Errorf("AttemptTimeout is %v, want 0 or more", r.AttemptTimeout)
	}
	if err := r.Backoff.Validate(); err != nil {
		return retrier{}, fmt.Errorf("Backoff: %w", err)
	}
	budget, err := r.Budget.compile()
	if err != nil {
		return retrier{}, fmt.Errorf("Budget.%w", err)
	}
	pausing := r.Backoff
	pausing.Jitter = backoff.Equal
	return retrier{
		maxAttempts:    r.MaxAttempts,
		backoff:        r.Backoff,
		pausing:        pausing,
		newBackOff:     r.NewBackOff,
		check:          r.CheckRetry,
		prepare:        r.PrepareRetry,
		attemptTimeout: r.AttemptTimeout,
		budget:         budget,
		maxPause:       maxPause,
	}, nil
}

// tries is what one request remembers of its attempts.
type tries struct {
	n     int // attempts so far
	prev  time.Duration
	delay cenkalti.BackOff // of newBackOff; nil until it is needed
}

// begin counts a new request.
func (r *retrier) begin() tries {
	r.budget.deposit()
	return tries{}
}

// A verdict says what becomes of an attempt: it is repeated after delay, or its result is the
// caller's; or err is, if CheckRetry returned one.
type verdict struct {
	again bool
	delay time.Duration
	err   error
}

// judge decides on an attempt that ended with resp or failed with err.
func (r *retrier) judge(req *http.Request, resp *http.Response, err error, heard heard, tries *tries) verdict {
	if err == nil && resp.StatusCode < http.StatusBadRequest && r.check == nil {
		return verdict{} // the common case
	}
	if _, failed := errors.AsType[*prepareError](err); failed || errors.Is(err, ErrBreakerOpen) {
		return verdict{}
	}
	var v verdict
	if r.check == nil {
		v.again = repeatable(req, resp, err, heard.signal.Cause)
	} else {
		v.again, v.err = r.check(context.WithValue(req.Context(), decisionKey{}, &decision{req, heard.signal.Cause}), resp, err)
	}
	if !v.again || tries.n >= r.maxAttempts || req.Context().Err() != nil || hasBody(req) && req.GetBody == nil {
		v.again = false
		return v
	}
	var ok bool
	v.delay, ok = r.delay(heard, tries)
	v.again = ok && (heard.signal.Cause == headers.Limited || r.budget.withdraw())
	return v
}

// delay is how long the retry stays out of line, and false if there is to be none. While the upstream is
// down that is for long enough that others probe it, and this one's tries last.
func (r *retrier) delay(heard heard, tries *tries) (time.Duration, bool) {
	d, ok := r.ownDelay(heard, tries)
	if heard.Rest > 0 {
		d = max(d, min(heard.Rest<<min(tries.n-1, 10), maxRest))
	}
	return d, ok
}

func (r *retrier) ownDelay(heard heard, tries *tries) (time.Duration, bool) {
	switch {
	case heard.Paused:
		return 0, true
	case heard.signal.RetryAfter > 0: // asked for with a status that pauses nobody
		return max(heard.signal.RetryAfter, backoff.Floor), heard.signal.RetryAfter <= r.maxPause
	case r.newBackOff == nil:
		tries.prev = r.backoff.Delay(tries.n, tries.prev)
		return tries.prev, true
	}
	if tries.delay == nil {
		tries.delay = r.newBackOff()
	}
	d := tries.delay.NextBackOff()
	return max(d, backoff.Floor), d != cenkalti.Stop
}

// maxRest bounds for how long a request lets others probe an upstream that is down.
const maxRest = 20 * time.Second

// repeatable is the default for Retry.CheckRetry.
func repeatable(req *http.Request, resp *http.Response, err error, cause headers.Cause) bool {
	if err != nil {
		return !permanent(req, err) && (idempotent(req) || notSent(err))
	}
	if cause == headers.Limited {
		return true
	}
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 529:
		return idempotent(req)
	default:
		return false
	}
}

func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	// The two names under which net/http's own Transport knows it.
	return len(req.Header["Idempotency-Key"]) > 0 || len(req.Header["X-Idempotency-Key"]) > 0
}

// notSent reports whether the attempt certainly ended before any of the request was sent.
func notSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// permanent reports whether the next attempt would fail just so.
func permanent(req *http.Request, err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https"
}

type decisionKey struct{}

// decision is what a CheckRetry is asked about, beside the response.
type decision struct {
	req   *http.Request
	cause headers.Cause
}

// RequestFrom returns the request that a CheckRetry is to decide on, given the context it is called
// with: without a response it has nothing else to tell whether it may be repeated. Nil in any other
// context. The request is not to be modified.
func RequestFrom(ctx context.Context) *http.Request {
	if d, _ := ctx.Value(decisionKey{}).(*decision); d != nil {
		return d.req
	}
	return nil
}

// DefaultCheckRetry is what decides without a [Retry.CheckRetry], for one that differs in some cases and
// leaves the others to it. It wants the context that the CheckRetry was given, and repeats nothing in
// any other.
func DefaultCheckRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	d, _ := ctx.Value(decisionKey{}).(*decision)
	if d == nil || err == nil && resp == nil {
		return false, nil
	}
	return repeatable(d.req, resp, err, d.cause), nil
}
