package leakyqueue_test

import (
	"context"
	"sync"
	"testing"

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
