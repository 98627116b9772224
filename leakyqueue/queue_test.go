package leakyqueue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

func newQueue(t *testing.T, cfg leakyqueue.Config, limits ...limit.Limit) *leakyqueue.Queue {
	t.Helper()
	q, err := leakyqueue.New(cfg, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestWaitSpacesDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(10))
		start := time.Now()
		var mu sync.Mutex
		var left []time.Duration
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := q.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				left = append(left, time.Since(start))
				mu.Unlock()
			})
		}
		wg.Wait()
		for i, d := range left {
			if want := time.Duration(i) * 100 * time.Millisecond; d != want {
				t.Errorf("departure %d at %v, want %v", i, d, want)
			}
		}
	})
}

func TestCancelledWaitersCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{MaxWaiting: -1}, limit.PerSecond(10))
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() {
				if err := q.Wait(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		cancel()
		wg.Wait()
		start := time.Now()
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 50*time.Millisecond {
			t.Errorf("next left after %v, want 50ms", d)
		}
	})
}
