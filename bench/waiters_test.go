package bench

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// BenchmarkManyWaiters compares 100,000 waiters with as many goroutines that only wait for their
// context: the heap they take, how long it takes to start and to cancel them, and how long the next
// caller waits after that. The limit lets nobody leave meanwhile.
func BenchmarkManyWaiters(b *testing.B) {
	const waiters = 100_000
	const perSecond = 0.2 // the first has left, the next may after 5 s
	measure := func(b *testing.B, wait func(context.Context) error) {
		var bytes, start, cancel, next time.Duration
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			stops := make([]context.CancelFunc, waiters)
			var begun, ended sync.WaitGroup
			begun.Add(waiters)
			t := time.Now()
			for i := range stops {
				var ctx context.Context
				ctx, stops[i] = context.WithCancel(context.Background())
				ended.Go(func() {
					begun.Done()
					_ = wait(ctx)
				})
			}
			begun.Wait()
			start += time.Since(t)
			time.Sleep(100 * time.Millisecond) // the last have begun, and now come to wait
			runtime.GC()
			runtime.ReadMemStats(&after)
			bytes += time.Duration(after.HeapAlloc - before.HeapAlloc)
			t = time.Now()
			for _, stop := range stops {
				stop()
			}
			ended.Wait()
			cancel += time.Since(t)
			t = time.Now()
			ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
			_ = wait(ctx)
			stop()
			next += time.Since(t)
		}
		n := float64(b.N)
		b.ReportMetric(float64(bytes)/waiters/n, "B/waiter")
		b.ReportMetric(start.Seconds()*1000/n, "ms-start")
		b.ReportMetric(cancel.Seconds()*1000/n, "ms-cancel")
		b.ReportMetric(next.Seconds()/n, "s-next")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("baseline=parked", func(b *testing.B) {
		measure(b, func(ctx context.Context) error {
			if _, last := ctx.Deadline(); !last {
				<-ctx.Done()
			}
			return ctx.Err()
		})
	})
	b.Run("outflow=queue", func(b *testing.B) {
		q, err := leakyqueue.New(leakyqueue.Config{MaxWaiting: -1}, limit.PerSecond(perSecond))
		if err != nil {
			b.Fatal(err)
		}
		_ = q.Wait(b.Context())
		measure(b, q.Wait)
	})
	b.Run("peer=xtimerate", func(b *testing.B) {
		l := rate.NewLimiter(perSecond, 1)
		_ = l.Wait(b.Context())
		measure(b, l.Wait)
	})
}
