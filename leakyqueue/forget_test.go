package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

func TestZeroConfigHasItsDefaults(t *testing.T) {
	want := Config{MaxWaiting: DefaultMaxWaiting, MaxPause: DefaultMaxPause, Slack: DefaultSlack}
	if got := newQueue(t, Config{}).cfg; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

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

// A bucket stays for as long as it holds somebody, however long that is.
func TestBucketThatHoldsSomebodyIsRemembered(t *testing.T) {
	for name, hold := range map[string]func(t *testing.T, q *Queue, k Key){
		"a slot is out": func(t *testing.T, q *Queue, k Key) { enter(t, q, t.Context(), Demand{Keys: []Key{k}}) },
		"a retry is on its way": func(t *testing.T, q *Queue, k Key) {
			enter(t, q, t.Context(), Demand{Keys: []Key{k}, Place: 1, Delay: time.Hour})
		},
		"it is paused": func(_ *testing.T, q *Queue, k Key) { _ = q.Pause(time.Now().Add(time.Hour), k) },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{MaxPause: 2 * time.Hour})
			k := Key{Rule: newRule(t, q, "key", limit.Concurrent(1)), Value: "a"}
			hold(t, q, k)
			time.Sleep(30 * time.Minute)
			if n := len(q.Stats()); n != 1 {
				t.Errorf("%s: %d buckets after half an hour", name, n)
			}
		})
	}
}

func TestForgottenBucketBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		for range 2 {
			if err := q.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s := q.Stats(); len(s) != 1 || s[0].Counts.Departed != 1 {
				t.Errorf("%+v, want one bucket that one has left", s)
			}
			time.Sleep(5 * time.Minute)
		}
	})
}

// A million keys that were used once leave nothing behind.
func TestAMillionKeysLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		rule := newRule(t, q, "rule", limit.PerSecond(1000))
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		for i := range 1_000_000 {
			if _, err := q.Depart(t.Context(), Demand{Keys: []Key{{Rule: rule, Value: strconv.Itoa(i)}}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		used := heap() - before
		time.Sleep(idleAfter + time.Second)
		synctest.Wait()
		if n := len(q.Stats()); n != 0 {
			t.Errorf("%d buckets are left", n)
		}
		if after := heap(); after > before+before/20 {
			t.Errorf("%d bytes of heap before, %d after, %d more in between", before, after, used)
		}
		runtime.KeepAlive(q)
		runtime.KeepAlive(rule)
	})
}
