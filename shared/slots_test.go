package shared_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// patient has no outage, in which everybody has a slot at least: one begins where a machine is busy with other tests for
// longer than the timeout.
var patient = shared.Config{Timeout: 10 * time.Second}

func TestSlotsAreSharedAndUsed(t *testing.T) {
	fleettest.Timed(t)
	onRedis(t, func(t *testing.T, addr string) {
		f := startFleet(t, 4, addr, patient, limit.Concurrent(10))
		f.run(3*time.Second, 10, 20*time.Millisecond)
		if n := f.most.Load(); n > 10 {
			t.Errorf("%d requests out at once, want at most 10", n)
		}
		if n := within(f.departures(), time.Second, 3*time.Second); n < 800 {
			t.Errorf("%d departures in 2 s, want almost 1000", n)
		}
		for n, i := range f.instances {
			if left := len(i.left); left < 150 {
				t.Errorf("instance %d: %d departures, want a quarter of the 1500", n, left)
			}
		}
	})
}

// With fewer slots than instances everybody gets its turn.
func TestSlotsTakeTurns(t *testing.T) {
	fleettest.Timed(t)
	onRedis(t, func(t *testing.T, addr string) {
		f := startFleet(t, 3, addr, patient, limit.Concurrent(1))
		f.run(3*time.Second, 5, 10*time.Millisecond)
		if n := f.most.Load(); n > 1 {
			t.Errorf("%d requests out at once, want at most 1", n)
		}
		for n, i := range f.instances {
			if left := len(i.left); left < 30 {
				t.Errorf("instance %d: %d departures, want a third of the 300", n, left)
			}
		}
	})
}

// A holder that has crashed doesn't keep its slots: trap 36.
func TestSlotsOfTheDeadComeBack(t *testing.T) {
	onRedis(t, func(t *testing.T, addr string) {
		const lease = 600 * time.Millisecond
		f := startFleet(t, 2, addr, shared.Config{SlotLease: lease}, limit.Concurrent(4))
		dead, alive := f.instances[0], f.instances[1]
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		f.busy(ctx, &wg, dead, 4, time.Hour)
		for f.out.Load() < 4 {
			time.Sleep(time.Millisecond)
		}
		dead.cut.Store(true) // it is not heard of any more
		f.out.Store(0)
		died := time.Now()
		f.busy(ctx, &wg, alive, 4, time.Hour)
		for f.out.Load() < 4 && time.Since(died) < 5*time.Second {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(died); took > lease+500*time.Millisecond {
			t.Errorf("the slots came back after %v, want the lease of %v", took, lease)
		}
		cancel()
		dead.cut.Store(false)
		f.release(&wg)
	})
}

func TestSlotsThatWereLostAreTold(t *testing.T) {
	fleettest.Timed(t)
	onRedis(t, func(t *testing.T, addr string) {
		f := startFleet(t, 2, addr, shared.Config{SlotLease: 300 * time.Millisecond, Timeout: time.Minute}, limit.Concurrent(4))
		slow := f.instances[0]
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		f.busy(ctx, &wg, slow, 4, time.Hour)
		for f.out.Load() < 4 {
			time.Sleep(time.Millisecond)
		}
		slow.cut.Store(true)
		f.busy(ctx, &wg, f.instances[1], 4, time.Hour)
		for f.out.Load() < 8 {
			time.Sleep(time.Millisecond)
		}
		slow.cut.Store(false)
		lost := func() uint64 { return slow.queue.Stats()[0].Counts.SlotsLost }
		for end := time.Now().Add(10 * time.Second); lost() == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if lost() == 0 {
			t.Error("nobody was told that slots were lost")
		}
		cancel()
		f.release(&wg)
	})
}

// release doesn't wait for those who hold their slots for ever.
func (f *fleet) release(wg *sync.WaitGroup) { close(f.over); wg.Wait() }

// Also those who share slots and no rate know how many they are, so that in an outage each has its part of them.
func TestSlotsInAnOutage(t *testing.T) {
	fleettest.Timed(t)
	onRedis(t, func(t *testing.T, addr string) {
		const n, slots = 3, 12
		f := startFleet(t, n, addr, shared.Config{SlotLease: time.Second, Timeout: 300 * time.Millisecond}, limit.Concurrent(slots))
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for _, i := range f.instances {
			f.busy(ctx, &wg, i, slots, 10*time.Millisecond)
		}
		time.Sleep(time.Second)
		for k, i := range f.instances {
			if got := i.store.Stats().Instances; got != n {
				t.Errorf("instance %d knows of %d instances, want %d", k, got, n)
			}
			i.cut.Store(true)
		}
		wg.Wait()
		for _, i := range f.instances {
			if i.store.Stats().Outages == 0 {
				t.Error("there was no outage")
			}
			i.cut.Store(false)
		}
		if most := f.most.Load(); most > slots {
			t.Errorf("%d requests out at once, want at most %d", most, slots)
		}
		if left := within(f.departures(), 1500*time.Millisecond, 2500*time.Millisecond); left < 800 {
			t.Errorf("%d departures in the last second, want almost 1200", left)
		}
	})
}
