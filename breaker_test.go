package outflow_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

var errTripped = errors.New("tripped")

// testBreaker is open or not as its test says, and notes what it is told.
type testBreaker struct {
	mu   sync.Mutex
	open bool
	told []error
	out  int // let through, and not told of
}

func (b *testBreaker) Allow() (func(error), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		return nil, errTripped
	}
	b.out++
	return func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.out--
		b.told = append(b.told, err)
	}, nil
}

func (b *testBreaker) set(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = open
}

func oneBreaker(b outflow.Breaker) func(string) outflow.Breaker {
	return func(string) outflow.Breaker { return b }
}

// What a breaker refuses isn't sent, nor repeated, nor charged: those behind it find the bucket as if it
// had never come.
func TestAnOpenBreakerRefusesAndGivesTheTurnBack(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		for _, limits := range [][]limit.Limit{
			{limit.PerSecond(1)},
			{limit.SlidingWindow(1, time.Second)},
			{limit.FixedWindow(1, time.Second)},
			{limit.PerSecond(1), limit.Concurrent(1)},
			{limit.Concurrent(1)},
			nil,
		} {
			up := testserver.New()
			breaker := &testBreaker{open: true}
			tr := newTransport(t, outflow.Config{
				Base:  serve(up).Transport,
				Rules: []outflow.Rule{{Match: "/{key}", Name: "r", Key: outflow.PathValue("key"), Limits: limits, Breaker: oneBreaker(breaker)}},
			})
			start := time.Now()
			for range 5 {
				var trace outflow.Trace
				_, _, err := get(outflow.WithTrace(t.Context(), &trace), tr, "http://up.test/k")
				e, _ := errors.AsType[*outflow.Error](err)
				if e == nil || !errors.Is(err, outflow.ErrBreakerOpen) || !errors.Is(err, errTripped) || e.Bucket != "r k" {
					t.Fatalf("limits %v: %v", limits, err)
				}
				if want := `outflow: circuit breaker open: queued for 0s for "r k": tripped`; e.Error() != want {
					t.Errorf("got  %v\nwant %v", e, want)
				}
				if trace.Attempts != 0 {
					t.Errorf("%d attempts", trace.Attempts)
				}
			}
			breaker.set(false)
			if status, _, err := get(t.Context(), tr, "http://up.test/k"); status != http.StatusOK {
				t.Error(status, err)
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("limits %v: six requests, of which one left, took %v", limits, took)
			}
			if n := len(up.Arrivals()); n != 1 {
				t.Errorf("%d came", n)
			}
		}
	})
}

// A queue in front of a breaker that opens empties at once, and not at the pace of its limit.
func TestAQueueBeforeAnOpenBreakerEmptiesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New()
		breaker := new(testBreaker)
		tr := newTransport(t, outflow.Config{
			Base:    up.Pipe(t).Transport,
			Limits:  []limit.Limit{limit.PerSecond(1)},
			Breaker: oneBreaker(breaker),
		})
		var wg sync.WaitGroup
		var refused []time.Duration
		var mu sync.Mutex
		start := time.Now()
		for range 100 {
			wg.Go(func() {
				_, _, err := get(t.Context(), tr, "http://up.test/")
				if errors.Is(err, outflow.ErrBreakerOpen) {
					mu.Lock()
					refused = append(refused, time.Since(start))
					mu.Unlock()
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(10500 * time.Millisecond)
		breaker.set(true)
		wg.Wait()
		if n := len(up.Arrivals()); n != 11 || len(refused) != 89 {
			t.Fatalf("%d came, %d were refused", n, len(refused))
		}
		if last := slices.Max(refused); last != 11*time.Second {
			t.Errorf("the last was refused after %v, want the next turn, 11s", last)
		}
	})
}

// A breaker is told once of each attempt, and what is the upstream's fault.
func TestWhatABreakerIsTold(t *testing.T) {
	tests := []struct {
		name     string
		upstream http.Handler
		method   string
		want     []string
	}{
		{"ok", testserver.OK(), "GET", []string{"<nil>"}},
		{"not found", testserver.Reply(404, ""), "GET", []string{"<nil>"}},
		{"limited", testserver.Reply(429, "", "Retry-After", "1"), "GET", []string{"<nil>", "<nil>"}},
		{"overloaded", testserver.Reply(503, "", "Retry-After", "1"), "GET", []string{"503 Service Unavailable", "503 Service Unavailable"}},
		{"broken", testserver.Reply(500, ""), "GET", []string{"500 Internal Server Error"}},
		{"cut", testserver.Cut(), "POST", []string{"EOF"}},
		{"slow", testserver.Hang(), "POST", []string{"outflow: attempt took longer than AttemptTimeout, 2s"}},
		{"given up", testserver.Hang(), "PUT", []string{"context canceled: context canceled"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				breaker := new(testBreaker)
				tr := newTransport(t, outflow.Config{
					Base:    testserver.New().Answering(test.upstream).Pipe(t).Transport,
					Retry:   outflow.Retry{MaxAttempts: 2, AttemptTimeout: 2 * time.Second},
					Breaker: oneBreaker(breaker),
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.method == "PUT" {
					time.AfterFunc(time.Second, cancel)
				}
				resp, err := tr.RoundTrip(newRequest(ctx, t, test.method, "http://up.test/", nil))
				if err == nil {
					read(t, resp)
				}
				var told []string
				for _, err := range breaker.told {
					told = append(told, fmt.Sprint(err))
				}
				if !slices.Equal(told, test.want) || breaker.out != 0 {
					t.Errorf("told %q, want %q; %d are out", told, test.want, breaker.out)
				}
				if test.method == "PUT" && !errors.Is(breaker.told[0], context.Canceled) {
					t.Error("no context.Canceled")
				}
			})
		})
	}
}

// An attempt that panics is a failure, and one whose breaker panics leaks neither slot nor body.
func TestBreakersAndPanics(t *testing.T) {
	breaker := new(testBreaker)
	panics := roundTripper(func(*http.Request) (*http.Response, error) { panic("base") })
	tr := newTransport(t, outflow.Config{Base: panics, Limits: []limit.Limit{limit.Concurrent(1)}, Breaker: oneBreaker(breaker)})
	for range 2 {
		func() {
			defer func() {
				if r := recover(); r != "base" {
					t.Errorf("panic: %v", r)
				}
			}()
			_, _ = tr.RoundTrip(newRequest(t.Context(), t, "GET", "http://up.test/", nil))
		}()
	}
	if len(breaker.told) != 2 || breaker.told[0] == nil || breaker.out != 0 {
		t.Errorf("told %v, %d are out", breaker.told, breaker.out)
	}

	tr = newTransport(t, outflow.Config{Base: panics, Limits: []limit.Limit{limit.Concurrent(1)}, Breaker: func(string) outflow.Breaker { panic("maker") }})
	body := &closeCounter{Reader: strings.NewReader("x")}
	func() {
		defer func() { _ = recover() }()
		_, _ = tr.RoundTrip(newRequest(t.Context(), t, "POST", "http://up.test/", body))
	}()
	if body.closed != 1 {
		t.Errorf("the body was closed %d times", body.closed)
	}
	for _, b := range tr.Stats().Buckets {
		if b.InFlight != 0 {
			t.Errorf("%+v", b)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type closeCounter struct {
	*strings.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

// Each bucket has its own, the last rule's goes first, and one that isn't used is forgotten.
func TestABreakerForEachBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made []string
		maker := func(of string) func(string) outflow.Breaker {
			return func(key string) outflow.Breaker {
				made = append(made, of+" "+key)
				if key == "none" {
					return nil
				}
				return &testBreaker{open: key == "bad"}
			}
		}
		tr := newTransport(t, outflow.Config{
			Base:    testserver.New().Pipe(t).Transport,
			Breaker: maker("host"),
			Rules: []outflow.Rule{
				{Match: "/a/{x}", Key: outflow.PathValue("x"), Breaker: maker("wide")},
				{Match: "GET /a/{x}", Key: outflow.PathValue("x"), Breaker: maker("narrow")},
				{Match: "/a/"},
				{Match: "/pool", Pool: []string{"m", "bad"}, Use: bearer, Limits: []limit.Limit{limit.Per(1, time.Hour)}, Breaker: maker("pool")},
			},
		})
		do := func(method, url string, want bool) {
			t.Helper()
			resp, err := tr.RoundTrip(newRequest(t.Context(), t, method, url, nil))
			if err == nil {
				read(t, resp)
			}
			if got := err == nil; got != want || !got && !errors.Is(err, outflow.ErrBreakerOpen) {
				t.Errorf("%s %s: %v", method, url, err)
			}
		}
		do("GET", "http://up.test/a/good", true)
		do("GET", "http://up.test/a/bad", false)
		do("GET", "http://up.test/a/good", true)
		do("POST", "http://up.test/a/bad", false)
		do("GET", "http://up.test/a/none", true)
		do("GET", "http://up.test/b", true)
		do("GET", "http://UP.test:80/b", true)
		do("GET", "http://bad/b", false)
		do("GET", "http://up.test/pool", true)
		do("GET", "http://up.test/pool", false)
		time.Sleep(9 * time.Minute)
		do("GET", "http://up.test/a/good", true)
		time.Sleep(9 * time.Minute)
		do("GET", "http://up.test/a/good", true)
		do("GET", "http://up.test/a/bad", false)
		want := []string{"narrow good", "narrow bad", "wide bad", "narrow none", "host up.test", "host bad", "pool m", "pool bad", "narrow bad"}
		if !slices.Equal(made, want) {
			t.Errorf("made\n%q, want\n%q", made, want)
		}
	})
}

func TestABreakerIsNotForShadow(t *testing.T) {
	_, err := outflow.New(outflow.Config{Rules: []outflow.Rule{{Match: "/", Shadow: true, Breaker: oneBreaker(nil)}}})
	if want := "outflow: Config.Rules[0].Shadow is true, want false with a Breaker, which refuses requests"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestWhenNarrowsAMatch(t *testing.T) {
	tr := newTransport(t, outflow.Config{Base: stub{}, Rules: []outflow.Rule{{
		Match: "/",
		Name:  "r",
		Key:   outflow.Host(),
		When:  func(req *http.Request) bool { return strings.HasSuffix(req.URL.Hostname(), ".example.com") },
	}}})
	for _, url := range []string{"http://a.example.com/", "http://example.org/"} {
		if _, _, err := get(t.Context(), tr, url); err != nil {
			t.Fatal(err)
		}
	}
	var used []string
	for _, b := range tr.Stats().Buckets {
		used = append(used, b.Rule+" "+b.Key)
	}
	if want := []string{"host example.org", "r a.example.com"}; !slices.Equal(used, want) {
		t.Errorf("used %q, want %q", used, want)
	}
}

// DefaultCheckRetry decides as the Transport does without a CheckRetry.
func TestDefaultCheckRetry(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for _, status := range []int{200, 404, 429, 500, 502, 503, 529} {
			count := func(check bool) int {
				n := 0
				synctest.Test(t, func(t *testing.T) {
					up := testserver.New().Answering(testserver.Reply(status, ""))
					cfg := outflow.Config{Base: up.Pipe(t).Transport}
					if check {
						cfg.Retry.CheckRetry = outflow.DefaultCheckRetry
					}
					resp, err := newTransport(t, cfg).RoundTrip(newRequest(t.Context(), t, method, "http://up.test/", nil))
					if err != nil {
						t.Fatal(err)
					}
					read(t, resp)
					n = len(up.Arrivals())
				})
				return n
			}
			if with, without := count(true), count(false); with != without {
				t.Errorf("%s %d: %d attempts, %d without", method, status, with, without)
			}
		}
	}
	if again, err := outflow.DefaultCheckRetry(t.Context(), &http.Response{StatusCode: 429}, nil); again || err != nil {
		t.Error("it decided without a request")
	}
}
