package shared_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// besideCrowds has fifteen instances with two thousand who wait in each, and returns when the only caller of a sixteenth
// asked, and when it left, again and again for d.
func besideCrowds(t *testing.T, l limit.Limit, d time.Duration) (f *fleet, asked, left []time.Duration) {
	f = startFleet(t, 16, redistest.Start(t).Addr(), patient, l)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, i := range f.instances[:15] {
		f.busy(ctx, &wg, i, 2000, 0)
	}
	time.Sleep(time.Second)
	single := f.instances[15]
	for end := time.Now().Add(d); time.Now().Before(end); {
		begin := time.Since(f.begin)
		if _, err := single.queue.Depart(ctx, leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: single.rule}}}, nil); err != nil {
			t.Fatal(err)
		}
		asked, left = append(asked, begin), append(left, time.Since(f.begin))
	}
	return f, asked, left
}

// Who waits alone in its instance waits no longer than the horizon and its turn among sixteen, beside those where thousands
// do.
func TestRealRedisFairBesideCrowds(t *testing.T) {
	fleettest.Timed(t)
	const rate = 1000
	noisy := crowded(t)
	f, asked, left := besideCrowds(t, limit.PerSecond(rate), 5*time.Second)
	waits := make([]time.Duration, len(left))
	for i := range left {
		waits[i] = left[i] - asked[i]
	}
	slices.Sort(waits)
	most := waits[len(waits)-1]
	p50, p99 := waits[len(waits)/2], waits[min(len(waits)-1, len(waits)*99/100)]
	all := within(f.departures(), time.Second, 6*time.Second)
	t.Logf("%d waits: p50 %v, p99 %v, most %v; the others had %d departures in 5 s", len(waits), p50, p99, most, all)
	if noisy() {
		return
	}
	// 16 ms is a turn of all at 1,000/s; 20 ms is for the timers of a machine on which 30,000 wait.
	if bound := shared.DefaultHorizon + 16*time.Second/rate + 20*time.Millisecond; p99 > bound {
		t.Errorf("p99 of the waits is %v, want at most %v", p99, bound)
	}
	if bound := shared.DefaultHorizon + 16*time.Second/rate + lateness; most > bound {
		t.Errorf("the longest wait is %v, want at most %v", most, bound)
	}
	if all+len(left) < 5*rate*97/100 {
		t.Errorf("%d departures in 5 s, want %d", all+len(left), 5*rate)
	}
}

// And it has its turn in each window.
func TestRealRedisFairInWindows(t *testing.T) {
	fleettest.Timed(t)
	const n, d = 500, time.Second
	_, asked, left := besideCrowds(t, limit.FixedWindow(n, d), 5*d)
	most := time.Duration(0)
	for i := range left {
		most = max(most, left[i]-asked[i])
	}
	t.Logf("%d departures in 5 windows, the longest wait %v", len(left), most)
	if most > d+100*time.Millisecond {
		t.Errorf("the longest wait is %v, want at most a window", most)
	}
}
