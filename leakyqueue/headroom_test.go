package leakyqueue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// A quota of 1,000 with a tenth kept, under batch work that never ends: an interactive request that comes
// at any moment leaves within the slack, and where none comes in the last part of the window, the batch
// work has used the quota by its end.
func TestHeadroomOfAQuota(t *testing.T) {
	const quota, window = 1000, time.Hour
	for name, l := range map[string]limit.Limit{
		"fixed by clock":         limit.FixedWindow(quota, window).ByClock().WithHeadroom(0.1),
		"fixed of unknown phase": limit.FixedWindow(quota, window).WithHeadroom(0.1),
		"daily":                  limit.Daily(quota, 0, 0, time.UTC).WithHeadroom(0.1),
	} {
		window := window
		if name == "daily" {
			window = 24 * time.Hour
		}
		// Ninety requests at even distances in the first nine tenths, or some at odd moments.
		for arrivals, at := range map[string]func(i int) time.Duration{
			"even": func(i int) time.Duration { return window * 9 / 10 * time.Duration(i) / 90 },
			"late": func(i int) time.Duration { return window*85/100 + window/2000*time.Duration(i) },
		} {
			t.Run(fmt.Sprint(name, " ", arrivals), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := newQueue(t, leakyqueue.Config{MaxPause: 48 * time.Hour}, l)
					start := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), window*999/1000)
					defer cancel()
					var wg sync.WaitGroup
					var mu sync.Mutex
					batch, interactive := 0, 0
					for range 50 {
						wg.Go(func() {
							for {
								if _, err := q.Depart(ctx, leakyqueue.Demand{Priority: leakyqueue.Low}, nil); err != nil {
									return
								}
								mu.Lock()
								batch++
								mu.Unlock()
							}
						})
					}
					n := 90
					if arrivals == "late" {
						n = 10
					}
					for i := range n {
						time.Sleep(time.Until(start.Add(at(i) + time.Second)))
						came := time.Now()
						if _, err := q.Depart(t.Context(), leakyqueue.Demand{Priority: leakyqueue.High}, nil); err != nil {
							t.Fatal(err)
						}
						if waited := time.Since(came); waited > leakyqueue.DefaultSlack {
							t.Errorf("the request at %v waited for %v", came.Sub(start), waited)
						}
						interactive++
					}
					<-ctx.Done()
					wg.Wait()
					if used := batch + interactive; used < quota*99/100 || used > quota {
						t.Errorf("%d batch and %d interactive requests left, of %d", batch, interactive, quota)
					}
				})
			})
		}
	}
}

// Slots are kept while somebody of high priority is about, and lent out otherwise.
func TestHeadroomOfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.Concurrent(10).WithHeadroom(0.2))
		acquire := func(p leakyqueue.Priority) *leakyqueue.Ticket {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ticket, err := q.Acquire(ctx, leakyqueue.Demand{Priority: p})
			if err != nil {
				return nil
			}
			return ticket
		}
		var out []*leakyqueue.Ticket
		for range 10 { // nobody of high priority has been seen yet
			out = append(out, acquire(leakyqueue.Normal))
		}
		if acquire(leakyqueue.High) != nil {
			t.Error("eleven of ten slots are out")
		}
		for _, ticket := range out {
			ticket.Done()
		}
		out = nil
		for range 8 {
			out = append(out, acquire(leakyqueue.Normal))
		}
		if acquire(leakyqueue.Normal) != nil {
			t.Error("a slot that was kept was lent out, right after a request of high priority")
		}
		for range 2 {
			if ticket := acquire(leakyqueue.High); ticket == nil {
				t.Error("no slot of those kept for high priority")
			} else {
				ticket.Done()
			}
		}
		start := time.Now()
		if _, err := q.Acquire(t.Context(), leakyqueue.Demand{}); err != nil || time.Since(start) != time.Minute {
			t.Errorf("a slot was lent out after %v, %v, want a minute", time.Since(start), err)
		}
		for _, ticket := range out {
			ticket.Done()
		}
	})
}

// A low priority that is owed a departure doesn't hold up who may use the headroom.
func TestWhoIsOwedDoesNotBlockTheHeadroom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.FixedWindow(100, time.Minute).ByClock().WithHeadroom(0.5))
		c := newCrowd(t, q)
		c.come(5, "low", leakyqueue.Demand{Priority: leakyqueue.Low})
		time.Sleep(time.Second)
		for range 40 {
			start := time.Now()
			if _, err := q.Depart(t.Context(), leakyqueue.Demand{Priority: leakyqueue.High}, nil); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); waited > 0 {
				t.Errorf("waited for %v", waited)
			}
		}
		c.run(0)
	})
}
