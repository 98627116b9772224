package testserver_test

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

func arrivalsAt(offsets ...time.Duration) testserver.Arrivals {
	origin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var as testserver.Arrivals
	for _, offset := range offsets {
		as = append(as, testserver.Arrival{At: origin.Add(offset)})
	}
	return as
}

func TestMaxInWindowIsHalfOpen(t *testing.T) {
	as := arrivalsAt(0, 10, 20, 30)
	for d, want := range map[time.Duration]int{1: 1, 10: 1, 11: 2, 30: 3, 31: 4, 1000: 4} {
		if got := as.MaxInWindow(d); got != want {
			t.Errorf("MaxInWindow(%d) = %d, want %d", d, got, want)
		}
	}
	if got := arrivalsAt().MaxInWindow(1); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestUtilisation(t *testing.T) {
	second := time.Second
	for _, tt := range []struct {
		as    testserver.Arrivals
		burst int
		want  float64
	}{
		{arrivalsAt(0, second/2, second), 1, 1},
		{arrivalsAt(0, second, 2*second), 1, 0.5},
		{arrivalsAt(0, second/4, second/2), 1, 2},
		{arrivalsAt(0, 0, second/2, second), 2, 1},
		{arrivalsAt(0), 1, 1},
		{arrivalsAt(), 1, 1},
	} {
		if got := tt.as.Utilisation(2, tt.burst); got != tt.want {
			t.Errorf("Utilisation(2, %d) = %v, want %v", tt.burst, got, tt.want)
		}
	}
}

func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.GCRA(1, 1).By(testserver.HeaderValue("Authorization"))).
			Answering(testserver.After(100*ms, testserver.OK()))
		start := time.Now()
		for _, caller := range []string{"a", "a", "b"} {
			r := httptest.NewRequest("POST", "http://api.example.com/v1/things", strings.NewReader("four"))
			r.Header.Set("Authorization", caller)
			r.Header.Set(testserver.LabelHeader, "for "+caller)
			up.ServeHTTP(httptest.NewRecorder(), r)
		}

		as := up.Arrivals()
		first := testserver.Arrival{
			At: start, Done: start.Add(100 * ms), Method: "POST", Host: "api.example.com", Path: "/v1/things",
			Key: "a", Label: "for a", Cost: 1, InFlight: 1, Status: 200, BodyRead: 4,
		}
		if as[0] != first {
			t.Errorf("first: %+v, want %+v", as[0], first)
		}
		if got, want := as.Since(start), []time.Duration{0, 100 * ms, 100 * ms}; !slices.Equal(got, want) {
			t.Errorf("Since: %v, want %v", got, want)
		}
		if got, want := as.ByStatus(), map[int]int{200: 2, 429: 1}; !maps.Equal(got, want) {
			t.Errorf("ByStatus: %v, want %v", got, want)
		}
		if got, want := as.OK().Labels(), []string{"for a", "for b"}; !slices.Equal(got, want) {
			t.Errorf("labels of OK: %q, want %q", got, want)
		}
		byKey := as.ByKey()
		if len(byKey) != 2 || byKey["a"].Count(429) != 1 || byKey["b"].Count(429) != 0 {
			t.Errorf("ByKey: %+v", byKey)
		}
		if len(as.To("/v1/things")) != 3 || len(as.To("/")) != 0 {
			t.Errorf("To: %d and %d", len(as.To("/v1/things")), len(as.To("/")))
		}
		if as.Span() != 100*ms || as.MinGap() != 0 {
			t.Errorf("Span %v, MinGap %v", as.Span(), as.MinGap())
		}
	})
}

func TestConcurrencyCountsUntilTheHandlerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.Concurrency(2).RetryAfter("1").By(testserver.HeaderValue("Authorization"))).
			Answering(testserver.After(100*ms, testserver.OK()))
		var wg sync.WaitGroup
		send := func(at time.Duration, caller string, want int) {
			wg.Go(func() {
				time.Sleep(at)
				resp := step{caller: caller}.send(up)
				if resp.StatusCode != want {
					t.Errorf("%s at %v: %d, want %d", caller, at, resp.StatusCode, want)
				}
				if hinted := resp.Header.Get("Retry-After") == "1"; hinted != (want == 429) {
					t.Errorf("%s at %v: Retry-After sent: %v", caller, at, hinted)
				}
			})
		}
		send(0, "a", 200)
		send(50*ms, "a", 200)
		send(60*ms, "a", 429)
		send(60*ms, "b", 200)
		send(99*ms, "a", 429)
		send(101*ms, "a", 200)
		send(102*ms, "a", 429)
		wg.Wait()

		byKey := up.Arrivals().ByKey()
		if got := byKey["a"].OK().MaxInFlight(); got != 2 {
			t.Errorf("a: %d in flight, want 2", got)
		}
		if got := byKey["b"].MaxInFlight(); got != 1 {
			t.Errorf("b: %d in flight, want 1", got)
		}
	})
}

func TestResetForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(testserver.Window(1, time.Hour), testserver.Concurrency(1)).
			Answering(testserver.After(time.Second, testserver.OK()))
		var wg sync.WaitGroup
		wg.Go(func() { step{}.send(up) })
		synctest.Wait()
		up.Reset()
		// The one that is still in its handler belongs to what was forgotten.
		if got := (step{}).send(up).StatusCode; got != 200 {
			t.Errorf("after Reset: %d", got)
		}
		wg.Wait()
		as := up.Arrivals()
		if len(as) != 1 || as[0].Status != 200 || as[0].InFlight != 1 {
			t.Errorf("after Reset: %+v", as)
		}
	})
}
