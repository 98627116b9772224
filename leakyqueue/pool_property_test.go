package leakyqueue_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// Never over and never idle for a pool: in order, each request leaves at the first moment at which a token
// bucket of some member permits it, and never with a member whose token bucket doesn't.
func TestPoolProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		members := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(rt, "members")]
		rate := declaredRate{n: rapid.Float64Range(0.3, 50).Draw(rt, "n"), per: time.Second, burst: rapid.IntRange(1, 5).Draw(rt, "burst")}
		reqs := drawRequests(rt, 40, 4, func() []int { return nil })
		type departure struct {
			at     time.Duration
			member string
		}
		left := make([]departure, len(reqs))
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, leakyqueue.Config{})
			pool, err := q.AddPool("pool", members, rate.limit(), limit.Concurrent(1000))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var wg sync.WaitGroup
			for i, r := range reqs {
				wg.Go(func() {
					time.Sleep(r.at)
					ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{Cost: r.cost, Keys: []leakyqueue.Key{{Rule: pool}}})
					if err != nil {
						t.Error(err)
						return
					}
					left[i] = departure{time.Since(start), ticket.Member(pool)}
					ticket.Done()
				})
			}
			wg.Wait()
		})
		buckets := map[string]*tokenBucket{}
		for _, m := range members {
			buckets[m] = newTokenBucket(rate.n, rate.per, rate.burst, 0)
		}
		before := time.Duration(0)
		for i, r := range reqs {
			first := time.Duration(1 << 62)
			for _, m := range members {
				first = min(first, buckets[m].from(max(before, r.at), r.cost))
			}
			got := left[i]
			if b := buckets[got.member]; b == nil || !b.allows(got.at, r.cost) {
				rt.Fatalf("request %d leaves at %v with %q, over its limit", i, got.at, got.member)
			}
			if got.at > first+tolerance || got.at < before {
				rt.Fatalf("request %d leaves at %v, the one before at %v; it could have at %v", i, got.at, before, first)
			}
			buckets[got.member].take(got.at, r.cost)
			before = got.at
		}
	})
}
