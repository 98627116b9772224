package leakyqueue_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// Who waits for a window of unknown phase leaves when the server's window ends, once that is told.
func TestAlignTellsWhenTheWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.FixedWindow(2, time.Minute))
		start := time.Now()
		var left []time.Duration
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := q.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				left = append(left, time.Since(start))
				mu.Unlock()
			})
		}
		time.Sleep(5 * time.Second)
		for reset, want := range map[time.Duration]bool{-time.Second: false, time.Hour: false} {
			if ok, err := q.Align(time.Now().Add(reset), time.Minute); ok != want || err != nil {
				t.Errorf("a reset in %v: %v, %v", reset, ok, err)
			}
		}
		if ok, err := q.Align(time.Now().Add(10*time.Second), 0); !ok || err != nil {
			t.Errorf("a reset in 10s: %v, %v", ok, err)
		}
		wg.Wait()
		const guard = 50 * time.Millisecond
		if at := left[3]; at < 15*time.Second || at > 15*time.Second+2*guard {
			t.Errorf("left at %v, want 15s", left)
		}
		if ok, err := q.Align(time.Now(), 0, leakyqueue.Key{}); ok || !errors.Is(err, leakyqueue.ErrInvalid) {
			t.Errorf("a key of nobody: %v, %v", ok, err)
		}
	})
	q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(1))
	if ok, err := q.Align(time.Now().Add(time.Second), 0); ok || err != nil {
		t.Errorf("a rate has no window: %v, %v", ok, err)
	}
}
