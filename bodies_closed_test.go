package outflow_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// That requests' bodies are closed: trap 2 of research/peers-features.md.

// sentBodies are all the bodies that one request was given: its own, and those from GetBody.
type sentBodies struct {
	mu  sync.Mutex
	all []*sentBody
}

// sentBody counts how often it is closed.
type sentBody struct {
	io.Reader
	closed atomic.Int64
}

func (b *sentBody) Close() error {
	b.closed.Add(1)
	return nil
}

func (s *sentBodies) open(content io.Reader) io.ReadCloser {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &sentBody{Reader: content}
	s.all = append(s.all, b)
	return b
}

// request is a POST that may be repeated, with a body that can be had again.
func (s *sentBodies) request(ctx context.Context, t testing.TB, content string) *http.Request {
	req := newRequest(ctx, t, "POST", "http://api.test/v1/charges", nil)
	req.Header.Set("Idempotency-Key", "1")
	req.Body = s.open(strings.NewReader(content))
	req.ContentLength = int64(len(content))
	req.GetBody = func() (io.ReadCloser, error) { return s.open(strings.NewReader(content)), nil }
	return req
}

// closedOnce checks that there were n bodies (0: however many), and that each was closed once. Base
// may close them after RoundTrip has returned, so this is for a bubble that has come to rest.
func (s *sentBodies) closedOnce(t testing.TB, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && len(s.all) != n {
		t.Errorf("%d bodies were opened, want %d", len(s.all), n)
	}
	for i, b := range s.all {
		if times := b.closed.Load(); times != 1 {
			t.Errorf("body %d of %d was closed %d times, want once", i+1, len(s.all), times)
		}
	}
}

// An ended is how a RoundTrip came out: with a response, an error, or a panic.
type ended struct {
	resp  *http.Response
	err   error
	panic any
}

func roundTrip(rt http.RoundTripper, req *http.Request) (e ended) {
	defer func() { e.panic = recover() }()
	e.resp, e.err = rt.RoundTrip(req)
	return e
}

func answered(code int) func(ended) bool {
	return func(e ended) bool { return e.resp != nil && e.resp.StatusCode == code }
}

func failed(target error) func(ended) bool {
	return func(e ended) bool { return errors.Is(e.err, target) }
}

func failedSomehow(e ended) bool { return e.err != nil }
func panicked(e ended) bool      { return e.panic != nil }

var errBroken = errors.New("broken")

// A scene is an upstream, a Transport, and one request whose end is looked at.
type scene struct {
	*testing.T
	serve  serveFunc
	tr     *outflow.Transport
	bodies sentBodies
	open   int // responses of others
}

// transport makes the scene's Transport, over an upstream that answers charges step by step. Where
// the Config says nothing else it has slots, so that those that aren't given back are noticed.
func (s *scene) transport(cfg outflow.Config, steps ...http.Handler) *outflow.Transport {
	answers := http.NewServeMux()
	answers.Handle("/", testserver.OK())
	answers.Handle("/held", testserver.Stall(200))
	answers.Handle("/later", testserver.After(time.Second, testserver.Reply(429, "", "Retry-After", "60")))
	srv := s.serve(testserver.New(testserver.Script(steps...).On("/v1/charges")).Answering(answers))
	if cfg.Base == nil {
		cfg.Base = srv.Transport
	}
	if cfg.Limits == nil {
		cfg.Limits = []limit.Limit{limit.Concurrent(10)}
	}
	s.tr = newTransport(s, cfg)
	return s.tr
}

func (s *scene) request(ctx context.Context) *http.Request {
	return s.bodies.request(ctx, s, "amount=1")
}

// first sends a request that leaves before the scene's, and keeps what it takes.
func (s *scene) first() {
	resp, err := s.tr.RoundTrip(newRequest(s.Context(), s, "GET", "http://api.test/held", nil))
	if err != nil {
		s.Fatal(err)
	}
	s.open++
	s.Cleanup(func() { resp.Body.Close() })
}

// meanwhile sends another request from now to the end of the test.
func (s *scene) meanwhile(path string) {
	req := newRequest(s.Context(), s, "GET", "http://api.test"+path, nil)
	go roundTrip(s.tr, req)
	synctest.Wait()
}

// Traps 2 and 8: never a response and an error together; and however a request ends, its body is
// closed once, and so is each that a retry got from GetBody, and its slot is back.
func TestHoweverARequestEndsItsBodyIsClosedOnce(t *testing.T) {
	slow := []limit.Limit{limit.Per(1, time.Hour)}
	oneSlot := []limit.Limit{limit.Concurrent(1)}
	unwell := testserver.Reply(503, "unwell")
	withBase := func(base baseFunc) func(*scene) ended {
		return func(s *scene) ended {
			return roundTrip(s.transport(outflow.Config{Base: base}), s.request(s.Context()))
		}
	}
	retrying := func(retry outflow.Retry, steps ...http.Handler) func(*scene) ended {
		return func(s *scene) ended {
			return roundTrip(s.transport(outflow.Config{Retry: retry}, steps...), s.request(s.Context()))
		}
	}
	for _, c := range []struct {
		name   string
		end    func(*scene) ended
		want   func(ended) bool
		bodies int
	}{
		{"sent", retrying(outflow.Retry{}), answered(200), 1},
		{"redirected", retrying(outflow.Retry{}, testserver.Reply(302, "", "Location", "/")), answered(302), 1},
		{"refused by the upstream", retrying(outflow.Retry{}, testserver.Reply(400, "no")), answered(400), 1},

		// Never left.
		{"no URL", func(s *scene) ended {
			req := s.request(s.Context())
			req.URL = nil
			return roundTrip(s.transport(outflow.Config{}), req)
		}, failedSomehow, 1},
		{"cost of nothing", func(s *scene) ended {
			return roundTrip(s.transport(outflow.Config{}), s.request(outflow.WithCost(s.Context(), 0)))
		}, failed(leakyqueue.ErrInvalid), 1},
		{"cost out of range", func(s *scene) ended {
			return roundTrip(s.transport(outflow.Config{}), s.request(outflow.WithCost(s.Context(), leakyqueue.MaxCost+1)))
		}, failed(leakyqueue.ErrInvalid), 1},
		{"queue full", func(s *scene) ended {
			tr := s.transport(outflow.Config{Limits: oneSlot, Queue: leakyqueue.Config{MaxWaiting: 1}})
			s.first()
			s.meanwhile("/waits")
			return roundTrip(tr, s.request(s.Context()))
		}, failed(outflow.ErrQueueFull), 1},
		{"deadline, at once", func(s *scene) ended {
			tr := s.transport(outflow.Config{Limits: slow})
			s.first()
			ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
			defer cancel()
			return roundTrip(tr, s.request(ctx))
		}, failed(context.DeadlineExceeded), 1},
		{"MaxWait, at once", func(s *scene) ended {
			tr := s.transport(outflow.Config{Limits: slow, Queue: leakyqueue.Config{MaxWait: time.Minute}})
			s.first()
			return roundTrip(tr, s.request(s.Context()))
		}, failed(outflow.ErrDeadline), 1},
		{"deadline, in the queue", func(s *scene) ended {
			tr := s.transport(outflow.Config{Limits: oneSlot})
			s.first()
			ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
			defer cancel()
			return roundTrip(tr, s.request(ctx))
		}, failed(context.DeadlineExceeded), 1},
		{"MaxWait, in the queue", func(s *scene) ended {
			tr := s.transport(outflow.Config{Limits: oneSlot, Queue: leakyqueue.Config{MaxWait: time.Minute}})
			s.first()
			return roundTrip(tr, s.request(s.Context()))
		}, failed(outflow.ErrDeadline), 1},
		{"deadline, in the queue, for a pause", func(s *scene) ended {
			tr := s.transport(outflow.Config{Limits: []limit.Limit{limit.Per(2, 20*time.Second).WithBurst(2)}})
			s.first()
			s.meanwhile("/later")
			ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
			defer cancel()
			return roundTrip(tr, s.request(ctx))
		}, failed(outflow.ErrDeadline), 1},
		{"closed before", func(s *scene) ended {
			tr := s.transport(outflow.Config{})
			if err := tr.Close(s.Context()); err != nil {
				s.Error(err)
			}
			return roundTrip(tr, s.request(s.Context()))
		}, failed(outflow.ErrClosed), 1},
		{"closed, in the queue", func(s *scene) ended {
			tr := s.transport(outflow.Config{Limits: oneSlot})
			s.first()
			closeLater(s.Context(), tr)
			return roundTrip(tr, s.request(s.Context()))
		}, failed(outflow.ErrClosed), 1},
		{"cancelled before", func(s *scene) ended {
			ctx, cancel := context.WithCancel(s.Context())
			cancel()
			return roundTrip(s.transport(outflow.Config{}), s.request(ctx))
		}, failed(context.Canceled), 1},
		{"cancelled, in the queue", func(s *scene) ended {
			tr := s.transport(outflow.Config{Limits: slow})
			s.first()
			return roundTrip(tr, s.request(cancelledIn(s.Context(), time.Second)))
		}, failed(context.Canceled), 1},
		{"a key function panics", func(s *scene) ended {
			tr := s.transport(outflow.Config{Rules: []outflow.Rule{{Match: "/", Key: outflow.KeyFunc(func(*http.Request) string { panic(errBroken) })}}})
			return roundTrip(tr, s.request(s.Context()))
		}, panicked, 1},

		// Left, and no response came.
		{"Base can't send it", func(s *scene) ended {
			req := s.request(s.Context())
			req.URL.Scheme = "gopher"
			return roundTrip(s.transport(outflow.Config{}), req)
		}, failedSomehow, 1},
		{"Base fails", withBase(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			return nil, errBroken
		}), failed(errBroken), outflow.DefaultMaxAttempts},
		{"Base panics", withBase(func(*http.Request) (*http.Response, error) { panic(errBroken) }), panicked, 1},
		{"Base has no result", withBase(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			return nil, nil
		}), failedSomehow, outflow.DefaultMaxAttempts},
		{"Base has two results", withBase(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("and an error"))}, errBroken
		}), failed(errBroken), outflow.DefaultMaxAttempts},
		{"nobody is there", func(s *scene) ended {
			srv := s.serve(testserver.New())
			srv.Close()
			return roundTrip(s.transport(outflow.Config{Base: srv.Transport}), s.request(s.Context()))
		}, failedSomehow, outflow.DefaultMaxAttempts},
		{"cut off", retrying(outflow.Retry{MaxAttempts: 3}, testserver.Times(3, testserver.Cut())...), failedSomehow, 3},
		{"cancelled, in flight", func(s *scene) ended {
			return roundTrip(s.transport(outflow.Config{}, testserver.Hang()), s.request(cancelledIn(s.Context(), time.Second)))
		}, failed(context.Canceled), 1},
		{"the attempts took too long", retrying(outflow.Retry{MaxAttempts: 2, AttemptTimeout: time.Second}, testserver.Times(2, testserver.Hang())...),
			failed(context.DeadlineExceeded), 2},

		// Sent again, or meant to be.
		{"retried", retrying(outflow.Retry{}, unwell, testserver.Cut(), testserver.Reply(429, "slower")), answered(200), 4},
		{"tries run out", retrying(outflow.Retry{MaxAttempts: 3}, testserver.Times(3, unwell)...), answered(503), 3},
		{"answered while it was still being sent", func(s *scene) ended {
			hasty := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
			tr := s.transport(outflow.Config{}, testserver.Times(2, hasty)...)
			return roundTrip(tr, s.bodies.request(s.Context(), s, strings.Repeat("x", 4<<20)))
		}, answered(200), 3},
		{"PrepareRetry fails", retrying(outflow.Retry{PrepareRetry: func(*http.Request) error { return errBroken }}, unwell), failed(errBroken), 2},
		{"PrepareRetry panics", retrying(outflow.Retry{PrepareRetry: func(*http.Request) error { panic(errBroken) }}, unwell), panicked, 2},
		{"CheckRetry fails", retrying(outflow.Retry{CheckRetry: func(context.Context, *http.Response, error) (bool, error) {
			return false, errBroken
		}}), failed(errBroken), 1},
		{"CheckRetry fails after a failure", retrying(outflow.Retry{CheckRetry: func(context.Context, *http.Response, error) (bool, error) {
			return false, errBroken
		}}, testserver.Cut()), failed(errBroken), 1},
		{"CheckRetry fails and wants it again", retrying(outflow.Retry{MaxAttempts: 2, CheckRetry: func(context.Context, *http.Response, error) (bool, error) {
			return true, errBroken
		}}), failed(errBroken), 2},
		{"CheckRetry panics", retrying(outflow.Retry{CheckRetry: func(context.Context, *http.Response, error) (bool, error) {
			panic(errBroken)
		}}, unwell), panicked, 1},
		{"GetBody fails", func(s *scene) ended {
			req := s.request(s.Context())
			req.GetBody = func() (io.ReadCloser, error) { return nil, errBroken }
			return roundTrip(s.transport(outflow.Config{}, unwell), req)
		}, answered(503), 1},
		{"GetBody panics", func(s *scene) ended {
			req := s.request(s.Context())
			req.GetBody = func() (io.ReadCloser, error) { panic(errBroken) }
			return roundTrip(s.transport(outflow.Config{}, unwell), req)
		}, panicked, 1},
		{"the retry would come too late", func(s *scene) ended {
			ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
			defer cancel()
			return roundTrip(s.transport(outflow.Config{}, testserver.Reply(429, "", "Retry-After", "120")), s.request(ctx))
		}, answered(429), 0},
		{"cancelled, waiting for the retry", func(s *scene) ended {
			tr := s.transport(outflow.Config{}, testserver.Reply(429, "", "Retry-After", "120"))
			return roundTrip(tr, s.request(cancelledIn(s.Context(), time.Minute)))
		}, failed(context.Canceled), 2},
		{"closing while it is in flight", func(s *scene) ended {
			tr := s.transport(outflow.Config{}, testserver.After(2*time.Second, unwell))
			time.AfterFunc(time.Second, func() { _ = tr.Close(s.Context()) }) // waits for who was in already
			return roundTrip(tr, s.request(s.Context()))
		}, answered(200), 2},
		{"closed, waiting for the retry", func(s *scene) ended {
			tr := s.transport(outflow.Config{}, testserver.Reply(503, "", "Retry-After", "120"))
			closeLater(s.Context(), tr)
			return roundTrip(tr, s.request(s.Context()))
		}, failed(outflow.ErrClosed), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				s := &scene{T: t, serve: serve}
				e := c.end(s)
				if !c.want(e) {
					t.Errorf("ended with %+v", e)
				}
				if e.panic == nil && (e.resp == nil) == (e.err == nil) {
					t.Errorf("response %v and error %v", e.resp, e.err)
				}
				if e.resp != nil {
					read(t, e.resp)
				}
				synctest.Wait() // for who still had to stop sending
				s.bodies.closedOnce(t, c.bodies)
				for _, b := range s.tr.Stats().Buckets {
					if b.InFlight > s.open {
						t.Errorf("%d slots of %q are out, want %d", b.InFlight, b.Rule, s.open)
					}
				}
			})
		})
	}
}

// closeLater closes tr in a second, and waits for nobody.
func closeLater(ctx context.Context, tr *outflow.Transport) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	time.AfterFunc(time.Second, func() { _ = tr.Close(ctx) })
}

func cancelledIn(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(d, cancel)
	return ctx
}
