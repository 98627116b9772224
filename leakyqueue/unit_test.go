package leakyqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// took reports how long f took, in virtual time.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func mustWait(t *testing.T, q *leakyqueue.Queue) {
	t.Helper()
	if err := q.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestConfigErrorsNameFieldAndValue(t *testing.T) {
	for _, c := range []struct {
		cfg    leakyqueue.Config
		limits []limit.Limit
		want   string
	}{
		{cfg: leakyqueue.Config{MaxWait: -1}, want: "MaxWait is -1ns"},
		{cfg: leakyqueue.Config{MaxPause: -time.Second}, want: "MaxPause is -1s"},
		{cfg: leakyqueue.Config{MaxHold: -time.Hour}, want: "MaxHold is -1h0m0s"},
		{limits: []limit.Limit{limit.PerSecond(0)}, want: "limits[0]"},
	} {
		if _, err := leakyqueue.New(c.cfg, c.limits...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v %v: %v, want it to say %q", c.cfg, c.limits, err, c.want)
		}
	}
	q := newQueue(t, leakyqueue.Config{})
	if _, err := q.AddRule("bad", limit.Concurrent(-1)); !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("AddRule: %v", err)
	}
}

func TestDemandErrorsNameFieldAndValue(t *testing.T) {
	q, other := newQueue(t, leakyqueue.Config{}), newQueue(t, leakyqueue.Config{})
	rule, err := q.AddRule("rule", limit.Concurrent(1))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.AddRule("foreign")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		demand leakyqueue.Demand
		want   string
	}{
		{leakyqueue.Demand{Cost: -1}, "Demand.Cost is -1"},
		{leakyqueue.Demand{Cost: leakyqueue.MaxCost + 1}, "Demand.Cost is 1073741825"},
		{leakyqueue.Demand{Keys: []leakyqueue.Key{{}}}, "Keys[0]"},
		{leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: foreign}}}, "Keys[0]"},
		{leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: rule}, {Rule: rule}}}, "Keys[1]"},
	} {
		if _, err := q.Acquire(t.Context(), c.demand); !errors.Is(err, leakyqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want ErrInvalid with %q", c.demand, err, c.want)
		}
		if _, err := q.Earliest(c.demand); !errors.Is(err, leakyqueue.ErrInvalid) {
			t.Errorf("%+v: Earliest fails with %v", c.demand, err)
		}
	}
	gated := newQueue(t, leakyqueue.Config{}, limit.Concurrent(1))
	if err := gated.Wait(t.Context()); !errors.Is(err, leakyqueue.ErrInvalid) {
		t.Errorf("Wait on a queue that limits concurrency: %v, want ErrInvalid", err)
	}
	if n := gated.Stats()[0].InFlight; n != 0 {
		t.Errorf("a refused Wait holds %d slots", n)
	}
}

func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{MaxWaiting: 2}, limit.PerSecond(1))
		mustWait(t, q)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { mustWait(t, q) })
		}
		synctest.Wait()
		err := q.Wait(t.Context())
		told, _ := errors.AsType[*leakyqueue.Error](err)
		if !errors.Is(err, leakyqueue.ErrQueueFull) || time.Until(told.Earliest) != 3*time.Second || told.Bucket != "queue" {
			t.Errorf("the third to wait: %v", err)
		}
		// A retry was in already.
		if d := took(func() {
			if _, err := q.Acquire(t.Context(), leakyqueue.Demand{Place: 1}); err != nil {
				t.Error(err)
			}
		}); d != time.Second {
			t.Errorf("the retry left after %v, want 1s: before the others", d)
		}
		wg.Wait()
	})
}

func TestDeadlineIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(1))
		mustWait(t, q)
		for _, c := range []struct {
			timeout time.Duration
			leaves  bool
		}{{time.Second, false}, {time.Second + 1, true}, {2 * time.Second, true}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			d := took(func() {
				err := q.Wait(ctx)
				if c.leaves != (err == nil) {
					t.Errorf("timeout %v: %v", c.timeout, err)
				}
				if err != nil && (!errors.Is(err, leakyqueue.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("timeout %v: %v, want ErrDeadline and context.DeadlineExceeded", c.timeout, err)
				}
			})
			cancel()
			if !c.leaves && d != 0 {
				t.Errorf("timeout %v: told after %v", c.timeout, d)
			}
		}
	})
}

func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{MaxWait: 2 * time.Second}, limit.PerSecond(1))
		mustWait(t, q)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { mustWait(t, q) })
		}
		synctest.Wait()
		err := q.Wait(t.Context())
		if !errors.Is(err, leakyqueue.ErrDeadline) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a turn in 3s: %v, want ErrDeadline and not the context's", err)
		}
		wg.Wait()

		// Where nobody can know, it is told when MaxWait has passed.
		rule, err := q.AddRule("slots", limit.Concurrent(1))
		if err != nil {
			t.Fatal(err)
		}
		d := leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: rule}}}
		if _, err := q.Acquire(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if waited := took(func() { _, err = q.Acquire(t.Context(), d) }); !errors.Is(err, leakyqueue.ErrDeadline) || waited != 2*time.Second+1 {
			t.Errorf("behind a slot that doesn't come back: %v after %v", err, waited)
		}
	})
}

func TestPauseHoldsAndTellsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(10).WithBurst(5))
		start := time.Now()
		q.Pause(start.Add(10 * time.Second))
		q.Pause(start.Add(3 * time.Second)) // shorter: changes nothing
		var wg sync.WaitGroup
		var mu sync.Mutex
		var left []time.Duration
		for range 3 {
			wg.Go(func() {
				mustWait(t, q)
				mu.Lock()
				left = append(left, time.Since(start))
				mu.Unlock()
			})
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			err := q.Wait(ctx)
			if !errors.Is(err, leakyqueue.ErrDeadline) || time.Since(start) != 5*time.Second {
				t.Errorf("who can't make it any more is told %v after %v", err, time.Since(start))
			}
		})
		time.Sleep(5 * time.Second)
		q.Pause(start.Add(20 * time.Second))
		wg.Wait()
		if want := "[20s 20.1s 20.2s]"; fmt.Sprint(left) != want {
			t.Errorf("after the pause they left at %v, want %v: the burst is lost", left, want)
		}
		q.Pause(start) // past
		if d := took(func() { mustWait(t, q) }); d != 100*time.Millisecond {
			t.Errorf("a pause until a moment that is past took %v", d)
		}
	})
}

func TestOverlongPauseRefusesUntilMaxPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{MaxPause: time.Minute}, limit.PerSecond(1))
		mustWait(t, q)
		var wg sync.WaitGroup
		refused := func() {
			err := q.Wait(t.Context())
			told, _ := errors.AsType[*leakyqueue.Error](err)
			if !errors.Is(err, leakyqueue.ErrDeadline) || time.Until(told.Earliest) < time.Hour-time.Minute {
				t.Errorf("in an overlong pause: %v", err)
			}
		}
		wg.Go(refused)
		wg.Go(func() { // a retry that is delayed
			_, err := q.Acquire(t.Context(), leakyqueue.Demand{Place: 1, Delay: 10 * time.Second})
			if !errors.Is(err, leakyqueue.ErrDeadline) {
				t.Errorf("a delayed retry in an overlong pause: %v", err)
			}
		})
		synctest.Wait()
		if d := took(func() {
			q.Pause(time.Now().Add(time.Hour))
			wg.Wait()
			refused()
		}); d != 0 {
			t.Errorf("they were told after %v", d)
		}
		time.Sleep(59 * time.Second)
		refused()
		time.Sleep(time.Second)
		if d := took(func() { mustWait(t, q) }); d != 0 {
			t.Errorf("after MaxPause it took %v to leave", d)
		}
	})
}

func TestTicketsComeBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.Concurrent(2))
		var tickets []*leakyqueue.Ticket
		for range 2 {
			ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{})
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
			time.Sleep(time.Second)
		}
		if s := q.Stats()[0]; s.InFlight != 2 || s.Held != 2*time.Second { // of the oldest
			t.Errorf("stats: %+v", s)
		}
		var wg sync.WaitGroup
		for range 10 { // all at once, of one of them
			wg.Go(tickets[0].Done)
		}
		wg.Wait()
		if n := q.Stats()[0].InFlight; n != 1 {
			t.Errorf("%d in flight after one of two came back ten times", n)
		}
		(&leakyqueue.Ticket{}).Done()
		(*leakyqueue.Ticket)(nil).Done()
	})
}

func TestMaxHoldGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{MaxHold: 5 * time.Second}, limit.Concurrent(1))
		forgotten, err := q.Acquire(t.Context(), leakyqueue.Demand{})
		if err != nil {
			t.Fatal(err)
		}
		var next *leakyqueue.Ticket
		if d := took(func() { next, err = q.Acquire(t.Context(), leakyqueue.Demand{}) }); err != nil || d != 5*time.Second {
			t.Errorf("the next left after %v, %v", d, err)
		}
		forgotten.Done() // too late: it must not give back the next one's slot
		if s := q.Stats()[0]; s.InFlight != 1 || s.Counts.HoldsExpired != 1 {
			t.Errorf("stats: %+v", s)
		}
		next.Done()
	})
}

func TestRetryDelayAndPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(1))
		start := time.Now()
		first, err := q.Depart(t.Context(), leakyqueue.Demand{}, nil)
		if err != nil || first.Queued != 0 || first.Held != "" {
			t.Fatal(first, err)
		}
		var wg sync.WaitGroup
		left := make([]time.Duration, 4)
		for i := range 3 {
			wg.Go(func() {
				mustWait(t, q)
				left[i] = time.Since(start)
			})
			synctest.Wait()
		}
		wg.Go(func() {
			d, err := q.Depart(t.Context(), leakyqueue.Demand{Place: first.Place, Delay: 1500 * time.Millisecond}, nil)
			if err != nil || d.Queued != 2*time.Second || d.Place != first.Place || d.Held != "queue" {
				t.Errorf("the retry: %+v, %v", d, err)
			}
			left[3] = time.Since(start)
		})
		wg.Wait()
		if want := "[1s 3s 4s 2s]"; fmt.Sprint(left) != want {
			t.Errorf("left at %v, want %v", left, want)
		}
	})
}

// A line that something else holds back doesn't hold up the others at the bucket they share.
func TestJointBucketsDontBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{})
		api, err := q.AddRule("api", limit.PerSecond(10))
		if err != nil {
			t.Fatal(err)
		}
		files, err := q.AddRule("files", limit.PerSecond(1))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := q.Acquire(t.Context(), leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: api}, {Rule: files}}}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		var others sync.WaitGroup
		for range 36 {
			others.Go(func() {
				if _, err := q.Acquire(t.Context(), leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: api}}}); err != nil {
					t.Error(err)
				}
			})
		}
		// At 10/s, with at most 4 of the 5 files before the last of them.
		others.Wait()
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("the others had left after %v, want at most 4s", d)
		}
		wg.Wait()
		// A file waits for its own second and then for a tenth that is free.
		if d := time.Since(start); d > 4*1100*time.Millisecond {
			t.Errorf("the files had left after %v, want at most 4.4s", d)
		}
	})
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(1), limit.Concurrent(2))
		ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			second, err := q.Acquire(t.Context(), leakyqueue.Demand{})
			if err != nil {
				t.Error(err)
			}
			second.Done()
		})
		synctest.Wait()
		wg.Go(func() {
			time.Sleep(3 * time.Second)
			ticket.Done()
		})
		for range 2 { // twice, at the same time
			wg.Go(func() {
				var err error
				if d := took(func() { err = q.Close(t.Context()) }); err != nil || d != 3*time.Second {
					t.Errorf("Close returned %v after %v", err, d)
				}
			})
		}
		synctest.Wait()
		if _, err := q.Acquire(t.Context(), leakyqueue.Demand{}); !errors.Is(err, leakyqueue.ErrClosed) {
			t.Errorf("a newcomer while it drains: %v", err)
		}
		wg.Wait()
		if _, err := q.Acquire(t.Context(), leakyqueue.Demand{Place: 1}); !errors.Is(err, leakyqueue.ErrClosed) {
			t.Errorf("a retry after it has drained: %v", err)
		}
	})
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(1), limit.Concurrent(1))
		ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var both []leakyqueue.Key
		for _, name := range []string{"a", "b"} {
			rule, err := q.AddRule(name, limit.Per(1, time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			both = append(both, leakyqueue.Key{Rule: rule})
		}
		if _, err := q.Acquire(t.Context(), leakyqueue.Demand{Keys: both}); err != nil {
			t.Fatal(err)
		}
		for _, d := range []leakyqueue.Demand{{}, {}, {Place: 1, Delay: time.Hour}, {Keys: both}} {
			wg.Go(func() {
				if _, err := q.Acquire(t.Context(), d); !errors.Is(err, leakyqueue.ErrClosed) {
					t.Errorf("who waited got %v", err)
				}
			})
		}
		synctest.Wait()
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, gaveUp)
		defer cancel()
		if d := took(func() { err = q.Close(ctx) }); err != gaveUp || d != 5*time.Second {
			t.Errorf("Close returned %v after %v", err, d)
		}
		wg.Wait()
		ticket.Done()
		if err := q.Close(t.Context()); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}

func TestErrorSaysWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{})
		rule, err := q.AddRule("account", limit.Concurrent(1))
		if err != nil {
			t.Fatal(err)
		}
		d := leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: rule, Value: "AC1"}}}
		if _, err := q.Acquire(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		shutdown := errors.New("shutdown")
		for _, c := range []struct {
			ctx  func() (context.Context, context.CancelFunc)
			is   []error
			want string
		}{
			{
				func() (context.Context, context.CancelFunc) {
					return context.WithTimeoutCause(t.Context(), 2*time.Second, shutdown)
				},
				[]error{leakyqueue.ErrDeadline, context.DeadlineExceeded, shutdown},
				`outflow: turn comes too late: queued for 2s for "account AC1": shutdown`,
			},
			{
				func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(time.Second, func() { cancel(shutdown) })
					return ctx, func() {}
				},
				[]error{context.Canceled, shutdown},
				`outflow: queued for 1s for "account AC1": shutdown`,
			},
		} {
			ctx, cancel := c.ctx()
			_, err := q.Acquire(ctx, d)
			cancel()
			for _, is := range c.is {
				if !errors.Is(err, is) {
					t.Errorf("%v is not %v", err, is)
				}
			}
			if err.Error() != c.want {
				t.Errorf("%q, want %q", err, c.want)
			}
			timeout := err.(interface{ Timeout() bool }).Timeout()
			if timeout != errors.Is(err, leakyqueue.ErrDeadline) {
				t.Errorf("%v: Timeout is %v", err, timeout)
			}
		}
	})
}

func TestEarliestTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(1))
		for range 3 {
			if at, err := q.Earliest(leakyqueue.Demand{}); err != nil || time.Until(at) != 0 {
				t.Fatal(at, err)
			}
		}
		mustWait(t, q)
		if at, err := q.Earliest(leakyqueue.Demand{}); err != nil || time.Until(at) != time.Second {
			t.Fatal(time.Until(at), err)
		}
		q.Pause(time.Now().Add(4 * time.Second))
		if at, err := q.Earliest(leakyqueue.Demand{}); err != nil || time.Until(at) != 4*time.Second {
			t.Fatal(time.Until(at), err)
		}
	})
}

func TestIdleBucketsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{})
		rule, err := q.AddRule("key", limit.Per(1, 3*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		const keys = 5000
		for i := range keys {
			if _, err := q.Acquire(t.Context(), leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: rule, Value: fmt.Sprint(i)}}}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(q.Stats()); n != keys {
			t.Fatalf("%d buckets, want %d", n, keys)
		}
		time.Sleep(2 * time.Minute) // not used, but not as good as new
		if n := len(q.Stats()); n != keys {
			t.Errorf("%d of %d buckets remember after 2m", n, keys)
		}
		time.Sleep(3 * time.Minute)
		if n := len(q.Stats()); n != 0 {
			t.Errorf("%d buckets are left after 5m", n)
		}
	})
}
