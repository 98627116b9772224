package leakyqueue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// Who gives up a turn holds nothing, whether it had come already or not, and gives it up once.
func TestCancelledTurnHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.Concurrent(1))
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
		if err := q.check(false); err != nil {
			t.Error(err)
		}
	})
}

func TestCancelAfterGrantGivesTheTurnToTheNext(t *testing.T) {
	for _, l := range []limit.Limit{limit.PerSecond(1), limit.Concurrent(1)} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{}, l)
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

// A turn that is given up is refunded once: no more leave for it than would have without it.
func TestCancelAfterGrantIsRefundedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1).WithBurst(4))
		enter(t, q, t.Context(), Demand{Cost: 4})
		a, _ := enter(t, q, t.Context(), Demand{Cost: 2})
		time.Sleep(2 * time.Second)
		wantOver(t, a, true, "who has a turn at 2s")
		for range 2 {
			a.Cancel()
		}
		for i := range 3 {
			turn, _ := enter(t, q, t.Context(), Demand{})
			wantOver(t, turn, i < 2, fmt.Sprint("for two units, number ", i))
		}
	})
}

func TestLighterOneGoesWhenTheHeavyHeadIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{}, limit.PerSecond(1).WithBurst(5))
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
		q := newQueue(t, Config{})
		a, b := Key{Rule: newRule(t, q, "a", limit.PerSecond(1).WithBurst(5))}, Key{Rule: newRule(t, q, "b")}
		enter(t, q, t.Context(), Demand{Cost: 5, Keys: []Key{a}})
		heavy, _ := enter(t, q, t.Context(), Demand{Cost: 5, Keys: []Key{a}})
		light, _ := enter(t, q, t.Context(), Demand{Keys: []Key{a, b}})
		enter(t, q, t.Context(), Demand{Cost: 5, Keys: []Key{a}})
		time.Sleep(time.Second)
		heavy.Cancel()
		wantOver(t, light, true, "the light one")
	})
}
