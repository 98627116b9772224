package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// Who finds all of the learnt window in flight may get in before that grows: one may come back. So who can't wait until
// it grows isn't refused.
func TestAFullWindowIsNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		k := Key{Rule: learning(t, q, "host")}
		var out []*Ticket
		for range 4 {
			out = append(out, leave(t, q, k))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		turn, _ := enter(t, q, ctx, Demand{Keys: []Key{k}})
		wantOver(t, turn, false, "4 are in flight")
		time.Sleep(50 * time.Millisecond)
		out[0].Answered(Answer{})
		wantOver(t, turn, true, "one was answered")
		if turn.w.state != departed {
			t.Error("it was refused")
		}
		wantSound(t, q)
	})
}

// The same, with a number in flight that was refused: whether one more would do is tried much later.
func TestARefusedNumberInFlightIsNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWait: time.Second})
		k := Key{Rule: learning(t, q, "host")}
		var out []*Ticket
		for range 4 {
			out = append(out, leave(t, q, k))
		}
		out[3].Answered(Answer{Verdict: Limited, Concurrency: true})
		turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{k}})
		wantOver(t, turn, false, "all that may be are in flight")
		out[0].Answered(Answer{})
		wantOver(t, turn, true, "one was answered")
		if turn.w.state != departed {
			t.Error("it was refused")
		}
		wantSound(t, q)
	})
}

// The window grows by itself, should nothing be answered.
func TestTheWindowGrowsWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		k := Key{Rule: learning(t, q, "host")}
		var turns []Turn
		for range 200 {
			turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{k}})
			turns = append(turns, turn)
		}
		left := func() (n int) {
			synctest.Wait()
			for _, turn := range turns {
				if turn.over() {
					n++
				}
			}
			return n
		}
		if n := left(); n != 4 {
			t.Errorf("%d leave at once, want 4", n)
		}
		before := 4
		for range 8 {
			time.Sleep(250 * time.Millisecond)
			n := left()
			if n <= before || n > 2*before {
				t.Errorf("%d have left, after %d a quarter of a second ago", n, before)
			}
			before = n
			wantSound(t, q)
		}
		time.Sleep(10 * time.Second)
		if n := left(); n != len(turns) {
			t.Errorf("%d have left after 12 s, want all %d", n, len(turns))
		}
	})
}

// A request that had its turn at the moment at which its caller went isn't in flight.
func TestWhoGoesAtHisTurnIsNotInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "host")
		k := Key{Rule: r}
		var out []*Ticket
		for range 4 {
			out = append(out, leave(t, q, k))
		}
		turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{k}})
		out[0].Answered(Answer{})
		wantOver(t, turn, true, "one was answered")
		turn.Cancel()
		if n, _ := r.plain.learn.learner.InFlight(); n != 3 {
			t.Errorf("%d are in flight, want 3", n)
		}
		wantSound(t, q)
	})
}

// Each verdict does what it says to those who wait, and tells the caller.
func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer Answer
		limits []limit.Limit
		want   Heard
		paused time.Duration // at least
		most   time.Duration
	}{
		{"accepted", Answer{}, nil, Heard{}, 0, 0},
		{"unanswered", Answer{Verdict: Unanswered}, nil, Heard{}, 0, 0},
		{"limited, with a pause", Answer{Verdict: Limited, Pause: time.Second}, nil, Heard{Paused: true}, time.Second, time.Second},
		{"limited, without", Answer{Verdict: Limited, Otherwise: time.Second}, nil, Heard{Paused: true}, 1, time.Second},
		{"limited in number", Answer{Verdict: Limited, Otherwise: time.Second, Concurrency: true}, nil, Heard{Paused: true}, 0, 0},
		{"overloaded once", Answer{Verdict: Overloaded}, nil, Heard{}, 0, 0},
		{"overloaded, with a pause", Answer{Verdict: Overloaded, Pause: time.Second}, nil, Heard{Paused: true}, time.Second, time.Second},
		{"limited for longer than anybody waits", Answer{Verdict: Limited, Pause: time.Hour}, nil, Heard{Paused: true}, DefaultMaxPause, DefaultMaxPause},
		{"a negative pause", Answer{Verdict: Limited, Pause: -1}, nil, Heard{Paused: true}, 0, 0},
		{"a pause for ever", Answer{Verdict: Limited, Pause: never}, nil, Heard{Paused: true}, DefaultMaxPause, DefaultMaxPause},
		{"a slot", Answer{Verdict: Limited, Pause: time.Second}, []limit.Limit{limit.Concurrent(2)}, Heard{Paused: true, Holds: true}, time.Second, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, Config{})
				r := learning(t, q, "host", tt.limits...)
				ticket := leave(t, q, Key{Rule: r})
				if got := ticket.Answered(tt.answer); got != tt.want {
					t.Errorf("Answered: %+v, want %+v", got, tt.want)
				}
				if d := r.plain.pausedUntil - q.now(); max(d, 0) < tt.paused || d > tt.most {
					t.Errorf("paused for %v, want %v to %v", d, tt.paused, tt.most)
				}
				wantSound(t, q)
				before := q.Stats()[0]
				if got := ticket.Answered(Answer{Verdict: Limited, Pause: time.Minute}); got.Paused || got.Rest != 0 {
					t.Errorf("a second answer: %+v", got)
				}
				ticket.Done()
				ticket.Answered(Answer{Verdict: Limited, Pause: time.Minute})
				ticket.Done()
				wantSound(t, q)
				after := q.Stats()[0]
				if before.InFlight--; before.InFlight < 0 {
					before.InFlight = 0
				}
				before.Held, after.Held = 0, 0
				if before != after {
					t.Errorf("a second answer changed %+v\nto %+v", before, after)
				}
			})
		})
	}
}

// While an upstream is down, those who were refused by it rest, and come back when it is up; who has another reason to
// come later does so.
func TestAnOutageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "host")
		k := Key{Rule: r}
		var places []Place
		var rest time.Duration
		for _, ticket := range []*Ticket{leave(t, q, k), leave(t, q, k), leave(t, q, k), leave(t, q, k)} {
			places = append(places, ticket.Place())
			rest = ticket.Answered(Answer{Verdict: Overloaded}).Rest
			ticket.Done()
		}
		if !q.Stats()[0].Down || rest < time.Second/2 {
			t.Errorf("%+v, and a rest of %v, want it down", q.Stats()[0], rest)
		}
		var turns []Turn
		for _, p := range places[1:] {
			turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{k}, Place: p, Delay: time.Minute})
			turns = append(turns, turn)
		}
		newcomer, _ := enter(t, q, t.Context(), Demand{Keys: []Key{k}, Delay: time.Minute})
		probe, ticket := enter(t, q, t.Context(), Demand{Keys: []Key{k}})
		time.Sleep(time.Second)
		wantOver(t, probe, true, "a probe leaves")
		ticket.Answered(Answer{})
		if q.Stats()[0].Down {
			t.Error("it is down, want it up again")
		}
		wantSound(t, q)
		time.Sleep(2 * time.Second)
		for i, turn := range turns {
			wantOver(t, turn, true, fmt.Sprint("retry ", i))
		}
		wantOver(t, newcomer, false, "a newcomer who was to come later")
		newcomer.Cancel()
		wantSound(t, q)
	})
}

// One member that is down is no reason to refuse those whom another serves.
func TestAMemberIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxPause: time.Second})
		r, err := q.AddPool("keys", []string{"a", "b"}, limit.PerSecond(2))
		if err != nil {
			t.Fatal(err)
		}
		r.Learn(Learning{})
		var turns []Turn
		down := func() { // answers everything that left with a
			for i := 0; i < len(turns); i++ {
				if ticket := turns[i].ticket; turns[i].over() && ticket.Member(r) == "a" {
					ticket.Answered(Answer{Verdict: Overloaded})
				}
			}
		}
		for range 20 {
			turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{{Rule: r}}})
			turns = append(turns, turn)
		}
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			down()
			wantSound(t, q)
		}
		for i, turn := range turns {
			if turn.w != nil && turn.w.state == refused {
				t.Errorf("%d was refused, and b is up", i)
			}
		}
	})
}

// Adaptive slots keep a part of what there is for high priorities, as a fixed number does.
func TestAdaptiveSlotsKeepHeadroom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := newRule(t, q, "host", limit.AdaptiveConcurrency(4, 100).WithHeadroom(0.5))
		k := Key{Rule: r}
		leave(t, q, k)
		b := r.plain
		want := func() {
			t.Helper()
			if want := r.set.OrdinaryOf(b.slots); b.ordinary != want || b.slots != b.learn.slots.Slots() {
				t.Errorf("%d of %d slots are ordinary, want %d of %d", b.ordinary, b.slots, want, b.learn.slots.Slots())
			}
		}
		want()
		for range 100 {
			ticket := new(Ticket)
			if _, err := q.Depart(t.Context(), Demand{Keys: []Key{k}}, ticket); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			ticket.Answered(Answer{})
			ticket.Done()
			want()
		}
		if err := r.SetLimits(limit.AdaptiveConcurrency(8, 80).WithHeadroom(0.25)); err != nil {
			t.Fatal(err)
		}
		want()
	})
}

// An error says what the upstream has to do with it, as long as it has.
func TestErrorsBlameTheUpstreamForItsOwnPausesOnly(t *testing.T) {
	for _, learns := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{})
			r := newRule(t, q, "host", limit.PerSecond(1000).WithBurst(10))
			if learns {
				r.Learn(Learning{})
			}
			k := Key{Rule: r}
			refused := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := q.Acquire(ctx, Demand{Keys: []Key{k}})
				return err
			}
			answer(t, q, Answer{Verdict: Limited, Pause: time.Minute}, k)
			if err := refused(); !errors.Is(err, ErrLimited) || errors.Is(err, ErrOverloaded) || !errors.Is(err, ErrDeadline) {
				t.Errorf("learns %v, limited: %v", learns, err)
			}
			time.Sleep(2 * time.Minute)
			answer(t, q, Answer{Verdict: Overloaded, Pause: time.Minute}, k)
			if err := refused(); !errors.Is(err, ErrOverloaded) || errors.Is(err, ErrLimited) {
				t.Errorf("learns %v, overloaded: %v", learns, err)
			}
			time.Sleep(5 * time.Minute)
			answer(t, q, Answer{}, k)
			time.Sleep(5 * time.Minute)
			q.Pause(time.Now().Add(time.Minute), k)
			if err := refused(); errors.Is(err, ErrOverloaded) || errors.Is(err, ErrLimited) || !errors.Is(err, ErrDeadline) {
				t.Errorf("learns %v, paused by hand: %v", learns, err)
			}
			wantSound(t, q)
		})
	}
}

// A count that came late, of a window that is over, parks nobody.
func TestAStaleCountParksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		k := Key{Rule: learning(t, q, "host", limit.PerSecond(1000).WithBurst(100))}
		count := func(left int64, reset time.Duration) Answer {
			return Answer{Quotas: []Quota{{Unit: "requests", Limit: 100, Remaining: left, Reset: reset}}}
		}
		answer(t, q, count(50, time.Minute), k)
		stale := leave(t, q, k)
		time.Sleep(2 * time.Minute)
		answer(t, q, count(99, time.Hour), k)
		stale.Answered(count(0, time.Second))
		leave(t, q, k).Done()
		wantSound(t, q)
	})
}

// An upstream that says for hours that nothing is left is asked by one request each MaxPause, and not by all who
// have come meanwhile.
func TestAnExhaustedQuotaIsAskedByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxPause: time.Minute})
		k := Key{Rule: learning(t, q, "host", limit.FixedWindow(100, time.Second))}
		answer(t, q, Answer{Quotas: []Quota{{Unit: "requests", Limit: 100, Remaining: 0, Reset: 24 * time.Hour}}}, k)
		time.Sleep(time.Minute + 1)
		var turns []Turn
		for range 50 {
			turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{k}})
			turns = append(turns, turn)
		}
		n := 0
		for _, turn := range turns {
			if turn.over() {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d have left to see whether there is anything, want 1", n)
		}
	})
}

// An upstream that names what it counts anew each time doesn't keep those from being heard that it names later.
func TestQuotasThatAreNotToldAnyMoreGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		k := Key{Rule: learning(t, q, "host", limit.PerSecond(1000).WithBurst(100))}
		for i := range 40 {
			answer(t, q, Answer{Quotas: []Quota{{Name: fmt.Sprint(i), Unit: "requests", Limit: 100, Remaining: 90, Reset: time.Second}}}, k)
			time.Sleep(30 * time.Second)
		}
		answer(t, q, Answer{Quotas: []Quota{{Name: "last", Unit: "requests", Limit: 100, Remaining: 0, Reset: time.Minute}}}, k)
		turn, _ := enter(t, q, t.Context(), Demand{Keys: []Key{k}})
		wantOver(t, turn, false, "nothing is left")
		turn.Cancel()
	})
}

// A bucket that has learnt something stays for longer than others, and not for ever.
func TestWhatIsLearntIsKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "host")
		knows, new := Key{Rule: r, Value: "knows"}, Key{Rule: r, Value: "new"}
		answer(t, q, Answer{Verdict: Limited, Pause: time.Second}, knows)
		answer(t, q, Answer{}, new)
		time.Sleep(keepLearnt / 2)
		if peek(q, func() *bucket { return r.buckets["new"] }) != nil {
			t.Error("a bucket that has learnt nothing is still there")
		}
		if peek(q, func() *bucket { return r.buckets["knows"] }) == nil {
			t.Error("a bucket that has learnt something is gone")
		}
		wantSound(t, q)
		time.Sleep(keepLearnt)
		if err := q.forgets(); err != nil {
			t.Error(err)
		}
		if n := r.alert.Load(); n != 0 {
			t.Errorf("%d buckets aren't calm, want none", n)
		}
	})
}

// A pool that learns, and one that adapts besides, counts each member once.
func TestPoolsLearn(t *testing.T) {
	for _, limits := range [][]limit.Limit{{}, {limit.PerSecond(10)}, {limit.AdaptiveConcurrency(1, 10)}, {limit.AdaptiveRate(1, 10)}} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{})
			r, err := q.AddPool("keys", []string{"a", "b"}, limits...)
			if err != nil {
				t.Fatal(err)
			}
			r.Learn(Learning{})
			wantSound(t, q)
			for range 10 {
				answer(t, q, Answer{Bucket: "one"}, Key{Rule: r})
				wantSound(t, q)
				time.Sleep(time.Second)
			}
			if err := r.SetLimits(limit.PerSecond(5)); err != nil {
				t.Fatal(err)
			}
			wantSound(t, q)
		})
	}
}

// Those who can't wait until a quota is renewed are told when it is used up, wherever they are in line.
func TestAnExhaustedQuotaIsToldEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		k := Key{Rule: learning(t, q, "host", limit.PerSecond(10))}
		first := leave(t, q, k)
		var turns []Turn
		for i := range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(10+100*(i%2))*time.Second)
			defer cancel()
			turn, _ := enter(t, q, ctx, Demand{Keys: []Key{k}})
			turns = append(turns, turn)
		}
		first.Answered(Answer{Quotas: []Quota{{Unit: "requests", Limit: 100, Remaining: 0, Reset: time.Minute}}})
		for i, turn := range turns {
			wantOver(t, turn, i%2 == 0, fmt.Sprint("turn ", i))
		}
		wantSound(t, q)
	})
}

// Those who wait already have what is left; who comes after them and can't wait until the quota is renewed is told at once.
func TestWhatIsLeftIsForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := newRule(t, q, "host", limit.PerSecond(1))
		r.Learn(Learning{Spread: limit.SpreadNone})
		k := Key{Rule: r}
		answer(t, q, Answer{Quotas: []Quota{{Unit: "requests", Limit: 100, Remaining: 2, Reset: time.Minute}}}, k)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range 2 {
			if _, err := q.Enter(ctx, Demand{Keys: []Key{k}}, new(Ticket)); err != nil {
				t.Errorf("of two that are left: %v", err)
			}
		}
		if _, err := q.Enter(ctx, Demand{Keys: []Key{k}}, new(Ticket)); !errors.Is(err, ErrDeadline) {
			t.Errorf("one more: %v, want ErrDeadline", err)
		}
		wantSound(t, q)
	})
}

// What is in flight stays so under other limits.
func TestWhatIsInFlightStaysSoUnderOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		r := learning(t, q, "host")
		k := Key{Rule: r}
		out := []*Ticket{leave(t, q, k), leave(t, q, k)}
		if err := r.SetLimits(limit.PerSecond(100)); err != nil {
			t.Fatal(err)
		}
		if n, _ := r.plain.learn.learner.InFlight(); n != 2 {
			t.Errorf("%d are in flight, want 2", n)
		}
		for i, ticket := range out {
			ticket.Answered(Answer{})
			if n, _ := r.plain.learn.learner.InFlight(); n != 1-i {
				t.Errorf("%d are in flight, want %d", n, 1-i)
			}
		}
		wantSound(t, q)
	})
}
