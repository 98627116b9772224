package leakyqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// crowd is callers that come back as soon as they have left, and what they saw.
type crowd struct {
	q     *leakyqueue.Queue
	mu    sync.Mutex
	waits map[string][]time.Duration // by name, in the order of departure
	order []string
	stop  context.CancelFunc
	ctx   context.Context
	wg    sync.WaitGroup
}

func newCrowd(t *testing.T, q *leakyqueue.Queue) *crowd {
	c := &crowd{q: q, waits: make(map[string][]time.Duration)}
	c.ctx, c.stop = context.WithCancel(t.Context())
	return c
}

func (c *crowd) come(n int, name string, d leakyqueue.Demand) {
	for range n {
		c.wg.Go(func() {
			for {
				start := time.Now()
				if _, err := c.q.Depart(c.ctx, d, nil); err != nil {
					return
				}
				c.mu.Lock()
				c.waits[name] = append(c.waits[name], time.Since(start))
				c.order = append(c.order, name)
				c.mu.Unlock()
			}
		})
	}
}

// run has them come and go for d, and then go for good.
func (c *crowd) run(d time.Duration) {
	time.Sleep(d)
	c.stop()
	c.wg.Wait()
}

func p99(waits []time.Duration) time.Duration {
	slices.Sort(waits)
	return waits[len(waits)*99/100]
}

// A flow with a hundred times the load of the others delays them no more than one of equal load.
func TestHeavyFlowDoesNotDelayOthers(t *testing.T) {
	const callers = 4
	worst := func(heavy int) (worst time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, newQueue(t, leakyqueue.Config{}, limit.PerSecond(100)))
			c.come(heavy, "heavy", leakyqueue.Demand{Flow: "heavy"})
			for i := range 9 {
				name := fmt.Sprint("light ", i)
				c.come(callers, name, leakyqueue.Demand{Flow: name})
			}
			c.run(time.Minute)
			for name, waits := range c.waits {
				if name != "heavy" {
					worst = max(worst, p99(waits))
				}
			}
		})
		return worst
	}
	equal, heavy := worst(callers), worst(100*callers)
	if heavy > 2*equal {
		t.Errorf("the worst p99 of a light flow is %v, with equal loads %v", heavy, equal)
	}
	t.Logf("p99 of light flows: %v, with equal loads %v", heavy, equal)
}

// A tenant with 10,000 waiting delays another's first by one round.
func TestBacklogDelaysANewFlowByOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{MaxWaiting: -1}, limit.PerSecond(1000))
		c := newCrowd(t, q)
		c.come(10_000, "backlog", leakyqueue.Demand{Flow: "backlog"})
		time.Sleep(3 * time.Second)
		start := time.Now()
		if _, err := q.Depart(t.Context(), leakyqueue.Demand{Flow: "new"}, nil); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 2*time.Millisecond {
			t.Errorf("the first of a new flow waited for %v", waited)
		}
		c.run(0)
	})
}

func TestWeightsOfFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weights := map[string]int{"two": 2, "four": 4}
		c := newCrowd(t, newQueue(t, leakyqueue.Config{Weights: weights}, limit.PerSecond(100)))
		for _, flow := range []string{"one", "two", "four"} {
			c.come(20, flow, leakyqueue.Demand{Flow: flow})
		}
		c.run(70 * time.Second)
		for flow, want := range map[string]float64{"one": 1000, "two": 2000, "four": 4000} {
			if got := float64(len(c.waits[flow])); got < 0.98*want || got > 1.02*want {
				t.Errorf("%q left %v times, want %v", flow, got, want)
			}
		}
	})
}

// A flow whose only caller has just left doesn't come back as a new one: it has had its turn.
func TestFlowOfOneCallerGetsNoMoreThanItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newQueue(t, leakyqueue.Config{}, limit.PerSecond(100)))
		for i := range 9 {
			name := fmt.Sprint("many ", i)
			c.come(10, name, leakyqueue.Demand{Flow: name})
		}
		c.come(1, "one", leakyqueue.Demand{Flow: "one"})
		c.run(30 * time.Second)
		for name, waits := range c.waits {
			if n := len(waits); n < 294 || n > 306 {
				t.Errorf("%q left %d times of 3000, want a tenth", name, n)
			}
		}
	})
}

// Where costs differ, it is the cost that is shared.
func TestFlowsShareCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newQueue(t, leakyqueue.Config{}, limit.PerSecond(100).WithBurst(10)))
		c.come(20, "light", leakyqueue.Demand{Flow: "light", Cost: 1})
		c.come(20, "heavy", leakyqueue.Demand{Flow: "heavy", Cost: 10})
		c.run(60 * time.Second)
		light, heavy := float64(len(c.waits["light"])), float64(10*len(c.waits["heavy"]))
		if light < 0.98*heavy || light > 1.02*heavy {
			t.Errorf("units that left: %v and %v", light, heavy)
		}
	})
}

// A flow whose callers were cancelled has had nothing, and isn't behind the others.
func TestCancelledWaitersCostTheirFlowNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(100))
		c := newCrowd(t, q)
		c.come(10, "steady", leakyqueue.Demand{Flow: "steady"})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 5000 {
			wg.Go(func() { _, _ = q.Depart(ctx, leakyqueue.Demand{Flow: "fickle"}, nil) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		start := time.Now()
		if _, err := q.Depart(t.Context(), leakyqueue.Demand{Flow: "fickle"}, nil); err != nil || time.Since(start) > 20*time.Millisecond {
			t.Errorf("after 5000 were cancelled the next waited for %v, %v", time.Since(start), err)
		}
		c.run(0)
	})
}

// The children of a saturated parent share it fairly, however many wait for each, and none is above its own limit.
func TestParentIsSharedFairly(t *testing.T) {
	const children, length = 20, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{})
		parent, err := q.AddRule("parent", limit.PerSecond(100))
		if err != nil {
			t.Fatal(err)
		}
		child, err := q.AddRule("child", limit.PerSecond(10))
		if err != nil {
			t.Fatal(err)
		}
		c := newCrowd(t, q)
		for i := range children {
			name := fmt.Sprint(i)
			c.come(1+10*i, name, leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: parent}, {Rule: child, Value: name}}})
		}
		c.run(length)
		var sum, squares float64
		for name, waits := range c.waits {
			n := float64(len(waits))
			sum += n
			squares += n * n
			if n > 10*length.Seconds()+1 {
				t.Errorf("child %s left %v times", name, n)
			}
		}
		if used := sum / (100 * length.Seconds()); used < 0.995 {
			t.Errorf("%.1f %% of the parent were used", 100*used)
		}
		if jain := sum * sum / (children * squares); jain < 0.99 {
			t.Errorf("Jain's index of the children is %.4f", jain)
		}
	})
}

func TestHigherPriorityGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(10))
		var order []leakyqueue.Priority
		var mu sync.Mutex
		var wg sync.WaitGroup
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for p := leakyqueue.Background; p <= leakyqueue.Urgent; p++ {
			for range 2 {
				wg.Go(func() {
					if _, err := q.Depart(t.Context(), leakyqueue.Demand{Priority: p}, nil); err != nil {
						t.Error(err)
					}
					mu.Lock()
					order = append(order, p)
					mu.Unlock()
				})
				synctest.Wait()
			}
		}
		wg.Wait()
		if want := []leakyqueue.Priority{2, 2, 1, 1, 0, 0, -1, -1, -2, -2}; !slices.Equal(order, want) {
			t.Errorf("left in the order %v, want %v", order, want)
		}
	})
}

// Each level that waits gets its turn, at least every 16th while one above it saturates the queue.
func TestLowPriorityIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newQueue(t, leakyqueue.Config{}, limit.PerSecond(100)))
		c.come(50, "urgent", leakyqueue.Demand{Priority: leakyqueue.Urgent})
		c.come(50, "low", leakyqueue.Demand{Priority: leakyqueue.Low})
		c.run(32 * time.Second)
		if n := len(c.waits["low"]); n < 198 || n > 202 {
			t.Errorf("of 3200 departures %d were of low priority, want a 16th", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, newQueue(t, leakyqueue.Config{}, limit.PerSecond(100)))
		for p := leakyqueue.Background; p <= leakyqueue.Urgent; p++ {
			c.come(20, fmt.Sprint(p), leakyqueue.Demand{Priority: p})
		}
		c.run(30 * time.Second)
		for p := leakyqueue.Background; p < leakyqueue.Urgent; p++ {
			if n := len(c.waits[fmt.Sprint(p)]); n < 3000/20 {
				t.Errorf("of 3000 departures %d were of priority %d, want one in 20 at least", n, p)
			}
		}
	})
}

func TestOrderErrorsNameFieldAndValue(t *testing.T) {
	q := newQueue(t, leakyqueue.Config{}, limit.PerSecond(10))
	for _, p := range []leakyqueue.Priority{-3, 3, 127, -128} {
		_, err := q.Depart(t.Context(), leakyqueue.Demand{Priority: p}, nil)
		if want := fmt.Sprintf("Demand.Priority is %d", p); !errors.Is(err, leakyqueue.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v doesn't have %q", err, want)
		}
	}
	for _, w := range []int{0, -1, leakyqueue.MaxWeight + 1} {
		_, err := leakyqueue.New(leakyqueue.Config{Weights: map[string]int{"a": w}})
		if want := fmt.Sprintf(`Weights["a"] is %d`, w); !errors.Is(err, leakyqueue.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v doesn't have %q", err, want)
		}
	}
}
