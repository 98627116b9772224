package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// Keys that are empty but not nil are none.
func TestEmptyKeysAreTheQueuesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v", p)
			}
			if !q.mu.TryLock() {
				t.Fatal("the lock is still held")
			}
			q.mu.Unlock()
		}()
		start := time.Now()
		if _, err := q.Depart(t.Context(), Demand{Keys: []Key{}}, nil); err != nil || time.Since(start) != time.Second {
			t.Errorf("left after %v, %v, want 1s", time.Since(start), err)
		}
		if at, err := q.Earliest(Demand{Keys: []Key{}}); err != nil || time.Until(at) != time.Second {
			t.Errorf("earliest %v, %v", time.Until(at), err)
		}
		if _, err := q.Depart(t.Context(), Demand{Keys: []Key{}, Place: 1, Delay: 1}, nil); err != nil {
			t.Error(err)
		}
	})
}

// Asking takes nothing, and leaves nothing behind; nor does a demand that isn't valid.
func TestAskingLeavesNothingBehind(t *testing.T) {
	for name, ask := range map[string]func(q *Queue, rate, gate Key) error{
		"Earliest": func(q *Queue, rate, _ Key) error { _, err := q.Earliest(Demand{Keys: []Key{rate}}); return err },
		"twice": func(q *Queue, rate, _ Key) error {
			_, err := q.Acquire(context.Background(), Demand{Keys: []Key{rate, rate}})
			return err
		},
		"no ticket": func(q *Queue, _, gate Key) error {
			_, err := q.Depart(context.Background(), Demand{Keys: []Key{gate}}, nil)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{})
			rate, gate := newRule(t, q, "key", limit.PerSecond(1)), newRule(t, q, "gate", limit.Concurrent(1))
			for i := range 100 {
				if err := ask(q, Key{Rule: rate, Value: fmt.Sprint(i)}, Key{Rule: gate, Value: fmt.Sprint(i)}); err != nil && !errors.Is(err, ErrInvalid) {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour)
			if n := len(q.Stats()); n != 0 {
				t.Errorf("%s: %d buckets that nobody uses are kept for an hour", name, n)
			}
		})
	}
}

func TestBucketInUseIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		for range 60 {
			if err := q.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		if s := q.Stats(); len(s) != 1 || s[0].Counts.Departed != 60 {
			t.Errorf("after ten minutes of use: %+v", s)
		}
	})
}
