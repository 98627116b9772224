package leakyqueue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// A key that isn't the queue's doesn't leave it locked, or touch another queue's bucket.
func TestPauseOfAForeignKey(t *testing.T) {
	q, other := newQueue(t, Config{}), newQueue(t, Config{})
	foreign := newRule(t, other, "foreign")
	for _, k := range []Key{{}, {Rule: foreign}} {
		func() {
			defer func() {
				_ = recover() // misuse may panic
				if !q.mu.TryLock() {
					t.Fatalf("%+v: the lock is still held", k)
				}
				q.mu.Unlock()
			}()
			q.Pause(time.Now().Add(time.Hour), k)
		}()
	}
	if n := len(other.Stats()); n != 0 {
		t.Errorf("the other queue has %d buckets", n)
	}
}

// A pause loses what is saved up, whoever is cancelled during it.
func TestRefundDoesNotUndoThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{Slack: -1}, limit.PerSecond(1).WithBurst(5))
		if _, err := q.Depart(t.Context(), Demand{Cost: 5}, nil); err != nil {
			t.Fatal(err)
		}
		turn, err := q.Enter(t.Context(), Demand{Cost: 4}, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second) // its turn has come
		q.Pause(time.Now().Add(10 * time.Second))
		turn.Cancel()
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := q.Wait(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("after the pause the second left %v after the first, %v; want 1s", time.Since(start), err)
		}
	})
}

func TestPauseWithoutARateIsToldEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		if err := q.Pause(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := q.Wait(ctx); !errors.Is(err, ErrDeadline) || time.Since(start) != 0 {
			t.Errorf("told %v after %v", err, time.Since(start))
		}
		if at, err := q.Earliest(Demand{}); err != nil || at.Sub(start) != 10*time.Second {
			t.Errorf("earliest %v, %v", at.Sub(start), err)
		}
	})
}

func TestPauseTellsWhomItMakesLate(t *testing.T) {
	for _, c := range []struct {
		name    string
		maxWait time.Duration
		timeout time.Duration
		pause   time.Duration
		refused bool
		ctx     bool // the context's deadline is to blame
	}{
		{"just in time", 0, 10*time.Second + 1, 10 * time.Second, false, false},
		{"at the deadline", 0, 10 * time.Second, 10 * time.Second, true, true},
		{"at MaxWait", 10 * time.Second, 0, 10 * time.Second, false, false},
		{"after MaxWait", 10 * time.Second, 0, 10*time.Second + 1, true, false},
		{"after MaxWait, before the deadline", 10 * time.Second, time.Hour, 10*time.Second + 1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, Config{MaxWait: c.maxWait}, limit.PerSecond(1))
				enter(t, q, t.Context(), Demand{})
				ctx := t.Context()
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				turn, _ := enter(t, q, ctx, Demand{})
				if err := q.Pause(time.Now().Add(c.pause)); err != nil {
					t.Fatal(err)
				}
				wantOver(t, turn, c.refused, "told at once")
				_, err := turn.Await(t.Context())
				if errors.Is(err, ErrDeadline) != c.refused || errors.Is(err, context.DeadlineExceeded) != c.ctx {
					t.Errorf("%v", err)
				}
				if n := q.Stats()[0].Counts.Refused; (n == 1) != c.refused {
					t.Errorf("%d are counted as refused", n)
				}
			})
		})
	}
}

// Whom a pause makes late is told at once, however slow the rate is, and however long it has
// waited for something else before.
func TestPauseTellsAlwaysWhomItMakesLate(t *testing.T) {
	lateAfter := func(t *testing.T, q *Queue, turn Turn, pause time.Duration) {
		t.Helper()
		if err := q.Pause(time.Now().Add(pause)); err != nil {
			t.Fatal(err)
		}
		wantOver(t, turn, true, "whose deadline is before the pause ends")
		if _, err := turn.Await(t.Context()); !errors.Is(err, ErrDeadline) {
			t.Errorf("%v", err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxPause: 100 * time.Hour}, limit.Per(1, 3*time.Hour))
		enter(t, q, t.Context(), Demand{})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{})
		lateAfter(t, q, turn, 5*time.Hour)
	})
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(10), limit.Concurrent(1))
		_, ticket := enter(t, q, t.Context(), Demand{})
		defer ticket.Done()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{})
		time.Sleep(50 * time.Second) // for the slot
		lateAfter(t, q, turn, 20*time.Second)
	})
	synctest.Test(t, func(t *testing.T) { // as before, once a pause has looked at all of them
		q := newQueue(t, Config{}, limit.Concurrent(1))
		_, ticket := enter(t, q, t.Context(), Demand{})
		defer ticket.Done()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{})
		for range 5 {
			if err := q.Pause(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		lateAfter(t, q, turn, 11*time.Second)
	})
	synctest.Test(t, func(t *testing.T) { // behind a retry that came later
		q := newQueue(t, Config{}, limit.PerSecond(1))
		left, err := q.Depart(t.Context(), Demand{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{}) // at 1s
		enter(t, q, t.Context(), Demand{Place: left.Place, Cost: 10})
		lateAfter(t, q, turn, 15*time.Second) // the retry at 15s, then 10s for it
	})
	synctest.Test(t, func(t *testing.T) { // a delayed retry
		q := newQueue(t, Config{}, limit.PerSecond(1))
		left, err := q.Depart(t.Context(), Demand{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{Place: left.Place, Delay: 15 * time.Second})
		time.Sleep(10 * time.Second)
		lateAfter(t, q, turn, 10*time.Second)
	})
	synctest.Test(t, func(t *testing.T) { // a delayed retry, once a pause has looked at it
		q := newQueue(t, Config{}, limit.PerSecond(1))
		left, err := q.Depart(t.Context(), Demand{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{Place: left.Place, Delay: 15 * time.Second})
		if err := q.Pause(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		lateAfter(t, q, turn, 20*time.Second)
	})
	synctest.Test(t, func(t *testing.T) { // a pause that is overlong follows one that ends when it would
		q := newQueue(t, Config{MaxPause: time.Minute}, limit.PerSecond(1))
		if err := q.Pause(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		turn, _ := enter(t, q, t.Context(), Demand{})
		lateAfter(t, q, turn, time.Hour)
	})
}

// What an error says of an overlong pause is of that one, and not of one that is over.
func TestErrorTellsOfThePauseThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxPause: 30 * time.Second}, limit.PerSecond(1))
		for _, pause := range []time.Duration{10 * time.Hour, time.Hour} {
			if err := q.Pause(time.Now().Add(pause)); err != nil {
				t.Fatal(err)
			}
			told, _ := errors.AsType[*Error](q.Wait(t.Context()))
			if told == nil || time.Until(told.Earliest) != pause {
				t.Errorf("in a pause of %v: %v", pause, told)
			}
			time.Sleep(31 * time.Second)
		}
	})
}
