package leakyqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// declaredRate is a rate both as the library and as the oracle have it.
type declaredRate struct {
	n     float64
	per   time.Duration
	burst int
}

func (r declaredRate) limit() limit.Limit { return limit.Per(r.n, r.per).WithBurst(r.burst) }

type declaredBucket struct {
	rates []declaredRate
	slots int
}

func (b declaredBucket) limits() []limit.Limit {
	var ls []limit.Limit
	for _, r := range b.rates {
		ls = append(ls, r.limit())
	}
	if b.slots > 0 {
		ls = append(ls, limit.Concurrent(b.slots))
	}
	return ls
}

type request struct {
	at       time.Duration
	cost     int
	keys     []int
	cancel   time.Duration // after it came; 0: never
	deadline time.Duration // after it came; 0: none
	hold     time.Duration // how long it keeps its slots
}

type pauseCall struct {
	at, d time.Duration
	key   int
}

type scenario struct {
	buckets  []declaredBucket
	requests []request
	pauses   []pauseCall
}

func drawBucket(t *rapid.T, slots bool) declaredBucket {
	var b declaredBucket
	for range rapid.IntRange(0, 2).Draw(t, "rates") {
		b.rates = append(b.rates, declaredRate{
			n:     rapid.Float64Range(0.3, 50).Draw(t, "n"),
			per:   rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 7 * time.Second}).Draw(t, "per"),
			burst: rapid.SampledFrom([]int{1, 1, 2, 5, 20}).Draw(t, "burst"),
		})
	}
	if slots {
		b.slots = rapid.IntRange(0, 4).Draw(t, "slots")
	}
	return b
}

// drawRequests has requests come, be cancelled and give back at different moments, by different
// fractions of a microsecond, so that the order of events is certain.
func drawRequests(t *rapid.T, n, maxCost int, keys func() []int) []request {
	reqs := make([]request, rapid.IntRange(1, n).Draw(t, "requests"))
	at := time.Duration(0)
	for i := range reqs {
		at += time.Duration(rapid.SampledFrom([]int{1, 1e3, 3e4, 4e5}).Draw(t, "gap")) * time.Microsecond
		reqs[i] = request{at: at, cost: rapid.IntRange(1, maxCost).Draw(t, "cost"), keys: keys(), hold: time.Duration(rapid.IntRange(0, 3e5).Draw(t, "hold"))*time.Microsecond + 125}
		if rapid.IntRange(0, 3).Draw(t, "cancels") == 0 {
			reqs[i].cancel = time.Duration(rapid.IntRange(1, 2e6).Draw(t, "cancel"))*time.Microsecond + 250
		}
		if rapid.IntRange(0, 3).Draw(t, "hurries") == 0 {
			reqs[i].deadline = time.Duration(rapid.IntRange(1, 4e6).Draw(t, "deadline"))*time.Microsecond + 375
		}
	}
	return reqs
}

func drawPauses(t *rapid.T, buckets int) []pauseCall {
	pauses := make([]pauseCall, rapid.IntRange(0, 3).Draw(t, "pauses"))
	for i := range pauses {
		pauses[i] = pauseCall{
			at:  time.Duration(rapid.IntRange(0, 5e6).Draw(t, "at"))*time.Microsecond + time.Duration(500+i),
			d:   time.Duration(rapid.IntRange(1, 3e6).Draw(t, "d")) * time.Microsecond,
			key: rapid.IntRange(0, buckets-1).Draw(t, "key"),
		}
	}
	return pauses
}

// run plays the scenario in virtual time and returns what happened.
func (s scenario) run(t *testing.T, cfg leakyqueue.Config) (events []event) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, cfg)
		q.ClaimNothing() // a claim has others wait who could leave
		var rules []*leakyqueue.Rule
		for i, b := range s.buckets {
			r, err := q.AddRule(fmt.Sprint(i), b.limits()...)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, r)
		}
		start := time.Now()
		var mu sync.Mutex
		record := func(e event) {
			mu.Lock()
			defer mu.Unlock()
			e.at = time.Since(start)
			events = append(events, e)
		}
		var wg sync.WaitGroup
		for i, r := range s.requests {
			wg.Go(func() {
				time.Sleep(r.at)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if r.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, r.deadline)
					defer cancel()
				}
				if r.cancel > 0 {
					defer time.AfterFunc(r.cancel, cancel).Stop()
				}
				d := leakyqueue.Demand{Cost: r.cost}
				for _, k := range r.keys {
					d.Keys = append(d.Keys, leakyqueue.Key{Rule: rules[k]})
				}
				record(event{kind: arrived, req: i})
				ticket, err := q.Acquire(ctx, d)
				if err != nil {
					record(event{kind: gone, req: i, err: err})
					return
				}
				record(event{kind: departed, req: i})
				time.Sleep(r.hold)
				record(event{kind: returned, req: i})
				ticket.Done()
				ticket.Done()
			})
		}
		for _, p := range s.pauses {
			wg.Go(func() {
				time.Sleep(p.at)
				record(event{kind: paused, req: p.key, until: time.Since(start) + p.d})
				if err := q.Pause(time.Now().Add(p.d), leakyqueue.Key{Rule: rules[p.key]}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, b := range q.Stats() {
			if b.Waiting != 0 || b.InFlight != 0 {
				t.Errorf("at the end bucket %s has %d waiting, %d in flight", b.Rule, b.Waiting, b.InFlight)
			}
		}
	})
	return events
}

func (s scenario) world() world {
	w := world{
		cost: func(i int) int { return s.requests[i].cost },
		keys: func(i int) []int { return s.requests[i].keys },
		lane: func(i int) string { return fmt.Sprint(s.requests[i].keys) },
	}
	for _, b := range s.buckets {
		var tokens []*tokenBucket
		for _, r := range b.rates {
			tokens = append(tokens, newTokenBucket(r.n, r.per, r.burst, 0))
		}
		w.buckets = append(w.buckets, tokens)
		w.slots = append(w.slots, b.slots)
	}
	return w
}

// Invariants 1 to 4: never over, never idle, in order, nothing lost; for one bucket with any limits,
// costs above the burst, cancellations, deadlines and pauses.
func TestOneBucketProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := scenario{
			buckets:  []declaredBucket{drawBucket(rt, true)},
			requests: drawRequests(rt, 40, 8, func() []int { return []int{0} }),
		}
		s.pauses = drawPauses(rt, 1)
		if err := s.world().judge(s.run(t, leakyqueue.Config{})); err != nil {
			rt.Fatal(err)
		}
	})
}

// The same for requests that several buckets hold jointly, nested or overlapping in any way. Costs
// are 1: a heavier request rightly has the lighter ones behind it wait.
func TestJointBucketsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s scenario
		for range rapid.IntRange(1, 4).Draw(rt, "buckets") {
			s.buckets = append(s.buckets, drawBucket(rt, true))
		}
		s.requests = drawRequests(rt, 40, 1, func() []int {
			keys := rapid.SliceOfNDistinct(rapid.IntRange(0, len(s.buckets)-1), 1, len(s.buckets), rapid.ID).Draw(rt, "keys")
			slices.Sort(keys)
			return keys
		})
		s.pauses = drawPauses(rt, len(s.buckets))
		if err := s.world().judge(s.run(t, leakyqueue.Config{})); err != nil {
			rt.Fatal(err)
		}
	})
}

// Invariant 5: told early. For one rate, whoever can't make its deadline is refused at the moment it
// comes or a pause decides it, and whoever is refused could not have made it.
func TestToldEarlyProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := drawBucket(rt, false)
		for len(b.rates) != 1 {
			b = declaredBucket{rates: []declaredRate{{n: rapid.Float64Range(0.3, 50).Draw(rt, "n1"), per: time.Second, burst: rapid.IntRange(1, 5).Draw(rt, "burst1")}}}
		}
		s := scenario{buckets: []declaredBucket{b}, requests: drawRequests(rt, 40, 8, func() []int { return []int{0} })}
		s.pauses = drawPauses(rt, 1)
		for i := range s.requests {
			s.requests[i].cancel = 0
		}
		events := s.run(t, leakyqueue.Config{})
		if err := s.world().judge(slices.Clone(events)); err != nil {
			rt.Fatal(err)
		}
		decided := map[time.Duration]bool{} // when arrivals and pauses were
		came := map[int]time.Duration{}
		for _, e := range events {
			switch e.kind {
			case arrived:
				came[e.req] = e.at
				decided[e.at] = true
			case paused:
				decided[e.at] = true
			}
		}
		for _, e := range events {
			if e.kind != gone {
				continue
			}
			if !errors.Is(e.err, leakyqueue.ErrDeadline) || !errors.Is(e.err, context.DeadlineExceeded) {
				rt.Fatalf("request %d: %v", e.req, e.err)
			}
			deadline := came[e.req] + s.requests[e.req].deadline
			if !decided[e.at] {
				rt.Fatalf("request %d came at %v, had until %v, and was told at %v", e.req, came[e.req], deadline, e.at)
			}
			told, _ := errors.AsType[*leakyqueue.Error](e.err)
			if told.Earliest.IsZero() {
				rt.Fatalf("request %d was not told when it could leave: %v", e.req, told)
			}
		}
	})
}
