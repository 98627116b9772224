package outflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
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

// model is an upstream that counts requests and tokens, as those of language models do: it charges what a
// request asks for, corrects that to what the answer took, and says so in a JSON body.
func model(requests, tokens int) *testserver.Upstream {
	asked := func(r *http.Request) int { n, _ := strconv.Atoi(r.Header.Get("X-Max-Tokens")); return n }
	used := func(r *http.Request) int { n, _ := strconv.Atoi(r.Header.Get("X-Will-Use")); return n }
	budget := testserver.SlidingLog(tokens, time.Minute).Cost(asked)
	return testserver.New(testserver.SlidingLog(requests, time.Minute), budget).Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second)
		budget.Settle(r, used(r))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"text": strings.Repeat("word ", used(r)), "usage": map[string]int{"total": used(r)}})
	}))
}

func usage(resp *http.Response) (int, bool) {
	var answer struct{ Usage struct{ Total int } }
	err := json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Usage.Total, err == nil
}

// Tokens are estimated before and known after: the upstream refuses nothing, almost all of its tokens are
// used, and the caller reads the body as it is.
func TestRuleSettlesTokens(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		const tokens, calls, will, asks = 9000, 180, 300, 500
		up := model(1000, tokens)
		srv := serve(up)
		asked := func(r *http.Request) int { n, _ := strconv.Atoi(r.Header.Get("X-Max-Tokens")); return n }
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{MaxAttempts: 1}, Rules: []outflow.Rule{
			{Match: "/", Name: "requests", Limits: []limit.Limit{limit.SlidingWindow(1000, time.Minute)}},
			{Match: "/", Name: "tokens", Limits: []limit.Limit{limit.SlidingWindow(tokens, time.Minute)}, Cost: asked, Settle: usage},
		}})
		start := time.Now()
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				req := newRequest(t.Context(), t, "POST", srv.URL, strings.NewReader("{}"))
				req.Header.Set("X-Max-Tokens", strconv.Itoa(asks))
				req.Header.Set("X-Will-Use", strconv.Itoa(will))
				resp, err := tr.RoundTrip(req)
				if err != nil || resp.StatusCode != 200 {
					t.Error(resp, err)
					return
				}
				if body := read(t, resp); strings.Count(body, "word ") != will {
					t.Errorf("a body of %d bytes", len(body))
				}
			})
		}
		wg.Wait()
		// Of 9,000 a minute 29 can have 300, since the next asks for 500: the last 6 leave in the seventh.
		// Without settlement it would be 18, and ten minutes.
		if took := time.Since(start); took > 6*time.Minute+10*time.Second {
			t.Errorf("%d tokens took %v", calls*will, took)
		}
	})
}

// Settle is asked once for each attempt, with what the caller has read, and its answer is bounded.
func TestSettleSeesWhatTheCallerReads(t *testing.T) {
	for name, tt := range map[string]struct {
		body   string
		read   func(io.ReadCloser)
		sees   int
		cost   int
		ok     bool
		charge int
	}{
		"all of it":      {"0123456789", func(b io.ReadCloser) { _, _ = io.ReadAll(b); b.Close(); b.Close() }, 10, 7, true, 7},
		"half of it":     {"0123456789", func(b io.ReadCloser) { _, _ = io.ReadFull(b, make([]byte, 5)); b.Close() }, 5, 7, true, 7},
		"nothing":        {"0123456789", func(b io.ReadCloser) { b.Close() }, 0, 7, true, 7},
		"no body":        {"", func(b io.ReadCloser) { b.Close() }, 0, 7, true, 7},
		"not known":      {"0123456789", func(b io.ReadCloser) { _, _ = io.ReadAll(b) }, 10, 7, false, 5},
		"negative":       {"0123456789", func(b io.ReadCloser) { _, _ = io.ReadAll(b) }, 10, -7, true, 0},
		"more than fits": {strings.Repeat("x", 2<<20), func(b io.ReadCloser) { _, _ = io.ReadAll(b) }, 1 << 20, 7, true, 7},
	} {
		t.Run(name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				srv := serve(testserver.New().Answering(testserver.Reply(200, tt.body)))
				calls, saw := 0, 0
				next := 5
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Rules: []outflow.Rule{{
					Match: "/", Limits: []limit.Limit{limit.SlidingWindow(100, time.Hour)},
					Cost: func(*http.Request) int { return next },
					Settle: func(resp *http.Response) (int, bool) {
						body, _ := io.ReadAll(resp.Body)
						calls, saw = calls+1, len(body)
						return tt.cost, tt.ok
					},
				}}})
				resp, err := tr.RoundTrip(newRequest(t.Context(), t, "GET", srv.URL, nil))
				if err != nil {
					t.Fatal(err)
				}
				tt.read(resp.Body)
				if calls != 1 || saw != tt.sees {
					t.Errorf("asked %d times, with %d bytes, want once with %d", calls, saw, tt.sees)
				}
				req := newRequest(t.Context(), t, "GET", srv.URL, nil)
				if next = 100 - tt.charge; tr.Earliest(req).After(time.Now()) {
					t.Errorf("fewer than %d of 100 are left", next)
				}
				if next++; next <= 100 && !tr.Earliest(req).After(time.Now()) {
					t.Errorf("%d of 100 are left", next)
				}
			})
		})
	}
}

func TestShadowRuleHoldsNobody(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New()
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Rules: []outflow.Rule{
			{Match: "/", Name: "real", Limits: []limit.Limit{limit.PerSecond(1000).WithBurst(100)}},
			{Match: "/", Name: "trial", Limits: []limit.Limit{limit.PerSecond(10), limit.Concurrent(1)}, Shadow: true},
		}})
		start := time.Now()
		var bodies []io.Closer
		for range 5 {
			resp, err := tr.RoundTrip(newRequest(t.Context(), t, "GET", srv.URL+"/", nil))
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, resp.Body)
		}
		if took := time.Since(start); took > time.Millisecond {
			t.Errorf("five requests took %v", took)
		}
		find := func() (trial leakyqueue.BucketStats) {
			for _, b := range tr.Stats().Buckets {
				if b.Rule == "trial" {
					trial = b
				}
			}
			return trial
		}
		if c := find().Counts; c.Departed != 5 || c.Late != 4 || c.Held != time.Second {
			t.Errorf("the rule in shadow mode counts %+v, want 4 of 5 held for 1s in all", c)
		}
		for _, b := range bodies {
			b.Close()
		}
		if trial := find(); trial.InFlight != 0 {
			t.Errorf("in flight after all bodies were closed: %+v", trial)
		}
	})
}

func TestPriorityAndFlowOfAContext(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New()
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{limit.PerSecond(10)}})
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		send := func(ctx context.Context, name string) {
			wg.Go(func() {
				if status, _, err := get(ctx, tr, srv.URL); err != nil || status != 200 {
					t.Error(status, err)
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
			})
			synctest.Wait()
		}
		send(t.Context(), "first")
		for range 3 {
			send(outflow.WithFlow(t.Context(), "a"), "a")
		}
		send(outflow.WithFlow(t.Context(), "b"), "b")
		send(outflow.WithPriority(t.Context(), leakyqueue.High), "high")
		send(outflow.WithPriority(outflow.WithFlow(t.Context(), "a"), leakyqueue.Low), "low")
		wg.Wait()
		if got := strings.Join(order, " "); got != "first high a b a a low" {
			t.Errorf("left in the order %s", got)
		}
		if _, _, err := get(outflow.WithPriority(t.Context(), 9), tr, srv.URL); !errors.Is(err, leakyqueue.ErrInvalid) {
			t.Errorf("priority 9: %v", err)
		}
	})
}

func TestRuleCostOutOfRangeIsRefused(t *testing.T) {
	for _, cost := range []int{-1, 0, 101, leakyqueue.MaxCost + 1} {
		tr := newTransport(t, outflow.Config{Rules: []outflow.Rule{{
			Match: "/", Limits: []limit.Limit{limit.SlidingWindow(100, time.Hour)}, Cost: func(*http.Request) int { return cost },
		}}})
		body := &closeRecorder{Reader: strings.NewReader("x")}
		req := newRequest(t.Context(), t, "POST", "http://nobody.invalid", body)
		if _, err := tr.RoundTrip(req); !errors.Is(err, leakyqueue.ErrInvalid) {
			t.Errorf("a cost of %d: %v", cost, err)
		}
		if !tr.Earliest(req).IsZero() {
			t.Errorf("a cost of %d could leave", cost)
		}
	}
}
