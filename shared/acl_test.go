package shared_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// documentedACL are the arguments of the ACL SETUSER in the package's documentation.
func documentedACL(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)//\t(ACL SETUSER .*?)\n//\n`).FindSubmatch(doc)
	if found == nil {
		t.Fatal("the documentation has no ACL SETUSER")
	}
	return strings.Fields(strings.ReplaceAll(string(found[1]), "//", ""))
}

// A user that may do what the documentation says can do everything that a Store does.
func TestRealRedisACL(t *testing.T) {
	srv := redistest.Start(t)
	words := documentedACL(t)
	if _, err := srv.Do(words...); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "outflow", Password: "secret"})
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
	limits := []limit.Limit{
		limit.PerSecond(1000).WithBurst(10).WithHeadroom(0.1), limit.FixedWindow(500, time.Second), limit.SlidingWindow(400, time.Second).WithHeadroom(0.1),
		limit.SlidingCounter(600, time.Second), limit.AdaptiveRate(500, 1000), limit.Concurrent(5), limit.Daily(10_000, 0, 0, time.UTC),
	}
	rule, err := q.AddRule("all", limits...)
	if err != nil {
		t.Fatal(err)
	}
	if err := rule.Share(store, leakyqueue.Sharing{}); err != nil {
		t.Fatal(err)
	}
	key := leakyqueue.Key{Rule: rule}
	for i := range 50 {
		var ticket leakyqueue.Ticket
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := q.Depart(ctx, leakyqueue.Demand{Keys: []leakyqueue.Key{key}, Cost: 1 + i%3}, &ticket); err != nil {
			t.Fatalf("departure %d: %v", i, err)
		}
		cancel()
		if i%5 == 0 {
			if err := ticket.Settle(1 + i%2); err != nil {
				t.Fatal(err)
			}
		}
		ticket.Done()
	}
	if err := q.Pause(time.Now().Add(50*time.Millisecond), key); err != nil {
		t.Fatal(err)
	}
	if err := rule.SetLimits(limits[1:]...); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Depart(t.Context(), leakyqueue.Demand{Keys: []leakyqueue.Key{key}}, new(leakyqueue.Ticket)); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_ = q.Close(gone)
	time.Sleep(100 * time.Millisecond)
	denied, err := srv.Do("ACL", "LOG")
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := denied.([]any); len(list) > 0 {
		t.Errorf("Redis denied something: %v", list)
	}
	if down := store.Stats().Outages; down > 0 {
		t.Errorf("%d outages", down)
	}
}
