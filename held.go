package outflow

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/outflow-go/outflow/leakyqueue"
)

// held is what an attempt holds until its response's body has ended: slots, and the context of its
// timeout. It is that response's body, then. A nil *held holds nothing.
type held struct {
	io.ReadCloser
	ticket     leakyqueue.Ticket
	measured   *leakyqueue.Ticket // of rules in shadow mode; nil: there are none
	settlement *settlement        // nil: no rule wants to know the true cost
	cancel     context.CancelFunc // nil: no timeout
	light      bool               // the ticket holds nothing
}

// hold returns what the next attempt needs to hold, which is nothing where nothing has to be given
// back.
func (t *Transport) hold(keys, shadow []leakyqueue.Key) *held {
	settlement := t.settlementOf(keys)
	if t.retry.attemptTimeout == 0 && settlement == nil && !t.breaks && !needTicket(keys) && !needTicket(shadow) {
		return nil
	}
	return &held{settlement: settlement}
}

// enter brings a request into the queue, and returns what it will hold.
func (t *Transport) enter(ctx context.Context, d leakyqueue.Demand, shadow []leakyqueue.Key) (leakyqueue.Turn, *held, error) {
	h := t.hold(d.Keys, shadow)
	turn, err := t.queue.Enter(ctx, d, h.ticketOrNil())
	if h == nil && errors.Is(err, leakyqueue.ErrInvalid) { // SetLimits may have added a concurrency meanwhile
		h = new(held)
		turn, err = t.queue.Enter(ctx, d, h.ticketOrNil())
	}
	return turn, h, err
}

func needTicket(keys []leakyqueue.Key) bool {
	for _, k := range keys {
		if k.Rule.NeedsTicket() || k.Cost != 0 {
			return true
		}
	}
	return false
}

// measure shows a departure to the rules in shadow mode.
func (t *Transport) measure(shadow []leakyqueue.Key, d leakyqueue.Demand, h *held) {
	if len(shadow) == 0 {
		return
	}
	d.Keys, d.Place, d.Delay = shadow, 0, 0
	ticket := new(leakyqueue.Ticket)
	if h != nil {
		h.measured = ticket
	}
	_, _ = t.queue.Measure(d, ticket) // a cost that could never leave isn't counted
}

// got notes the response of the attempt.
func (h *held) got(resp *http.Response) {
	if h != nil {
		h.settlement.of(resp)
	}
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
	h.measured.Done()
	if h.cancel != nil {
		h.cancel()
	}
	h.settlement.settle(&h.ticket)
}

// until makes h last until the end of resp's body: closed, or read to its end or an error. Both,
// since there are callers who only read, and callers who only close.
func (h *held) until(resp *http.Response, method string) {
	if h == nil {
		return
	}
	if resp.Body == nil || resp.Body == http.NoBody || h.light && h.cancel == nil && h.settlement == nil && h.measured == nil {
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
	h.settlement.saw(p[:n])
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
	discard(l.response)
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
