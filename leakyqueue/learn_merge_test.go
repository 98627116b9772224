package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// learning adds a rule that learns.
func learning(t *testing.T, q *Queue, name string, limits ...limit.Limit) *Rule {
	t.Helper()
	r := newRule(t, q, name, limits...)
	r.Learn(Learning{})
	return r
}

// leave has a request leave from the keys, which must let it.
func leave(t *testing.T, q *Queue, keys ...Key) *Ticket {
	t.Helper()
	turn, ticket := enter(t, q, t.Context(), Demand{Keys: keys})
	if turn.w != nil {
		t.Fatalf("a request for %v waits, want it to leave", keys)
	}
	return ticket
}

// answer has a request leave and be answered.
func answer(t *testing.T, q *Queue, a Answer, keys ...Key) Heard {
	t.Helper()
	ticket := leave(t, q, keys...)
	defer ticket.Done()
	return ticket.Answered(a)
}

// wantSound fails unless the queue's state fits together.
func wantSound(t *testing.T, q *Queue) {
	t.Helper()
	if err := errors.Join(q.check(true), q.idle()); err != nil {
		t.Error(err)
	}
}

// alerts returns the error if a rule's count of buckets that aren't calm is wrong, or a bucket is where it isn't to be.
func (q *Queue) alerts() error {
	listed := make(map[*bucket]bool)
	for b := range q.all {
		listed[b] = true
	}
	named := 0
	for _, r := range q.rules {
		var n int64
		for value, b := range r.buckets {
			if !b.isPool() && !b.learn.isCalm() {
				n++
			}
			if b.gone || !listed[b] {
				return fmt.Errorf("%s: the key %q has a bucket that is gone", r.name, value)
			}
			if own := (Key{Rule: r, Value: value}); b.key != own && !slices.Contains(b.alsoKeys, own) {
				return fmt.Errorf("%s: the bucket of the key %q doesn't know of it", r.name, value)
			}
		}
		if got := r.alert.Load(); got != n {
			return fmt.Errorf("%s: %d buckets aren't calm, the count is %d", r.name, n, got)
		}
	}
	for b := range listed {
		if b.learn != nil {
			if n, units := b.learn.learner.InFlight(); n < 0 || units < 0 {
				return fmt.Errorf("%s: %d are in flight, of %d units", b.key, n, units)
			}
		}
		if b.named != "" {
			named++
			if q.named[b.named] != b {
				return fmt.Errorf("%s: its name %q isn't known", b.key, b.named)
			}
		}
	}
	if named != len(q.named) {
		return fmt.Errorf("%d buckets have a name, %d names are known", named, len(q.named))
	}
	return nil
}

// Two keys that the upstream counts in one have one bucket from then on.
func TestKeysOfOneNameShareABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "route")
		a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
		answer(t, q, Answer{Bucket: "one"}, a)
		answer(t, q, Answer{Bucket: "one"}, b)
		if !peek(q, func() bool { return r.buckets["a"] == r.buckets["b"] }) {
			t.Error("the keys have two buckets")
		}
		wantSound(t, q)
		answer(t, q, Answer{Verdict: Limited, Pause: time.Minute}, a)
		turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{b}})
		wantOver(t, turn, false, "one bucket is paused for both keys")
		turn.Cancel()
		if turn, ticket := enter(t, q, t.Context(), Demand{Keys: []Key{a, b}}); turn.w == nil || len(turn.w.lane.line.buckets) != 1 {
			t.Error("a request with both keys waits for two buckets, want one")
		} else {
			turn.Cancel()
			ticket.Done()
		}
		wantSound(t, q)
		time.Sleep(keepLearnt)
		if err := q.forgets(); err != nil {
			t.Error(err)
		}
		if peek(q, func() bool { return len(q.named) != 0 || len(r.buckets) != 0 }) {
			t.Errorf("%d names and %d keys are kept", len(q.named), len(r.buckets))
		}
	})
}

// Requests that had left from a bucket before it became part of another are answered to that other one.
func TestAnswersAfterTheBucketIsGone(t *testing.T) {
	for _, a := range []Answer{
		{Verdict: Accepted},
		{Verdict: Limited, Pause: time.Minute},
		{Verdict: Limited, Otherwise: time.Second},
		{Verdict: Overloaded},
		{Verdict: Unanswered},
		{Quotas: []Quota{{Unit: "requests", Limit: 10, Remaining: 0, Reset: time.Minute}}},
		{Bucket: "one"},
		{Bucket: "another"},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{})
			r := learning(t, q, "route", limit.PerSecond(1000).WithBurst(100))
			keys := []Key{{Rule: r, Value: "a"}, {Rule: r, Value: "b"}, {Rule: r, Value: "c"}}
			late := leave(t, q, keys[1])
			for _, k := range keys {
				answer(t, q, Answer{Bucket: "one"}, k)
				wantSound(t, q)
			}
			late.Answered(a)
			wantSound(t, q)
			late.Done()
			wantSound(t, q)
			if wait := a.Pause; wait > 0 {
				if got := peek(q, func() time.Duration { return r.buckets["a"].pausedUntil }) - q.now(); got != wait {
					t.Errorf("%+v: the bucket is paused for %v, want %v", a, got, wait)
				}
			}
			time.Sleep(keepLearnt)
			if err := q.forgets(); err != nil {
				t.Errorf("%+v: %v", a, err)
			}
		})
	}
}

// What is in flight stays so when two buckets become one, so that no more leave than the upstream has left.
func TestWhatIsInFlightMovesWithItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "route", limit.PerSecond(1000).WithBurst(100))
		a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
		quotas := []Quota{{Unit: "requests", Limit: 10, Remaining: 3, Reset: time.Minute}}
		for range 2 { // from the second on departures are tracked
			answer(t, q, Answer{Bucket: "one", Quotas: quotas}, a)
			answer(t, q, Answer{Quotas: []Quota{{Unit: "requests", Limit: 10, Remaining: 9, Reset: time.Minute}}}, b)
		}
		var out []*Ticket
		for range 2 {
			out = append(out, leave(t, q, b))
		}
		answer(t, q, Answer{Bucket: "one"}, b)
		leave(t, q, a)
		turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{a}})
		wantOver(t, turn, false, "3 are left, and 3 in flight")
		for _, ticket := range out {
			ticket.Answered(Answer{})
		}
		wantOver(t, turn, true, "2 of those were answered, and weren't counted")
		wantSound(t, q)
	})
}

// Slots that are out when two buckets become one are slots of that one.
func TestSlotsMoveWithTheirBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "route", limit.Concurrent(2))
		a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
		answer(t, q, Answer{Bucket: "one"}, a)
		out := leave(t, q, b)
		leave(t, q, b).Answered(Answer{Bucket: "one"})
		turn, ticket := enter(t, q, t.Context(), Demand{Keys: []Key{a}})
		wantOver(t, turn, false, "both slots are out")
		wantSound(t, q)
		out.Done()
		wantOver(t, turn, true, "one came back")
		ticket.Done()
		wantSound(t, q)
	})
}

// Those who wait for a bucket that becomes part of another wait for that one, in the order in which they came.
func TestWaitersKeepTheirPlacesWhenBucketsMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "route", limit.PerSecond(1))
		joint := newRule(t, q, "joint", limit.PerSecond(1000).WithBurst(1000))
		keys := []Key{{Rule: r, Value: "a"}, {Rule: r, Value: "b"}}
		answer(t, q, Answer{Bucket: "one"}, keys[0])
		first := leave(t, q, keys[1])
		var turns []Turn
		for i := range 12 {
			d := Demand{Keys: []Key{keys[i%2]}}
			switch i % 3 {
			case 1:
				d.Keys = append(d.Keys, Key{Rule: joint})
			case 2:
				d.Flow = "other" // whose turns are shared, not in order
			}
			turn, _ := enter(t, q, t.Context(), d)
			turns = append(turns, turn)
		}
		first.Answered(Answer{Bucket: "one"})
		wantSound(t, q)
		if n := peek(q, func() int { return r.buckets["b"].waiting }); n != len(turns) {
			t.Errorf("%d wait for the one bucket, want %d", n, len(turns))
		}
		var order []int
		for range 2 * len(turns) {
			time.Sleep(time.Second)
			synctest.Wait()
			wantSound(t, q)
			for i, turn := range turns {
				if turn.over() && !slices.Contains(order, i) {
					order = append(order, i)
				}
			}
		}
		if len(order) != len(turns) {
			t.Fatalf("%d have left, want %d", len(order), len(turns))
		}
		for _, of := range []int{0, 1, 2} {
			var mine []int
			for _, i := range order {
				if i%3 == of {
					mine = append(mine, i)
				}
			}
			if !slices.IsSorted(mine) {
				t.Errorf("those of kind %d left in the order %d", of, mine)
			}
		}
	})
}

// With a slot free at once, those who are moved leave while others are still to be moved.
func TestMergingIntoABucketThatLetsAllGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "route")
		wide := newRule(t, q, "wide", limit.PerSecond(1000).WithBurst(1000))
		a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
		answer(t, q, Answer{Bucket: "one"}, a)
		out := []*Ticket{leave(t, q, b), leave(t, q, b), leave(t, q, b), leave(t, q, b)}
		q.Pause(time.Now().Add(time.Second), b)
		var turns []Turn
		for i := range 6 {
			d := Demand{Keys: []Key{b}}
			if i%2 == 0 {
				d.Keys = append(d.Keys, Key{Rule: wide})
			}
			if i%3 == 0 {
				d.Priority = High
			}
			turn, _ := enter(t, q, t.Context(), d)
			turns = append(turns, turn)
		}
		q.Resume(b)
		out[0].Answered(Answer{Bucket: "one"})
		wantSound(t, q)
		for _, ticket := range out {
			ticket.Answered(Answer{})
			wantSound(t, q)
		}
		time.Sleep(time.Minute)
		for i, turn := range turns {
			wantOver(t, turn, true, fmt.Sprint("turn ", i))
		}
		wantSound(t, q)
	})
}

// Who stays outside of a full line comes with the others.
func TestThoseOutsideMoveToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWaiting: 1, Overflow: Block})
		r := learning(t, q, "route", limit.PerSecond(1))
		a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
		answer(t, q, Answer{Bucket: "one"}, a)
		first := leave(t, q, b)
		var turns []Turn
		for range 3 {
			turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{b}})
			turns = append(turns, turn)
		}
		first.Answered(Answer{Bucket: "one"})
		wantSound(t, q)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		first.Done()
		if err := q.Close(ctx); err == nil {
			t.Error("Close returned nil while some wait")
		}
		for i, turn := range turns {
			wantOver(t, turn, true, fmt.Sprint("turn ", i))
		}
	})
}

// A retry that is on its way to its place finds the bucket that there is by then.
func TestDelayedRetriesMoveToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "route")
		a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
		answer(t, q, Answer{Bucket: "one"}, a)
		first := leave(t, q, b)
		turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{b}, Delay: time.Second})
		first.Answered(Answer{Bucket: "one"})
		wantSound(t, q)
		q.Pause(time.Now().Add(2*time.Second), a)
		time.Sleep(3 * time.Second / 2)
		wantOver(t, turn, false, "its bucket is paused")
		time.Sleep(time.Second)
		wantOver(t, turn, true, "the pause is over")
		wantSound(t, q)
	})
}

// A pause of the one is a pause of both, and a longer one of the other stays.
func TestMergingDuringAPause(t *testing.T) {
	for _, d := range [][2]time.Duration{{time.Minute, time.Second}, {time.Second, time.Minute}, {time.Hour, 0}} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{})
			r := learning(t, q, "route", limit.PerSecond(1000).WithBurst(10))
			a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
			answer(t, q, Answer{Bucket: "one"}, a)
			first := leave(t, q, b)
			turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{a}, Delay: time.Millisecond})
			q.Pause(time.Now().Add(d[0]), b)
			q.Pause(time.Now().Add(d[1]), a)
			first.Answered(Answer{Bucket: "one"})
			wantSound(t, q)
			want := min(max(d[0], d[1]), q.cfg.MaxPause)
			if got := peek(q, func() time.Duration { return r.buckets["a"].pausedUntil }) - q.now(); got != want {
				t.Errorf("paused for %v, want %v", got, want)
			}
			if d[0] == time.Hour {
				wantOver(t, turn, true, "the pause is beyond MaxPause")
			}
			turn.Cancel()
		})
	}
}

// A rule without limits of its own may share the bucket of one that has some; then those hold for its requests, too.
func TestMergingAcrossRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		strict := learning(t, q, "strict", limit.FixedWindow(5, time.Second))
		free := learning(t, q, "free")
		s, f := Key{Rule: strict}, Key{Rule: free}
		answer(t, q, Answer{Bucket: "one"}, s)
		first := leave(t, q, f)
		q.Pause(time.Now().Add(time.Second), f)
		heavy, _ := enter(t, q, t.Context(), Demand{Keys: []Key{f}, Cost: 6})
		first.Answered(Answer{Bucket: "one"})
		if peek(q, func() bool { return free.buckets[""] != strict.buckets[""] || free.plain != strict.plain }) {
			t.Error("the rules have two buckets")
		}
		wantOver(t, heavy, true, "a cost that never fits is refused")
		if _, err := q.Enter(t.Context(), Demand{Keys: []Key{f}, Cost: 6}, new(Ticket)); !errors.Is(err, ErrInvalid) {
			t.Errorf("a cost that never fits: %v, want ErrInvalid", err)
		}
		wantSound(t, q)
		if err := strict.SetLimits(limit.PerSecond(1)); err != nil {
			t.Fatal(err)
		}
		wantSound(t, q)
		if err := free.SetLimits(limit.PerSecond(1)); err != nil {
			t.Fatal(err)
		}
		wantSound(t, q)
		leave(t, q, f)
		if free.plain == strict.plain {
			t.Error("the rule has limits now, and they don't hold")
		}
		wantSound(t, q)
		// One that has limits of its own keeps its bucket.
		other := learning(t, q, "other", limit.PerSecond(5))
		answer(t, q, Answer{Bucket: "one"}, Key{Rule: other})
		if other.plain == strict.plain {
			t.Error("a rule with limits has lost them")
		}
		wantSound(t, q)
	})
}

// While somebody waits for both they stay two; afterwards they become one.
func TestNobodyWaitsForOneBucketTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "route")
		a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
		answer(t, q, Answer{Bucket: "one"}, a)
		q.Pause(time.Now().Add(time.Second), a)
		turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{a, b}})
		answer(t, q, Answer{Bucket: "one"}, b)
		wantSound(t, q)
		if peek(q, func() bool { return r.buckets["a"] == r.buckets["b"] }) {
			t.Error("they are one, and somebody waits for both")
		}
		turn.Cancel()
		answer(t, q, Answer{Bucket: "one"}, b)
		if !peek(q, func() bool { return r.buckets["a"] == r.buckets["b"] }) {
			t.Error("they are still two")
		}
		wantSound(t, q)
	})
}

// The upstream may give a bucket another name, and the old one to another bucket.
func TestRenaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "route")
		a, b := Key{Rule: r, Value: "a"}, Key{Rule: r, Value: "b"}
		for _, name := range []string{"one", "two", "", "three"} {
			answer(t, q, Answer{Bucket: name}, a)
			wantSound(t, q)
		}
		answer(t, q, Answer{Bucket: "one"}, b)
		if peek(q, func() bool { return r.buckets["a"] == r.buckets["b"] || len(q.named) != 2 }) {
			t.Errorf("they are one bucket, or %d names are known, want 2", len(q.named))
		}
		wantSound(t, q)
	})
}

// However many keys the upstream counts in one, what is remembered of them is bounded.
func TestKeysOfOneNameAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "user", limit.PerSecond(1000).WithBurst(1000))
		for i := range 5000 {
			answer(t, q, Answer{Bucket: "one"}, Key{Rule: r, Value: fmt.Sprint(i)})
			time.Sleep(time.Second)
		}
		if n := len(r.buckets); n > 2*maxAlsoKeys {
			t.Errorf("%d keys are remembered after 5000 of which each came once", n)
		}
		wantSound(t, q)
	})
}

// peek looks at what the queue's lock guards.
func peek[T any](q *Queue, look func() T) T {
	q.mu.Lock()
	defer q.mu.Unlock()
	return look()
}
