package shared_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// Trap 33: where scripts may not ask for the time, the instances' clocks have to do.
func TestRealRedisWithoutTime(t *testing.T) {
	srv := redistest.Start(t)
	if _, err := srv.Do("ACL", "SETUSER", "default", "-time"); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := shared.New(rdb, shared.Config{OnOutage: shared.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	q, err := leakyqueue.New(leakyqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rule, err := q.AddRule("api", limit.PerSecond(100), limit.Concurrent(5))
	if err != nil {
		t.Fatal(err)
	}
	if err := rule.Share(store, leakyqueue.Sharing{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range 50 {
		var ticket leakyqueue.Ticket
		if _, err := q.Depart(t.Context(), leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: rule}}}, &ticket); err != nil {
			t.Fatal(err)
		}
		ticket.Done()
	}
	if took := time.Since(begin); took < 480*time.Millisecond || took > 2*time.Second {
		t.Errorf("50 departures at 100/s took %v", took)
	}
	if n := store.Stats().Outages; n > 0 {
		t.Errorf("%d outages", n)
	}
	if err := q.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
