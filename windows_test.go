package outflow_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // for machines that have no zones

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// Each kind of window against an upstream that counts in the same way: 64 callers send five windows' worth,
// nobody is refused, and it takes no more than 2 % longer than the upstream's windows make it.
func TestWindowsKeepTheUpstreamsCount(t *testing.T) {
	losAngeles, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	for _, tt := range []struct {
		name     string
		limit    limit.Limit
		upstream func() *testserver.Policy
		start    time.Duration // into a window
		length   time.Duration
		ideal    time.Duration // from the first departure to the last
	}{
		{"sliding", limit.SlidingWindow(n, time.Minute), func() *testserver.Policy { return testserver.SlidingLog(n, time.Minute) }, 0, time.Minute, 4 * time.Minute},
		{"sliding second", limit.SlidingWindow(n, time.Second), func() *testserver.Policy { return testserver.SlidingLog(n, time.Second) }, 0, time.Second, 4 * time.Second},
		{"sliding counter", limit.SlidingCounter(n, time.Minute), func() *testserver.Policy { return testserver.SlidingCounter(n, time.Minute) }, 0, time.Minute, 5 * time.Minute},
		{"fixed, of unknown phase", limit.FixedWindow(n, time.Minute), func() *testserver.Policy { return testserver.Window(n, time.Minute) }, 17 * time.Second, time.Minute, 4 * time.Minute},
		{"fixed, of unknown phase, against a sliding log", limit.FixedWindow(n, time.Minute), func() *testserver.Policy { return testserver.SlidingLog(n, time.Minute) }, 0, time.Minute, 4 * time.Minute},
		{"fixed by clock", limit.FixedWindow(n, time.Minute).ByClock(), func() *testserver.Policy { return testserver.Window(n, time.Minute).Aligned(0) }, 40 * time.Second, time.Minute, 3*time.Minute + 20*time.Second},
		{"daily", limit.Daily(n, 0, 0, losAngeles), func() *testserver.Policy {
			return testserver.Window(n, 24*time.Hour).Boundaries(testserver.Daily(0, 0, losAngeles))
		}, 0, 24 * time.Hour, 3*24*time.Hour + 8*time.Hour}, // it is 16:00 there when the test begins
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(tt.start)
				up := testserver.New(tt.upstream())
				srv := up.Pipe(t)
				tr := newTransport(t, outflow.Config{
					Base: srv.Transport, Limits: []limit.Limit{tt.limit},
					Queue: leakyqueue.Config{MaxPause: 48 * time.Hour}, Retry: outflow.Retry{MaxAttempts: 1},
				})
				start := time.Now()
				var wg sync.WaitGroup
				work := make(chan struct{}, 5*n)
				for range 5 * n {
					work <- struct{}{}
				}
				close(work)
				for range 64 {
					wg.Go(func() {
						for range work {
							if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != http.StatusOK {
								t.Error(status, err)
							}
						}
					})
				}
				wg.Wait()
				if took := time.Since(start); took > tt.ideal+tt.ideal/50 {
					t.Errorf("it took %v, the upstream's windows allow %v", took, tt.ideal)
				} else {
				}
			})
		})
	}
}
