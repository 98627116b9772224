package leakyqueue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

func newPool(t *testing.T, q *Queue, members string, limits ...limit.Limit) *Rule {
	t.Helper()
	r, err := q.AddPool("pool", strings.Fields(members), limits...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// memberStats is the state of a pool's member, or of the pool itself with "".
func memberStats(t *testing.T, q *Queue, member string) BucketStats {
	t.Helper()
	for _, s := range q.Stats() {
		if s.Rule == "pool" && s.Key == member {
			return s
		}
	}
	t.Fatalf("no statistics of %q", member)
	return BucketStats{}
}

func TestMembersOfAPoolShareItsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		pool := newPool(t, q, "a b c", limit.PerSecond(10))
		last := map[string]time.Duration{}
		start := time.Now()
		for range 301 {
			ticket, err := q.Acquire(t.Context(), Demand{Keys: []Key{{Rule: pool}}})
			if err != nil {
				t.Fatal(err)
			}
			m, now := ticket.Member(pool), time.Since(start)
			if before, ok := last[m]; ok && now-before < 100*time.Millisecond {
				t.Fatalf("%q leaves at %v and at %v", m, before, now)
			}
			last[m] = now
		}
		if took := time.Since(start); len(last) != 3 || took < 10*time.Second-100*time.Millisecond || took > 10*time.Second {
			t.Errorf("300 more requests took %v with %d members", took, len(last))
		}
		if s := memberStats(t, q, ""); s.Counts.Departed != 301 || memberStats(t, q, "b").Counts.Departed < 100 {
			t.Errorf("statistics: %+v", q.Stats())
		}
	})
}

func TestAPausedMemberHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		pool := newPool(t, q, "a b", limit.PerSecond(10))
		if err := q.Pause(time.Now().Add(time.Minute), Key{Rule: pool, Value: "a"}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for range 101 {
			ticket, err := q.Acquire(ctx, Demand{Keys: []Key{{Rule: pool}}})
			if err != nil || ticket.Member(pool) != "b" {
				t.Fatalf("%q, %v", ticket.Member(pool), err)
			}
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("100 more took %v: b's limit is 10/s", took)
		}
		// With b paused, too, who has 20 s left is told at once; not with b's resumption.
		turn, _ := enter(t, q, ctx, Demand{Keys: []Key{{Rule: pool}}})
		if err := q.Pause(time.Now().Add(time.Minute), Key{Rule: pool, Value: "b"}); err != nil {
			t.Fatal(err)
		}
		wantOver(t, turn, true, "with all members paused")
		if _, err := turn.Await(ctx); !errors.Is(err, ErrDeadline) {
			t.Errorf("error is %v", err)
		}
		if s := memberStats(t, q, ""); s.Paused != 50*time.Second {
			t.Errorf("the pool is paused for %v", s.Paused)
		}
		if err := q.Resume(Key{Rule: pool, Value: "a"}); err != nil {
			t.Fatal(err)
		}
		if ticket, err := q.Acquire(ctx, Demand{Keys: []Key{{Rule: pool}}}); err != nil || ticket.Member(pool) != "a" {
			t.Errorf("%q, %v", ticket.Member(pool), err)
		}
		// The pool's own key stands for all.
		if err := q.Pause(time.Now().Add(time.Minute), Key{Rule: pool}); err != nil {
			t.Fatal(err)
		}
		if s := memberStats(t, q, "a"); s.Paused != time.Minute {
			t.Errorf("a is paused for %v", s.Paused)
		}
	})
}

func TestSlotsOfAPoolAreItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxHold: time.Minute})
		pool := newPool(t, q, "a b", limit.Concurrent(1), limit.PerSecond(100))
		key := Demand{Keys: []Key{{Rule: pool}}}
		_, first := enter(t, q, t.Context(), key)
		_, second := enter(t, q, t.Context(), key)
		if first.Member(pool) != "a" || second.Member(pool) != "b" {
			t.Fatalf("%q and %q", first.Member(pool), second.Member(pool))
		}
		time.Sleep(time.Second)
		turn, third := enter(t, q, t.Context(), key)
		wantOver(t, turn, false, "with both slots out")
		if third.Member(pool) != "" {
			t.Errorf("who hasn't left does so with %q", third.Member(pool))
		}
		second.Done()
		wantOver(t, turn, true, "with b's slot back")
		if third.Member(pool) != "b" || memberStats(t, q, "b").InFlight != 1 || memberStats(t, q, "").InFlight != 2 {
			t.Errorf("left with %q: %+v", third.Member(pool), q.Stats())
		}
		time.Sleep(2 * time.Minute)
		if memberStats(t, q, "").InFlight != 0 || memberStats(t, q, "b").Counts.HoldsExpired != 1 {
			t.Errorf("after MaxHold: %+v", q.Stats())
		}
	})
}

// A slot may come back before the member that has one is resumed: who can wait for that isn't refused.
func TestWhoMayGetASlotBackIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxPause: time.Hour})
		pool := newPool(t, q, "a b", limit.Concurrent(1))
		key := Demand{Keys: []Key{{Rule: pool}}}
		_, first := enter(t, q, t.Context(), key)
		if err := q.Pause(time.Now().Add(time.Minute), Key{Rule: pool, Value: "b"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		turn, second := enter(t, q, ctx, key)
		time.Sleep(time.Second)
		wantOver(t, turn, false, "with a's slot out and b paused")
		first.Done()
		wantOver(t, turn, true, "with a's slot back")
		if _, err := turn.Await(ctx); err != nil || second.Member(pool) != "a" {
			t.Errorf("%q, %v", second.Member(pool), err)
		}
	})
}

// Behind a heavy request there may be a turn at once, with another member.
func TestAPoolDoesNotRefuseForWhatAnotherMemberCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		pool := newPool(t, q, "a b", limit.PerSecond(1))
		for range 2 {
			enter(t, q, t.Context(), Demand{Keys: []Key{{Rule: pool}}})
		}
		heavy, _ := enter(t, q, t.Context(), Demand{Keys: []Key{{Rule: pool}}, Cost: 60})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		light, ticket := enter(t, q, ctx, Demand{Keys: []Key{{Rule: pool}}})
		time.Sleep(time.Second)
		wantOver(t, heavy, true, "the heavy one")
		wantOver(t, light, true, "the one behind it")
		if _, err := light.Await(ctx); err != nil || ticket.Member(pool) != "b" {
			t.Errorf("%q, %v", ticket.Member(pool), err)
		}
	})
}

func TestWhoIsCancelledAtTheDepartureGivesTheMemberItsUnitBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		pool := newPool(t, q, "a b", limit.PerSecond(1), limit.Concurrent(5))
		key := Demand{Keys: []Key{{Rule: pool}}}
		enter(t, q, t.Context(), key)
		enter(t, q, t.Context(), key)
		turn, ticket := enter(t, q, t.Context(), key)
		time.Sleep(time.Second)
		wantOver(t, turn, true, "after a second")
		m := ticket.Member(pool)
		turn.Cancel()
		if s := memberStats(t, q, m); s.Next != 0 || s.InFlight != 1 || s.Counts.Departed != 1 {
			t.Errorf("%q: %+v", m, s)
		}
	})
}

func TestSettleCorrectsTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{})
		pool := newPool(t, q, "a b", limit.PerSecond(1))
		ticket, err := q.Acquire(t.Context(), Demand{Keys: []Key{{Rule: pool}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Settle(5, pool); err != nil {
			t.Fatal(err)
		}
		if a, b := memberStats(t, q, "a").Next, memberStats(t, q, "b").Next; a != 5*time.Second || b != 0 {
			t.Errorf("a is free after %v, b after %v", a, b)
		}
		if err := pool.SetLimits(limit.PerSecond(10)); err != nil {
			t.Fatal(err)
		}
		if a := memberStats(t, q, "a").Next; a != 500*time.Millisecond {
			t.Errorf("at ten times the rate a is free after %v", a)
		}
		time.Sleep(time.Hour)
		if len(q.Stats()) != 3 {
			t.Errorf("a pool was forgotten: %+v", q.Stats())
		}
	})
}

func TestErrorsOfPools(t *testing.T) {
	q := newQueue(t, Config{})
	for _, tt := range []struct {
		members []string
		want    string
	}{
		{nil, "there are no members"},
		{[]string{"a", ""}, `members[1] is ""`},
		{[]string{"a", "b", "a"}, `members[2] is "a", which members[0] is`},
	} {
		if _, err := q.AddPool("pool", tt.members); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v", tt.members, err)
		}
	}
	if _, err := q.AddPool("pool", []string{"a"}, limit.PerSecond(-1)); !errors.Is(err, limit.ErrInvalid) {
		t.Errorf("with a rate below 0: %v", err)
	}
	pool := newPool(t, q, "a b")
	if !pool.NeedsTicket() {
		t.Error("a pool needs no ticket")
	}
	for what, err := range map[string]error{
		"is a pool, so the departure needs a ticket": func() error {
			_, err := q.Depart(t.Context(), Demand{Keys: []Key{{Rule: pool}}}, nil)
			return err
		}(),
		`Demand.Keys[0].Value is "a"`: func() error {
			_, err := q.Acquire(t.Context(), Demand{Keys: []Key{{Rule: pool, Value: "a"}}})
			return err
		}(),
		"isn't for Measure": func() error {
			_, err := q.Measure(Demand{Keys: []Key{{Rule: pool}}}, nil)
			return err
		}(),
		`keys[0].Value is "c"`: q.Pause(time.Now().Add(time.Minute), Key{Rule: pool, Value: "c"}),
	} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q: %v", what, err)
		}
	}
}
