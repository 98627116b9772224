package outflow_test

import (
	"context"
	"errors"
	"io"
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

func newTransport(t testing.TB, cfg outflow.Config) *outflow.Transport {
	t.Helper()
	tr, err := outflow.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// stub is a Base that answers at once.
type stub struct{}

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// get sends a GET and returns the status and the body, which it reads to its end and closes.
func get(ctx context.Context, rt http.RoundTripper, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	return do(rt, req)
}

func do(rt http.RoundTripper, req *http.Request) (int, string, error) {
	resp, err := (&http.Client{Transport: rt}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func TestTransportKeepsTheUpstreamsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.GCRA(100, 1).RetryAfter("1"))
		srv := up.Pipe(t)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{limit.PerSecond(100)}})
		start := time.Now()
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 5 {
					if status, _, err := get(t.Context(), tr, srv.URL+"/"); err != nil || status != 200 {
						t.Error(status, err)
					}
				}
			})
		}
		wg.Wait()
		if d := time.Since(start); d != 3190*time.Millisecond {
			t.Errorf("320 requests took %v, want 3.19s", d)
		}
		if n := up.Arrivals().MaxInWindow(100 * time.Millisecond); n > 11 {
			t.Errorf("%d arrived within 100ms", n)
		}
	})
}

func TestRetryWaitsForItsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.Script(testserver.Times(2, testserver.Reply(429, "slow down", "Retry-After", "3"))...))
		srv := up.Pipe(t)
		tr := newTransport(t, outflow.Config{Base: srv.Transport})
		var trace outflow.Trace
		start := time.Now()
		status, _, err := get(outflow.WithTrace(t.Context(), &trace), tr, srv.URL+"/x")
		if err != nil || status != 200 {
			t.Fatal(status, err)
		}
		if d := time.Since(start); d < 6*time.Second || d > 6300*time.Millisecond {
			t.Errorf("took %v, want 6s and at most a twentieth more", d)
		}
		if trace.Attempts != 3 || trace.Queued < 6*time.Second || !strings.HasPrefix(trace.Held, "host ") {
			t.Errorf("trace: %+v", trace)
		}
	})
}

func TestOverlongPauseGoesBackToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.Script(testserver.Reply(429, "come tomorrow", "Retry-After", "86400")))
		srv := up.Pipe(t)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Queue: leakyqueue.Config{MaxPause: time.Minute}})
		status, body, err := get(t.Context(), tr, srv.URL+"/x")
		if err != nil || status != 429 || body != "come tomorrow" {
			t.Fatal(status, body, err)
		}
		_, _, err = get(t.Context(), tr, srv.URL+"/x")
		if e, ok := errors.AsType[*outflow.Error](err); !ok || !errors.Is(err, outflow.ErrDeadline) || time.Until(e.Earliest) < 23*time.Hour {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if status, _, err = get(t.Context(), tr, srv.URL+"/x"); err != nil || status != 200 {
			t.Fatal(status, err)
		}
	})
}

// Where nobody waits a rate costs no allocation, and a concurrency one: the body.
func TestWhereNobodyWaitsNothingIsAllocated(t *testing.T) {
	resp := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	base := baseFunc(func(*http.Request) (*http.Response, error) { return resp, nil })
	fast := limit.PerSecond(1e9).WithBurst(1e6)
	for _, tt := range []struct {
		name string
		cfg  outflow.Config
		want float64
	}{
		{"no limit", outflow.Config{}, 0},
		{"rate", outflow.Config{Limits: []limit.Limit{fast}}, 0},
		{"window", outflow.Config{Limits: []limit.Limit{fast, limit.FixedWindow(1e9, time.Hour)}}, 0},
		{"rules", outflow.Config{Rules: []outflow.Rule{
			{Match: "/", Limits: []limit.Limit{fast}}, {Match: "/{id}", Key: outflow.PathValue("id"), Limits: []limit.Limit{fast}},
		}}, 0},
		{"concurrency", outflow.Config{Limits: []limit.Limit{fast, limit.Concurrent(10)}}, 1},
	} {
		tt.cfg.Base = base
		tr := newTransport(t, tt.cfg)
		req := newRequest(t.Context(), t, "GET", "http://api.example.com/things", nil)
		for range 1000 { // so that nothing is left to be learnt
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		}); n > tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.name, n, tt.want)
		}
	}
}
