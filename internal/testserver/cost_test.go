package testserver_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

// costHeader is where the tests' requests have their cost; without it, it is 1.
const costHeader = "Cost"

func headerCost(r *http.Request) int {
	cost, err := strconv.Atoi(r.Header.Get(costHeader))
	if err != nil {
		return 1
	}
	return cost
}

// sendCost sends a request of a cost, and returns the status.
func sendCost(h http.Handler, cost int) int {
	r := httptest.NewRequest("POST", "/v1/chat", nil)
	r.Header.Set(costHeader, strconv.Itoa(cost))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestCost(t *testing.T) {
	type costed struct {
		at   time.Duration
		cost int
		want int
	}
	for name, tt := range map[string]struct {
		policy *testserver.Policy
		steps  []costed
	}{
		"GCRA": {testserver.GCRA(10, 5), []costed{
			{0, 6, 429}, {0, 5, 200}, {0, 0, 200}, {0, 1, 429},
			{300*ms - 1, 3, 429}, {300 * ms, 3, 200}, {300 * ms, 1, 429},
			{time.Hour, 6, 429}, {time.Hour, 5, 200},
		}},
		"Window": {testserver.Window(5, time.Second), []costed{
			{0, 6, 429}, {0, 3, 200}, {0, 3, 429}, {0, 2, 200}, {0, 0, 200}, {0, 1, 429},
			{time.Second, 5, 200},
		}},
		"SlidingLog": {testserver.SlidingLog(5, time.Second), []costed{
			{0, 6, 429}, {0, 3, 200}, {100 * ms, 2, 200}, {100 * ms, 1, 429}, {100 * ms, 0, 200},
			{time.Second - 1, 1, 429}, {time.Second, 4, 429}, {time.Second, 3, 200}, {time.Second, 1, 429},
		}},
		"SlidingCounter": {testserver.SlidingCounter(10, time.Second), []costed{
			{0, 11, 429}, {0, 10, 200}, {0, 0, 200}, {0, 1, 429},
			{time.Second, 1, 429}, {1100*ms - 1, 1, 429}, {1100 * ms, 1, 200}, {1100 * ms, 1, 429}, {1500 * ms, 5, 429}, {1500 * ms, 4, 200},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := testserver.New(tt.policy.Cost(headerCost))
				start := time.Now()
				for i, s := range tt.steps {
					time.Sleep(s.at - time.Since(start))
					if got := sendCost(up, s.cost); got != s.want {
						t.Errorf("step %d, %d at %v: %d, want %d", i, s.cost, s.at, got, s.want)
					}
				}
			})
		})
	}
}

// A refusal tells the first moment at which the same request is admitted, and for a cost that never fits
// it tells none.
func TestRefusalsKnowWhenThereIsRoom(t *testing.T) {
	for name, policy := range map[string]func() *testserver.Policy{
		"GCRA":           func() *testserver.Policy { return testserver.GCRA(3, 4) },
		"Window":         func() *testserver.Policy { return testserver.Window(4, time.Second) },
		"SlidingLog":     func() *testserver.Policy { return testserver.SlidingLog(4, time.Second) },
		"SlidingCounter": func() *testserver.Policy { return testserver.SlidingCounter(4, time.Second) },
		"offset":         func() *testserver.Policy { return testserver.SlidingCounter(4, time.Second).Aligned(123 * ms) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var wait time.Duration
				up := testserver.New(policy().Cost(headerCost).RetryAfterFunc(func(d time.Duration) string {
					wait = d
					return ""
				}))
				for i := range 500 {
					cost := 1 + i*i%4
					time.Sleep(time.Duration(i*i%7) * 50 * ms)
					if sendCost(up, 5); wait != 0 {
						t.Fatalf("5 of 4: a wait of %v", wait)
					}
					if sendCost(up, cost) == 200 {
						continue
					}
					time.Sleep(wait - 1)
					if got := sendCost(up, cost); got != 429 || wait != 1 {
						t.Fatalf("request %d, 1 ns too early: %d, and to wait for %v", i, got, wait)
					}
					time.Sleep(time.Nanosecond)
					if got := sendCost(up, cost); got != 200 {
						t.Fatalf("request %d, when there should be room: %d", i, got)
					}
					wait = 0
				}
			})
		})
	}
}

// settling answers with a policy that corrects each request's cost.
func settling(p *testserver.Policy, trueCost func(r *http.Request) int) *testserver.Upstream {
	return testserver.New(p).Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.Settle(r, trueCost(r))
	}))
}

func trueIs(costs ...int) func(*http.Request) int {
	return func(*http.Request) int {
		cost := costs[0]
		costs = costs[1:]
		return cost
	}
}

func TestSettle(t *testing.T) {
	estimate := func(*http.Request) int { return 5 }
	for name, p := range map[string]*testserver.Policy{
		"GCRA":           testserver.GCRA(1, 10),
		"Window":         testserver.Window(10, time.Hour),
		"SlidingLog":     testserver.SlidingLog(10, time.Hour),
		"SlidingCounter": testserver.SlidingCounter(10, time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := settling(p.Cost(estimate), trueIs(1, 1, 1, 3, 12))
				for i, want := range []int{200, 200, 200, 200, 429} { // at 0, 1, 2, 3, 6
					if got := (step{}).send(up).StatusCode; got != want {
						t.Errorf("request %d: %d, want %d", i, got, want)
					}
				}
				if got := up.Arrivals().OK().TotalCost(); got != 6 {
					t.Errorf("all cost %d, want 6", got)
				}
			})
		})
	}
}

func TestSettleAboveTheEstimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testserver.GCRA(1, 10).Cost(func(*http.Request) int { return 1 })
		up := settling(p, trueIs(15, 1))
		start := time.Now()
		for _, s := range []struct {
			at   time.Duration
			want int
		}{{0, 200}, {6*time.Second - 1, 429}, {6 * time.Second, 200}} {
			time.Sleep(s.at - time.Since(start))
			if got := (step{}).send(up).StatusCode; got != s.want {
				t.Errorf("at %v: %d, want %d", s.at, got, s.want)
			}
		}
	})
}

// What comes while an answer is being made is judged by the estimate, and what comes after it by the truth.
func TestSettleCountsFromTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := testserver.SlidingLog(10, time.Minute).Cost(func(*http.Request) int { return 6 })
		up := testserver.New(testserver.Window(100, time.Minute), tokens).
			Answering(testserver.After(time.Second, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				tokens.Settle(r, 9)
				tokens.Settle(r, 2)
			})))
		go func() { step{}.send(up) }()
		time.Sleep(500 * ms)
		if got := (step{}).send(up).StatusCode; got != 429 {
			t.Errorf("during: %d", got)
		}
		time.Sleep(time.Second)
		if got := (step{}).send(up).StatusCode; got != 200 {
			t.Errorf("after: %d", got)
		}
		as := up.Arrivals()
		var costs []int
		for _, a := range as {
			costs = append(costs, a.Cost)
		}
		if want := []int{2, 6, 2}; !slices.Equal(costs, want) || as.OK().MaxCostInWindow(time.Minute) != 4 {
			t.Errorf("costs %v, want %v; at most %d a minute, want 4", costs, want, as.OK().MaxCostInWindow(time.Minute))
		}
	})
}

// A request of 4 turns out to have cost nothing, when another of 1 has come meanwhile; or, if its window is
// over so that it doesn't matter, 50. Either way, 9 of the limit of 10 are left.
func TestSettleLate(t *testing.T) {
	for name, tt := range map[string]struct {
		policy    *testserver.Policy
		meanwhile time.Duration
		settled   time.Duration
		truth     int
	}{
		"Window":                        {testserver.Window(10, time.Second), 100 * ms, 900 * ms, 0},
		"Window, over":                  {testserver.Window(10, time.Second), 1100 * ms, 1200 * ms, 50},
		"SlidingLog":                    {testserver.SlidingLog(10, time.Second), 100 * ms, 900 * ms, 0},
		"SlidingLog, over":              {testserver.SlidingLog(10, time.Second), 1100 * ms, 1200 * ms, 50},
		"SlidingCounter":                {testserver.SlidingCounter(10, time.Second), 100 * ms, 900 * ms, 0},
		"SlidingCounter, still weighed": {testserver.SlidingCounter(10, time.Second), 1100 * ms, 1200 * ms, 0},
		"SlidingCounter, over":          {testserver.SlidingCounter(10, time.Second), 2100 * ms, 2200 * ms, 50},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := tt.policy.Cost(headerCost)
				up := testserver.New(p).Answering(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if headerCost(r) == 4 {
						time.Sleep(tt.settled)
						p.Settle(r, tt.truth)
					}
				}))
				go sendCost(up, 4)
				time.Sleep(tt.meanwhile)
				sendCost(up, 1)
				time.Sleep(tt.settled - tt.meanwhile + 1)
				if got := sendCost(up, 10); got != 429 {
					t.Errorf("10: %d, want 429", got)
				}
				if got := sendCost(up, 9); got != 200 {
					t.Errorf("9: %d, want 200", got)
				}
			})
		})
	}
}

// Two policies with a cost: each is corrected by itself, and the arrival has the first one's.
func TestSettleIsForOnePolicy(t *testing.T) {
	one := func(*http.Request) int { return 1 }
	in := testserver.Window(10, time.Hour).Cost(one).Advertise(func(h http.Header, q testserver.Quota) {
		h.Set("In", strconv.FormatInt(q.Remaining, 10))
	})
	out := testserver.Window(10, time.Hour).Cost(one).Advertise(func(h http.Header, q testserver.Quota) {
		h.Set("Out", strconv.FormatInt(q.Remaining, 10))
	})
	other := testserver.Window(10, time.Hour).Cost(one).On("/other")
	up := testserver.New(testserver.Window(10, time.Hour), in, out, other).
		Answering(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			in.Settle(r, 3)
			out.Settle(r, 20)
			other.Settle(r, 30)
		}))
	step{}.send(up)
	second := step{}.send(up)
	if second.StatusCode != 429 || second.Header.Get("In") != "7" || second.Header.Get("Out") != "0" {
		t.Errorf("%d, left %s and %s", second.StatusCode, second.Header.Get("In"), second.Header.Get("Out"))
	}
	if got := up.Arrivals()[0].Cost; got != 3 {
		t.Errorf("Cost %d, want 3", got)
	}
	// A request that no upstream has seen is nobody's.
	in.Settle(httptest.NewRequest("GET", "/", nil), 1)
}
