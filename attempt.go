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
func (t *Transport) attempt(req, out *http.Request, held *held, tries *tries) (*http.Response, error) {
	sent, handedOver := out, false
	defer func() {
		if !handedOver {
			closeBody(sent)
		}
	}()
	tries.n++
	if tries.n > 1 && t.retry.prepare != nil {
		if err := t.retry.prepare(out); err != nil {
			return nil, &prepareError{err}
		}
	}
	if d := t.retry.attemptTimeout; d > 0 {
		ctx, cancel := context.WithTimeoutCause(out.Context(), d, attemptTimeoutError(d))
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
		return nil, err
	}
	if sent != req {
		resp.Request = req
	}
	return resp, nil
}

// leftovers are what is ours to close when RoundTrip ends, in whatever way: also by a panic in a hook
// of somebody else's.
type leftovers struct {
	request  *http.Request // Base hasn't had its body
	response *http.Response
	held     *held
}

func (l *leftovers) close() {
	if l.request != nil {
		closeBody(l.request)
	}
	defer l.held.release()
	if l.response != nil {
		closeResponse(l.response)
	}
}

// handOver returns what is to be the caller's: the response, and with it what is held, unless there is
// an error.
func (l *leftovers) handOver(req *http.Request, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	resp := l.response
	l.held.until(resp, req.Method)
	l.response, l.held = nil, nil
	return resp, nil
}

// exchange gives up the response of an attempt, and what it held, for what its retry will hold, which
// is in the queue already.
func (l *leftovers) exchange(next leakyqueue.Turn, hold *held) {
	done := false
	defer func() {
		if !done { // the body panicked
			next.Cancel()
			hold.release()
		}
	}()
	resp := l.response
	l.response = nil
	discard(resp)
	l.held.release()
	l.held = hold
	done = true
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

// held is what an attempt holds until its response's body has ended: slots, and the context of its
// timeout. It is that response's body, then. A nil *held holds nothing.
type held struct {
	io.ReadCloser
	ticket leakyqueue.Ticket
	cancel context.CancelFunc // nil: no timeout
}

// hold returns what the next attempt needs to hold, which is nothing where nothing has to be given
// back.
func (t *Transport) hold(keys []leakyqueue.Key) *held {
	if t.retry.attemptTimeout > 0 {
		return new(held)
	}
	for _, k := range keys {
		if k.Rule.Slots() > 0 {
			return new(held)
		}
	}
	return nil
}

func (h *held) ticketOrNil() *leakyqueue.Ticket {
	if h == nil {
		return nil
	}
	return &h.ticket
}

// release gives everything back. Once is enough, more doesn't hurt.
func (h *held) release() {
	if h == nil {
		return
	}
	h.ticket.Done()
	if h.cancel != nil {
		h.cancel()
	}
}

// until makes h last until the end of resp's body: closed, or read to its end or an error. Both,
// since there are callers who only read, and callers who only close.
func (h *held) until(resp *http.Response, method string) {
	if h == nil {
		return
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		h.release()
		return
	}
	if emptyOverHTTP2(resp, method) {
		// The slots can go, but not the attempt's context, which the stream may need to its end.
		h.ticket.Done()
	}
	h.ReadCloser = resp.Body
	resp.Body = h
	if w, ok := h.ReadCloser.(io.Writer); ok { // the connection itself, after 101 Switching Protocols
		resp.Body = struct {
			*held
			io.Writer
		}{h, w}
	}
}

// emptyOverHTTP2 reports whether resp certainly has an empty body, which net/http doesn't mark with
// http.NoBody over HTTP/2, and which callers needn't close.
func emptyOverHTTP2(resp *http.Response, method string) bool {
	return resp.ProtoMajor == 2 && (resp.ContentLength == 0 || method == http.MethodHead || resp.StatusCode == http.StatusNotModified)
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if err != nil {
		h.release()
	}
	return n, err
}

func (h *held) Close() error {
	err := h.ReadCloser.Close()
	h.release()
	return err
}

// attemptTimeoutError is the cause of an attempt's end by Retry.AttemptTimeout.
type attemptTimeoutError time.Duration

func (e attemptTimeoutError) Error() string {
	return fmt.Sprintf("outflow: attempt took longer than AttemptTimeout, %v", time.Duration(e))
}
func (attemptTimeoutError) Timeout() bool        { return true }
func (attemptTimeoutError) Temporary() bool      { return true } // net.Error asks for it
func (attemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// prepareError is a failure of Retry.PrepareRetry, which ends the tries.
type prepareError struct{ err error }

func (e *prepareError) Error() string { return "outflow: PrepareRetry: " + e.err.Error() }
func (e *prepareError) Unwrap() error { return e.err }
