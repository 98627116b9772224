package shared_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// Buckets that hold jointly are charged jointly on a Cluster, whose nodes they would be spread over otherwise; and where
// they are spread, their limits hold all the same.
func TestRealRedisClusterHoldsJointly(t *testing.T) {
	fleettest.Timed(t)
	c := redistest.StartCluster(t, 3, 0)
	for _, spread := range []bool{false, true} {
		name := map[bool]string{false: "in one place", true: "spread"}[spread]
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			var mu sync.Mutex
			var wide, narrow []time.Duration
			begin := time.Now()
			var wg sync.WaitGroup
			for range 3 {
				rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
				t.Cleanup(func() { _ = rdb.Close() })
				store, err := shared.New(rdb, shared.Config{Prefix: "joint " + name, Spread: spread})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = store.Close() })
				q, err := leakyqueue.New(leakyqueue.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					gone, cancel := context.WithCancel(context.Background())
					cancel()
					_ = q.Close(gone)
				})
				rules := make([]*leakyqueue.Rule, 2)
				for i, l := range []limit.Limit{limit.PerSecond(200), limit.PerSecond(50)} {
					if rules[i], err = q.AddRule([]string{"wide", "narrow"}[i], l); err != nil {
						t.Fatal(err)
					}
					if err := rules[i].Share(store, leakyqueue.Sharing{}); err != nil {
						t.Fatal(err)
					}
				}
				for j := range 16 {
					keys := []leakyqueue.Key{{Rule: rules[0]}}
					if j%2 == 0 {
						keys = append(keys, leakyqueue.Key{Rule: rules[1]})
					}
					wg.Go(func() {
						for {
							if _, err := q.Depart(ctx, leakyqueue.Demand{Keys: keys}, nil); err != nil {
								return
							}
							at := time.Since(begin)
							mu.Lock()
							wide = append(wide, at)
							if len(keys) > 1 {
								narrow = append(narrow, at)
							}
							mu.Unlock()
						}
					})
				}
			}
			wg.Wait()
			w, n := within(wide, time.Second, 3*time.Second), within(narrow, time.Second, 3*time.Second)
			t.Logf("in 2 s %d departures of 400 from the wide bucket, %d of 100 from the narrow one", w, n)
			if w > 410 || w < 360 {
				t.Errorf("%d departures from the wide bucket, want 400", w)
			}
			// Spread, the narrow bucket is leased one at a time, and then waits for its turn at the wide one.
			if least := map[bool]int{false: 80, true: 45}[spread]; n > 108 || n < least {
				t.Errorf("%d departures from the narrow bucket, want %d to 100", n, least)
			}
		})
	}
}
