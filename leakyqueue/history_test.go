package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// Any history, of many who share few buckets, leaves the queue consistent and never idle; in the end
// nobody and nothing is left.
func TestAnyHistory(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			if err := anyHistory(t, rand.New(rand.NewPCG(seed, 7)), seed%2 == 1); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
		if t.Failed() {
			return
		}
	}
}

func anyHistory(t *testing.T, r *rand.Rand, learns bool) error {
	actions := 10
	if learns {
		actions = 14
	}
	cfg := Config{MaxPause: 3 * time.Second, MaxWaiting: 30, Weights: map[string]int{"b": 3}}
	orders := r.IntN(2) == 0
	changed := false // limits were: more slots may be out than there are now
	if r.IntN(2) == 0 {
		cfg.MaxWaiting, cfg.Overflow = 1+r.IntN(5), Overflow(r.IntN(int(Block)+1))
	}
	if r.IntN(2) == 0 {
		cfg.MaxWait = 4 * time.Second
	}
	if r.IntN(2) == 0 {
		cfg.MaxHold = 2 * time.Second
	}
	q := newQueue(t, cfg)
	maxCost := 1 + r.IntN(3)
	keys := []Key{
		{Rule: newRule(t, q, "rate", limit.PerSecond(5).WithBurst(2))},
		{Rule: newRule(t, q, "slots", limit.Concurrent(2))},
		{Rule: newRule(t, q, "both", limit.PerSecond(4), limit.Concurrent(1))},
		{Rule: newRule(t, q, "slow", limit.PerSecond(2))},
	}
	if r.IntN(3) == 0 {
		keys = append(keys,
			Key{Rule: newRule(t, q, "slots with headroom", limit.Concurrent(3).WithHeadroom(0.4))},
			Key{Rule: newRule(t, q, "window", limit.FixedWindow(6, time.Second).WithHeadroom(0.3))},
			Key{Rule: newRule(t, q, "windows", limit.SlidingCounter(8, time.Second).WithHeadroom(0.2), limit.SlidingWindow(20, 5*time.Second))},
			Key{Rule: newRule(t, q, "clock", limit.FixedWindow(4, time.Second).ByClock().WithHeadroom(0.2), limit.PerSecond(20))},
		)
	}
	if r.IntN(2) == 0 {
		members := []string{"a", "b", "c"}[:1+r.IntN(3)]
		limits := [][]limit.Limit{
			{limit.PerSecond(3).WithBurst(1 + r.IntN(3))},
			{limit.Concurrent(1), limit.PerSecond(3)},
			{limit.Concurrent(2).WithHeadroom(0.4), limit.PerSecond(3).WithBurst(3)},
			{limit.SlidingWindow(4, time.Second), limit.Concurrent(2)},
		}
		pool, err := q.AddPool("pool", members, limits[r.IntN(len(limits))]...)
		if err != nil {
			return err
		}
		keys = append(keys, Key{Rule: pool}, Key{Rule: pool}) // twice: often
	}
	if learns {
		for _, k := range keys {
			if r.IntN(2) == 0 {
				k.Rule.Learn(Learning{Spread: limit.Spread(r.IntN(3)), CountsOnly: r.IntN(4) == 0})
			}
		}
		free := newRule(t, q, "free")
		free.Learn(Learning{})
		rate := newRule(t, q, "adaptive rate", limit.AdaptiveRate(1, 20))
		rate.Learn(Learning{})
		slots := newRule(t, q, "adaptive slots", limit.AdaptiveConcurrency(1, 5).WithHeadroom(0.3))
		slots.Learn(Learning{})
		keys = append(keys, Key{Rule: free, Value: "a"}, Key{Rule: free, Value: "b"}, Key{Rule: free, Value: "c"}, Key{Rule: rate}, Key{Rule: slots},
			Key{Rule: keys[0].Rule, Value: "b"}, Key{Rule: keys[1].Rule, Value: "b"})
	}
	answer := func() Answer {
		second := func(n int) time.Duration { return time.Duration(r.IntN(1000*n)) * time.Millisecond }
		a := Answer{Verdict: Verdict(r.IntN(int(Unanswered) + 1)), Otherwise: second(1), Key: r.IntN(4) - 2}
		if r.IntN(2) == 0 {
			a.Verdict = Accepted
		}
		if r.IntN(3) == 0 {
			a.Pause = second(4)
		}
		a.Concurrency = r.IntN(4) == 0
		for range r.IntN(3) {
			most := int64(r.IntN(20))
			a.Quotas = append(a.Quotas, Quota{Name: []string{"", "x", "y"}[r.IntN(3)], Unit: []string{"requests", "requests", "tokens"}[r.IntN(3)],
				Limit: most, Remaining: r.Int64N(most + 1), Reset: second(6)})
		}
		if r.IntN(3) == 0 {
			a.Bucket = []string{"one", "two", "three"}[r.IntN(3)]
		}
		return a
	}
	paused := func() Key { // which is to be paused or resumed
		k := keys[r.IntN(len(keys))]
		if k.Rule.pool != nil && r.IntN(3) > 0 {
			k.Value = k.Rule.pool.members[r.IntN(len(k.Rule.pool.members))].key.Value
		}
		return k
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
		action := r.IntN(actions)
		switch action {
		case 10, 11, 12:
			if len(out) > 0 {
				out[r.IntN(len(out))].Answered(answer())
			}
		case 13:
			_, _ = q.Observe(Departure{at: q.now()}, answer(), paused())
		case 0, 1, 2, 3:
			d := Demand{Cost: 1 + r.IntN(maxCost)}
			if orders {
				d.Priority = Priority(r.IntN(levels)) + Background
				d.Flow = []string{"", "", "a", "b"}[r.IntN(4)]
			}
			for _, i := range r.Perm(len(keys))[:1+r.IntN(3)] {
				k := keys[i]
				if slices.ContainsFunc(d.Keys, func(o Key) bool { return o.Rule == k.Rule }) {
					continue
				}
				if orders && r.IntN(3) == 0 {
					k.Cost = 1 + r.IntN(maxCost)
				}
				d.Keys = append(d.Keys, k)
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
				q.Pause(time.Now().Add(time.Duration(r.IntN(4000))*time.Millisecond), paused())
			}
		case 7:
			switch r.IntN(8) {
			case 0:
				q.Resume(paused())
			case 1:
				limits := [][]limit.Limit{{}, {limit.PerSecond(3)}, {limit.PerSecond(9).WithBurst(4)}, {limit.Concurrent(1)}, {limit.Concurrent(4), limit.PerSecond(5)},
					{limit.SlidingWindow(3, time.Second)}, {limit.FixedWindow(2+r.IntN(5), time.Second)}}
				if err := keys[r.IntN(len(keys))].Rule.SetLimits(limits[r.IntN(len(limits))]...); err != nil {
					return err
				}
				changed = true
			case 2, 3:
				if len(out) > 0 {
					_ = out[r.IntN(len(out))].Settle(r.IntN(6))
				}
			}
		default:
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		}
		synctest.Wait()
		settle()
		if err := errors.Join(q.check(changed), q.idle()); err != nil {
			return fmt.Errorf("after step %d, action %d: %w", step, action, err)
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
	if err := q.check(changed); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	for _, s := range q.Stats() {
		if s.Waiting != 0 || s.InFlight != 0 {
			return fmt.Errorf("left behind: %+v", s)
		}
	}
	return q.forgets()
}

// idle returns an error if somebody could leave and hasn't, or would not be looked at when it can.
func (q *Queue) idle() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for b := range q.all {
		for _, l := range q.lanesOf(b) {
			if l.waiting() == 0 {
				continue
			}
			w := l.head()
			r := w.request()
			by, t := q.blockedLocked(l.line.buckets, &r, true, now, now)
			if by == nil {
				return fmt.Errorf("place %d could leave at %v, and waits at %s", w.place, now, l.parkedAt.key)
			}
			for range 10 { // a claim may end before another bucket lets it go
				if by == nil || t == never {
					break
				}
				by, t = q.blockedLocked(l.line.buckets, &r, true, t, t)
			}
			if at := l.parkedAt; at.front(now) == l && at.fullUntil(l.key.level, now) != never && (at.wake > t || at.wake < now || q.armed > at.wake) {
				return fmt.Errorf("place %d could leave at %v; %s wakes at %v, the timer at %v", w.place, t, at.key, at.wake, q.armed)
			}
		}
	}
	return nil
}

// check returns what doesn't fit together in the queue's state, whose limits may have changed.
func (q *Queue) check(changed bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := map[*bucket]int{}
	total := len(q.delayed)
	for _, d := range q.delayed {
		for _, b := range d.lane.line.buckets {
			waiting[b]++
		}
	}
	lanes := map[*lane]bool{}
	lines := map[*line]bool{}
	for b := range q.all {
		for _, l := range q.lanesOf(b) {
			lanes[l] = true
		}
	}
	for l := range lanes {
		if !lines[l.line] {
			lines[l.line] = true
			total += l.line.outside.n
			for w := l.line.outside.front; w != nil; w = w.order.after {
				for _, b := range l.line.buckets {
					waiting[b]++
				}
			}
			inside := 0
			for _, l := range l.line.lanes() {
				inside += l.waiting()
			}
			if inside != l.line.waiting || l.line.outside.n > 0 && inside < q.cfg.MaxWaiting {
				return fmt.Errorf("%d wait in a line and %d outside; the count is %d", inside, l.line.outside.n, l.line.waiting)
			}
		}
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
		costs := make([]int64, len(l.line.buckets))
		var place Place
		for _, w := range l.inOrder() {
			if w.place < place {
				return errors.New("a lane is out of order")
			}
			place = w.place
			for i := range costs {
				costs[i] += w.costAt(i)
			}
		}
		if !slices.Equal(costs, l.costs) {
			return fmt.Errorf("a lane's costs are %d, its waiters' %d", l.costs, costs)
		}
		for _, b := range l.line.buckets {
			waiting[b] += l.waiting()
			if err := q.checkInTime(b, l); err != nil {
				return err
			}
		}
		if b := l.parkedAt; b != nil && b.parked.levels[l.key.level][l.parkedIndex] != l {
			return errors.New("a lane isn't where it is parked")
		}
	}
	if total != q.waiting {
		return fmt.Errorf("%d wait, the count is %d", total, q.waiting)
	}
	for _, p := range q.pools {
		if err := p.check(); err != nil {
			return err
		}
	}
	out := map[*bucket]int{}
	for t := q.out.front; t != nil; t = t.order.after {
		out[t.slot]++
		for _, b := range t.more {
			out[b]++
		}
	}
	n := 0
	for b := range q.all {
		n++
		switch {
		case b.waiting != waiting[b]:
			return fmt.Errorf("%s: %d wait, the count is %d", b.key, waiting[b], b.waiting)
		case b.out != out[b]:
			return fmt.Errorf("%s: %d tickets, the count is %d", b.key, out[b], b.out)
		case b.slots > 0 && b.out > b.slots && !changed && len(b.alsoKeys) == 0 && (b.learn == nil || b.learn.slots == nil):
			return fmt.Errorf("%s: %d of %d slots out", b.key, b.out, b.slots)
		case b.scheduled != (b.wake != never):
			return fmt.Errorf("%s: scheduled is %v, wake %v", b.key, b.scheduled, b.wake)
		case b.parked.n > 0 && !b.scheduled && b.fullUntil(b.front(q.now()).key.level, q.now()) != never:
			return fmt.Errorf("%s: %d lanes are parked, the first with place %d, and nothing wakes them", b.key, b.parked.n, b.front(q.now()).head().place)
		}
		parked := 0
		for _, lanes := range b.parked.levels {
			parked += len(lanes)
			for i, l := range lanes {
				if l.parkedIndex != int32(i) || l.parkedAt != b {
					return fmt.Errorf("%s: a parked lane has index %d, want %d", b.key, l.parkedIndex, i)
				}
				if i > 0 && l.before(lanes[(i-1)/2]) {
					return fmt.Errorf("%s: the parked lanes aren't a heap", b.key)
				}
			}
		}
		if parked != b.parked.n {
			return fmt.Errorf("%s: %d lanes are parked, the count is %d", b.key, parked, b.parked.n)
		}
	}
	if err := q.alerts(); err != nil {
		return err
	}
	for _, p := range q.pools {
		n -= 1 + len(p.members)
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

// check returns what doesn't fit together in a pool.
func (p *pool) check() error {
	paused, shut := never, never
	for _, m := range p.members {
		paused, shut = min(paused, m.pausedUntil), min(shut, m.shutUntil)
		if m.pool != p || m.waiting != 0 || m.parked.n != 0 || m.scheduled || m.alone != nil || len(m.joint) > 0 {
			return fmt.Errorf("%s: somebody waits for a member", m.key)
		}
	}
	if paused != p.at.pausedUntil || shut != p.at.shutUntil {
		return fmt.Errorf("%s: paused until %v and shut until %v, its members until %v and %v", p.at.key, p.at.pausedUntil, p.at.shutUntil, paused, shut)
	}
	if p.at.out != 0 || p.at.unpaused != nil || p.at.counts.Departed != 0 {
		return fmt.Errorf("%s: the pool itself was charged", p.at.key)
	}
	return nil
}

// checkInTime returns an error if a pause of b could make somebody in l late without being noticed.
func (q *Queue) checkInTime(b *bucket, l *lane) error {
	if !b.learn.isCalm() || b.isPool() && b.key.Rule.alert.Load() > 0 {
		return nil // what is learnt makes turns later otherwise, too
	}
	now := q.now()
	var ahead int64
	for _, w := range l.inOrder() {
		cost := w.costAt(slices.Index(l.line.buckets, b))
		_, t := q.earliestLocked([]*bucket{b}, &request{cost: cost}, func(int) int64 { return ahead }, now, now)
		ahead += cost
		if last := min(w.deadline, q.waitEnds(w)); last != never && b.inTimeUntil-b.mark(now) > max(0, last-t)+1 {
			return fmt.Errorf("%s: in time for %v more, place %d is late after %v", b.key, b.inTimeUntil-b.mark(now), w.place, last-t)
		}
	}
	return nil
}

// forgets returns an error unless all buckets are gone once they have been idle for long enough.
func (q *Queue) forgets() error {
	time.Sleep(10*time.Minute + 2*keepLearnt)
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.buckets.n; n != 0 { // those of pools stay
		return fmt.Errorf("%d idle buckets were not forgotten", n)
	}
	return nil
}
