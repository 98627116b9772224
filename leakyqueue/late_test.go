package leakyqueue

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// takeTimer leaves q without a timer: the test fires it, as late as it likes.
func (q *Queue) takeTimer() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer.Stop()
	q.armed = 0 // earlier than any other moment, so it is never set
}

func (q *Queue) fireLate() {
	q.fire()
	q.takeTimer()
}

// Invariants 1 and 2 under late timers: departures stay within b + r·(W + slack) in every window W,
// and as long as no timer is later than the slack, as many leave as without any lateness.
func TestLatenessIsCaughtUpWithinSlackProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		perSecond := rapid.SampledFrom([]float64{1, 30, 100, 1000, 9999.9}).Draw(rt, "rate")
		burst := rapid.IntRange(1, 5).Draw(rt, "burst")
		slack := time.Duration(rapid.IntRange(1, 50).Draw(rt, "slack")) * time.Millisecond
		latest := time.Duration(rapid.IntRange(0, 80).Draw(rt, "latest")) * time.Millisecond
		lateness := rapid.SliceOfN(rapid.Int64Range(0, int64(latest)), 20, 60).Draw(rt, "lateness")

		var left []time.Duration
		synctest.Test(t, func(t *testing.T) {
			q, err := New(Config{Slack: slack, MaxWaiting: -1}, limit.PerSecond(perSecond).WithBurst(burst))
			if err != nil {
				t.Fatal(err)
			}
			q.takeTimer()
			start := time.Now()
			var mu sync.Mutex
			var wg sync.WaitGroup
			enough := int(perSecond*float64(len(lateness))*(latest+slack).Seconds()) + 50
			for range min(enough, 3000) {
				wg.Go(func() {
					if q.Wait(t.Context()) != nil {
						return // closed
					}
					mu.Lock()
					left = append(left, time.Since(start))
					mu.Unlock()
				})
			}
			synctest.Wait()
			for _, late := range lateness {
				q.mu.Lock()
				b, ok := q.wakes.top()
				var due time.Duration
				if ok {
					due = b.wake - q.now()
				}
				q.mu.Unlock()
				if !ok {
					break // everybody has left
				}
				time.Sleep(due + time.Duration(late))
				q.fireLate()
				synctest.Wait()
			}
			q.Close(canceled(t))
			wg.Wait()
		})
		for i := range left {
			for j := i; j < len(left); j++ {
				window := left[j] - left[i]
				bound := float64(burst) + perSecond*(window+slack).Seconds() + 1e-6
				if n := j - i + 1; float64(n) > bound {
					rt.Fatalf("%d left within %v, want at most %v", n, window, bound)
				}
			}
		}
		if last := left[len(left)-1]; latest <= slack {
			if ideal := int(perSecond*last.Seconds()-1e-6) + burst; len(left) < min(ideal, 3000) {
				rt.Fatalf("%d left in %v with timers late by up to %v, want %d", len(left), last, latest, ideal)
			}
		}
	})
}
