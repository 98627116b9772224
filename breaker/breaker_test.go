package breaker_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/breaker"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

// gobreaker's own type is a Breaker as it is.
var _ outflow.Breaker = (*gobreaker.TwoStepCircuitBreaker[any])(nil)

type change struct {
	name     string
	from, to gobreaker.State
}

// After three failures nothing is sent for the timeout, then a probe, and after that as before.
func TestABreakerOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unwell atomic.Bool
		unwell.Store(true)
		up := testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if unwell.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		var changes []change
		tr, err := outflow.New(outflow.Config{
			Base: up.Pipe(t).Transport,
			Rules: []outflow.Rule{{
				Match:  "/{tenant}/",
				Key:    outflow.PathValue("tenant"),
				Limits: []limit.Limit{limit.PerSecond(1)},
				Breaker: breaker.New(gobreaker.Settings{
					Name:          "example",
					Timeout:       30 * time.Second,
					ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
					OnStateChange: func(name string, from, to gobreaker.State) { changes = append(changes, change{name, from, to}) },
				}),
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		get := func(tenant string) (int, error) {
			resp, err := (&http.Client{Transport: tr}).Get("http://up.test/" + tenant + "/")
			if err != nil {
				return 0, err
			}
			resp.Body.Close()
			return resp.StatusCode, nil
		}
		for range 3 {
			if status, err := get("a"); status != http.StatusInternalServerError {
				t.Fatal(status, err)
			}
		}
		tripped := time.Now()
		for range 10 {
			_, err := get("a")
			if !errors.Is(err, outflow.ErrBreakerOpen) || !errors.Is(err, gobreaker.ErrOpenState) {
				t.Fatal(err)
			}
		}
		// The first waited for its turn; the others found it as it was.
		if took := time.Since(tripped); took != time.Second {
			t.Errorf("ten refusals took %v", took)
		}
		if status, err := get("b"); status != http.StatusInternalServerError {
			t.Error("another bucket:", status, err)
		}
		time.Sleep(30 * time.Second)
		unwell.Store(false)
		for range 2 {
			if status, err := get("a"); status != http.StatusOK {
				t.Error(status, err)
			}
		}
		const a = "example a"
		want := []change{
			{a, gobreaker.StateClosed, gobreaker.StateOpen},
			{a, gobreaker.StateOpen, gobreaker.StateHalfOpen},
			{a, gobreaker.StateHalfOpen, gobreaker.StateClosed},
		}
		if !slices.Equal(changes, want) {
			t.Errorf("changes %v, want %v", changes, want)
		}
		if n := len(up.Arrivals()); n != 3+1+2 {
			t.Errorf("%d came", n)
		}
	})
}

// Limits are no failures, and neither are callers who give up.
func TestWhatDoesNotTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, answer := range map[string]http.Handler{"429": testserver.Reply(429, ""), "given up": testserver.Hang()} {
			tr, err := outflow.New(outflow.Config{
				Base:    testserver.New().Answering(answer).Pipe(t).Transport,
				Retry:   outflow.Retry{MaxAttempts: 1},
				Breaker: breaker.New(gobreaker.Settings{}),
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://up.test/", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				if errors.Is(err, outflow.ErrBreakerOpen) {
					t.Fatal(name, err)
				}
				cancel()
				time.Sleep(30 * time.Second) // past the pause that a 429 makes
			}
		}
	})
}

// While a breaker is half open, it lets through one probe, whoever else comes.
func TestHalfOpenLetsOneThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		up := testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slow.Load() {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			time.Sleep(time.Second)
		}))
		tr, err := outflow.New(outflow.Config{
			Base:    up.Pipe(t).Transport,
			Breaker: breaker.New(gobreaker.Settings{Timeout: time.Minute}),
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: tr}
		for range 6 {
			if resp, err := client.Get("http://up.test/"); err == nil {
				resp.Body.Close()
			}
		}
		slow.Store(true)
		time.Sleep(time.Minute + time.Second)
		errs := make(chan error)
		for range 5 {
			go func() {
				resp, err := client.Get("http://up.test/")
				if err == nil {
					resp.Body.Close()
				}
				errs <- err
			}()
		}
		refused := 0
		for range 5 {
			if err := <-errs; errors.Is(err, gobreaker.ErrTooManyRequests) {
				refused++
			}
		}
		if refused != 4 {
			t.Errorf("%d of 5 were refused while the breaker was half open", refused)
		}
	})
}
