package shared_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

func redisAt(t *testing.T) string {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command("redis-server", "--port", port, "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for range 100 {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return addr
}

func TestSmoke(t *testing.T) {
	addr := redisAt(t)
	for _, n := range []int{1, 4, 16} {
		for _, rate := range []float64{1000, 10000} {
			var wg sync.WaitGroup
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			var mu sync.Mutex
			var all []time.Duration
			per := make([]int, n)
			var stores []*shared.Store
			begin := time.Now()
			for i := range n {
				rdb := redis.NewClient(&redis.Options{Addr: addr})
				defer rdb.Close()
				s, err := shared.New(rdb, shared.Config{Prefix: fmt.Sprintf("t%d-%v", n, rate)})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				stores = append(stores, s)
				q, _ := leakyqueue.New(leakyqueue.Config{})
				r, _ := q.AddRule("api", limit.PerSecond(rate))
				if err := r.Share(s, leakyqueue.Sharing{}); err != nil {
					t.Fatal(err)
				}
				for range 64 {
					wg.Go(func() {
						for {
							if _, err := q.Depart(ctx, leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: r}}}, nil); err != nil {
								return
							}
							at := time.Since(begin)
							mu.Lock()
							all = append(all, at)
							per[i]++
							mu.Unlock()
						}
					})
				}
			}
			wg.Wait()
			cancel()
			slices.Sort(all)
			count := 0
			for _, at := range all {
				if at > time.Second && at <= 4*time.Second {
					count++
				}
			}
			var rts uint64
			for _, s := range stores {
				rts += s.Stats().RoundTrips
			}
			most := func(w time.Duration) int {
				n, from := 0, 0
				for i := range all {
					for all[i]-all[from] >= w {
						from++
					}
					n = max(n, i-from+1)
				}
				return n
			}
			t.Logf("n=%d rate=%v: %.2f %%, rt %.4f, 100ms %d, 1s %d, inst %d..%d, stats %+v", n, rate, float64(count)/3/rate*100, float64(rts)/float64(len(all)), most(100*time.Millisecond), most(time.Second), slices.Min(per), slices.Max(per), stores[0].Stats())
		}
	}
}
