package leakyqueue_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

func BenchmarkWaitWhereNobodyWaits(b *testing.B) {
	q, err := leakyqueue.New(leakyqueue.Config{}, limit.PerSecond(1e9).WithBurst(1e6))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDepartureOfWaiters is what a departure costs while 10,000 wait: one is let go, and its
// caller comes back.
func BenchmarkDepartureOfWaiters(b *testing.B) {
	q, err := leakyqueue.New(leakyqueue.Config{MaxWaiting: -1}, limit.Concurrent(1))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	tickets := make(chan *leakyqueue.Ticket, 1)
	var wg sync.WaitGroup
	for range 10_000 {
		wg.Go(func() {
			for {
				ticket, err := q.Acquire(ctx, leakyqueue.Demand{})
				if err != nil {
					return
				}
				tickets <- ticket
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		(<-tickets).Done()
	}
	cancel()
	wg.Wait()
}

// BenchmarkManyWaiters compares 100,000 waiters of one queue with as many goroutines that only wait
// for their context: bytes of heap each, and how long it takes to start and to cancel them.
func BenchmarkManyWaiters(b *testing.B) {
	const waiters = 100_000
	measure := func(b *testing.B, wait func(context.Context)) {
		var bytes, start, cancel float64
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			ctxs := make([]context.CancelFunc, waiters)
			var begun, ended sync.WaitGroup
			begun.Add(waiters)
			t := time.Now()
			for i := range ctxs {
				ctx, stop := context.WithCancel(context.Background())
				ctxs[i] = stop
				ended.Go(func() {
					begun.Done()
					wait(ctx)
				})
			}
			begun.Wait()
			start += float64(time.Since(t).Milliseconds())
			runtime.Gosched()
			time.Sleep(50 * time.Millisecond) // the last have begun, and now come to wait
			runtime.GC()
			runtime.ReadMemStats(&after)
			bytes += float64(after.HeapAlloc-before.HeapAlloc) / waiters
			t = time.Now()
			for _, stop := range ctxs {
				stop()
			}
			ended.Wait()
			cancel += float64(time.Since(t).Milliseconds())
		}
		n := float64(b.N)
		b.ReportMetric(bytes/n, "B/waiter")
		b.ReportMetric(start/n, "ms-start")
		b.ReportMetric(cancel/n, "ms-cancel")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("parked", func(b *testing.B) {
		measure(b, func(ctx context.Context) { <-ctx.Done() })
	})
	b.Run("queue", func(b *testing.B) {
		q, err := leakyqueue.New(leakyqueue.Config{MaxWaiting: -1}, limit.PerSecond(0.01))
		if err != nil {
			b.Fatal(err)
		}
		if err := q.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		measure(b, func(ctx context.Context) { _ = q.Wait(ctx) })
	})
}
