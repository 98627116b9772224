package leakyqueue_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// 10,000 requests whose cost is estimated at half to twice of what it turns out to be: in any window the
// true cost is within the limit, but for the error of those that are still out when it is exceeded, and
// almost all of the limit is used.
func TestSettleKeepsTheTrueCostWithinTheLimit(t *testing.T) {
	const requests, perMinute, callers = 10_000, 90_000, 200
	for _, tt := range []struct {
		name  string
		limit limit.Limit
		bound int     // of the estimated cost in a minute
		least float64 // of the limit that is used
	}{
		{"rate with a burst", limit.Per(perMinute, time.Minute).WithBurst(perMinute / 10), perMinute*11/10 + perMinute/60/100, 0.97}, // and the slack
		{"sliding window", limit.SlidingWindow(perMinute, time.Minute), perMinute, 0.97},
		{"fixed by clock", limit.FixedWindow(perMinute, time.Minute).ByClock(), 2 * perMinute, 0.97},
		// Until a server tells the phase, up to a sixteenth is lost for the sake of memory.
		{"fixed of unknown phase", limit.FixedWindow(perMinute, time.Minute), perMinute, 0.93},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, leakyqueue.Config{}, tt.limit)
				type sent struct {
					at   time.Time
					cost int // what was really used
				}
				var all []sent
				var mu sync.Mutex
				var wg sync.WaitGroup
				work := make(chan int, requests)
				r := rand.New(rand.NewPCG(1, 2))
				under, most := 0, 0 // by how much those in flight were estimated too low
				for range requests {
					work <- 50 + r.IntN(900)
				}
				close(work)
				start := time.Now()
				for i := range callers {
					wg.Go(func() {
						r := rand.New(rand.NewPCG(uint64(i), 3))
						for cost := range work {
							estimate := max(1, int(float64(cost)*(0.5+1.5*r.Float64())))
							ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{Cost: estimate})
							if err != nil {
								t.Error(err)
								return
							}
							mu.Lock()
							all = append(all, sent{time.Now(), cost})
							under += max(0, cost-estimate)
							most = max(most, under)
							mu.Unlock()
							time.Sleep(time.Duration(500+r.IntN(1500)) * time.Millisecond)
							if err := ticket.Settle(cost); err != nil {
								t.Error(err)
							}
							mu.Lock()
							under -= max(0, cost-estimate)
							mu.Unlock()
							ticket.Done()
						}
					})
				}
				wg.Wait()
				slices.SortFunc(all, func(a, b sent) int { return a.at.Compare(b.at) })
				total, inWindow, worst, first := 0, 0, 0, 0
				window := time.Minute
				for _, s := range all {
					total += s.cost
					inWindow += s.cost
					for s.at.Sub(all[first].at) >= window {
						inWindow -= all[first].cost
						first++
					}
					worst = max(worst, inWindow)
				}
				if worst > tt.bound+most {
					t.Errorf("%d units in a minute, want at most %d, and %d for those in flight", worst, tt.bound, most)
				}
				took := all[len(all)-1].at.Sub(start)
				used := float64(total) / (perMinute * took.Minutes())
				if _, _, ok := tt.limit.Window(); ok { // the last needn't be full
					used = float64(total) / (perMinute * float64(int(took.Minutes())+1))
				}
				if used < tt.least {
					t.Errorf("%.1f %% of the limit were used", 100*used)
				}
			})
		})
	}
}

func TestSettleErrors(t *testing.T) {
	q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(10))
	other, err := q.AddRule("other")
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{})
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"Settle's cost is -1":     ticket.Settle(-1),
		fmt.Sprint(1<<30 + 1):     ticket.Settle(1<<30 + 1),
		"none of the rules":       ticket.Settle(1, other),
		"nobody has left with it": new(leakyqueue.Ticket).Settle(1),
	} {
		want = strings.TrimSuffix(want, " with it")
		if !errors.Is(err, leakyqueue.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v doesn't have %q", err, want)
		}
	}
}

// Each bucket is settled by itself, the last call counts, and a correction reaches who waits.
func TestSettleCorrectsOneRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{})
		tokens, err := q.AddRule("tokens", limit.SlidingWindow(1000, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		requests, err := q.AddRule("requests", limit.SlidingWindow(3, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		keys := func(cost int) []leakyqueue.Key { return []leakyqueue.Key{{Rule: requests}, {Rule: tokens, Cost: cost}} }
		start := time.Now()
		ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{Keys: keys(900)})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := q.Acquire(t.Context(), leakyqueue.Demand{Keys: keys(500)}); err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("the second left after %v, %v, want 2s", time.Since(start), err)
			}
		})
		time.Sleep(time.Second)
		if err := ticket.Settle(600, tokens); err != nil { // 400 are left
			t.Error(err)
		}
		time.Sleep(time.Second)
		if err := ticket.Settle(500, tokens); err != nil {
			t.Error(err)
		}
		ticket.Done()
		wg.Wait()
		if at, err := q.Earliest(leakyqueue.Demand{Keys: keys(1)}); err != nil || !at.After(time.Now()) {
			t.Errorf("500 and 500 of 1000 tokens are taken, and one more could leave at %v, %v", at.Sub(start), err)
		}
		if err := ticket.Settle(0, tokens); err != nil {
			t.Error(err)
		}
		if _, err := q.Acquire(t.Context(), leakyqueue.Demand{Keys: keys(500)}); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("the third left after %v, %v, want 2s", time.Since(start), err)
		}
		if at, err := q.Earliest(leakyqueue.Demand{Keys: keys(1)}); err != nil || at.Sub(start) < time.Minute {
			t.Errorf("the fourth of three requests a minute could leave at %v, %v", at.Sub(start), err)
		}
	})
}

// Who is made late by a correction is told at once.
func TestSettleTellsWhomItMakesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{MaxWait: 10 * time.Second}, limit.PerSecond(10))
		ticket, err := q.Acquire(t.Context(), leakyqueue.Demand{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 50 { // the last at 5 s
			wg.Go(func() {
				err := q.Wait(t.Context())
				if late := errors.Is(err, leakyqueue.ErrDeadline); late != (i >= 20) || late && time.Since(start) != 0 {
					t.Errorf("number %d was told %v after %v", i, err, time.Since(start))
				}
			})
			synctest.Wait()
		}
		if err := ticket.Settle(81); err != nil { // 8 s later
			t.Error(err)
		}
		wg.Wait()
	})
}

func TestMeasureHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{})
		rule, err := q.AddRule("shadow", limit.PerSecond(10), limit.Concurrent(2))
		if err != nil {
			t.Fatal(err)
		}
		d := leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: rule}}}
		var tickets [4]leakyqueue.Ticket
		for i := range tickets {
			held, err := q.Measure(d, &tickets[i])
			if want := time.Duration(i) * 100 * time.Millisecond; err != nil || held != want {
				t.Errorf("number %d: %v, %v, want %v", i, held, err, want)
			}
		}
		s := q.Stats()[0]
		if c := s.Counts; c.Departed != 4 || c.Late != 3 || c.Held != 600*time.Millisecond || c.Full != 2 || s.InFlight != 4 {
			t.Errorf("%+v", s)
		}
		for i := range tickets {
			tickets[i].Done()
		}
		if s := q.Stats()[0]; s.InFlight != 0 {
			t.Errorf("%d in flight after Done", s.InFlight)
		}
		windows, err := q.AddRule("windows", limit.SlidingWindow(1, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 { // each would leave a window after the one before
			held, err := q.Measure(leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: windows}}}, nil)
			if least := time.Duration(i) * time.Minute; err != nil || held < least || held > least+time.Second {
				t.Errorf("number %d: %v, %v, want %v", i, held, err, least)
			}
		}
		if _, err := q.Measure(leakyqueue.Demand{Cost: -1}, nil); !errors.Is(err, leakyqueue.ErrInvalid) {
			t.Error(err)
		}
	})
}
