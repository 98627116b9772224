package leakyqueue

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// The longest durations mean for ever, and don't wrap around.
func TestLongestDurations(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	run("MaxPause", func(t *testing.T) {
		q := newQueue(t, Config{MaxPause: forever}, limit.PerSecond(1))
		time.Sleep(time.Second)
		start := time.Now()
		q.Pause(start.Add(time.Hour))
		if err := q.Wait(t.Context()); err != nil || time.Since(start) != time.Hour {
			t.Errorf("after a pause of 1h it left after %v, %v", time.Since(start), err)
		}
		q.Pause(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := q.Wait(ctx); !errors.Is(err, ErrDeadline) || time.Since(start) != time.Hour {
			t.Errorf("in an endless pause: %v after %v, want ErrDeadline at once", err, time.Since(start))
		}
	})
	run("MaxWait", func(t *testing.T) {
		q := newQueue(t, Config{MaxWait: forever}, limit.PerSecond(1))
		time.Sleep(time.Second)
		for range 3 {
			if err := q.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	run("MaxHold", func(t *testing.T) {
		q := newQueue(t, Config{MaxHold: forever}, limit.Concurrent(1))
		time.Sleep(time.Second)
		ticket, err := q.Acquire(t.Context(), Demand{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := q.Stats()[0]; s.InFlight != 1 || s.Counts.HoldsExpired != 0 {
			t.Errorf("%+v", s)
		}
		ticket.Done()
	})
	run("Delay", func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		time.Sleep(time.Second)
		left, err := q.Depart(t.Context(), Demand{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, delay := range []time.Duration{forever, forever - 1, forever / 2} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if _, err := q.Depart(ctx, Demand{Place: left.Place, Delay: delay}, nil); !errors.Is(err, ErrDeadline) {
				t.Errorf("delayed by %v: %v, want ErrDeadline", delay, err)
			}
			cancel()
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Hour, cancel)
			if d, err := q.Depart(ctx, Demand{Place: left.Place, Delay: delay}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("delayed by %v: %+v, %v, want it to stay", delay, d, err)
			}
		}
	})
	run("Slack", func(t *testing.T) {
		q := newQueue(t, Config{Slack: forever}, limit.PerSecond(1))
		start := time.Now()
		for range 4 {
			if err := q.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("4 left in %v, want 3s", d)
		}
	})
	run("Pause in the past", func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		q.Pause(time.Time{})
		q.Pause(time.Unix(math.MinInt32, 0))
		start := time.Now()
		if err := q.Wait(t.Context()); err != nil || time.Since(start) != 0 {
			t.Error(err, time.Since(start))
		}
	})
}

// The context's deadline is only blamed where it was the bound.
func TestMaxWaitIsNotTheContextsDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{MaxWait: 2 * time.Second, MaxPause: time.Minute}, limit.Concurrent(1))
			ticket, err := q.Acquire(t.Context(), Demand{})
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			if _, err := q.Acquire(ctx, Demand{}); !errors.Is(err, ErrDeadline) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("timeout %v: MaxWait: %v: want ErrDeadline and not the context's", timeout, err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := q.Acquire(ctx, Demand{}); !errors.Is(err, ErrDeadline) || timeout == 0 && errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("timeout %v: endless pause: %v: want ErrDeadline and not the context's", timeout, err)
				}
			})
			synctest.Wait()
			q.Pause(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
			wg.Wait()
			ticket.Done()
		})
	}
}

// Nobody is refused for lateness that is caught up.
func TestLateTimerIsNoReasonToRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{Slack: 10 * time.Millisecond}, limit.PerSecond(1))
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := q.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		q.takeTimer()
		time.Sleep(time.Second + 5*time.Millisecond) // the timer is 5ms late so far
		wg.Go(func() {
			ctx, cancel := context.WithDeadline(t.Context(), start.Add(2*time.Second+time.Millisecond))
			defer cancel()
			if err := q.Wait(ctx); err != nil {
				t.Errorf("it could have left at 2s and had 1ms more: %v", err)
			}
		})
		synctest.Wait()
		q.fireLate()
		time.Sleep(time.Until(start.Add(2 * time.Second)))
		q.fireLate()
		wg.Wait()
	})
}

// The same with MaxWait: who was due within it leaves.
func TestLateTimerDoesNotUseUpMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWait: time.Second}, limit.PerSecond(1))
		enter(t, q, t.Context(), Demand{})
		turn, _ := enter(t, q, t.Context(), Demand{})
		q.takeTimer()
		time.Sleep(1005 * time.Millisecond)
		q.fireLate()
		if _, err := turn.Await(t.Context()); err != nil {
			t.Errorf("due at 1s, with a timer 5ms late: %v", err)
		}
	})
}

// Where the timer is later than the deadline, the turn isn't taken any more.
func TestNobodyLeavesAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		enter(t, q, t.Context(), Demand{})
		ctx, cancel := context.WithTimeout(t.Context(), 1003*time.Millisecond)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{})
		q.takeTimer()
		time.Sleep(1005 * time.Millisecond)
		q.fireLate()
		if _, err := turn.Await(t.Context()); !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("2ms after its deadline: %v", err)
		}
	})
}

// Who heads its line is told then that a retry before it has made it late.
func TestLateHeadIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.Per(1, 10*time.Second))
		left, err := q.Depart(t.Context(), Demand{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		late, _ := enter(t, q, ctx, Demand{})
		enter(t, q, t.Context(), Demand{Place: left.Place})
		time.Sleep(10*time.Second + 1)
		wantOver(t, late, true, "who would leave after 20s and has 15s")
		if _, err := late.Await(t.Context()); !errors.Is(err, ErrDeadline) {
			t.Error(err)
		}
	})
}

// A wall clock that was set moves nobody's deadline and no pause. Times in a bubble have no monotonic
// reading, so this runs outside, with half an hour to spare.
func TestWallClockStep(t *testing.T) {
	for _, step := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		q := newQueue(t, Config{MaxPause: 24 * time.Hour}, limit.Per(1, time.Hour))
		stepWallClock(&q.epoch, step)
		if d := time.Since(q.epoch); d < 0 || d > time.Minute {
			t.Fatalf("the epoch is %v ago: this test can't step the clock any more", d)
		}
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for in, makes := range map[time.Duration]bool{30 * time.Minute: false, 90 * time.Minute: true} {
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Round(0).Add(in)) // no monotonic reading
			turn, err := q.Enter(ctx, Demand{}, nil)
			if makes != (err == nil) {
				t.Errorf("clock set by %v: with %v left for a turn in 1h: %v", step, in, err)
			}
			turn.Cancel()
			cancel()
		}
		q.Pause(time.Now().Round(0).Add(10 * time.Hour))
		if s := q.Stats()[0]; s.Paused < 9*time.Hour || s.Paused > 11*time.Hour {
			t.Errorf("clock set by %v: a pause of 10h lasts %v", step, s.Paused)
		}
	}
}

// Who waits long is told when MaxWait is over, whatever comes and goes meanwhile; and that is forgotten.
func TestArrivalsAreKeptAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWait: time.Minute}, limit.Concurrent(1))
		_, ticket := enter(t, q, t.Context(), Demand{})
		long, _ := enter(t, q, t.Context(), Demand{})
		for range 1000 {
			turn, _ := enter(t, q, t.Context(), Demand{})
			turn.Cancel()
		}
		q.mu.Lock()
		n := len(q.arrivals)
		q.mu.Unlock()
		if n > 100 {
			t.Errorf("%d arrivals are remembered for one who waits", n)
		}
		time.Sleep(time.Minute + 1)
		wantOver(t, long, true, "who has waited for MaxWait")
		ticket.Done()
	})
}

// Who comes behind others, or with a delay, and can't make its deadline is told when it comes.
func TestDeadlineBehindOthersIsToldAtOnce(t *testing.T) {
	for name, d := range map[string]Demand{"behind": {}, "delayed": {Place: 1, Delay: 2 * time.Second}} {
		for _, c := range []struct {
			timeout time.Duration
			in      bool
		}{{time.Second, false}, {2 * time.Second, false}, {2*time.Second + 1, true}} {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, Config{}, limit.PerSecond(1))
				enter(t, q, t.Context(), Demand{})
				enter(t, q, t.Context(), Demand{}) // at 1s
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				if _, err := q.Enter(ctx, d, nil); (err == nil) != c.in || err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: with %v for a turn in 2s: %v", name, c.timeout, err)
				}
			})
		}
	}
}
