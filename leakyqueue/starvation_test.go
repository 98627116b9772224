package leakyqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// starve has a backlog of requests of the given cost at each of several buckets of 1/s, whose phases are
// as given, and says how long one of cost 1 waits that wants all of them.
func starve(t *testing.T, cost int, phases ...time.Duration) time.Duration {
	var took time.Duration
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWaiting: -1})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		start := time.Now()
		var all []Key
		for i, phase := range phases {
			time.Sleep(time.Until(start.Add(phase)))
			k := Key{Rule: newRule(t, q, fmt.Sprint(i), limit.PerSecond(1))}
			all = append(all, k)
			for range 3 { // always somebody waits
				wg.Go(func() {
					for {
						if _, err := q.Depart(ctx, Demand{Cost: cost, Keys: []Key{k}}, nil); err != nil {
							return
						}
					}
				})
			}
			synctest.Wait()
		}
		time.Sleep(100 * time.Millisecond)
		start = time.Now()
		both, stop := context.WithTimeout(t.Context(), 1000*time.Second)
		_, _ = q.Depart(both, Demand{Keys: all}, nil)
		stop()
		took = time.Since(start)
		cancel()
		wg.Wait()
	})
	return took
}

// Whoever wants several buckets that others keep busy gets its turn.
func TestNobodyStarves(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		cost   int
		phases []time.Duration
		most   time.Duration
	}{
		{1, []time.Duration{0, 500 * ms}, 30 * s},
		{1, []time.Duration{0, ms}, 30 * s},
		{1, []time.Duration{0, 999 * ms}, 30 * s},
		{1, []time.Duration{0, 333 * ms, 666 * ms}, 60 * s},
		{1, []time.Duration{0, 200 * ms, 400 * ms, 600 * ms, 800 * ms}, 100 * s},
		{5, []time.Duration{0, 2500 * ms}, 150 * s},
		{10, []time.Duration{0, 3 * s, 6 * s}, 500 * s},
	} {
		if d := starve(t, c.cost, c.phases...); d > c.most {
			t.Errorf("phases %v, others of cost %d: who wants all left after %v", c.phases, c.cost, d)
		}
	}
}

// A head that was passed over fewer than patience times leaves the buckets to others.
func TestFewPassesClaimNothing(t *testing.T) {
	// The buckets' turns come half a second apart, so it is passed over twice a second.
	if d := starve(t, 1, 0, 500*time.Millisecond); d < 4*time.Second {
		t.Errorf("who wants both left after %v", d)
	}
}

// The same where what is busy is a concurrency.
func TestNobodyStarvesForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWaiting: -1})
		b, c := Key{Rule: newRule(t, q, "b", limit.Concurrent(1))}, Key{Rule: newRule(t, q, "c", limit.Concurrent(1))}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		backlog := func(k Key) {
			for range 2 {
				wg.Go(func() {
					for {
						ticket, err := q.Acquire(ctx, Demand{Keys: []Key{k}})
						if err != nil {
							return
						}
						time.Sleep(time.Second)
						ticket.Done()
					}
				})
			}
		}
		backlog(b)
		time.Sleep(500 * time.Millisecond)
		backlog(c)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		both, stop := context.WithTimeout(t.Context(), 1000*time.Second)
		ticket, _ := q.Acquire(both, Demand{Keys: []Key{b, c}})
		stop()
		ticket.Done()
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("who wants both slots left after %v", d)
		}
		cancel()
		wg.Wait()
	})
}

// Where two buckets let go at the same moment, the older of those who wait goes first.
func TestTieGoesToTheOldest(t *testing.T) {
	if d := starve(t, 1, 0, 0); d > 5*time.Second {
		t.Errorf("who wants both left after %v", d)
	}
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWaiting: -1})
		b, c := Key{Rule: newRule(t, q, "b", limit.PerSecond(1))}, Key{Rule: newRule(t, q, "c", limit.PerSecond(1))}
		if _, err := q.Depart(t.Context(), Demand{Keys: []Key{b, c}}, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		come := func(want time.Duration, keys ...Key) {
			wg.Go(func() {
				if _, err := q.Depart(t.Context(), Demand{Keys: keys}, nil); err != nil || time.Since(start) != want {
					t.Errorf("%v left after %v, %v, want %v", keys, time.Since(start), err, want)
				}
			})
			synctest.Wait()
		}
		come(time.Second, c)
		come(2*time.Second, b, c) // parked at c, behind the first
		come(time.Second, b)
		come(3*time.Second, b) // came after {b, c}, whom b and c let go at 2s
		wg.Wait()
	})
}
