package outflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// pipes are the two protocols in virtual time.
var pipes = map[string]func(*testserver.Upstream, testserver.TB) *testserver.Server{
	"HTTP/1.1": (*testserver.Upstream).Pipe,
	"HTTP/2":   (*testserver.Upstream).PipeHTTP2,
}

// Trap 10: a POST is repeated although the upstream may have done it already. Every case fails the
// first attempt only, so a repeated one succeeds.
func TestWhatIsRepeated(t *testing.T) {
	const (
		cut     = "cut"     // the upstream has the request, and the connection is gone
		noDial  = "nodial"  // there never was a connection
		noProxy = "noproxy" // nor one to the proxy
		noRead  = "noread"  // there was one, and something may have been sent
	)
	refused := map[string]error{
		noDial:  &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED},
		noProxy: &net.OpError{Op: "proxyconnect", Net: "tcp", Err: syscall.ECONNREFUSED},
		noRead:  &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
	}
	for _, tt := range []struct {
		method  string
		header  string
		body    string // "stream": without GetBody
		failure string // cut, noDial, or a status
		again   bool
	}{
		{"GET", "", "", cut, true},
		{"HEAD", "", "", cut, true},
		{"PUT", "", "bytes", cut, true},
		{"DELETE", "", "", cut, true},
		{"OPTIONS", "", "", cut, true},
		{"POST", "", "bytes", cut, false},
		{"POST", "", "", cut, false},
		{"PATCH", "", "bytes", cut, false},
		{"POST", "Idempotency-Key", "bytes", cut, true},
		{"PATCH", "X-Idempotency-Key", "bytes", cut, true},
		{"POST", "Idempotency-Key", "stream", cut, false},
		{"PUT", "", "stream", cut, false},

		{"POST", "", "bytes", noDial, true},
		{"PATCH", "", "", noDial, true},
		{"GET", "", "", noDial, true},
		{"POST", "", "stream", noDial, false},
		{"POST", "", "bytes", noProxy, true},
		{"POST", "", "bytes", noRead, false},

		{"GET", "", "", "502", true},
		{"PUT", "", "bytes", "503", true},
		{"DELETE", "", "", "504", true},
		{"GET", "", "", "529", true},
		{"POST", "", "bytes", "502", false},
		{"POST", "", "bytes", "503", false},
		{"POST", "", "", "504", false},
		{"PATCH", "", "bytes", "529", false},
		{"POST", "Idempotency-Key", "bytes", "502", true},
		{"POST", "Idempotency-Key", "bytes", "503", true},
		{"POST", "Idempotency-Key", "bytes", "504", true},
		{"PUT", "", "stream", "503", false},

		{"GET", "", "", "429", true},
		{"POST", "", "bytes", "429", true},
		{"PATCH", "", "", "429", true},
		{"POST", "", "stream", "429", false},

		{"GET", "", "", "500", false},
		{"GET", "", "", "501", false},
		{"GET", "", "", "404", false},
		{"PUT", "Idempotency-Key", "bytes", "409", false},
	} {
		for protocol, serve := range pipes {
			t.Run(fmt.Sprintf("%s %s %s %s %s", protocol, tt.method, tt.header, tt.body, tt.failure), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					status, _ := strconv.Atoi(tt.failure)
					script := []http.Handler{testserver.Reply(max(status, 200), "")}
					switch tt.failure {
					case cut:
						script[0] = testserver.Cut()
					case noDial, noProxy, noRead:
						script = nil
					}
					up := testserver.New(testserver.Script(script...))
					srv := serve(up, t)
					if refused := refused[tt.failure]; refused != nil {
						dial, dialled := srv.Transport.DialContext, false
						srv.Transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
							if !dialled {
								dialled = true
								return nil, refused
							}
							return dial(ctx, network, addr)
						}
					}
					var body io.Reader
					switch tt.body {
					case "bytes":
						body = strings.NewReader(tt.body)
					case "stream":
						body = io.MultiReader(strings.NewReader(tt.body))
					}
					var trace outflow.Trace
					req, err := http.NewRequestWithContext(outflow.WithTrace(t.Context(), &trace), tt.method, srv.URL, body)
					if err != nil {
						t.Fatal(err)
					}
					if tt.header != "" {
						req.Header.Set(tt.header, "k1")
					}
					got, _, err := do(newTransport(t, outflow.Config{Base: srv.Transport}), req)

					switch {
					case tt.again && (err != nil || got != 200 || trace.Attempts != 2):
						t.Errorf("%d, %v after %d attempts, want 200 after 2", got, err, trace.Attempts)
					case !tt.again && (got != status || (err != nil) != (status == 0) || trace.Attempts != 1):
						t.Errorf("%d, %v after %d attempts, want %s after 1", got, err, trace.Attempts, tt.failure)
					}
					for _, a := range up.Arrivals() {
						if a.BodyRead != int64(len(tt.body)) {
							t.Errorf("the upstream read %d bytes of the body, want %d", a.BodyRead, len(tt.body))
						}
					}
				})
			})
		}
	}
}

// Trap 10: on a transport error there is no response, so a policy needs the request.
func TestCheckRetrySeesTheRequest(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.Script(testserver.Cut(), testserver.Reply(418, "teapot")))
		srv := serve(up)
		var asked []string
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{
			CheckRetry: func(ctx context.Context, resp *http.Response, err error) (bool, error) {
				req := outflow.RequestFrom(ctx)
				asked = append(asked, fmt.Sprint(req.Method, " ", req.URL.Path, " ", resp != nil, " ", err != nil))
				return req.Header.Get("X-Safe") == "yes" && (err != nil || resp.StatusCode == 418), nil
			},
		}})
		req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/jobs", strings.NewReader("x"))
		req.Header.Set("X-Safe", "yes")
		if status, _, err := do(tr, req); err != nil || status != 200 {
			t.Fatal(status, err)
		}
		want := "[POST /jobs false true POST /jobs true false POST /jobs true false]"
		if fmt.Sprint(asked) != want {
			t.Errorf("asked %v, want %v", asked, want)
		}
		if outflow.RequestFrom(t.Context()) != nil {
			t.Error("RequestFrom finds a request in any context")
		}
	})
}

// The policies that come with go-retryablehttp plug in: an error beside true ends no tries there, but
// is what the caller gets when they have run out.
func TestRetryablehttpsOwnPoliciesPlugIn(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policy   retryablehttp.CheckRetry
		failures int
		attempts int
		status   int // 0: an error
	}{
		{"default, in time", retryablehttp.DefaultRetryPolicy, 2, 3, 200},
		{"default, too often", retryablehttp.DefaultRetryPolicy, 9, 3, 500},
		{"with errors, in time", retryablehttp.ErrorPropagatedRetryPolicy, 2, 3, 200},
		{"with errors, too often", retryablehttp.ErrorPropagatedRetryPolicy, 9, 3, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := testserver.New(testserver.Script(testserver.Times(tt.failures, testserver.Reply(500, ""))...))
				srv := serve(up)
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{MaxAttempts: 3, CheckRetry: tt.policy}})
				status, _, err := get(t.Context(), tr, srv.URL)
				if n := len(up.Arrivals()); status != tt.status || (err != nil) != (tt.status == 0) || n != tt.attempts {
					t.Errorf("%d, %v after %d attempts, want %d after %d", status, err, n, tt.status, tt.attempts)
				}
				if err != nil && !strings.Contains(err.Error(), "unexpected HTTP status 500") {
					t.Errorf("error %q isn't the policy's", err)
				}
			})
		})
	}
}

func TestAnErrorOfCheckRetryIsTheCallers(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New()
		srv := serve(up)
		stop := errors.New("no more of this")
		tr := newTransport(t, outflow.Config{
			Base: srv.Transport, Limits: []limit.Limit{limit.Concurrent(1)},
			Retry: outflow.Retry{CheckRetry: func(context.Context, *http.Response, error) (bool, error) { return false, stop }},
		})
		for range 3 { // the slot comes back, and the connection is used again
			if _, _, err := get(t.Context(), tr, srv.URL); !errors.Is(err, stop) {
				t.Fatal(err)
			}
		}
		if len(up.Arrivals()) != 3 || srv.Opened() != 1 {
			t.Errorf("%d arrivals over %d connections", len(up.Arrivals()), srv.Opened())
		}
	})
}

// Trap 11: a 429 doesn't count as an attempt, so the tries never end. Trap 14: when they have run out,
// the last response is swallowed.
func TestTriesRunOutAndTheLastAnswerComesBackWhole(t *testing.T) {
	for _, tt := range []struct {
		name        string
		maxAttempts int
		header      []string
		status      int
		want        int
	}{
		{"429 by default", 0, []string{"Retry-After", "1"}, 429, outflow.DefaultMaxAttempts},
		{"429", 3, []string{"Retry-After", "1"}, 429, 3},
		{"429 without a hint", 7, nil, 429, 7},
		{"429, once", 1, []string{"Retry-After", "1"}, 429, 1},
		{"503", 4, nil, 503, 4},
		{"503 with a hint", 4, []string{"Retry-After", "1"}, 503, 4},
		{"502", 2, nil, 502, 2},
	} {
		for protocol, serve := range pipes {
			t.Run(protocol+" "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := testserver.New(testserver.ScriptFunc(func(i int, _ *http.Request) http.Handler {
						n := strconv.Itoa(i + 1)
						return testserver.Reply(tt.status, "answer "+n, append(tt.header, "X-Answer", n)...)
					}))
					srv := serve(up, t)
					tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{MaxAttempts: tt.maxAttempts}})
					resp, err := (&http.Client{Transport: tr}).Get(srv.URL)
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					body, err := io.ReadAll(resp.Body)
					n := strconv.Itoa(tt.want)
					if err != nil || resp.StatusCode != tt.status || resp.Header.Get("X-Answer") != n || string(body) != "answer "+n {
						t.Errorf("%d %v %q, %v, want answer %s", resp.StatusCode, resp.Header, body, err, n)
					}
					s := tr.Stats()
					if len(up.Arrivals()) != tt.want || s.Retries != uint64(tt.want-1) {
						t.Errorf("%d arrivals, %d retries, want %d attempts", len(up.Arrivals()), s.Retries, tt.want)
					}
					if n := s.Limited + s.Overloaded; n != uint64(tt.want) && tt.status != 502 || s.Limited > 0 != (tt.status == 429) {
						t.Errorf("%d answers are counted as limited, %d as overloaded", s.Limited, s.Overloaded)
					}
				})
			})
		}
	}
}

// Trap 14, where the retry could not leave in time: the answer comes back at once, not an error.
func TestAnswerComesBackWhereARetryWouldBeTooLate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		queue leakyqueue.Config
		limit time.Duration // of the context
	}{
		{"for the context", leakyqueue.Config{}, 9 * time.Second},
		{"for MaxWait", leakyqueue.Config{MaxWait: 9 * time.Second}, time.Hour},
		{"for MaxPause", leakyqueue.Config{MaxPause: 9 * time.Second}, time.Hour},
	} {
		for _, status := range []int{429, 503} {
			t.Run(fmt.Sprint(tt.name, " ", status), func(t *testing.T) {
				overEachProtocol(t, func(t *testing.T, serve serveFunc) {
					up := refuseOnce(status, "Retry-After", "10")
					srv := serve(up)
					tr := newTransport(t, outflow.Config{Base: srv.Transport, Queue: tt.queue})
					ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
					defer cancel()
					start := time.Now()
					got, body, err := get(ctx, tr, srv.URL)
					if err != nil || got != status || body != "refused" || time.Since(start) != 0 {
						t.Errorf("%d %q, %v after %v, want the refusal at once", got, body, err, time.Since(start))
					}
				})
			})
		}
	}
}

// Trap 12: retries aren't charged to the limit, or go to the end of the queue.
func TestRetriesAreChargedAndKeepTheirPlace(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.ScriptFunc(func(i int, _ *http.Request) http.Handler {
			if i%3 == 1 {
				return testserver.Reply(503, "")
			}
			return nil
		}))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{
			Base: srv.Transport, Limits: []limit.Limit{limit.PerSecond(10)},
			Retry: outflow.Retry{Backoff: backoff.Policy{Base: 10 * time.Millisecond, Jitter: backoff.None}, Budget: outflow.Budget{Ratio: -1}},
		})
		sendLabelled(t, tr, srv.URL, 10)
		at := up.Arrivals()
		if got := fmt.Sprint(at.Labels()); got != "[0 1 1 2 3 3 4 5 5 6 7 7 8 9 9]" {
			t.Errorf("order %v", got)
		}
		if at.MinGap() != 100*time.Millisecond || at.Span() != 1400*time.Millisecond {
			t.Errorf("gaps of %v, %v altogether, want 100ms and 1.4s", at.MinGap(), at.Span())
		}
	})
}

func TestAttemptTimeoutStartsAtTheDeparture(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for protocol, serve := range pipes {
			t.Run(protocol+" "+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := testserver.New(testserver.Script(nil, testserver.Hang())).
						Answering(testserver.After(900*time.Millisecond, testserver.OK()))
					srv := serve(up, t)
					tr := newTransport(t, outflow.Config{
						Base: srv.Transport, Limits: []limit.Limit{limit.Per(1, 5*time.Second)},
						Retry: outflow.Retry{AttemptTimeout: time.Second},
					})
					if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
						t.Fatal(status, err) // it took nearly all of its time
					}
					start := time.Now()
					req, _ := http.NewRequestWithContext(t.Context(), method, srv.URL, nil)
					status, _, err := do(tr, req) // it waits for longer than AttemptTimeout, and hangs
					if method == "GET" {
						if err != nil || status != 200 || len(up.Arrivals()) != 3 {
							t.Errorf("%d, %v, %d arrivals, want 200 at the third", status, err, len(up.Arrivals()))
						}
						return
					}
					timeout, ok := errors.AsType[net.Error](err)
					if !ok || !timeout.Timeout() || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "AttemptTimeout") {
						t.Errorf("%v, want a timeout that names AttemptTimeout", err)
					}
					if d := time.Since(start); d != 5100*time.Millisecond || len(up.Arrivals()) != 2 {
						t.Errorf("ended after %v and %d arrivals, want 5.1s and 2", d, len(up.Arrivals()))
					}
				})
			})
		}
	}
}

// A request's delays follow from how often it was sent, and from the delay before.
func TestDelaysGrow(t *testing.T) {
	for _, tt := range []struct {
		policy  backoff.Policy
		longest func(time.Duration) bool // of 9 delays
	}{
		{backoff.Policy{Base: time.Second, Cap: 100 * time.Second, Jitter: backoff.None}, func(d time.Duration) bool { return d == 100*time.Second }},
		{backoff.Policy{Base: time.Second, Cap: time.Hour, Jitter: backoff.Decorrelated}, func(d time.Duration) bool { return d > 3*time.Second }},
	} {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			up := testserver.New().Answering(testserver.Reply(503, "down"))
			srv := serve(up)
			tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{MaxAttempts: 10, Backoff: tt.policy}})
			longest := time.Duration(0)
			for range 10 { // some of them short, by chance
				up.Reset()
				if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 503 {
					t.Fatal(status, err)
				}
				for at, i := up.Arrivals(), 1; i < len(at); i++ {
					longest = max(longest, at[i].At.Sub(at[i-1].At))
				}
			}
			if !tt.longest(longest) {
				t.Errorf("%+v: the longest delay was %v", tt.policy, longest)
			}
		})
	}
}

func TestStopOfABackOffEndsTheTries(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.ScriptFunc(func(_ int, r *http.Request) http.Handler {
			if r.URL.Path == "/down" {
				return testserver.Reply(503, "down")
			}
			return nil
		}))
		srv := serve(up)
		made := 0
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Learn: outflow.LearnQuotas, Retry: outflow.Retry{
			MaxAttempts: 100,
			NewBackOff: func() cenkalti.BackOff {
				made++
				return cenkalti.WithMaxRetries(cenkalti.NewConstantBackOff(time.Second), 2)
			},
		}})
		if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 || made != 0 {
			t.Error(status, err, made, "BackOffs for a request that needs none")
		}
		for i := range 2 { // Stop is one request's
			up.Reset()
			status, body, err := get(t.Context(), tr, srv.URL+"/down")
			if at := up.Arrivals(); err != nil || status != 503 || body != "down" || made != i+1 ||
				fmt.Sprint(at.Since(at[0].At)) != "[0s 1s 2s]" {
				t.Error(status, body, err, made, at)
			}
		}
	})
}

// Trap 16, from the caller's side: a delay that no sum can hold is neither waited for nor none.
func TestAnEndlessBackOffNeverFires(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New().Answering(testserver.Reply(503, "down"))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{
			NewBackOff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(math.MaxInt64) },
		}})
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		giveUp := time.AfterFunc(time.Hour, cancel)
		defer giveUp.Stop()
		status, _, err := get(ctx, tr, srv.URL)
		if len(up.Arrivals()) != 1 || status != 503 && !errors.Is(err, context.Canceled) {
			t.Errorf("%d, %v after %d attempts", status, err, len(up.Arrivals()))
		}
	})
}

// Trap 17, where the delays are somebody else's: one of nothing doesn't make the loop run hot.
func TestABackOffOfNothingIsNotHot(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			up := testserver.New().Answering(testserver.Reply(503, "down"))
			srv := serve(up)
			tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{
				NewBackOff: func() cenkalti.BackOff { return cenkalti.NewConstantBackOff(d) },
			}})
			if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 503 {
				t.Fatal(status, err)
			}
			if at := up.Arrivals(); len(at) != outflow.DefaultMaxAttempts || at.MinGap() < backoff.Floor {
				t.Errorf("%d attempts, %v apart", len(at), at.MinGap())
			}
		})
	}
}

func TestPrepareRetrySignsAnew(t *testing.T) {
	for protocol, serve := range pipes {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := testserver.New(testserver.Script(testserver.Times(2, refusal("1"))...))
				srv := serve(up, t)
				var signed *http.Request
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{
					PrepareRetry: func(req *http.Request) error {
						signed = req
						req.Header.Set(testserver.LabelHeader, req.Header.Get(testserver.LabelHeader)+"'")
						return nil
					},
				}})
				req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL, strings.NewReader("body"))
				req.Header.Set(testserver.LabelHeader, "signature")
				resp, err := tr.RoundTrip(req)
				if err != nil || resp.StatusCode != 200 {
					t.Fatal(resp, err)
				}
				resp.Body.Close()
				// Each copy is of the caller's request, not of the copy before.
				if got := fmt.Sprint(up.Arrivals().Labels()); got != "[signature signature' signature']" {
					t.Errorf("sent %v", got)
				}
				if signed == req || req.Header.Get(testserver.LabelHeader) != "signature" || resp.Request != req {
					t.Error("the caller's request was signed, or isn't the response's")
				}
			})
		})
	}
}

func TestAnErrorOfPrepareRetryEndsTheTries(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.Script(refusal("1")))
		srv := serve(up)
		noKey := errors.New("the key is gone")
		checked := 0
		tr := newTransport(t, outflow.Config{
			Base: srv.Transport, Limits: []limit.Limit{limit.Concurrent(1)},
			Retry: outflow.Retry{
				PrepareRetry: func(*http.Request) error { return noKey },
				CheckRetry: func(_ context.Context, resp *http.Response, err error) (bool, error) {
					checked++
					return err != nil || resp.StatusCode == 429, nil
				},
			},
		})
		if _, _, err := get(t.Context(), tr, srv.URL); !errors.Is(err, noKey) || !strings.Contains(err.Error(), "PrepareRetry") || checked != 1 {
			t.Error(err, checked)
		}
		if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 { // the slot is back
			t.Error(status, err)
		}
	})
}

// Trap 13: a budget that never refills, or that retries without a bound in a brown-out.
func TestBudgetBoundsRetriesInABrownOut(t *testing.T) {
	for _, tt := range []struct {
		name   string
		budget outflow.Budget
		status int
		min    uint64 // retries of 500 failing requests in 5 s, after 500 that were well
		max    uint64
	}{
		{"default", outflow.Budget{}, 503, 100 + 100, 100 + 100 + 10*6},
		{"no floor", outflow.Budget{MinPerSecond: -1}, 503, 100 + 100 - 1, 100 + 100},
		{"a tenth", outflow.Budget{Ratio: 0.1, MinPerSecond: -1}, 502, 50 + 50, 50 + 50},
		{"more than the store holds", outflow.Budget{Ratio: 1, MinPerSecond: -1}, 503, 100 + 500 - 1, 100 + 500},
		{"next to nothing", outflow.Budget{Ratio: 0.001, MinPerSecond: -1}, 504, 1, 1},
		{"the floor alone", outflow.Budget{Ratio: 0.001, MinPerSecond: 5}, 503, 5*5 - 1, 1 + 5*6},
		{"a floor below one", outflow.Budget{Ratio: 0.001, MinPerSecond: 0.5}, 503, 2, 1 + 4},
		{"off", outflow.Budget{Ratio: -1}, 503, 2000, 2000},
		{"not for limits", outflow.Budget{Ratio: 0.001, MinPerSecond: -1}, 429, 2000, 2000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				unwell := false
				up := testserver.New(testserver.ScriptFunc(func(int, *http.Request) http.Handler {
					if unwell {
						return testserver.Reply(tt.status, "")
					}
					return nil
				}))
				srv := serve(up)
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Learn: outflow.LearnQuotas, Retry: outflow.Retry{
					Budget: tt.budget, Backoff: backoff.Policy{Base: time.Millisecond, Jitter: backoff.None, Factor: 1},
				}})
				send := func(status int) {
					for range 500 {
						start := time.Now()
						if got, _, err := get(t.Context(), tr, srv.URL); err != nil || got != status {
							t.Fatal(got, err)
						}
						time.Sleep(10*time.Millisecond - time.Since(start))
					}
				}
				send(200)
				if n := tr.Stats().Retries; n != 0 {
					t.Fatalf("%d retries of requests that were well", n)
				}
				unwell = true
				send(tt.status)
				if n := tr.Stats().Retries; n < tt.min || n > tt.max || len(up.Arrivals()) != int(1000+n) {
					t.Errorf("%d retries, %d arrivals, want %d to %d retries", n, len(up.Arrivals()), tt.min, tt.max)
				}
				unwell = false
				send(200)
				unwell = true
				before := tr.Stats().Retries
				send(tt.status)
				if n := tr.Stats().Retries - before; n < tt.min || n > tt.max { // it refills
					t.Errorf("%d retries in the second brown-out, want %d to %d", n, tt.min, tt.max)
				}
			})
		})
	}
}

// RetryableClient: one call is one RoundTrip, with the body as often as it takes, and a call that
// fails closes nobody's connections.
func TestRetryableClientLeavesTheRetriesToTheTransport(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.ScriptFunc(func(i int, r *http.Request) http.Handler {
			switch {
			case r.URL.Path == "/down":
				return testserver.Reply(500, "down")
			case r.URL.Path == "/limited" && i < 4:
				return refusal("1")
			}
			return nil
		}))
		srv := serve(up)
		roundTrips := 0
		tr := newTransport(t, outflow.Config{Base: srv.Transport})
		client := tr.RetryableClient()
		inner := client.HTTPClient.Transport
		client.HTTPClient.Transport = countingTripper{inner, &roundTrips}

		call := func(ctx context.Context, method, path string, body any, want int) error {
			t.Helper()
			req, err := retryablehttp.NewRequestWithContext(ctx, method, srv.URL+path, body)
			if err != nil {
				t.Fatal(err)
			}
			before := roundTrips
			resp, err := client.Do(req)
			if roundTrips != before+1 {
				t.Errorf("%s %s: %d round trips, want 1", method, path, roundTrips-before)
			}
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != want || len(text) == 0 {
				t.Errorf("%s %s: %d %q, %v, want %d", method, path, resp.StatusCode, text, err, want)
			}
			return nil
		}
		for _, err := range []error{
			call(t.Context(), "GET", "/down", nil, 500),
			call(t.Context(), "POST", "/limited", []byte("four"), 200),
			call(t.Context(), "POST", "/limited", strings.NewReader("four"), 200),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		at := up.Arrivals()
		if len(at) != 6 { // of the two POSTs the first was limited three times
			t.Errorf("%d arrivals, want 6", len(at))
		}
		for _, a := range at.To("/limited") {
			if a.BodyRead != 4 {
				t.Errorf("%d bytes of a body of 4", a.BodyRead)
			}
		}
		opened := srv.Opened()
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := call(cancelled, "GET", "/ok", nil, 200); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
		if err := call(t.Context(), "GET", "/ok", nil, 200); err != nil || srv.Opened() != opened {
			t.Errorf("%v; %d connections, want %d as before the call that failed", err, srv.Opened(), opened)
		}
	})
}

type countingTripper struct {
	http.RoundTripper
	n *int
}

// CloseIdleConnections passes on what http.Client's method of that name would find.
func (c countingTripper) CloseIdleConnections() {
	(&http.Client{Transport: c.RoundTripper}).CloseIdleConnections()
}

func (c countingTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	*c.n++
	return c.RoundTripper.RoundTrip(req)
}
