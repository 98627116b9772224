package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/outflow-go/outflow/limit"
)

func reviewQueue(t *testing.T, cfg Config, limits ...limit.Limit) *Queue {
	t.Helper()
	q, err := New(cfg, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func reviewRule(t *testing.T, q *Queue, name string, limits ...limit.Limit) *Rule {
	t.Helper()
	r, err := q.AddRule(name, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// R1. Those ahead leave while a retry is still out of line: they aren't in its way afterwards.
func TestReviewDelayedRetryIsNotRefusedForThoseWhoLeaveMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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

// R2. The longest durations mean for ever, and don't wrap around.
func TestReviewLongestDurations(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	run("MaxPause", func(t *testing.T) {
		q := reviewQueue(t, Config{MaxPause: forever}, limit.PerSecond(1))
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
		q := reviewQueue(t, Config{MaxWait: forever}, limit.PerSecond(1))
		time.Sleep(time.Second)
		for range 3 {
			if err := q.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	run("MaxHold", func(t *testing.T) {
		q := reviewQueue(t, Config{MaxHold: forever}, limit.Concurrent(1))
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
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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
		q := reviewQueue(t, Config{Slack: forever}, limit.PerSecond(1))
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
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
		q.Pause(time.Time{})
		q.Pause(time.Unix(math.MinInt32, 0))
		start := time.Now()
		if err := q.Wait(t.Context()); err != nil || time.Since(start) != 0 {
			t.Error(err, time.Since(start))
		}
	})
}

// R3. The context's deadline is only blamed where it was the bound.
func TestReviewMaxWaitIsNotTheContextsDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			q := reviewQueue(t, Config{MaxWait: 2 * time.Second, MaxPause: time.Minute}, limit.Concurrent(1))
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

// R4. Keys that are empty but not nil are none.
func TestReviewEmptyKeysAreTheQueuesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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

// R5. A key that isn't the queue's doesn't leave it locked, or touch another queue's bucket.
func TestReviewPauseOfAForeignKey(t *testing.T) {
	q, other := reviewQueue(t, Config{}), reviewQueue(t, Config{})
	foreign := reviewRule(t, other, "foreign")
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

// R6. Whoever comes first leaves first, also before a newcomer that comes with a delay.
func TestReviewDelayedNewcomerDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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

// R6b. The same for a retry that comes back with other keys than before.
func TestReviewRetryWithOtherKeysDoesNotOvertakeElders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{})
		a, b := Key{Rule: reviewRule(t, q, "a", limit.PerSecond(1))}, Key{Rule: reviewRule(t, q, "b", limit.PerSecond(1))}
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

// R7b. A pause loses what is saved up, whoever is cancelled during it.
func TestReviewRefundDoesNotUndoThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{Slack: -1}, limit.PerSecond(1).WithBurst(5))
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

// starve has a backlog of requests of the given cost at each of several buckets of 1/s, whose phases are
// as given, and says how long one of cost 1 waits that wants all of them.
func starve(t *testing.T, cost int, phases ...time.Duration) time.Duration {
	var took time.Duration
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{MaxWaiting: -1})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		start := time.Now()
		var all []Key
		for i, phase := range phases {
			time.Sleep(time.Until(start.Add(phase)))
			k := Key{Rule: reviewRule(t, q, fmt.Sprint(i), limit.PerSecond(1))}
			all = append(all, k)
			for range 3 { // always somebody waits
				wg.Go(func() {
					for {
						if _, err := q.Depart(ctx, Demand{Cost: cost, Keys: []Key{k}}, nil); err != nil {
							return
						}
					}
				})
			}
			synctest.Wait()
		}
		time.Sleep(100 * time.Millisecond)
		start = time.Now()
		both, stop := context.WithTimeout(t.Context(), 1000*time.Second)
		_, _ = q.Depart(both, Demand{Keys: all}, nil)
		stop()
		took = time.Since(start)
		cancel()
		wg.Wait()
	})
	return took
}

// R8. Whoever wants several buckets that others keep busy gets its turn.
func TestReviewNobodyStarves(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		cost   int
		phases []time.Duration
		most   time.Duration
	}{
		{1, []time.Duration{0, 500 * ms}, 30 * s},
		{1, []time.Duration{0, ms}, 30 * s},
		{1, []time.Duration{0, 999 * ms}, 30 * s},
		{1, []time.Duration{0, 333 * ms, 666 * ms}, 60 * s},
		{1, []time.Duration{0, 200 * ms, 400 * ms, 600 * ms, 800 * ms}, 100 * s},
		{5, []time.Duration{0, 2500 * ms}, 150 * s},
		{10, []time.Duration{0, 3 * s, 6 * s}, 500 * s},
	} {
		if d := starve(t, c.cost, c.phases...); d > c.most {
			t.Errorf("phases %v, others of cost %d: who wants all left after %v", c.phases, c.cost, d)
		}
	}
}

// R8a. Where two buckets let go at the same moment, the older of those who wait goes first.
func TestReviewTieGoesToTheOldest(t *testing.T) {
	if d := starve(t, 1, 0, 0); d > 5*time.Second {
		t.Errorf("who wants both left after %v", d)
	}
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{MaxWaiting: -1})
		b, c := Key{Rule: reviewRule(t, q, "b", limit.PerSecond(1))}, Key{Rule: reviewRule(t, q, "c", limit.PerSecond(1))}
		if _, err := q.Depart(t.Context(), Demand{Keys: []Key{b, c}}, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		come := func(want time.Duration, keys ...Key) {
			wg.Go(func() {
				if _, err := q.Depart(t.Context(), Demand{Keys: keys}, nil); err != nil || time.Since(start) != want {
					t.Errorf("%v left after %v, %v, want %v", keys, time.Since(start), err, want)
				}
			})
			synctest.Wait()
		}
		come(time.Second, c)
		come(2*time.Second, b, c) // parked at c, behind the first
		come(time.Second, b)
		come(3*time.Second, b) // came after {b, c}, whom b and c let go at 2s
		wg.Wait()
	})
}

// R8b. The same where what is busy is a concurrency.
func TestReviewNobodyStarvesForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{MaxWaiting: -1})
		b, c := Key{Rule: reviewRule(t, q, "b", limit.Concurrent(1))}, Key{Rule: reviewRule(t, q, "c", limit.Concurrent(1))}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		backlog := func(k Key) {
			for range 2 {
				wg.Go(func() {
					for {
						ticket, err := q.Acquire(ctx, Demand{Keys: []Key{k}})
						if err != nil {
							return
						}
						time.Sleep(time.Second)
						ticket.Done()
					}
				})
			}
		}
		backlog(b)
		time.Sleep(500 * time.Millisecond)
		backlog(c)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		both, stop := context.WithTimeout(t.Context(), 1000*time.Second)
		ticket, _ := q.Acquire(both, Demand{Keys: []Key{b, c}})
		stop()
		ticket.Done()
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("who wants both slots left after %v", d)
		}
		cancel()
		wg.Wait()
	})
}

// R9. Asking takes nothing, and leaves nothing behind; nor does a demand that isn't valid.
func TestReviewAskingLeavesNothingBehind(t *testing.T) {
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
			q := reviewQueue(t, Config{})
			rate, gate := reviewRule(t, q, "key", limit.PerSecond(1)), reviewRule(t, q, "gate", limit.Concurrent(1))
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

// R10. A retry that heads its line when its delay is over is told then that it comes too late.
func TestReviewRetryIsToldWhenItHeadsItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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

// R11. Nobody is refused for lateness that is caught up.
func TestReviewLateTimerIsNoReasonToRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{Slack: 10 * time.Millisecond}, limit.PerSecond(1))
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
		time.Sleep(start.Add(2 * time.Second).Sub(time.Now()))
		q.fireLate()
		wg.Wait()
	})
}

// R13. Who gives up a turn holds nothing, whether it had come already or not, and gives it up once.
func TestReviewCancelledTurnHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.Concurrent(1))
		var first, second Ticket
		turn, err := q.Enter(t.Context(), Demand{}, &first)
		if err != nil {
			t.Fatal(err)
		}
		next, err := q.Enter(t.Context(), Demand{}, &second)
		if err != nil {
			t.Fatal(err)
		}
		turn.Cancel() // it had left when Enter returned
		if s := q.Stats()[0]; s.Waiting != 0 || s.InFlight != 1 {
			t.Errorf("after the first was cancelled: %+v", s)
		}
		next.Cancel()
		next.Cancel()
		if s := q.Stats()[0]; s.Waiting != 0 || s.InFlight != 0 || s.Counts.Cancelled > 2 {
			t.Errorf("after both were cancelled: %+v", s)
		}
		if err := q.check(); err != nil {
			t.Error(err)
		}
	})
}

// stepWallClock has t's wall clock say d more, and leaves its monotonic reading: as if the clock had been
// set, or the machine suspended, between t and now.
func stepWallClock(t *time.Time, d time.Duration) {
	wall := (*uint64)(unsafe.Pointer(t)) // 1 bit: has a monotonic reading; 33 bits of seconds; 30 bits of ns
	*wall += uint64(d/time.Second) << 30
}

// R12. A wall clock that was set moves nobody's deadline and no pause. Times in a bubble have no monotonic
// reading, so this runs outside, with half an hour to spare.
func TestReviewWallClockStep(t *testing.T) {
	for _, step := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		q := reviewQueue(t, Config{MaxPause: 24 * time.Hour}, limit.Per(1, time.Hour))
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

// idle returns an error if somebody could leave and hasn't, or would not be looked at when it can.
func (q *Queue) idle() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for b := q.buckets.front; b != nil; b = b.inUse.after {
		for _, l := range q.lanesOf(b) {
			if l.waiting() == 0 {
				continue
			}
			w := l.head()
			by, t := q.blockedLocked(l.buckets, w.place, int64(w.cost), now, now)
			if by == nil {
				return fmt.Errorf("place %d could leave at %v, and waits at %s", w.place, now, l.parkedAt.key)
			}
			for range 10 { // a claim may end before another bucket lets it go
				if by == nil || t == never {
					break
				}
				by, t = q.blockedLocked(l.buckets, w.place, int64(w.cost), t, t)
			}
			if at := l.parkedAt; l.leads(at) && !at.full() && (at.wake > t || at.wake < now || q.armed > at.wake) {
				return fmt.Errorf("place %d could leave at %v; %s wakes at %v, the timer at %v", w.place, t, at.key, at.wake, q.armed)
			}
		}
	}
	return nil
}

// Any history, of many who share few buckets, leaves the queue consistent and never idle; in the end
// nobody and nothing is left.
func TestReviewAnyHistory(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			if err := anyHistory(t, rand.New(rand.NewPCG(seed, 7))); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
		if t.Failed() {
			return
		}
	}
}

func anyHistory(t *testing.T, r *rand.Rand) error {
	cfg := Config{MaxPause: 3 * time.Second, MaxWaiting: 30}
	if r.IntN(2) == 0 {
		cfg.MaxWait = 4 * time.Second
	}
	if r.IntN(2) == 0 {
		cfg.MaxHold = 2 * time.Second
	}
	q := reviewQueue(t, cfg)
	maxCost := 1 + r.IntN(3)
	keys := []Key{
		{Rule: reviewRule(t, q, "rate", limit.PerSecond(5).WithBurst(2))},
		{Rule: reviewRule(t, q, "slots", limit.Concurrent(2))},
		{Rule: reviewRule(t, q, "both", limit.PerSecond(4), limit.Concurrent(1))},
		{Rule: reviewRule(t, q, "slow", limit.PerSecond(2))},
	}
	type request struct {
		turn   Turn
		ticket *Ticket
	}
	var in []request // waiting, or not looked at since
	var out []*Ticket
	var places []Place
	settle := func() {
		in = slices.DeleteFunc(in, func(one request) bool {
			if one.turn.w != nil {
				select {
				case <-one.turn.w.ready:
				default:
					return false
				}
			}
			if r.IntN(3) == 0 {
				return false // its goroutine hasn't run yet
			}
			if left, err := one.turn.Await(t.Context()); err == nil {
				out = append(out, one.ticket)
				places = append(places, left.Place)
			}
			return true
		})
	}
	for step := range 120 {
		switch r.IntN(9) {
		case 0, 1, 2, 3:
			d := Demand{Cost: 1 + r.IntN(maxCost)}
			for _, i := range r.Perm(len(keys))[:1+r.IntN(3)] {
				d.Keys = append(d.Keys, keys[i])
			}
			slices.SortFunc(d.Keys, func(a, b Key) int { return strings.Compare(a.Rule.name, b.Rule.name) })
			if len(places) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(places))
				d.Place = places[i]
				places = slices.Delete(places, i, i+1)
			}
			if r.IntN(4) == 0 {
				d.Delay = time.Duration(r.IntN(2000)) * time.Millisecond
			}
			ctx := t.Context()
			if r.IntN(2) == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(100+r.IntN(4000))*time.Millisecond)
				defer cancel()
			}
			one := request{ticket: new(Ticket)}
			var err error
			if one.turn, err = q.Enter(ctx, d, one.ticket); err == nil {
				in = append(in, one)
			}
		case 4:
			if len(in) > 0 {
				i := r.IntN(len(in))
				if in[i].turn.w == nil {
					in[i].ticket.Done()
				} else {
					in[i].turn.Cancel()
				}
				in = slices.Delete(in, i, i+1)
			}
		case 5:
			if len(out) > 0 {
				out[r.IntN(len(out))].Done() // some more than once
			}
		case 6:
			if r.IntN(4) == 0 {
				q.Pause(time.Now().Add(time.Duration(r.IntN(4000))*time.Millisecond), keys[r.IntN(len(keys))])
			}
		default:
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		}
		synctest.Wait()
		settle()
		if err := errors.Join(q.check(), q.idle()); err != nil {
			return fmt.Errorf("after step %d: %w", step, err)
		}
	}
	for _, one := range in {
		if one.turn.w != nil {
			one.turn.Cancel()
		}
		one.ticket.Done()
	}
	for _, ticket := range out {
		ticket.Done()
	}
	synctest.Wait()
	if err := q.check(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	for _, s := range q.Stats() {
		if s.Waiting != 0 || s.InFlight != 0 {
			return fmt.Errorf("left behind: %+v", s)
		}
	}
	return q.forgets()
}

// What follows holds what no other test did: each was written for a change of the code that survived.

// enter lets a request in that waits or has left; done tells how its turn ended, if it has.
func enter(t *testing.T, q *Queue, ctx context.Context, d Demand) (turn Turn, ticket *Ticket) {
	t.Helper()
	ticket = new(Ticket)
	turn, err := q.Enter(ctx, d, ticket)
	if err != nil {
		t.Fatal(err)
	}
	return turn, ticket
}

func (t Turn) over() bool {
	if t.w == nil {
		return true
	}
	select {
	case <-t.w.ready:
		return true
	default:
		return false
	}
}

func wantOver(t *testing.T, turn Turn, want bool, what string) {
	t.Helper()
	synctest.Wait()
	if turn.over() != want {
		t.Errorf("%s: over is %v, want %v", what, !want, want)
	}
}

func TestReviewCancelAfterGrantGivesTheTurnToTheNext(t *testing.T) {
	for _, l := range []limit.Limit{limit.PerSecond(1), limit.Concurrent(1)} {
		synctest.Test(t, func(t *testing.T) {
			q := reviewQueue(t, Config{}, l)
			_, first := enter(t, q, t.Context(), Demand{})
			a, _ := enter(t, q, t.Context(), Demand{})
			b, ticket := enter(t, q, t.Context(), Demand{})
			time.Sleep(time.Second)
			first.Done()
			wantOver(t, a, true, "the first to wait, whose turn has come")
			wantOver(t, b, false, "the second")
			a.Cancel()
			wantOver(t, b, true, "the second, once the first has given up its turn")
			ticket.Done()
			if s := q.Stats()[0]; s.InFlight != 0 || s.Counts.Departed != 2 || s.Counts.Cancelled != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestReviewLighterOneGoesWhenTheHeavyHeadIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(1).WithBurst(5))
		enter(t, q, t.Context(), Demand{Cost: 5})
		heavy, _ := enter(t, q, t.Context(), Demand{Cost: 5})
		var light []Turn
		for range 4 {
			turn, _ := enter(t, q, t.Context(), Demand{})
			light = append(light, turn)
		}
		time.Sleep(3500 * time.Millisecond)
		heavy.Cancel()
		for i, turn := range light { // three have room at once
			wantOver(t, turn, i < 3, fmt.Sprint("light one ", i))
		}
		time.Sleep(500 * time.Millisecond)
		wantOver(t, light[3], true, "the last")
	})
	synctest.Test(t, func(t *testing.T) { // where the next is another lane's
		q := reviewQueue(t, Config{})
		a, b := Key{Rule: reviewRule(t, q, "a", limit.PerSecond(1).WithBurst(5))}, Key{Rule: reviewRule(t, q, "b")}
		enter(t, q, t.Context(), Demand{Cost: 5, Keys: []Key{a}})
		heavy, _ := enter(t, q, t.Context(), Demand{Cost: 5, Keys: []Key{a}})
		light, _ := enter(t, q, t.Context(), Demand{Keys: []Key{a, b}})
		enter(t, q, t.Context(), Demand{Cost: 5, Keys: []Key{a}})
		time.Sleep(time.Second)
		heavy.Cancel()
		wantOver(t, light, true, "the light one")
	})
}

func TestReviewDelayIsNoPartOfMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{MaxWait: 2 * time.Second}, limit.PerSecond(1))
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

func TestReviewRetriesAreLetInWhileItDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.Concurrent(1))
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

func TestReviewPauseWithoutARateIsToldEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{})
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

func TestReviewPauseTellsWhomItMakesLate(t *testing.T) {
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
				q := reviewQueue(t, Config{MaxWait: c.maxWait}, limit.PerSecond(1))
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

// Where the timer is later than the deadline, the turn isn't taken any more.
func TestReviewNobodyLeavesAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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

// Retries reckon with those who have an earlier place, and with no others.
func TestReviewRetriesReckonWithThoseAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(1).WithBurst(4))
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

// Who heads its line is told then that a retry before it has made it late.
func TestReviewLateHeadIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.Per(1, 10*time.Second))
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

// Who waits long is told when MaxWait is over, whatever comes and goes meanwhile; and that is forgotten.
func TestReviewArrivalsAreKeptAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{MaxWait: time.Minute}, limit.Concurrent(1))
		_, ticket := enter(t, q, t.Context(), Demand{})
		long, _ := enter(t, q, t.Context(), Demand{})
		for range 1000 {
			turn, _ := enter(t, q, t.Context(), Demand{})
			turn.Cancel()
		}
		if n := len(q.arrivals); n > 100 {
			t.Errorf("%d arrivals are remembered for one who waits", n)
		}
		time.Sleep(time.Minute + 1)
		wantOver(t, long, true, "who has waited for MaxWait")
		ticket.Done()
	})
}

func TestReviewBucketInUseIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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

// A retry that joins late is charged as of when it was to join, if that is within the slack.
func TestReviewLateRetryIsCaughtUp(t *testing.T) {
	for late, want := range map[time.Duration]time.Duration{
		5 * time.Millisecond:  3 * time.Second,
		50 * time.Millisecond: 3*time.Second + 40*time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			q := reviewQueue(t, Config{Slack: 10 * time.Millisecond}, limit.PerSecond(1))
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

// R18, R19. Whom a pause makes late is told at once, however slow the rate is, and however long it has
// waited for something else before.
func TestReviewPauseTellsAlwaysWhomItMakesLate(t *testing.T) {
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
		q := reviewQueue(t, Config{MaxPause: 100 * time.Hour}, limit.Per(1, 3*time.Hour))
		enter(t, q, t.Context(), Demand{})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{})
		lateAfter(t, q, turn, 5*time.Hour)
	})
	synctest.Test(t, func(t *testing.T) {
		q := reviewQueue(t, Config{}, limit.PerSecond(10), limit.Concurrent(1))
		_, ticket := enter(t, q, t.Context(), Demand{})
		defer ticket.Done()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{})
		time.Sleep(50 * time.Second) // for the slot
		lateAfter(t, q, turn, 20*time.Second)
	})
	synctest.Test(t, func(t *testing.T) { // as before, once a pause has looked at all of them
		q := reviewQueue(t, Config{}, limit.Concurrent(1))
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
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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
		q := reviewQueue(t, Config{}, limit.PerSecond(1))
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
}
