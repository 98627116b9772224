package leakyqueue_test

import (
	"context"
	"strconv"
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
// caller comes back. They wait in one line; at all priorities; in 100 flows; or each in a flow of its own.
func BenchmarkDepartureOfWaiters(b *testing.B) {
	const waiting = 10_000
	flows := make([]string, waiting)
	for i := range flows {
		flows[i] = strconv.Itoa(i)
	}
	for _, c := range []struct {
		name   string
		demand func(i int) leakyqueue.Demand
	}{
		{"plain", func(int) leakyqueue.Demand { return leakyqueue.Demand{} }},
		{"priorities", func(i int) leakyqueue.Demand { return leakyqueue.Demand{Priority: leakyqueue.Priority(i%5) - 2} }},
		{"flows=100", func(i int) leakyqueue.Demand { return leakyqueue.Demand{Flow: flows[i%100]} }},
		{"flows=10000", func(i int) leakyqueue.Demand { return leakyqueue.Demand{Flow: flows[i]} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			q, err := leakyqueue.New(leakyqueue.Config{MaxWaiting: -1}, limit.Concurrent(1))
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			tickets := make(chan *leakyqueue.Ticket, 1)
			var wg sync.WaitGroup
			for i := range waiting {
				wg.Go(func() {
					for {
						ticket, err := q.Acquire(ctx, c.demand(i))
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
		})
	}
}

// BenchmarkLookup finds one of many live buckets, alone and with a departure from it.
func BenchmarkLookup(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		q, err := leakyqueue.New(leakyqueue.Config{})
		if err != nil {
			b.Fatal(err)
		}
		rule, err := q.AddRule("rule", limit.PerSecond(1e9).WithBurst(1e6))
		if err != nil {
			b.Fatal(err)
		}
		all := make([][]leakyqueue.Key, keys)
		for i := range all {
			all[i] = []leakyqueue.Key{{Rule: rule, Value: strconv.Itoa(i * 7919 % keys)}}
		}
		depart := func(i int) {
			if _, err := q.Depart(b.Context(), leakyqueue.Demand{Keys: all[i]}, nil); err != nil {
				b.Fatal(err)
			}
		}
		for i := range all {
			depart(i)
		}
		for name, f := range map[string]func(i int){
			"lookup":    func(i int) { q.Lookup(all[i][0]) },
			"departure": depart,
		} {
			b.Run(name+"/keys="+strconv.Itoa(keys), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					f(i)
					if i++; i == keys {
						i = 0
					}
				}
			})
		}
	}
}
