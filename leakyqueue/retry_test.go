package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// Those ahead leave while a retry is still out of line: they aren't in its way afterwards.
func TestDelayedRetryIsNotRefusedForThoseWhoLeaveMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		var places []Place
		for range 6 {
			left, err := q.Depart(t.Context(), Demand{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, left.Place)
		}
		var wg sync.WaitGroup
		for _, p := range places[:5] { // they leave after 1s to 5s
			wg.Go(func() {
				if _, err := q.Depart(t.Context(), Demand{Place: p}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		late := Demand{Place: places[5], Delay: 10 * time.Second}
		if at, err := q.Earliest(late); err != nil || at.Sub(start) != 10*time.Second {
			t.Errorf("Earliest: %v, %v; want 10s", at.Sub(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if _, err := q.Depart(ctx, late, nil); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("left after %v, %v; want 10s", time.Since(start), err)
		}
		wg.Wait()
	})
}

// Whoever comes first leaves first, also before a newcomer that comes with a delay.
func TestDelayedNewcomerDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var mu sync.Mutex
		var left []string
		var wg sync.WaitGroup
		come := func(name string, d Demand) {
			wg.Go(func() {
				if _, err := q.Depart(t.Context(), d, nil); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				left = append(left, fmt.Sprintf("%s:%v", name, time.Since(start)))
			})
			synctest.Wait()
		}
		come("a", Demand{})
		come("b", Demand{})
		come("c", Demand{})
		come("delayed", Demand{Delay: 500 * time.Millisecond})
		wg.Wait()
		if want := "[a:1s b:2s c:3s delayed:4s]"; fmt.Sprint(left) != want {
			t.Errorf("left %v, want %v", left, want)
		}
	})
}

// The same for a retry that comes back with other keys than before.
func TestRetryWithOtherKeysDoesNotOvertakeElders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		a, b := Key{Rule: newRule(t, q, "a", limit.PerSecond(1))}, Key{Rule: newRule(t, q, "b", limit.PerSecond(1))}
		if _, err := q.Depart(t.Context(), Demand{Keys: []Key{b}}, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { // came first
			if _, err := q.Depart(t.Context(), Demand{Keys: []Key{b}}, nil); err != nil || time.Since(start) != time.Second {
				t.Errorf("who came first left after %v, %v", time.Since(start), err)
			}
		})
		synctest.Wait()
		left, err := q.Depart(t.Context(), Demand{Keys: []Key{a}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Depart(t.Context(), Demand{Keys: []Key{b}, Place: left.Place}, nil); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("the retry of who came later left after %v, %v", time.Since(start), err)
		}
		wg.Wait()
	})
}

// A retry that heads its line when its delay is over is told then that it comes too late.
func TestRetryIsToldWhenItHeadsItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1))
		left, err := q.Depart(t.Context(), Demand{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := q.Depart(ctx, Demand{Place: left.Place, Delay: 3 * time.Second}, nil)
			if !errors.Is(err, ErrDeadline) || time.Since(start) != 3*time.Second {
				t.Errorf("told %v after %v, want ErrDeadline after 3s", err, time.Since(start))
			}
		})
		time.Sleep(2 * time.Second)
		if _, err := q.Depart(t.Context(), Demand{Cost: 100}, nil); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	})
}

func TestDelayIsNoPartOfMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWait: 2 * time.Second}, limit.PerSecond(1))
		left, err := q.Depart(t.Context(), Demand{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := q.Depart(t.Context(), Demand{Place: left.Place, Delay: 5 * time.Second}, nil); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("left after %v, %v", time.Since(start), err)
		}
	})
}

func TestRetriesAreLetInWhileItDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.Concurrent(1))
		ticket, err := q.Acquire(t.Context(), Demand{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := q.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		again, retry := enter(t, q, t.Context(), Demand{Place: ticket.Place()})
		ticket.Done()
		wantOver(t, again, true, "the retry")
		retry.Done()
		wg.Wait()
	})
}

// Retries reckon with those who have an earlier place, and with no others.
func TestRetriesReckonWithThoseAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1).WithBurst(4))
		var places []Place
		for range 4 {
			left, err := q.Depart(t.Context(), Demand{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, left.Place)
		}
		for _, p := range places[1:3] { // they leave after 1s and 2s
			enter(t, q, t.Context(), Demand{Place: p})
		}
		short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if _, err := q.Enter(short, Demand{Place: places[3]}, nil); !errors.Is(err, ErrDeadline) {
			t.Errorf("the last, whose turn is in 3s: %v", err)
		}
		first, _ := enter(t, q, short, Demand{Place: places[0]})
		time.Sleep(time.Second)
		wantOver(t, first, true, "the first")
	})
}

// A retry that joins late is charged as of when it was to join, if that is within the slack.
func TestLateRetryIsCaughtUp(t *testing.T) {
	for late, want := range map[time.Duration]time.Duration{
		5 * time.Millisecond:  3 * time.Second,
		50 * time.Millisecond: 3*time.Second + 40*time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{Slack: 10 * time.Millisecond}, limit.PerSecond(1))
			start := time.Now()
			left, err := q.Depart(t.Context(), Demand{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			retry, _ := enter(t, q, t.Context(), Demand{Place: left.Place, Delay: 2 * time.Second})
			q.takeTimer()
			time.Sleep(2*time.Second + late)
			q.fireLate()
			wantOver(t, retry, true, "the retry")
			if at, err := q.Earliest(Demand{}); err != nil || at.Sub(start) != want {
				t.Errorf("late by %v: the next leaves at %v, %v, want %v", late, at.Sub(start), err, want)
			}
		})
	}
}
