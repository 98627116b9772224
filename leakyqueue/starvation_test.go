package leakyqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// starve has a backlog of requests of the given cost at each of several buckets of 1/s, whose phases are
// as given, and says how long one of cost 1 waits that wants all of them.
func starve(t *testing.T, cost int, phases ...time.Duration) time.Duration {
	var took time.Duration
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWaiting: -1})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		start := time.Now()
		var all []Key
		for i, phase := range phases {
			time.Sleep(time.Until(start.Add(phase)))
			k := Key{Rule: newRule(t, q, fmt.Sprint(i), limit.PerSecond(1))}
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

// Whoever wants several buckets that others keep busy gets its turn.
func TestNobodyStarves(t *testing.T) {
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

// A head that was passed over fewer than patience times leaves the buckets to others.
func TestFewPassesClaimNothing(t *testing.T) {
	// The buckets' turns come half a second apart, so it is passed over twice a second.
	if d := starve(t, 1, 0, 500*time.Millisecond); d < 4*time.Second {
		t.Errorf("who wants both left after %v", d)
	}
}

// The same where what is busy is a concurrency.
func TestNobodyStarvesForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWaiting: -1})
		b, c := Key{Rule: newRule(t, q, "b", limit.Concurrent(1))}, Key{Rule: newRule(t, q, "c", limit.Concurrent(1))}
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

// Where two buckets let go at the same moment, the older of those who wait goes first.
func TestTieGoesToTheOldest(t *testing.T) {
	if d := starve(t, 1, 0, 0); d > 5*time.Second {
		t.Errorf("who wants both left after %v", d)
	}
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWaiting: -1})
		b, c := Key{Rule: newRule(t, q, "b", limit.PerSecond(1))}, Key{Rule: newRule(t, q, "c", limit.PerSecond(1))}
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

// slotsApart has two buckets of n slots, all of them out, and one request that wants a slot of both.
// Behind it somebody always waits for each bucket alone.
type slotsApart struct {
	q     *Queue
	keys  []Key
	out   [2][]*Ticket // of the buckets alone
	next  [2]Turn
	taken [2]*Ticket // by next
}

func newSlotsApart(t *testing.T, n int) (s *slotsApart, both Turn, ticket *Ticket) {
	q := newQueue(t, Config{})
	s = &slotsApart{q: q, keys: []Key{{Rule: newRule(t, q, "b", limit.Concurrent(n))}, {Rule: newRule(t, q, "c", limit.Concurrent(n))}}}
	for i, k := range s.keys {
		for range n {
			_, out := enter(t, q, t.Context(), Demand{Keys: []Key{k}})
			s.out[i] = append(s.out[i], out)
		}
	}
	both, ticket = enter(t, q, t.Context(), Demand{Keys: s.keys})
	for i := range s.keys {
		s.come(t, i)
	}
	return s, both, ticket
}

func (s *slotsApart) come(t *testing.T, i int) {
	s.next[i], s.taken[i] = enter(t, s.q, t.Context(), Demand{Keys: s.keys[i : i+1]})
}

// free gives back a slot of bucket i a second later, and says whether who waits for that one alone got it.
func (s *slotsApart) free(t *testing.T, i int) bool {
	time.Sleep(time.Second)
	s.out[i][0].Done()
	s.out[i] = s.out[i][1:]
	if !s.next[i].over() {
		return false
	}
	s.out[i] = append(s.out[i], s.taken[i])
	s.come(t, i)
	return true
}

// passOver frees a slot of either bucket in turn, while the other has none.
func (s *slotsApart) passOver(t *testing.T, times int) {
	t.Helper()
	for i := range times {
		if !s.free(t, i%2) {
			t.Fatalf("the slot wasn't given on when who wants both was passed over for time %d", i+1)
		}
	}
}

// Who was passed over so often that it claims a slot doesn't keep it from others for long.
func TestClaimOfASlotIsShort(t *testing.T) {
	claim := func(t *testing.T) (s *slotsApart, both Turn, ticket *Ticket) {
		s, both, ticket = newSlotsApart(t, 1)
		s.passOver(t, patience-1)
		if s.free(t, 1) {
			t.Fatal("nothing was claimed")
		}
		return s, both, ticket
	}
	t.Run("an eighth of the wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, _, _ := claim(t)
			time.Sleep(patience*time.Second/8 - 1)
			wantOver(t, s.next[1], false, "who came later, before the claim ends")
			time.Sleep(time.Nanosecond)
			wantOver(t, s.next[1], true, "who came later, when the claim ends")
		})
	})
	t.Run("until it is cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, both, _ := claim(t)
			both.Cancel()
			wantOver(t, s.next[1], true, "who came later")
		})
	})
	t.Run("until it leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, both, ticket := claim(t)
			another, _ := enter(t, s.q, t.Context(), Demand{Keys: s.keys})
			s.out[0][0].Done()
			wantOver(t, both, true, "who has claimed both")
			time.Sleep(time.Minute)
			ticket.Done()
			for i := range s.keys {
				wantOver(t, s.next[i], true, "who came later")
				s.out[i] = []*Ticket{s.taken[i]}
				s.come(t, i)
			}
			s.passOver(t, patience-2) // the next who wants both begins anew
			wantOver(t, another, false, "who wants both, too")
		})
	})
}

// Of several slots one is claimed, and the others are taken meanwhile.
func TestOneSlotIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newSlotsApart(t, 2)
		s.passOver(t, patience-1)
		if s.free(t, 1) {
			t.Fatal("nothing was claimed")
		}
		s.out[1][0].Done()
		wantOver(t, s.next[1], true, "who came later, with two slots free")
	})
}

// A claim that nobody needs any more doesn't keep anything idle.
func TestClaimEndsWhenItsClaimantLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, both, ticket := newSlotsApart(t, 1)
		s.passOver(t, patience-1)
		if s.free(t, 1) {
			t.Fatal("nothing was claimed")
		}
		s.out[0][0].Done()
		wantOver(t, both, true, "who has claimed both")
		ticket.Done() // all slots are free
		start := time.Now()
		for i := range s.keys {
			<-s.next[i].w.ready
			if d := time.Since(start); d != 0 {
				t.Errorf("who waits for bucket %d alone left %v after all slots had come free", i, d)
			}
		}
	})
}

// The same where the claimant is refused, here by its deadline as of MaxWait.
func TestClaimEndsWhenItsClaimantIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, both, _ := newSlotsApart(t, 1)
		s.passOver(t, patience-1)
		if s.free(t, 1) {
			t.Fatal("nothing was claimed")
		}
		// c is free and claimed; a pause of b that is longer than MaxPause refuses the claimant.
		if err := s.q.Pause(time.Now().Add(time.Hour), s.keys[0]); err != nil {
			t.Fatal(err)
		}
		wantOver(t, both, true, "who is refused by b's pause")
		wantOver(t, s.next[1], true, "who waits for c alone, which is free")
	})
}
