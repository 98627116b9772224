package shared_test

import (
	"testing"
	"time"

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
