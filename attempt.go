package outflow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

const (
	// What is left of a failed attempt's body is read, so that its connection can be used again, up
	// to as much as is cheaper than a new connection, and for no longer than one would take.
	drainBytes = 8 << 10
	drainTime  = 100 * time.Millisecond
)

// attempt sends out, which is req or a copy of it. Exactly one of its results is nil. When it
// returns, or panics, the request's body is closed or Base's to close.
func (t *Transport) attempt(req, out *http.Request, keys []leakyqueue.Key, held *held, tries *tries) (*http.Response, error) {
	sent, handedOver := out, false
	defer func() {
		if !handedOver {
			closeBody(sent)
		}
	}()
	tries.n++
	if t.pools {
		out = t.withCredentials(req, out, keys, held)
		sent = out
	}
	if tries.n > 1 && t.retry.prepare != nil {
		if err := t.retry.prepare(out); err != nil {
			return nil, &prepareError{err}
		}
	}
	if d := t.retry.attemptTimeout; d > 0 {
		ctx, cancel := context.WithTimeoutCause(out.Context(), d, attemptTimeoutError{after: d})
		held.cancel = cancel
		sent = out.WithContext(ctx)
	}
	resp, err := t.base.RoundTrip(sent)
	handedOver = true

	switch {
	case err != nil && resp != nil: // against the contract of Base
		closeResponse(resp)
		resp = nil
	case err == nil && resp == nil:
		err = errors.New("outflow: Base returned neither a response nor an error")
	}
	if err != nil {
		return nil, timedOut(sent.Context(), err)
	}
	if sent != req {
		resp.Request = req
	}
	return resp, nil
}

// withCredentials has the rules with a pool put the credential that the attempt leaves with on out, or on
// a copy if that is the caller's.
func (t *Transport) withCredentials(req, out *http.Request, keys []leakyqueue.Key, held *held) *http.Request {
	for i := range t.rules {
		r := &t.rules[i]
		if r.use == nil || !holds(keys, r.rule) {
			continue
		}
		if out == req {
			out = req.Clone(req.Context())
		}
		if out.Header == nil {
			out.Header = make(http.Header)
		}
		r.use(out, held.ticket.Member(r.rule))
	}
	return out
}

// rewind returns a copy of req to be sent again, with its body from the start, or nil if that body
// can't be had.
func rewind(req *http.Request) *http.Request {
	again := req.Clone(req.Context())
	if hasBody(req) {
		body, err := req.GetBody()
		if err != nil {
			return nil
		}
		again.Body = body
	}
	return again
}

// discard gives up a response that nobody will see.
func discard(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	if resp.ContentLength <= drainBytes {
		// A body that trickles, or never ends, must not hold up the retry. To close it from outside
		// ends the read, in net/http at least.
		stop := time.AfterFunc(drainTime, func() { resp.Body.Close() })
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		stop.Stop()
	}
	closeResponse(resp)
}

func closeResponse(resp *http.Response) {
	if resp.Body != nil {
		resp.Body.Close()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// timedOut makes err say so if it comes of Retry.AttemptTimeout: not every Base returns its context's
// cause.
func timedOut(ctx context.Context, err error) error {
	timeout, ok := context.Cause(ctx).(attemptTimeoutError)
	if !ok {
		return err
	}
	timeout.err = err
	return timeout
}

// attemptTimeoutError is the cause of an attempt's end by Retry.AttemptTimeout, and its error. It is
// context.DeadlineExceeded and a net.Error.
type attemptTimeoutError struct {
	after time.Duration
	err   error // of Base; nil in the cause
}

func (e attemptTimeoutError) Error() string {
	return fmt.Sprintf("outflow: attempt took longer than AttemptTimeout, %v", e.after)
}
func (attemptTimeoutError) Timeout() bool        { return true }
func (attemptTimeoutError) Temporary() bool      { return true } // net.Error asks for it
func (attemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
func (e attemptTimeoutError) Unwrap() error      { return e.err }

// prepareError is a failure of Retry.PrepareRetry, which ends the tries.
type prepareError struct{ err error }

func (e *prepareError) Error() string { return "outflow: PrepareRetry: " + e.err.Error() }
func (e *prepareError) Unwrap() error { return e.err }
