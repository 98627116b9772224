package shared_test

import (
	"sync"
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/limit"
)

// realWorld is two regions, each with a Redis of its own, and a ledger apart from those.
func realWorld(t *testing.T, alone float64, limits ...limit.Limit) (w *world, ledger *redistest.Server) {
	own := []string{redistest.Start(t).Addr(), redistest.Start(t).Addr()}
	ledger = redistest.Start(t)
	return startWorld(t, 2, own, []string{ledger.Addr()}, alone, limits...), ledger
}

// atOnce runs what happens to regions while they are busy.
func (w *world) atOnce(d time.Duration, during func(), regions ...*region) (from time.Duration) {
	var wg sync.WaitGroup
	wg.Go(during)
	from = w.busyFor(d, regions...)
	wg.Wait()
	return from
}

// share is what a region has.
func (r *region) share() float64 { return r.sharing[0].Stats().Share }

func (w *world) within(from time.Duration, d time.Duration) int {
	return within(w.departures(), from, from+d)
}

// Without any ledger each region has what it has alone, and first those who have more come down.
func TestRealRedisRegionsWithoutLedger(t *testing.T) {
	fleettest.Timed(t)
	const rate = 1000
	w, ledger := realWorld(t, 0, limit.PerSecond(rate))
	east, west := w.regions[0], w.regions[1]
	w.busyFor(3*time.Second, east)
	if s := east.share(); s < 0.95 {
		t.Fatalf("east has %v", s)
	}
	sum := w.watchSum()
	from := w.atOnce(5*time.Second, ledger.Kill, east, west)
	if most := sum(); most > 1.0005 {
		t.Errorf("the shares added up to %v", most)
	}
	for i, r := range w.regions {
		if st := r.sharing[0].Stats(); !st.Alone || st.Share != 0.5 {
			t.Errorf("%s: %+v, want it to be alone with 0.5", w.names[i], st)
		}
	}
	if n := w.within(from+3*time.Second, 2*time.Second); n < 1.95*rate || n > 2.02*rate {
		t.Errorf("%d departures in 2 s while all are alone, want %d", n, 2*rate)
	}
	// The ledger comes back empty.
	sum = w.watchSum()
	ledger.Restart()
	from = w.busyFor(5*time.Second, east)
	if most := sum(); most > 1.0005 {
		t.Errorf("the shares added up to %v with a new ledger", most)
	}
	n := w.within(from+3*time.Second, 2*time.Second)
	t.Logf("with the new ledger: %d departures in 2 s", n)
	if n < 1.9*rate {
		t.Errorf("%d departures in 2 s with the new ledger, want 95 %% of %d", n, 2*rate)
	}
	if n := densest(w.departures(), time.Second); n > rate+20 {
		t.Errorf("%d departures in a second, want at most %d", n, rate+20)
	}
}

// The next ledger takes over while nobody loses what it has, and shares go on to follow the demand.
func TestRealRedisRegionsNextLedger(t *testing.T) {
	rarely(t)
	const rate = 1000
	own := []string{redistest.Start(t).Addr(), redistest.Start(t).Addr()}
	ledger := redistest.Start(t)
	w := startWorld(t, 2, own, []string{ledger.Addr(), own[0]}, 0, limit.PerSecond(rate))
	east, west := w.regions[0], w.regions[1]
	w.busyFor(3*time.Second, east)
	sum := w.watchSum()
	from := w.atOnce(4*time.Second, ledger.Kill, east)
	if n := w.within(from, 4*time.Second); n < 3.8*rate {
		t.Errorf("%d departures in 4 s while the ledger was lost, want 95 %% of %d", n, 4*rate)
	}
	if l := east.ledger(); l != 1 {
		t.Errorf("the ledger is %d, want the next", l)
	}
	from = w.busyFor(4*time.Second, west)
	if n := w.within(from+2*time.Second, 2*time.Second); n < 1.9*rate {
		t.Errorf("%d departures in 2 s of the other region, want 95 %% of %d", n, 2*rate)
	}
	ledger.Restart()
	from = w.busyFor(5*time.Second, east)
	if n := w.within(from+3*time.Second, 2*time.Second); n < 1.9*rate {
		t.Errorf("%d departures in 2 s with the first ledger again, want 95 %% of %d", n, 2*rate)
	}
	if l := east.ledger(); l != 0 {
		t.Errorf("the ledger is %d, want the first again", l)
	}
	if most := sum(); most > 1.0005 {
		t.Errorf("the shares added up to %v", most)
	}
	if n := densest(w.departures(), time.Second); n > rate+20 {
		t.Errorf("%d departures in a second, want at most %d", n, rate+20)
	}
}

// ledger is which one those who lead use.
func (r *region) ledger() int {
	for _, s := range r.sharing {
		if st := s.Stats(); st.Leads {
			return st.Ledger
		}
	}
	return -2
}

// A region that is cut off from the ledger keeps its share until the lease ends, and then has what it has alone, which is
// all that leaves in excess.
func TestRealRedisRegionsPartition(t *testing.T) {
	rarely(t)
	const rate, base = 1000, 0.025
	for _, c := range []struct {
		name  string
		alone float64
	}{{"alone it has half", 0.5}, {"alone it has its base", base}} {
		t.Run(c.name, func(t *testing.T) {
			w, _ := realWorld(t, c.alone, limit.PerSecond(rate))
			east, west := w.regions[0], w.regions[1]
			w.busyFor(3*time.Second, east, west)
			sum := w.watchSum()
			west.far.Store(true)
			from := w.busyFor(5*time.Second, east, west)
			bound := 1 - base + c.alone
			if most := sum(); most > bound+0.0005 {
				t.Errorf("the shares added up to %v, want at most %v", most, bound)
			}
			n := w.within(from+3*time.Second, 2*time.Second)
			t.Logf("%d departures in 2 s of the partition, shares %v and %v", n, east.share(), west.share())
			if n < 1.9*rate || float64(n) > 2*rate*bound+20 {
				t.Errorf("%d departures in 2 s, want %v to %v", n, 1.9*rate, 2*rate*bound)
			}
			west.far.Store(false)
			from = w.busyFor(6*time.Second, east, west)
			if n := w.within(from+4*time.Second, 2*time.Second); n < 1.95*rate || n > 2*rate+20 {
				t.Errorf("%d departures in 2 s after it, want %d", n, 2*rate)
			}
			if e, w := east.share(), west.share(); e < 0.45 || w < 0.45 {
				t.Errorf("after it the shares are %v and %v, want half each", e, w)
			}
		})
	}
}

// A region that loses its own Redis, too, goes on by itself, at no more than its share.
func TestRealRedisRegionsOwnRedisGone(t *testing.T) {
	rarely(t)
	const rate, base = 1000, 0.025
	w, _ := realWorld(t, base, limit.PerSecond(rate))
	east, west := w.regions[0], w.regions[1]
	w.busyFor(3*time.Second, east, west)
	for _, i := range west.instances {
		i.cut.Store(true)
	}
	west.far.Store(true)
	w.busyFor(5*time.Second, east, west)
	if n := densest(w.departures(), time.Second); n > rate+30 {
		t.Errorf("%d departures in a second, want at most %d", n, rate+30)
	}
	if e := east.share(); e < 0.95 {
		t.Errorf("the other has %v, want almost all", e)
	}
	for _, i := range west.instances {
		i.cut.Store(false)
	}
	west.far.Store(false)
	from := w.busyFor(5*time.Second, east, west)
	if n := w.within(from+3*time.Second, 2*time.Second); n < 1.95*rate || n > 2*rate+20 {
		t.Errorf("%d departures in 2 s after it, want %d", n, 2*rate)
	}
}

// Another instance leads when the one that did is gone, whether it said so or not.
func TestRealRedisRegionsLeaderGone(t *testing.T) {
	rarely(t)
	const rate = 1000
	w, _ := realWorld(t, 0, limit.PerSecond(rate))
	east := w.regions[0]
	w.busyFor(2*time.Second, east)
	leads := func() int {
		for i, s := range east.sharing {
			if s.Stats().Leads {
				return i
			}
		}
		return -1
	}
	first := leads()
	if first < 0 {
		t.Fatal("nobody leads")
	}
	east.instances[first].cut.Store(true)
	time.Sleep(time.Second)
	if st := east.sharing[1-first].Stats(); !st.Leads || st.Alone {
		t.Errorf("the other instance: %+v, want it to lead", st)
	}
	east.instances[first].cut.Store(false)
	time.Sleep(time.Second)
	east.instances[1-first].store.Close()
	time.Sleep(300 * time.Millisecond)
	if st := east.sharing[first].Stats(); !st.Leads || st.Alone {
		t.Errorf("the first instance: %+v, want it to lead again", st)
	}
}

// What a window counts in one region is not another's to use.
func TestRealRedisRegionsOfAWindow(t *testing.T) {
	rarely(t)
	const n, d = 1000, 2 * time.Second
	for _, l := range []limit.Limit{limit.SlidingWindow(n, d), limit.SlidingCounter(n, d), limit.FixedWindow(n, d).ByClock()} {
		t.Run(l.String(), func(t *testing.T) {
			w, _ := realWorld(t, 0, l)
			sum := w.watchSum()
			for _, regions := range [][]*region{w.regions[:1], w.regions[1:], w.regions} {
				w.busyFor(4*time.Second, regions...)
			}
			all := w.departures()
			bound := n + 2
			if l.Kind() != limit.KindSlidingWindow { // any span is of parts of two windows
				bound *= 2
			}
			most := densest(all, d)
			t.Logf("%d departures in 12 s, at most %d in %v", len(all), most, d)
			if most > bound {
				t.Errorf("%d departures in %v, want at most %d", most, d, bound)
			}
			if most := sum(); most > 1.0005 {
				t.Errorf("the shares added up to %v", most)
			}
		})
	}
}

func TestRealRedisRegionsOfSlots(t *testing.T) {
	rarely(t)
	const slots = 40
	w, _ := realWorld(t, 0, limit.Concurrent(slots))
	w.hold = 20 * time.Millisecond
	from := w.busyFor(4*time.Second, w.regions[0])
	if n := w.within(from+2*time.Second, 2*time.Second); n < 3000 {
		t.Errorf("%d departures in 2 s of one region, want almost 4000", n)
	}
	from = w.busyFor(4*time.Second, w.regions[1])
	if n := w.within(from+2*time.Second, 2*time.Second); n < 3000 {
		t.Errorf("%d departures in 2 s of the other region, want almost 4000", n)
	}
	w.busyFor(3*time.Second, w.regions...)
	if most := w.most.Load(); most > slots+1 {
		t.Errorf("%d out at once, want at most %d", most, slots+1)
	}
}

// A region that has used a window up keeps the share for it, though it doesn't ask any more.
func TestRealRedisRegionsOfALongWindow(t *testing.T) {
	rarely(t)
	const n = 1000
	w, _ := realWorld(t, 0, limit.SlidingWindow(n, time.Hour))
	w.busyFor(3*time.Second, w.regions[0])
	w.busyFor(3*time.Second, w.regions[1])
	left := len(w.departures())
	t.Logf("%d departures", left)
	if left < n*95/100 || left > n+2 {
		t.Errorf("%d departures, want %d to %d", left, n*95/100, n+2)
	}
}
