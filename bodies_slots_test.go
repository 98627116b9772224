package outflow_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// How long the slots of a concurrency limit are held: traps 7 and 8 of research/peers-features.md.

// host returns the state of the only bucket of Config.Limits.
func host(t testing.TB, tr *outflow.Transport) leakyqueue.BucketStats {
	t.Helper()
	for _, b := range tr.Stats().Buckets {
		if b.Rule == "host" {
			return b
		}
	}
	t.Fatal("no bucket is in use")
	return leakyqueue.BucketStats{}
}

// response sends a GET whose body is left to the caller.
func response(t testing.TB, rt http.RoundTripper, path string) *http.Response {
	t.Helper()
	resp, err := rt.RoundTrip(newRequest(t.Context(), t, "GET", "http://api.test"+path, nil))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Trap 7: slots that are free again at the headers let more requests run than the limit has it; and
// those that are kept for longer than the body starve everybody.
func TestSlotsAreHeldFromDepartureToTheEndOfTheBody(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New().Answering(testserver.Trickle(4, "drop", 250*time.Millisecond))
		tr := newTransport(t, outflow.Config{Base: serve(up).Transport, Limits: []limit.Limit{limit.Concurrent(3)}})
		start := time.Now()
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				if status, body, err := get(t.Context(), tr, "http://api.test"); status != 200 || body != "dropdropdropdrop" || err != nil {
					t.Error(status, body, err)
				}
			})
		}
		wg.Wait()
		if n, d := up.Arrivals().MaxInFlight(), time.Since(start); n != 3 || d != 4*time.Second {
			t.Errorf("%d at once and all 12 in %v, want 3 and 4s", n, d)
		}
	})
}

// Trap 7: the end of a body is what the caller makes it, and it frees one slot.
func TestEachEndOfABodyFreesItsSlotOnce(t *testing.T) {
	readOn := func(resp *http.Response) error {
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	for _, c := range []struct {
		name  string
		path  string
		end   func(*http.Response) error
		fails bool
	}{
		{"read to its end", "/whole", readOn, false},
		{"closed unread", "/whole", func(resp *http.Response) error { return resp.Body.Close() }, false},
		{"closed in the middle", "/endless", func(resp *http.Response) error {
			if _, err := resp.Body.Read(make([]byte, 2)); err != nil {
				return err
			}
			return resp.Body.Close()
		}, false},
		{"closed while it stalls", "/stalls", func(resp *http.Response) error { return resp.Body.Close() }, false},
		{"read to its end, and closed twice", "/whole", func(resp *http.Response) error {
			return errors.Join(readOn(resp), resp.Body.Close(), resp.Body.Close())
		}, false},
		{"read to where it breaks off", "/cut", readOn, true},
		{"by the attempt's timeout", "/stalls", readOn, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				answers := http.NewServeMux()
				answers.Handle("/whole", testserver.Reply(200, "whole"))
				answers.Handle("/endless", testserver.Trickle(-1, "drop", time.Second))
				answers.Handle("/stalls", testserver.Stall(200))
				answers.Handle("/cut", testserver.CutBody("half"))
				tr := newTransport(t, outflow.Config{
					Base:   serve(testserver.New().Answering(answers)).Transport,
					Limits: []limit.Limit{limit.Concurrent(2)},
					Retry:  outflow.Retry{AttemptTimeout: time.Minute},
				})
				start := time.Now()
				resp := response(t, tr, c.path)
				time.Sleep(time.Second) // so that the other outlives it
				other := response(t, tr, "/stalls")
				defer other.Body.Close()
				if n := host(t, tr).InFlight; n != 2 {
					t.Errorf("%d slots are out before the end, want 2", n)
				}
				if err := c.end(resp); (err != nil) != c.fails {
					t.Errorf("the end: %v", err)
				}
				if n := host(t, tr).InFlight; n != 1 {
					t.Errorf("%d slots are out after the end, want the other's", n)
				}
				if d := time.Since(start); d > time.Minute {
					t.Errorf("it took %v", d)
				}
			})
		})
	}
}

// Trap 7: where there is no body there is nothing to close, and many who don't.
func TestResponsesWithoutBodyHoldNoSlot(t *testing.T) {
	for _, c := range []struct {
		name   string
		method string
		answer http.Handler
	}{
		{"HEAD", "HEAD", testserver.Reply(200, "not sent", "Content-Length", "8")},
		{"HEAD of unknown length", "HEAD", testserver.Reply(200, strings.Repeat("not sent", 1000))},
		{"204", "GET", testserver.Reply(204, "")},
		{"304", "GET", testserver.Reply(304, "", "ETag", `"1"`)},
		{"304 with a length", "GET", testserver.Reply(304, "", "Content-Length", "8")},
		{"200 of length 0", "GET", testserver.Reply(200, "")},
		{"404 of length 0", "POST", testserver.Reply(404, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				tr := newTransport(t, outflow.Config{
					Base:   serve(testserver.New().Answering(c.answer)).Transport,
					Limits: []limit.Limit{limit.Concurrent(1)},
					Retry:  outflow.Retry{AttemptTimeout: time.Minute},
				})
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					resp, err := tr.RoundTrip(newRequest(ctx, t, c.method, "http://api.test", nil))
					if err != nil {
						t.Fatalf("%v: the slot is out still", err)
					}
					if n := host(t, tr).InFlight; n != 0 {
						t.Errorf("%d slots are out", n)
					}
					defer resp.Body.Close()
				}
			})
		})
	}
}

// A stream may go on after it was said to have no content: an empty frame, or trailers, end it.
func TestEmptyBodyKeepsItsTrailers(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		srv := serve(testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 {
				w.Header().Set("Content-Length", "0") // HTTP/1.1 has trailers after chunks only
			}
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
			w.Header().Set("X-Sum", "0")
		})))
		tr := newTransport(t, outflow.Config{
			Base:   srv.Transport,
			Limits: []limit.Limit{limit.Concurrent(1)},
			Retry:  outflow.Retry{AttemptTimeout: time.Minute},
		})
		resp := response(t, tr, "/")
		if body := read(t, resp); body != "" || resp.Trailer.Get("X-Sum") != "0" {
			t.Errorf("body %q, trailer %v", body, resp.Trailer)
		}
		if n := host(t, tr).InFlight; n != 0 {
			t.Errorf("%d slots are out", n)
		}
	})
}

// Trap 7: a body that nobody closes shows, and MaxHold gives its slot back.
func TestBodyThatNobodyClosesShowsInStats(t *testing.T) {
	for _, maxHold := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint("MaxHold ", maxHold), func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				tr := newTransport(t, outflow.Config{
					Base:   serve(testserver.New().Answering(testserver.Trickle(30, "drop", time.Second))).Transport,
					Limits: []limit.Limit{limit.Concurrent(1)},
					Queue:  leakyqueue.Config{MaxHold: maxHold},
				})
				forgotten := response(t, tr, "/")
				time.Sleep(42 * time.Second)
				if b := host(t, tr); b.InFlight != 1 || b.Held != 42*time.Second || b.Counts.HoldsExpired != 0 {
					t.Errorf("after 42s: %+v", b)
				}

				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				next, err := tr.RoundTrip(newRequest(ctx, t, "GET", "http://api.test", nil))
				if maxHold == 0 {
					if e, ok := errors.AsType[*outflow.Error](err); !ok || e.Queued != time.Hour || e.Bucket != "host api.test" {
						t.Errorf("without MaxHold: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d != 18*time.Second {
					t.Errorf("the next left after %v, want 18s", d)
				}
				if b := host(t, tr); b.InFlight != 1 || b.Held != 0 || b.Counts.HoldsExpired != 1 {
					t.Errorf("after MaxHold: %+v", b)
				}
				// It can still be read, and when it is closed at last, it doesn't free the slot of the next.
				if body := read(t, forgotten); body != strings.Repeat("drop", 30) {
					t.Errorf("read %q of the forgotten body", body)
				}
				if b := host(t, tr); b.InFlight != 1 || b.Counts.HoldsExpired != 1 {
					t.Errorf("when the forgotten body is closed: %+v", b)
				}
				read(t, next)
			})
		})
	}
}

// Trap 7: whoever reads, closes and gives back by time at one moment, one slot is given back. Run
// with -race.
func TestBodiesMayEndInAllWaysAtOnce(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New().Answering(testserver.Trickle(1, "drop", time.Second))
		tr := newTransport(t, outflow.Config{
			Base:   serve(up).Transport,
			Limits: []limit.Limit{limit.Concurrent(4)},
			Queue:  leakyqueue.Config{MaxHold: time.Second},
			Retry:  outflow.Retry{AttemptTimeout: time.Second},
		})
		var calls sync.WaitGroup
		for range 40 {
			calls.Go(func() {
				resp := response(t, tr, "/")
				var ends sync.WaitGroup
				ends.Go(func() { _, _ = io.Copy(io.Discard, resp.Body) })
				for range 2 {
					ends.Go(func() {
						time.Sleep(time.Second)
						resp.Body.Close()
					})
				}
				ends.Wait()
			})
		}
		calls.Wait()
		if b := host(t, tr); b.InFlight != 0 || b.Waiting != 0 || b.Counts.Departed != 40 {
			t.Errorf("at the end: %+v", b)
		}
		// All slots are there again, and no more than those.
		for range 4 {
			defer response(t, tr, "/").Body.Close()
		}
		if b := host(t, tr); b.InFlight != 4 {
			t.Errorf("%d slots are out, want 4", b.InFlight)
		}
	})
}

// Trap 7: after 101 Switching Protocols the body is the connection. It can be written, as long as it
// lasts it holds its slot, and no attempt's timeout cuts it off.
func TestSwitchedProtocolsKeepTheConnection(t *testing.T) {
	for name, cfg := range map[string]outflow.Config{
		"with slots":     {Limits: []limit.Limit{limit.Concurrent(1)}},
		"with a timeout": {Retry: outflow.Retry{AttemptTimeout: time.Second}},
		"with neither":   {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					conn, rw, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					go func() {
						defer conn.Close()
						io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
						io.Copy(conn, rw)
					}()
				})).Pipe(t)
				cfg.Base = srv.Transport
				tr := newTransport(t, cfg)
				req := newRequest(t.Context(), t, "GET", "http://api.test", nil)
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "echo")
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				conn, ok := resp.Body.(io.ReadWriteCloser)
				if resp.StatusCode != 101 || !ok {
					t.Fatalf("%s with a body of %T", resp.Status, resp.Body)
				}
				lines := bufio.NewReader(conn)
				for range 3 {
					time.Sleep(time.Minute)
					if _, err := io.WriteString(conn, "hello\n"); err != nil {
						t.Error(err)
					}
					if line, err := lines.ReadString('\n'); line != "hello\n" || err != nil {
						t.Error(line, err)
					}
				}
				if cfg.Limits != nil && host(t, tr).InFlight != 1 {
					t.Error("the slot was given back under way")
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				if cfg.Limits != nil && host(t, tr).InFlight != 0 {
					t.Error("the slot wasn't given back")
				}
			})
		})
	}
}

// Any other body can't be written, so that nobody takes it for a connection.
func TestOtherBodiesAreNoWriters(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		tr := newTransport(t, outflow.Config{Base: serve(testserver.New()).Transport, Limits: []limit.Limit{limit.Concurrent(1)}})
		resp := response(t, tr, "/")
		defer resp.Body.Close()
		if _, ok := resp.Body.(io.Writer); ok {
			t.Errorf("%T is an io.Writer", resp.Body)
		}
	})
}

// Trap 8: one attempt after another that ends without a response would take all slots, and the bucket
// be dead for ever.
func TestAttemptsWithoutResponseGiveTheirSlotBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		base   func(http.RoundTripper) baseFunc // nil: the server's
		step   http.Handler
		retry  outflow.Retry
		cancel time.Duration
		want   func(ended) bool
	}{
		{name: "can't dial", want: failedSomehow, base: func(http.RoundTripper) baseFunc {
			nobody := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: errBroken}
			}}
			return nobody.RoundTrip
		}},
		{name: "cut off", step: testserver.Cut(), want: failedSomehow},
		{name: "cancelled", step: testserver.Hang(), cancel: time.Second, want: failed(context.Canceled)},
		{name: "too long", step: testserver.Hang(), retry: outflow.Retry{AttemptTimeout: time.Second}, want: failed(context.DeadlineExceeded)},
		{name: "panic in Base", want: panicked, base: func(http.RoundTripper) baseFunc {
			return func(*http.Request) (*http.Response, error) { panic(errBroken) }
		}},
		{name: "panic in Base, after it had a response", want: panicked, base: func(rt http.RoundTripper) baseFunc {
			return func(req *http.Request) (*http.Response, error) {
				resp, err := rt.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				panic(errBroken)
			}
		}},
		{name: "neither a response nor an error", want: failedSomehow, base: func(http.RoundTripper) baseFunc {
			return func(*http.Request) (*http.Response, error) { return nil, nil }
		}},
		{name: "a response and an error", want: failed(errBroken), base: func(rt http.RoundTripper) baseFunc {
			return func(req *http.Request) (*http.Response, error) {
				resp, _ := rt.RoundTrip(req)
				return resp, errBroken
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				srv := serve(testserver.New(testserver.ScriptFunc(func(_ int, r *http.Request) http.Handler {
					if r.URL.Path == "/bad" {
						return c.step
					}
					return nil
				})))
				var bad http.RoundTripper = srv.Transport
				if c.base != nil {
					bad = c.base(srv.Transport)
				}
				c.retry.MaxAttempts = 2
				tr := newTransport(t, outflow.Config{
					Base: baseFunc(func(req *http.Request) (*http.Response, error) {
						if req.URL.Path == "/bad" {
							return bad.RoundTrip(req)
						}
						return srv.Transport.RoundTrip(req)
					}),
					Limits: []limit.Limit{limit.Concurrent(1)},
					Retry:  c.retry,
				})
				for range 3 {
					ctx := t.Context()
					if c.cancel > 0 {
						ctx = cancelledIn(ctx, c.cancel)
					}
					if e := roundTrip(tr, newRequest(ctx, t, "GET", "http://api.test/bad", nil)); !c.want(e) || e.resp != nil {
						t.Errorf("ended with %+v", e)
					}
					if n := host(t, tr).InFlight; n != 0 {
						t.Errorf("%d slots are out", n)
					}
				}
				start := time.Now()
				if status, _, err := get(t.Context(), tr, "http://api.test/good"); status != 200 || err != nil || time.Since(start) != 0 {
					t.Errorf("the next one: %d, %v after %v", status, err, time.Since(start))
				}
			})
		})
	}
}

// Trap 8: a close that fails gives the slot back like another.
func TestFailingCloseGivesTheSlotBack(t *testing.T) {
	tr := newTransport(t, outflow.Config{
		Base: baseFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, ContentLength: -1, Body: failingBody{}}, nil
		}),
		Limits: []limit.Limit{limit.Concurrent(1)},
	})
	for range 2 {
		if err := response(t, tr, "/").Body.Close(); err != errBroken {
			t.Error(err)
		}
		if _, err := response(t, tr, "/").Body.Read(nil); err != errBroken {
			t.Error(err)
		}
	}
}

type failingBody struct{}

func (failingBody) Read([]byte) (int, error) { return 0, errBroken }
func (failingBody) Close() error             { return errBroken }

// Trap 8: who is cancelled at the moment of departure leaves no slot behind, and the next one leaves.
func TestCancelledAtTheDepartureTakesNoSlot(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		tr := newTransport(t, outflow.Config{Base: serve(testserver.New()).Transport, Limits: []limit.Limit{limit.PerSecond(1), limit.Concurrent(1)}})
		if _, _, err := get(t.Context(), tr, "http://api.test"); err != nil {
			t.Fatal(err)
		}
		for range 50 { // some of them leave, some don't: the two come at the same time
			if e := roundTrip(tr, newRequest(cancelledIn(t.Context(), time.Second), t, "GET", "http://api.test", nil)); e.resp != nil {
				e.resp.Body.Close()
			}
			if n := host(t, tr).InFlight; n != 0 {
				t.Fatalf("%d slots are out", n)
			}
		}
		if status, _, err := get(t.Context(), tr, "http://api.test"); status != 200 || err != nil {
			t.Error(status, err)
		}
	})
}
