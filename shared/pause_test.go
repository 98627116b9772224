package shared_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// A pause that one instance is asked for reaches all of them: nobody leaves until it ends, and nobody at once then.
func TestPauseReachesTheFleet(t *testing.T) {
	fleettest.Timed(t)
	onRedis(t, func(t *testing.T, addr string) {
		const n, rate, pause = 16, 1000, 700 * time.Millisecond
		f := startFleet(t, n, addr, shared.Config{}, limit.PerSecond(rate))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for _, i := range f.instances {
			f.busy(ctx, &wg, i, 16, 0)
		}
		time.Sleep(time.Second)
		i := f.instances[3]
		if err := i.queue.Pause(time.Now().Add(pause), leakyqueue.Key{Rule: i.rule}); err != nil {
			t.Fatal(err)
		}
		from := time.Since(f.begin)
		wg.Wait()
		all := f.departures()
		last := time.Duration(0)
		leaked := 0
		for _, at := range all {
			if at > from && at < from+pause-time.Millisecond {
				last = max(last, at-from)
				leaked++
			}
		}
		first := time.Duration(0)
		for _, at := range all {
			if at >= from+pause-time.Millisecond {
				first = at - from
				break
			}
		}
		after := within(all, from+pause-time.Millisecond, from+pause+100*time.Millisecond)
		t.Logf("%d left after the pause was asked for, the last %v after; the first after it at +%v, %d within 100 ms", leaked, last, first-pause, after)
		if leaked > 20 || last > 50*time.Millisecond {
			t.Errorf("%d departures in the pause, the last %v after its begin", leaked, last)
		}
		if after > rate/10+rate/20 || after < rate/20 {
			t.Errorf("%d departures within 100 ms after the pause, want %d", after, rate/10)
		}
	})
}
