package outflow_test

import (
	"errors"
	"fmt"
	"net/http"
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

// An upstream that says on a success that nothing is left for two hours can't park a bucket for longer than a
// refusal could.
func TestQuotaBeyondMaxPauseRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.Script(
			testserver.Reply(200, "ok", "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "7200"),
		))
		tr := newTransport(t, outflow.Config{Base: up.Pipe(t).Transport})
		start := time.Now()
		if status, _, err := get(t.Context(), tr, "http://api.test/"); err != nil || status != 200 {
			t.Fatal(status, err)
		}
		_, _, err := get(t.Context(), tr, "http://api.test/")
		if e, ok := errors.AsType[*outflow.Error](err); !ok || !errors.Is(err, outflow.ErrDeadline) || e.Earliest.Sub(start) < 2*time.Hour {
			t.Errorf("%v, want ErrDeadline and a departure in two hours", err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("told after %v", d)
		}
		time.Sleep(leakyqueue.DefaultMaxPause)
		if status, _, err := get(t.Context(), tr, "http://api.test/"); err != nil || status != 200 {
			t.Errorf("after MaxPause: %v, %v", status, err)
		}
	})
}

// What the upstream says is left bounds departures before anything is refused, by the unit that the rule counts.
func TestQuotasAreOfTheRuleThatCountsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		up := testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n++
			w.Header().Set("X-RateLimit-Limit-Tokens", "100")
			w.Header().Set("X-RateLimit-Remaining-Tokens", fmt.Sprint(100-30*n))
			w.Header().Set("X-RateLimit-Reset-Tokens", "60")
			w.Header().Set("X-RateLimit-Limit-Requests", "1000")
			w.Header().Set("X-RateLimit-Remaining-Requests", fmt.Sprint(1000-n))
			w.Header().Set("X-RateLimit-Reset-Requests", "60")
		}))
		tr := newTransport(t, outflow.Config{Base: up.Pipe(t).Transport, Spread: limit.SpreadNone, Rules: []outflow.Rule{
			{Match: "/", Name: "requests"},
			{Match: "/", Name: "tokens", Unit: "tokens", Cost: func(*http.Request) int { return 30 }},
		}})
		start := time.Now()
		for i := range 4 {
			if status, _, err := get(t.Context(), tr, "http://api.test/"); err != nil || status != 200 {
				t.Fatal(status, err)
			}
			want := time.Duration(0)
			if i == 3 { // 10 are left
				want = time.Minute
			}
			if d := time.Since(start); d < want || d > want+time.Second {
				t.Errorf("request %d ended after %v, want %v", i, d, want)
			}
		}
	})
}

// Answers that aren't the upstream's word to this client change nothing: of errors, and to another credential.
func TestWhoseCountIsBelieved(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		token  string
		holds  bool
	}{
		{"a success", 200, "", true},
		{"unauthenticated", 401, "", false},
		{"not found", 404, "", false},
		{"an error", 500, "", false},
		{"a bad gateway", 502, "", false},
		{"another credential", 200, "Bearer other", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := []string{"50", "0", "49"}
				statuses := []int{200, tt.status, 200}
				n := 0
				up := testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-RateLimit-Limit", "100")
					w.Header().Set("X-RateLimit-Remaining", left[n])
					w.Header().Set("X-RateLimit-Reset", "60")
					w.WriteHeader(statuses[n])
					n++
				}))
				tr := newTransport(t, outflow.Config{Base: up.Pipe(t).Transport, Retry: outflow.Retry{MaxAttempts: 1}})
				start := time.Now()
				for i := range 3 {
					req := newRequest(t.Context(), t, http.MethodGet, "http://api.test/", nil)
					if i == 1 && tt.token != "" {
						req.Header.Set("Authorization", tt.token)
					}
					resp, err := tr.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
				}
				if held := time.Since(start) >= time.Minute; held != tt.holds {
					t.Errorf("the third left after %v", time.Since(start))
				}
			})
		})
	}
}

// LearnQuotas pauses after a refusal and teaches nothing; LearnNothing doesn't count either.
func TestLearnIsTurnedDown(t *testing.T) {
	for _, tt := range []struct {
		learn  outflow.Learn
		counts bool
		learns bool
	}{{outflow.LearnLimits, true, true}, {outflow.LearnQuotas, true, false}, {outflow.LearnNothing, false, false}} {
		synctest.Test(t, func(t *testing.T) {
			up := testserver.New(testserver.Script(
				testserver.Reply(429, "no"),
				testserver.Reply(200, "ok", "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"),
			))
			tr := newTransport(t, outflow.Config{Base: up.Pipe(t).Transport, Learn: tt.learn})
			if status, _, err := get(t.Context(), tr, "http://api.test/"); err != nil || status != 200 {
				t.Fatal(status, err)
			}
			if b := tr.Stats().Buckets[0]; (b.Rate > 0) != tt.learns || (b.Next > 20*time.Second) != tt.counts {
				t.Errorf("Learn %d: a rate of %v, and the next in %v", tt.learn, b.Rate, b.Next)
			}
		})
	}
	if _, err := outflow.New(outflow.Config{Learn: 7}); err == nil {
		t.Error("Learn 7 is accepted")
	}
	if _, err := outflow.New(outflow.Config{Spread: 7}); err == nil {
		t.Error("Spread 7 is accepted")
	}
}

// An error in the queue says whether the upstream refused this client, or is unwell for everybody.
func TestErrorsTellLimitedFromOverloaded(t *testing.T) {
	for status, want := range map[int]error{429: outflow.ErrLimited, 503: outflow.ErrOverloaded} {
		synctest.Test(t, func(t *testing.T) {
			up := testserver.New(testserver.Script(testserver.Reply(status, "no", "Retry-After", "86400")))
			tr := newTransport(t, outflow.Config{Base: up.Pipe(t).Transport})
			if got, _, err := get(t.Context(), tr, "http://api.test/"); err != nil || got != status {
				t.Fatal(got, err)
			}
			_, _, err := get(t.Context(), tr, "http://api.test/")
			other := outflow.ErrOverloaded
			if want == other {
				other = outflow.ErrLimited
			}
			if !errors.Is(err, want) || errors.Is(err, other) || !errors.Is(err, outflow.ErrDeadline) {
				t.Errorf("after a %d: %v", status, err)
			}
			b := tr.Stats().Buckets[0].Counts
			if b.Limited+b.Overloaded != 1 || (b.Limited == 1) != (status == 429) {
				t.Errorf("after a %d: %+v", status, b)
			}
		})
	}
}

// Who waits for an upstream that stays down is told so after MaxPause, and not kept for ever.
func TestOutageBeyondMaxPauseRefusesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.BrownOut(0, 24*time.Hour))
		tr := newTransport(t, outflow.Config{Base: up.Pipe(t).Transport, Queue: leakyqueue.Config{MaxPause: time.Minute},
			Retry: outflow.Retry{MaxAttempts: 50}})
		start := time.Now()
		var wg sync.WaitGroup
		var told atomic.Int64
		for range 20 {
			wg.Go(func() {
				_, _, err := get(t.Context(), tr, "http://api.test/")
				if errors.Is(err, outflow.ErrOverloaded) {
					told.Add(1)
				}
			})
		}
		wg.Wait()
		if d := time.Since(start); d > 30*time.Minute {
			t.Errorf("it took %v", d)
		}
		if told.Load() == 0 {
			t.Error("nobody was refused because of the outage")
		}
	})
}

// A limit that changes while requests are in flight doesn't lose count of them.
func TestLimitsChangeWhileRequestsAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New().Answering(testserver.After(time.Second, testserver.OK()))
		tr := newTransport(t, outflow.Config{Base: up.Pipe(t).Transport})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _, _, _ = get(t.Context(), tr, "http://api.test/") })
		}
		synctest.Wait()
		if err := tr.SetLimits("", limit.PerSecond(10)); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if err := tr.SetLimits(""); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			wg.Go(func() { _, _, _ = get(t.Context(), tr, "http://api.test/") })
		}
		wg.Wait()
		if n := up.Arrivals().MaxInFlight(); n < 10 {
			t.Errorf("at most %d in flight", n)
		}
	})
}

// A declared range for a rate is where it is looked for: from its lower end, and never above the upper one.
func TestAdaptiveRateStaysWithinItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.GCRA(30, 5))
		tr := newTransport(t, outflow.Config{Base: up.Pipe(t).Transport, Limits: []limit.Limit{limit.AdaptiveRate(2, 50)}})
		start := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for time.Since(start) < time.Minute {
					if status, _, err := get(t.Context(), tr, "http://api.test/"); err != nil || status != 200 {
						t.Error(status, err)
					}
				}
			})
		}
		wg.Wait()
		at := up.Arrivals()
		if n := at.MaxInWindow(time.Second); n > 52 {
			t.Errorf("%d in a second, want at most 50", n)
		}
		if ok, refused := at.Count(200), at.Count(429); ok < 30*60*80/100 || refused > 60 {
			t.Errorf("%d accepted and %d refused of %d that were allowed", ok, refused, 30*60)
		}
	})
}
