package shared_test

import (
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// An outage costs no time per request: what is known to be gone isn't asked.
func TestRealRedisIsNotAskedWhileItIsGone(t *testing.T) {
	srv := redistest.Start(t)
	f := startFleet(t, 1, srv.Addr(), shared.Config{OnOutage: shared.FailOpen}, limit.PerSecond(1000))
	i := f.instances[0]
	d := leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: i.rule}}}
	if _, err := i.queue.Depart(t.Context(), d, nil); err != nil {
		t.Fatal(err)
	}
	srv.Stop()
	if _, err := i.queue.Depart(t.Context(), d, nil); err != nil {
		t.Fatal(err)
	}
	before := i.store.Stats().RoundTrips
	for range 1000 {
		begin := time.Now()
		if _, err := i.queue.Depart(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited > 50*time.Millisecond {
			t.Errorf("a request waited %v", waited)
		}
	}
	if after := i.store.Stats().RoundTrips; after != before {
		t.Errorf("%d calls of Redis in the outage, want none", after-before)
	}
	srv.Continue()
}

// Windows in an outage: what leaves at the instances' shares isn't told to Redis later, so once after it a window's number
// more may leave, and never more than that.
func TestRealRedisHangsUnderAWindow(t *testing.T) {
	fleettest.Timed(t)
	const n, d = 500, 2 * time.Second
	srv := redistest.Start(t)
	f := startFleet(t, 4, srv.Addr(), shared.Config{ExpectedInstances: 4}, limit.FixedWindow(n, d))
	time.AfterFunc(1900*time.Millisecond, srv.Stop)
	time.AfterFunc(2900*time.Millisecond, srv.Continue)
	f.run(5*time.Second, 16, 0)
	most := densest(f.departures(), d)
	t.Logf("at most %d departures in %v, of %d", most, d, n)
	if most > 2*n {
		t.Errorf("%d departures in %v, want at most %d", most, d, 2*n)
	}
}
