package outflow_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

// What comes of requests that are given up: trap 5 of research/peers-features.md, and rules 7 and 8 of
// design/STYLE.md §2.7.

// idleCounter is a Base that counts how often its idle connections were to be closed.
type idleCounter struct {
	http.RoundTripper
	closed atomic.Int64
}

func (c *idleCounter) CloseIdleConnections() { c.closed.Add(1) }

// Trap 5: to give up the idle connections with each request that is cancelled costs everybody a new one.
func TestCancelledCallsCostNoConnections(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.Handler
		limits []limit.Limit
		retry  outflow.Retry
	}{
		{name: "cancelled in flight", answer: testserver.Hang()},
		{name: "cancelled in flight, with a timeout for each attempt", answer: testserver.Hang(), retry: outflow.Retry{AttemptTimeout: time.Hour}},
		{name: "cancelled while the body is read", answer: testserver.Stall(200), retry: outflow.Retry{AttemptTimeout: time.Hour}},
		{name: "ended by the attempt's timeout", answer: testserver.Hang(), retry: outflow.Retry{MaxAttempts: 1, AttemptTimeout: 10 * time.Millisecond}},
		{name: "cancelled in the queue", limits: []limit.Limit{limit.Per(1, time.Hour)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				// opened counts the connections for: 5 calls at once, 100 cancelled ones in a row, 5 at once.
				opened := func(over func(http.RoundTripper) http.RoundTripper) (warm, total int) {
					answers := http.NewServeMux()
					answers.Handle("/", testserver.After(time.Second, testserver.OK()))
					if c.answer != nil {
						answers.Handle("/slow", c.answer)
					}
					srv := serve(testserver.New().Answering(answers))
					five := func() {
						var wg sync.WaitGroup
						for range 5 {
							wg.Go(func() {
								if _, _, err := get(t.Context(), srv.Transport, srv.URL); err != nil {
									t.Error(err)
								}
							})
						}
						wg.Wait()
					}
					// One by itself first: HTTP/2 would dial more than once for several.
					if _, _, err := get(t.Context(), srv.Transport, srv.URL); err != nil {
						t.Error(err)
					}
					five()
					warm = srv.Opened()
					rt := over(srv.Transport)
					for range 100 {
						ctx, cancel := context.WithCancel(t.Context())
						time.AfterFunc(20*time.Millisecond, cancel)
						if _, _, err := get(ctx, rt, srv.URL+"/slow"); err == nil {
							t.Error("it wasn't cancelled")
						}
					}
					five()
					return warm, srv.Opened()
				}
				base := new(idleCounter)
				var tr *outflow.Transport
				warm, with := opened(func(rt http.RoundTripper) http.RoundTripper {
					base.RoundTripper = rt
					tr = newTransport(t, outflow.Config{Base: base, Limits: c.limits, Retry: c.retry})
					if c.limits != nil {
						if _, _, err := get(t.Context(), tr, "http://upstream.test"); err != nil { // the only one to leave
							t.Error(err)
						}
					}
					return tr
				})
				want := warm // who doesn't leave costs nothing
				if c.limits == nil {
					_, want = opened(func(rt http.RoundTripper) http.RoundTripper { return rt })
				}
				if with != want {
					t.Errorf("%d connections, want %d", with, want)
				}
				if n := base.closed.Load(); n != 0 {
					t.Errorf("closed the idle connections %d times", n)
				}
				(&http.Client{Transport: tr}).CloseIdleConnections()
				if n := base.closed.Load(); n != 1 {
					t.Errorf("the client's CloseIdleConnections came %d times, want once", n)
				}
			})
		})
	}
}

func TestCloseIdleConnectionsNeedsNothingOfTheBase(t *testing.T) {
	newTransport(t, outflow.Config{Base: stub{}}).CloseIdleConnections()
}

// http.Client's Timeout covers the queue and the attempt, and whichever ate it is named.
func TestClientTimeoutCoversQueueAndAttempt(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.Handler
		limits []limit.Limit
		after  time.Duration // when the call ends
		queued bool
	}{
		{name: "its turn would come too late", limits: []limit.Limit{limit.Per(1, time.Hour)}, answer: testserver.OK(), queued: true},
		{name: "in the queue for a slot", limits: []limit.Limit{limit.Concurrent(1)}, answer: testserver.Stall(200), after: time.Second, queued: true},
		{name: "in flight", answer: testserver.Hang(), after: time.Second},
		{name: "reading the body", answer: testserver.Stall(200), after: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				srv := serve(testserver.New().Answering(c.answer))
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: c.limits})
				if c.limits != nil { // somebody was first
					resp, err := tr.RoundTrip(newRequest(t.Context(), t, "GET", srv.URL, nil))
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
				}
				client := &http.Client{Transport: tr, Timeout: time.Second}
				start := time.Now()
				resp, err := client.Get(srv.URL)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if d := time.Since(start); d != c.after {
					t.Errorf("took %v, want %v", d, c.after)
				}
				timeout, ok := errors.AsType[net.Error](err)
				if !ok || !timeout.Timeout() {
					t.Fatalf("%v isn't a timeout", err)
				}
				if strings.Contains(err.Error(), "queued for") != c.queued {
					t.Errorf("%v: says queued, or doesn't", err)
				}
				if c.after == 0 && !errors.Is(err, outflow.ErrDeadline) {
					t.Errorf("%v isn't ErrDeadline", err)
				}
			})
		})
	}
}

// Why a context was cancelled reaches the caller: from the queue always, and in flight as Base has it.
func TestCancellationKeepsItsCause(t *testing.T) {
	quit := errors.New("the tenant has left")
	for _, c := range []struct {
		name   string
		answer http.Handler
		limits []limit.Limit
		retry  outflow.Retry
		queued bool
	}{
		{name: "in the queue", limits: []limit.Limit{limit.Per(1, time.Hour)}, queued: true},
		{name: "waiting for a retry", answer: testserver.Reply(429, "", "Retry-After", "60"), queued: true},
		{name: "in flight", answer: testserver.Hang()},
		{name: "in flight, with a timeout for each attempt", answer: testserver.Hang(), retry: outflow.Retry{AttemptTimeout: time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				srv := serve(testserver.New(testserver.ScriptFunc(func(_ int, r *http.Request) http.Handler {
					if r.URL.Path == "/first" {
						return nil
					}
					return c.answer
				})))
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: c.limits, Retry: c.retry})
				if c.limits != nil {
					if _, _, err := get(t.Context(), tr, srv.URL+"/first"); err != nil {
						t.Fatal(err)
					}
				}
				cancelled := func(rt http.RoundTripper) error {
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(time.Second, func() { cancel(quit) })
					resp, err := rt.RoundTrip(newRequest(ctx, t, "GET", srv.URL, nil))
					if err == nil {
						read(t, resp)
						t.Error("it was answered")
					}
					return err
				}
				start := time.Now()
				err := cancelled(tr)
				if d := time.Since(start); d != time.Second {
					t.Errorf("told after %v, want 1s", d)
				}
				if c.queued {
					e, ok := errors.AsType[*outflow.Error](err)
					if !errors.Is(err, quit) || !errors.Is(err, context.Canceled) || !ok || e.Cause != quit || e.Reason != nil {
						t.Errorf("in the queue: %v", err)
					}
					return
				}
				bare := cancelled(srv.Transport)
				if err.Error() != bare.Error() || errors.Is(err, quit) != errors.Is(bare, quit) || errors.Is(err, context.Canceled) != errors.Is(bare, context.Canceled) {
					t.Errorf("in flight: %v, and without outflow: %v", err, bare)
				}
			})
		})
	}
}
