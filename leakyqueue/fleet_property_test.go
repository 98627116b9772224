package leakyqueue

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// fleetRequest is one of those of a random fleet.
type fleetRequest struct {
	queue, bucket int // 0: only the wide one; else also a narrow one
	at            time.Duration
	cost          int
	priority      Priority
	cancel        time.Duration // after it came; 0: never
	hold          time.Duration
}

// TestAnyFleet has fleets do anything, and sees to it that limits hold for all of their queues together, that everybody
// ends once, and that departures at hand don't get lost.
func TestAnyFleet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		queues := rapid.IntRange(1, 5).Draw(rt, "queues")
		rates := []int{rapid.IntRange(50, 2000).Draw(rt, "wide"), rapid.IntRange(20, 200).Draw(rt, "narrow 1"), rapid.IntRange(20, 200).Draw(rt, "narrow 2")}
		slots := rapid.IntRange(0, 5).Draw(rt, "slots")
		rtt := time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "round trip")) * time.Microsecond
		requests := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) fleetRequest {
			r := fleetRequest{
				queue:    rapid.IntRange(0, queues-1).Draw(rt, "queue"),
				bucket:   rapid.IntRange(0, 2).Draw(rt, "bucket"),
				at:       time.Duration(rapid.IntRange(0, 500).Draw(rt, "at")) * time.Millisecond,
				cost:     rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(rt, "cost"),
				priority: rapid.SampledFrom([]Priority{Normal, Normal, High, Low}).Draw(rt, "priority"),
				hold:     time.Duration(rapid.IntRange(0, 20).Draw(rt, "hold")) * time.Millisecond,
			}
			if rapid.IntRange(0, 9).Draw(rt, "cancelled") == 0 {
				r.cancel = time.Duration(rapid.IntRange(1, 300).Draw(rt, "cancel")) * time.Millisecond
			}
			return r
		}), 1, 120).Draw(rt, "requests")
		pause := time.Duration(rapid.IntRange(0, 400).Draw(rt, "pause")) * time.Millisecond

		synctest.Test(t, func(*testing.T) { runAnyFleet(rt, queues, rates, slots, rtt, requests, pause) })
	})
}

func runAnyFleet(rt *rapid.T, queues int, rates []int, slots int, rtt time.Duration, requests []fleetRequest, pause time.Duration) {
	p := newFakePacer(rtt)
	var qs []*Queue
	rules := make([][]*Rule, queues)
	for i := range queues {
		q, err := New(Config{MaxWaiting: -1})
		if err != nil {
			rt.Fatal(err)
		}
		qs = append(qs, q)
		for j, n := range rates {
			limits := []limit.Limit{limit.PerSecond(float64(n))}
			if j == 0 && slots > 0 {
				limits = append(limits, limit.Concurrent(slots))
			}
			r, err := q.AddRule([]string{"wide", "narrow 1", "narrow 2"}[j], limits...)
			if err != nil {
				rt.Fatal(err)
			}
			if err := r.Share(p, Sharing{}); err != nil {
				rt.Fatal(err)
			}
			rules[i] = append(rules[i], r)
		}
	}
	type departure struct {
		at   time.Duration
		cost int
	}
	var mu sync.Mutex
	left := make([][]departure, len(rates))
	out, most, ended := 0, 0, 0
	tooLong := errors.New("waited for too long")
	soon, giveUp := context.WithCancelCause(context.Background())
	stuck := time.AfterFunc(100*time.Second, func() { giveUp(tooLong) })
	defer stuck.Stop()
	var wg sync.WaitGroup
	for _, r := range requests {
		wg.Go(func() {
			time.Sleep(r.at)
			ctx, cancel := context.WithCancel(soon)
			defer cancel()
			if r.cancel > 0 {
				time.AfterFunc(r.cancel, cancel)
			}
			keys := []Key{{Rule: rules[r.queue][0]}}
			if r.bucket > 0 {
				keys = append(keys, Key{Rule: rules[r.queue][r.bucket]})
			}
			var ticket Ticket
			_, err := qs[r.queue].Depart(ctx, Demand{Keys: keys, Cost: r.cost, Priority: r.priority}, &ticket)
			mu.Lock()
			ended++
			if err == nil {
				now := p.now()
				left[0] = append(left[0], departure{now, r.cost})
				if r.bucket > 0 {
					left[r.bucket] = append(left[r.bucket], departure{now, r.cost})
				}
				out++
				most = max(most, out)
			} else if r.cancel == 0 || errors.Is(err, tooLong) || !errors.Is(err, context.Canceled) {
				rt.Errorf("a request ended with %v", err)
			}
			mu.Unlock()
			if err != nil {
				return
			}
			time.Sleep(r.hold)
			mu.Lock()
			out--
			mu.Unlock()
			ticket.Done()
		})
	}
	if pause > 0 {
		time.AfterFunc(pause, func() {
			_ = qs[0].Pause(time.Now().Add(100*time.Millisecond), Key{Rule: rules[0][0]})
		})
	}
	wg.Wait()
	giveUp(nil)
	if ended != len(requests) {
		rt.Errorf("%d of %d requests ended", ended, len(requests))
	}
	if slots > 0 && most > slots {
		rt.Errorf("%d out at once, want at most %d", most, slots)
	}
	for i, all := range left {
		slices.SortFunc(all, func(a, b departure) int { return int(a.at - b.at) })
		for from := range all {
			units, largest := 0, 0
			for to := from; to < len(all); to++ {
				units += all[to].cost
				largest = max(largest, all[to].cost)
				w := all[to].at - all[from].at
				// A cost above the burst leaves as a debt, or takes what was leased for several that were to leave before:
				// so neither the first nor the last counts for more than 1; which those are isn't known where several left at once.
				bound := 2 + int(math.Ceil(float64(rates[i])*(w+leaseSlack+50*time.Millisecond).Seconds()))
				if units-2*(largest-1) > bound {
					rt.Fatalf("bucket %d at %d/s: %d units within %v, want at most %d", i, rates[i], units, w, bound)
				}
			}
		}
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for _, q := range qs {
		_ = q.Close(gone)
	}
	time.Sleep(time.Second)
}
