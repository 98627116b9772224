package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// play does one thing after the other to q, and says what was inconsistent after any of them.
func (q *Queue) play(t *testing.T, rules []*Rule, steps, picks []int) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var tickets []*Ticket
	var cancels []context.CancelFunc
	var wg sync.WaitGroup
	for i, step := range steps {
		pick := picks[i]
		key := Key{Rule: rules[pick%len(rules)], Value: fmt.Sprint(pick % 2)}
		switch step {
		case 0, 1: // a request for one or two buckets, maybe a retry with a delay
			d := Demand{Cost: 1 + pick%3, Keys: []Key{key}}
			if pick%5 == 0 {
				d.Keys = append(d.Keys, Key{Rule: rules[(pick+1)%len(rules)]})
			}
			if pick%7 == 0 {
				d.Place, d.Delay = Place(1+pick%4), time.Duration(pick)*time.Millisecond
			}
			one, stop := context.WithTimeout(ctx, time.Duration(pick)*10*time.Millisecond)
			cancels = append(cancels, stop)
			wg.Go(func() {
				if ticket, err := q.Acquire(one, d); err == nil {
					mu.Lock()
					tickets = append(tickets, ticket)
					mu.Unlock()
				}
			})
		case 2:
			mu.Lock()
			if len(tickets) > 0 {
				tickets[pick%len(tickets)].Done()
			}
			mu.Unlock()
		case 3:
			if len(cancels) > 0 {
				cancels[pick%len(cancels)]()
			}
		case 4:
			q.Pause(time.Now().Add(time.Duration(pick)*5*time.Millisecond), key)
		case 5:
			time.Sleep(time.Duration(pick) * time.Millisecond)
		}
		synctest.Wait()
		if err := q.check(); err != nil {
			return fmt.Errorf("after step %d, %d: %w", i, step, err)
		}
	}
	cancel()
	wg.Wait()
	for _, ticket := range tickets {
		ticket.Done()
	}
	if err := q.check(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting != 0 || len(q.lanes) != 0 || q.out.n != 0 || len(q.wakes) != 0 {
		return fmt.Errorf("left behind: %d waiting, %d lanes, %d tickets, %d wakes", q.waiting, len(q.lanes), q.out.n, len(q.wakes))
	}
	return nil
}

// forgets returns an error unless all buckets are gone once they have been idle for long enough.
func (q *Queue) forgets() error {
	time.Sleep(10 * time.Minute)
	if n := len(q.Stats()); n != 0 {
		return fmt.Errorf("%d idle buckets were not forgotten", n)
	}
	return nil
}

// check returns what doesn't fit together in the queue's state.
func (q *Queue) check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := map[*bucket]int{}
	total := len(q.delayed)
	for _, d := range q.delayed {
		for _, b := range d.lane.buckets {
			waiting[b]++
		}
	}
	lanes := map[*lane]bool{}
	for b := q.buckets.front; b != nil; b = b.inUse.after {
		for _, l := range q.lanesOf(b) {
			lanes[l] = true
		}
	}
	for l := range lanes {
		if l.waiting() == 0 && l.delayed == 0 {
			return errors.New("an empty lane is kept")
		}
		total += l.waiting()
		if q.cfg.MaxWait > 0 {
			for _, w := range l.inOrder() {
				if !slices.Contains(q.arrivals, w) {
					return errors.New("somebody waits who didn't arrive")
				}
			}
		}
		if (l.parkedAt != nil) != (l.waiting() > 0) {
			return fmt.Errorf("a lane with %d waiting is parked at %v", l.waiting(), l.parkedAt)
		}
		var cost int64
		var place Place
		for _, w := range l.inOrder() {
			if w.place < place {
				return errors.New("a lane is out of order")
			}
			place = w.place
			cost += int64(w.cost)
		}
		if cost != l.cost {
			return fmt.Errorf("a lane's cost is %d, its waiters' %d", l.cost, cost)
		}
		for _, b := range l.buckets {
			waiting[b] += l.waiting()
		}
		if b := l.parkedAt; b != nil && b.parked[l.parkedIndex] != l {
			return errors.New("a lane isn't where it is parked")
		}
	}
	if total != q.waiting {
		return fmt.Errorf("%d wait, the count is %d", total, q.waiting)
	}
	out := map[*bucket]int{}
	for t := q.out.front; t != nil; t = t.order.after {
		out[t.slot]++
		for _, b := range t.more {
			out[b]++
		}
	}
	n := 0
	for b := q.buckets.front; b != nil; b = b.inUse.after {
		n++
		switch {
		case b.waiting != waiting[b]:
			return fmt.Errorf("%s: %d wait, the count is %d", b.key, waiting[b], b.waiting)
		case b.out != out[b]:
			return fmt.Errorf("%s: %d tickets, the count is %d", b.key, out[b], b.out)
		case b.slots > 0 && b.out > b.slots:
			return fmt.Errorf("%s: %d of %d slots out", b.key, b.out, b.slots)
		case b.scheduled != (b.wake != never):
			return fmt.Errorf("%s: scheduled is %v, wake %v", b.key, b.scheduled, b.wake)
		case len(b.parked) > 0 && !b.scheduled && !b.full():
			top := b.parked[0]
			return fmt.Errorf("%s: %d lanes are parked, the first with place %d, and nothing wakes them", b.key, len(b.parked), top.head().place)
		}
		for i, l := range b.parked {
			if l.parkedIndex != int32(i) || l.parkedAt != b {
				return fmt.Errorf("%s: a parked lane has index %d, want %d", b.key, l.parkedIndex, i)
			}
			if i > 0 && l.before(b.parked[(i-1)/2]) {
				return fmt.Errorf("%s: the parked lanes aren't a heap", b.key)
			}
		}
	}
	if n != q.buckets.n {
		return fmt.Errorf("%d buckets, the count is %d", n, q.buckets.n)
	}
	if len(q.wakes) > 0 || len(q.delayed) > 0 {
		if q.armed == never {
			return errors.New("there is something to do, and the timer isn't set")
		}
	}
	return nil
}
