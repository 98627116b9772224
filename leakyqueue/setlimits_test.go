package leakyqueue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// departures has n requests wait under one rule, does f at 2.5 s, and returns when they left.
func departures(t *testing.T, n int, before []limit.Limit, f func(*leakyqueue.Queue, *leakyqueue.Rule)) (at []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{})
		rule, err := q.AddRule("rule", before...)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: rule}}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				at = append(at, time.Since(start))
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				ticket.Done()
			})
		}
		time.Sleep(2500 * time.Millisecond)
		f(q, rule)
		wg.Wait()
	})
	return at
}

func TestSetLimitsWhileCallersWait(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name          string
		before, after []limit.Limit
		left          int // by 2.5 s
		next, last    time.Duration
	}{
		{"faster", []limit.Limit{limit.PerSecond(1)}, []limit.Limit{limit.PerSecond(10)}, 3, 2550 * ms, 3150 * ms},
		{"slower", []limit.Limit{limit.PerSecond(1)}, []limit.Limit{limit.PerSecond(0.5)}, 3, 3500 * ms, 15500 * ms},
		{"a larger window", []limit.Limit{limit.SlidingWindow(2, 10*time.Second)}, []limit.Limit{limit.SlidingWindow(5, 10*time.Second)}, 2, 2500 * ms, 12500 * ms},
		{"no limits", []limit.Limit{limit.PerSecond(1)}, nil, 3, 2500 * ms, 2500 * ms},
		{"one slot", []limit.Limit{limit.PerSecond(1)}, []limit.Limit{limit.Concurrent(1)}, 3, 2500 * ms, 3100 * ms},
		{"more slots", []limit.Limit{limit.Concurrent(1), limit.PerSecond(1)}, []limit.Limit{limit.Concurrent(3)}, 3, 2500 * ms, 2700 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := departures(t, 10, tt.before, func(_ *leakyqueue.Queue, r *leakyqueue.Rule) {
				if err := r.SetLimits(tt.after...); err != nil {
					t.Error(err)
				}
			})
			const guard = 60 * ms // of windows
			if next, last := at[tt.left], at[9]; next < tt.next || next > tt.next+guard || last < tt.last || last > tt.last+2*guard {
				t.Errorf("the next leaves at %v, the last at %v, want %v and %v: %v", next, last, tt.next, tt.last, at)
			}
		})
	}
}

func TestSetLimitsTellsWhomItMakesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{})
		rule, err := q.AddRule("rule", limit.PerSecond(10))
		if err != nil {
			t.Fatal(err)
		}
		depart := func(ctx context.Context, cost int) error {
			_, err := q.Depart(ctx, leakyqueue.Demand{Cost: cost, Keys: []leakyqueue.Key{{Rule: rule}}}, nil)
			return err
		}
		if err := depart(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := depart(ctx, 1); !errors.Is(err, leakyqueue.ErrDeadline) || time.Since(start) > 0 {
				t.Errorf("who is late at the new rate was told %v after %v", err, time.Since(start))
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := depart(t.Context(), 7); !errors.Is(err, leakyqueue.ErrQueueFull) || time.Since(start) > 0 {
				t.Errorf("who never fits was told %v after %v", err, time.Since(start))
			}
		})
		synctest.Wait()
		if err := rule.SetLimits(limit.PerSecond(0.1), limit.SlidingWindow(5, time.Minute)); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

func TestSetLimitsChangesNothingIfOneIsWrong(t *testing.T) {
	q := newQueue(t, leakyqueue.Config{})
	rule, err := q.AddRule("rule", limit.Concurrent(3))
	if err != nil {
		t.Fatal(err)
	}
	err = rule.SetLimits(limit.PerSecond(5), limit.PerSecond(-1))
	if !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), "limits[1]") || !strings.Contains(err.Error(), "-1") {
		t.Error(err)
	}
	if rule.Slots() != 3 {
		t.Errorf("%d slots", rule.Slots())
	}
}

func TestResumeEndsAPause(t *testing.T) {
	at := departures(t, 6, []limit.Limit{limit.PerSecond(1).WithBurst(2)}, func(q *leakyqueue.Queue, r *leakyqueue.Rule) {
		k := leakyqueue.Key{Rule: r}
		// Four have left, the fifth would at 3 s.
		for range 2 {
			if err := q.Pause(time.Now().Add(time.Minute), k); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Second)
		if err := q.Resume(k); err != nil {
			t.Error(err)
		}
	})
	// What was saved up during the pause is lost.
	if at[4] != 12500*time.Millisecond || at[5] != 13500*time.Millisecond {
		t.Errorf("left at %v", at)
	}
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(10))
		if err := q.Pause(time.Now().Add(24 * time.Hour)); err != nil { // beyond MaxPause
			t.Error(err)
		}
		if err := q.Wait(t.Context()); !errors.Is(err, leakyqueue.ErrDeadline) {
			t.Error(err)
		}
		if err := q.Resume(); err != nil {
			t.Error(err)
		}
		start := time.Now()
		for range 3 {
			if err := q.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took != 200*time.Millisecond {
			t.Errorf("three left in %v", took)
		}
		if err := q.Resume(leakyqueue.Key{}); !errors.Is(err, leakyqueue.ErrInvalid) {
			t.Error(err)
		}
	})
}
