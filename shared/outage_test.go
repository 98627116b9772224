package shared_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// A Redis that hangs costs a fleet the time until it is noticed, at most, and when it is back nobody bursts.
func TestRealRedisHangs(t *testing.T) {
	const n, rate, hang = 4, 1000, 2 * time.Second
	srv := redistest.Start(t)
	f := startFleet(t, n, srv.Addr(), shared.Config{ExpectedInstances: n}, limit.PerSecond(rate))
	time.AfterFunc(2*time.Second, srv.Stop)
	time.AfterFunc(2*time.Second+hang, srv.Continue)
	f.run(6*time.Second, 64, 0)
	all := f.departures()
	during := within(all, 2*time.Second, 2*time.Second+hang)
	t.Logf("%d departures in 6 s at %d/s, %d in the %v of the hang, at most %d in a second, %d in 100 ms", len(all), rate, during, hang, densest(all, time.Second), densest(all, 100*time.Millisecond))
	if during < 0.9*rate*2 {
		t.Errorf("%d departures while Redis hung for %v, want 97 %% of %d", during, hang, 2*rate)
	}
	if most, bound := densest(all, time.Second), rate+n+rate/20; most > bound {
		t.Errorf("%d departures in a second, want at most %d", most, bound)
	}
}

func TestRealRedisIsGone(t *testing.T) {
	for _, c := range []struct {
		name        string
		onOutage    shared.OnOutage
		least, most int // departures while it is gone, in the second after the first 200 ms
	}{
		{"LocalShare", shared.LocalShare, 95, 105},
		{"FailOpen", shared.FailOpen, 500, 1 << 30},
		{"FailClosed", shared.FailClosed, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := redistest.Start(t)
			f := startFleet(t, 2, srv.Addr(), shared.Config{OnOutage: c.onOutage, ExpectedInstances: 2}, limit.PerSecond(100))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for _, i := range f.instances {
				f.busy(ctx, &wg, i, 8, time.Millisecond)
			}
			time.Sleep(time.Second)
			srv.Kill()
			gone := time.Since(f.begin)
			time.Sleep(1500 * time.Millisecond)
			srv.Restart()
			back := time.Since(f.begin)
			wg.Wait()
			all := f.departures()
			if got := within(all, gone+300*time.Millisecond, gone+1300*time.Millisecond); got < c.least || got > c.most {
				t.Errorf("%d departures in a second without Redis, want %d to %d", got, c.least, c.most)
			}
			if got := within(all, back+time.Second, back+2*time.Second); got < 90 || got > 110 {
				t.Errorf("%d departures in a second with Redis again, want 100", got)
			}
			for _, i := range f.instances {
				for _, err := range i.ended {
					if c.onOutage != shared.FailClosed || !errors.Is(err, leakyqueue.ErrStoreUnavailable) {
						t.Fatalf("a request ended with %v", err)
					}
				}
				if c.onOutage == shared.FailClosed && len(i.ended) == 0 {
					t.Error("nobody was refused")
				}
			}
		})
	}
}

// An outage costs no time per request: what is known to be gone isn't asked.
func TestRealRedisIsNotAskedWhileItIsGone(t *testing.T) {
	srv := redistest.Start(t)
	f := startFleet(t, 1, srv.Addr(), shared.Config{OnOutage: shared.FailOpen}, limit.PerSecond(1000))
	i := f.instances[0]
	d := leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: i.rule}}}
	if _, err := i.queue.Depart(t.Context(), d, nil); err != nil {
		t.Fatal(err)
	}
	srv.Stop()
	if _, err := i.queue.Depart(t.Context(), d, nil); err != nil {
		t.Fatal(err)
	}
	before := i.store.Stats().RoundTrips
	for range 1000 {
		begin := time.Now()
		if _, err := i.queue.Depart(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited > 50*time.Millisecond {
			t.Errorf("a request waited %v", waited)
		}
	}
	if after := i.store.Stats().RoundTrips; after != before {
		t.Errorf("%d calls of Redis in the outage, want none", after-before)
	}
	srv.Continue()
}
