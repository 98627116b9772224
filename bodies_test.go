package outflow_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

// The bodies of responses, of attempts that succeeded (trap 4 of research/peers-features.md) and of
// those that failed (trap 6).

// patternOf is n bytes that repeat themselves nowhere near the size of a buffer or a frame.
func patternOf(n int) string {
	var block strings.Builder
	for i := range 3001 {
		fmt.Fprintf(&block, "%d ", i)
	}
	return strings.Repeat(block.String(), n/block.Len()+1)[:n]
}

// Trap 4: an attempt's context that ends with RoundTrip takes the rest of the body with it.
func TestAttemptTimeoutLeavesABodyTimeToBeRead(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		content := patternOf(10 << 20)
		srv := serve(testserver.New().Answering(testserver.Reply(200, content)))
		tr := newTransport(t, outflow.Config{
			Base:   srv.Transport,
			Limits: []limit.Limit{limit.Concurrent(1)},
			Retry:  outflow.Retry{AttemptTimeout: time.Minute},
		})
		resp, err := tr.RoundTrip(newRequest(t.Context(), t, "GET", srv.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var got bytes.Buffer
		for start := time.Now(); ; time.Sleep(time.Second) {
			if _, err = io.CopyN(&got, resp.Body, 1<<20); err != nil {
				if d := time.Since(start); d != 10*time.Second {
					t.Errorf("read for %v, want 10s", d)
				}
				break
			}
		}
		if err != io.EOF || got.String() != content {
			t.Errorf("%d bytes, want %d: %v", got.Len(), len(content), err)
		}
	})
}

// Trap 4: the attempt's context lasts to the end of the body, and no longer.
func TestAttemptContextEndsWithTheBody(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*testing.T, *http.Response)
	}{
		{"read to its end", func(t *testing.T, resp *http.Response) {
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
		}},
		{"closed", func(_ *testing.T, resp *http.Response) { resp.Body.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				srv := serve(testserver.New().Answering(testserver.Trickle(3, "drop", time.Second)))
				var attempt context.Context
				tr := newTransport(t, outflow.Config{
					Base: baseFunc(func(req *http.Request) (*http.Response, error) {
						attempt = req.Context()
						return srv.Transport.RoundTrip(req)
					}),
					Retry: outflow.Retry{AttemptTimeout: time.Minute},
				})
				resp, err := tr.RoundTrip(newRequest(t.Context(), t, "GET", srv.URL, nil))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil || attempt.Err() != nil {
					t.Fatalf("before the end: %v, the attempt's context %v", err, attempt.Err())
				}
				c.end(t, resp)
				if !errors.Is(attempt.Err(), context.Canceled) {
					t.Errorf("after the end, the attempt's context has the error %v", attempt.Err())
				}
			})
		})
	}
}

// Traps 4 and 29: the time in the queue isn't the attempt's.
func TestTimeInTheQueueIsNotTheAttempts(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		srv := serve(testserver.New().Answering(testserver.After(900*time.Millisecond, testserver.OK())))
		tr := newTransport(t, outflow.Config{
			Base:   srv.Transport,
			Limits: []limit.Limit{limit.Per(1, time.Minute)},
			Retry:  outflow.Retry{MaxAttempts: 1, AttemptTimeout: time.Second},
		})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if status, _, err := get(t.Context(), tr, srv.URL); status != 200 || err != nil {
					t.Error(status, err)
				}
			})
		}
		wg.Wait()
	})
}

// Trap 4: an attempt that took too long is a timeout to whoever asks.
func TestAttemptTimeoutIsATimeout(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.Handler
		reads  bool // the response comes, but its body doesn't
	}{
		{"before the headers", testserver.Hang(), false},
		{"in the body", testserver.Stall(200), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				srv := serve(testserver.New().Answering(c.answer))
				tr := newTransport(t, outflow.Config{
					Base:  srv.Transport,
					Retry: outflow.Retry{MaxAttempts: 1, AttemptTimeout: 7 * time.Second},
				})
				start := time.Now()
				resp, err := tr.RoundTrip(newRequest(t.Context(), t, "GET", srv.URL, nil))
				if (err == nil) != c.reads {
					t.Fatalf("RoundTrip: %v", err)
				}
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if d := time.Since(start); d != 7*time.Second {
					t.Errorf("ended after %v, want 7s", d)
				}
				timeout, ok := errors.AsType[net.Error](err)
				if !ok || !timeout.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v isn't a timeout", err)
				}
				if http1 := strings.HasSuffix(t.Name(), "HTTP1"); http1 && !c.reads && !strings.Contains(err.Error(), "AttemptTimeout, 7s") {
					// HTTP/2 gives no more than the context's error.
					t.Errorf("%v doesn't say which timeout it was", err)
				}
			})
		})
	}
}

// A timeout of one attempt is a failure like another: what may be repeated is, what may not isn't, and
// the caller's own deadline ends it all.
func TestAttemptTimeoutEndsOneAttempt(t *testing.T) {
	for _, c := range []struct {
		method   string
		deadline time.Duration
		attempts int
		ok       bool
	}{
		{"GET", time.Hour, 3, true},
		{"POST", time.Hour, 1, false},
		{"GET", 1500 * time.Millisecond, 2, false},
	} {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			up := testserver.New(testserver.Script(testserver.Times(2, testserver.Hang())...))
			srv := serve(up)
			tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{AttemptTimeout: time.Second}})
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			status, _, err := do(tr, newRequest(ctx, t, c.method, srv.URL, nil))
			if (err == nil) != c.ok || c.ok && status != 200 {
				t.Errorf("%s: %d, %v", c.method, status, err)
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v isn't a timeout", c.method, err)
			}
			if n := len(up.Arrivals()); n != c.attempts {
				t.Errorf("%s: sent %d times, want %d", c.method, n, c.attempts)
			}
		})
	}
}

// readBodies is a Base that notes how much is read of each response's body, and how it is closed.
type readBodies struct {
	http.RoundTripper
	mu  sync.Mutex
	all []*readBody
}

type readBody struct {
	io.ReadCloser
	mu     sync.Mutex
	bytes  int
	closed bool
}

func (b *readBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		body := &readBody{ReadCloser: resp.Body}
		resp.Body = body
		b.mu.Lock()
		b.all = append(b.all, body)
		b.mu.Unlock()
	}
	return resp, err
}

func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	b.bytes += n
	b.mu.Unlock()
	return n, err
}

func (b *readBody) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.ReadCloser.Close()
}

// Trap 6: a failed attempt whose body isn't read and closed costs a connection (20 calls of three
// attempts opened 41 in one of the peers).
func TestRetriesUseTheirConnectionAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		step http.Handler
	}{
		{"with a page of text", testserver.Reply(503, patternOf(4<<10))},
		{"with no body", testserver.Reply(503, "")},
		{"in chunks", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			for range 3 {
				io.WriteString(w, "unwell")
				_ = http.NewResponseController(w).Flush()
			}
		})},
		{"after a moment", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
			io.WriteString(w, "unwell")
		})},
		{"compressed", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(503)
			z := gzip.NewWriter(w)
			io.WriteString(z, patternOf(4<<10))
			z.Close()
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) { callsUseOneConnection(t, c.step, serve) })
		})
	}
	// A pipe can't tell what sockets do with what was sent and not read.
	page := testserver.Reply(503, patternOf(4<<10))
	t.Run("TCP", func(t *testing.T) {
		callsUseOneConnection(t, page, func(up *testserver.Upstream) *testserver.Server { return up.TCP(t) })
	})
	t.Run("TLS", func(t *testing.T) {
		callsUseOneConnection(t, page, func(up *testserver.Upstream) *testserver.Server { return up.TLS(t) })
	})
}

// callsUseOneConnection makes 20 calls, of which each is answered by step twice before it succeeds.
func callsUseOneConnection(t *testing.T, step http.Handler, serve serveFunc) {
	up := testserver.New(testserver.ScriptFunc(func(i int, _ *http.Request) http.Handler {
		if i%3 < 2 {
			return step
		}
		return nil
	}))
	srv := serve(up)
	base := &readBodies{RoundTripper: srv.Transport}
	tr := newTransport(t, outflow.Config{Base: base, Retry: outflow.Retry{
		Backoff: backoff.Policy{Base: backoff.Floor, Cap: backoff.Floor},
		Budget:  outflow.Budget{Ratio: -1},
	}})
	for range 20 {
		if status, _, err := get(t.Context(), tr, srv.URL); status != 200 || err != nil {
			t.Fatal(status, err)
		}
	}
	if n := len(up.Arrivals()); n != 60 || srv.Opened() != 1 {
		t.Errorf("%d attempts opened %d connections, want 60 and 1", n, srv.Opened())
	}
	for i, b := range base.all {
		if !b.closed {
			t.Errorf("the body of attempt %d was left open", i+1)
		}
	}
}

// Trap 6: a hostile upstream can't hang a retry by the body of its refusal, nor make us read it.
func TestHostileRefusalsDontHoldUpTheRetry(t *testing.T) {
	withHeader := func(status int, rest http.Handler, namesAndValues ...string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(namesAndValues); i += 2 {
				w.Header().Set(namesAndValues[i], namesAndValues[i+1])
			}
			w.WriteHeader(status)
			_ = http.NewResponseController(w).Flush()
			rest.ServeHTTP(w, r)
		})
	}
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for chunk := []byte(patternOf(32 << 10)); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	trickling := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, "."); err != nil {
				return
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	zipped := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z := gzip.NewWriter(w)
		io.WriteString(z, "half")
		z.Flush()
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	stalling := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, c := range []struct {
		name string
		step http.Handler
	}{
		{"a 429 that stalls", withHeader(429, stalling, "Retry-After", "2")},
		{"a 503 that stalls", withHeader(503, stalling, "Retry-After", "2")},
		{"a 429 that trickles", withHeader(429, trickling, "Retry-After", "2")},
		{"a 429 that never ends", withHeader(429, endless, "Retry-After", "2")},
		{"a 429 of a terabyte", withHeader(429, endless, "Retry-After", "2", "Content-Length", "1000000000000")},
		{"a 429 that stalls before its announced end", withHeader(429, stalling, "Retry-After", "2", "Content-Length", "100")},
		{"a compressed 429 that stalls", withHeader(429, zipped, "Retry-After", "2", "Content-Encoding", "gzip")},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := testserver.New(testserver.Script(c.step))
				srv := serve(up)
				base := &readBodies{RoundTripper: srv.Transport}
				tr := newTransport(t, outflow.Config{Base: base, Limits: []limit.Limit{limit.PerSecond(1000), limit.Concurrent(2)}})
				start := time.Now()
				var wg sync.WaitGroup
				// The second comes while the first one's body is being given up: the pause holds already.
				for _, after := range []time.Duration{0, 50 * time.Millisecond} {
					wg.Go(func() {
						time.Sleep(after)
						if status, _, err := get(t.Context(), tr, srv.URL); status != 200 || err != nil {
							t.Error(status, err)
						}
					})
				}
				wg.Wait()
				as := up.Arrivals()
				if len(as) != 3 {
					t.Fatalf("%d attempts, want 3", len(as))
				}
				for _, at := range as.Since(start)[1:] {
					if at < 2*time.Second || at > 2200*time.Millisecond {
						t.Errorf("again after %v, want 2s and at most a twentieth more", at)
					}
				}
				if b := base.all[0]; !b.closed || b.bytes > 64<<10 {
					t.Errorf("read %d bytes of the refusal; closed: %v", b.bytes, b.closed)
				}
			})
		})
	}
}

// wholeReply has everything that a response can bring.
func wholeReply(status int, content string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		w.Header()["X-List"] = []string{"a", "b"}
		w.WriteHeader(status)
		io.WriteString(w, content)
		w.Header().Set("X-Sum", "42")
	})
}

// Traps 9 and 14: the last response comes back as it was, whatever the reason that it is the last.
func TestLastResponseComesBackWhole(t *testing.T) {
	content := patternOf(100 << 10)
	always := func(retry bool, err error) func(context.Context, *http.Response, error) (bool, error) {
		return func(context.Context, *http.Response, error) (bool, error) { return retry, err }
	}
	for _, c := range []struct {
		name     string
		status   int
		retry    outflow.Retry
		deadline time.Duration
		change   func(*http.Request)
		attempts int
	}{
		{name: "success", status: 200, attempts: 1},
		{name: "success, with a timeout", status: 200, retry: outflow.Retry{AttemptTimeout: time.Minute}, attempts: 1},
		{name: "not one to repeat", status: 404, attempts: 1},
		{name: "tries run out", status: 503, retry: outflow.Retry{MaxAttempts: 3}, attempts: 3},
		{name: "tries run out, with a timeout", status: 429, retry: outflow.Retry{MaxAttempts: 2, AttemptTimeout: time.Minute}, attempts: 2},
		{name: "CheckRetry says no", status: 503, retry: outflow.Retry{CheckRetry: always(false, nil)}, attempts: 1},
		{name: "CheckRetry always says yes", status: 200, retry: outflow.Retry{CheckRetry: always(true, nil), MaxAttempts: 2}, attempts: 2},
		{name: "no budget", status: 503, retry: outflow.Retry{Budget: outflow.Budget{Ratio: 0.001, MinPerSecond: -1}}, attempts: 1},
		{name: "no GetBody", status: 503, change: func(req *http.Request) { req.GetBody = nil }, attempts: 1},
		{
			name: "GetBody fails", status: 503, attempts: 1, // azure-sdk-for-go issue 26820: it must not be read by then
			change: func(req *http.Request) { req.GetBody = func() (io.ReadCloser, error) { return nil, errBroken } },
		},
		{name: "the retry would come too late", status: 429, deadline: 10 * time.Millisecond, attempts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := testserver.New().Answering(wholeReply(c.status, content))
				srv := serve(up)
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: c.retry, Limits: []limit.Limit{limit.Concurrent(1)}})
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				req := newRequest(ctx, t, "PUT", "http://api.test/x", strings.NewReader("amount=1"))
				if c.change != nil {
					c.change(req)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if got := read(t, resp); got != content {
					t.Errorf("a body of %d bytes, want %d", len(got), len(content))
				}
				if resp.StatusCode != c.status || len(resp.Header["X-List"]) != 2 || resp.Trailer.Get("X-Sum") != "42" || resp.Request != req {
					t.Errorf("%s, header %v, trailer %v, request %p instead of %p", resp.Status, resp.Header, resp.Trailer, resp.Request, req)
				}
				if n := len(up.Arrivals()); n != c.attempts {
					t.Errorf("sent %d times, want %d", n, c.attempts)
				}
			})
		})
	}
}

// A response is Base's in all that isn't its body: what net/http found out about it isn't lost.
func TestResponsesAreLeftAsTheyAre(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, "content")
			z.Close()
			return
		}
		wholeReply(203, "content").ServeHTTP(w, r)
	})
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		srv := serve(testserver.New().Answering(answer))
		tr := newTransport(t, outflow.Config{
			Base:   srv.Transport,
			Limits: []limit.Limit{limit.Concurrent(1)},
			Retry:  outflow.Retry{AttemptTimeout: time.Minute},
		})
		for _, encoding := range []string{"", "identity"} { // net/http's own gzip, and none
			var got [2]http.Response
			for i, rt := range []http.RoundTripper{srv.Transport, tr} {
				req := newRequest(t.Context(), t, "GET", "http://api.test", nil)
				if encoding != "" {
					req.Header.Set("Accept-Encoding", encoding)
				}
				resp, err := rt.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if body := read(t, resp); body != "content" || resp.Request != req {
					t.Errorf("%q for %p, want it for %p", body, resp.Request, req)
				}
				got[i] = *resp
				got[i].Body, got[i].Request = nil, nil
			}
			got[0].Header.Del("Date")
			got[1].Header.Del("Date")
			if want, have := got[0], got[1]; !reflect.DeepEqual(have, want) {
				t.Errorf("%+v, and without outflow %+v", have, want)
			}
			if got[1].Uncompressed != (encoding == "") {
				t.Errorf("Uncompressed is %v for %q", got[1].Uncompressed, encoding)
			}
		}
	})
}

// A response that Base returns with an error, against its contract, is closed.
func TestResponseWithAnErrorIsClosed(t *testing.T) {
	body := &closeRecorder{Reader: strings.NewReader("refused")}
	tr := newTransport(t, outflow.Config{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 503, Body: body, Request: req}, errBroken
	}), Retry: outflow.Retry{MaxAttempts: 1}})
	if e := roundTrip(tr, newRequest(t.Context(), t, "GET", "http://api.test", nil)); e.resp != nil || !errors.Is(e.err, errBroken) {
		t.Errorf("ended with %+v", e)
	}
	if body.closed != 1 {
		t.Errorf("the body was closed %d times", body.closed)
	}
}

// A refusal that is known to be longer than what a connection is worth isn't read.
func TestLongRefusalIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		statuses := []int{503, 200}
		long := strings.NewReader(patternOf(1 << 20))
		tr := newTransport(t, outflow.Config{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: statuses[0], Body: io.NopCloser(long), ContentLength: long.Size(), Request: req}
			statuses = statuses[1:]
			if resp.StatusCode == 200 {
				resp.Body, resp.ContentLength = http.NoBody, 0
			}
			return resp, nil
		})})
		if status, _, err := get(t.Context(), tr, "http://api.test"); status != 200 || err != nil {
			t.Error(status, err)
		}
		if read := long.Size() - int64(long.Len()); read > 4<<10 {
			t.Errorf("%d bytes of the refusal were read", read)
		}
	})
}

// A body that panics when it is given up for a retry takes neither a slot nor a turn with it.
func TestPanicOfABodyLeavesNothingInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, outflow.Config{
			Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Body: panickingBody{}, ContentLength: -1, Request: req}, nil
			}),
			Limits: []limit.Limit{limit.Concurrent(1)},
		})
		if e := roundTrip(tr, newRequest(t.Context(), t, "GET", "http://api.test", nil)); !panicked(e) {
			t.Errorf("ended with %+v", e)
		}
		time.Sleep(10 * time.Second) // the retry would have left
		if s := host(t, tr); s.Waiting != 0 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}

type panickingBody struct{}

func (panickingBody) Read([]byte) (int, error) { panic(errBroken) }
func (panickingBody) Close() error             { return nil }

// Base may be a stub that leaves out the Body, which http.Client tolerates.
func TestResponsesWithoutBodyAreTolerated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		statuses := []int{503, 429, 200}
		tr := newTransport(t, outflow.Config{
			Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				status := statuses[0]
				statuses = statuses[1:]
				return &http.Response{StatusCode: status, Request: req}, nil
			}),
			Limits: []limit.Limit{limit.Concurrent(1)},
		})
		if status, _, err := get(t.Context(), tr, "http://api.test"); status != 200 || err != nil {
			t.Error(status, err)
		}
	})
}
