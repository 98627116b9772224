package outflow_test

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

var nginxFull = flag.Bool("nginx.full", false, "TestNginx: medians of five runs of 600 requests, against the targets, in place of one of 200 against loose bounds")

// An nginxRun is what some requests came to.
type nginxRun struct {
	ratio   float64 // the time it took, as a multiple of what the limit makes it
	refused float64 // 429s, as a share of the requests
	failed  float64 // calls that came to no 200
}

// A real nginx refuses by limit_req what comes sooner than a hundredth of a second after the last that it has
// accepted, or, with a burst of 5, what would have to wait for more than five of those. The time here is
// real: that is what it is about.
//
//	go test -run TestNginx -v . -nginx.full    five minutes
func TestNginx(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	declared := outflow.Config{Limits: []limit.Limit{limit.PerSecond(100)}}
	for _, tt := range []struct {
		name  string
		cfg   outflow.Config
		burst int
		runs  [2]nginxRun // what is to be reached at most by the first and the second run on a Transport
	}{
		{"declared, burst 5", declared, 5, [2]nginxRun{{ratio: 1.01}, {ratio: 1.01}}},
		{"declared, no burst", declared, 0, [2]nginxRun{{ratio: 1.10, refused: 0.02}, {ratio: 1.10, refused: 0.02}}},
		{"nothing declared, burst 5", outflow.Config{}, 5, [2]nginxRun{{ratio: 1.5, refused: 0.10}, {ratio: 1.15, refused: 0.02}}},
		{"nothing declared, no burst", outflow.Config{}, 0, [2]nginxRun{{ratio: 1.5, refused: 0.10}, {ratio: 1.15, refused: 0.02}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			repeats, requests := 1, 200
			if *nginxFull {
				repeats, requests = 5, 600
			}
			var got [2][]nginxRun
			for range repeats {
				url := startNginx(t, tt.burst)
				counter := &refusalCounter{base: &http.Transport{MaxIdleConnsPerHost: 64}}
				defer counter.base.CloseIdleConnections()
				cfg := tt.cfg
				cfg.Base = counter
				tr := newTransport(t, cfg)
				for i := range got {
					got[i] = append(got[i], runNginx(t, tr, counter, url, requests))
				}
			}
			for i, want := range tt.runs {
				m := medianOf(got[i])
				t.Logf("nginx, %s, run %d: time %.3f × %v, 429s %.1f %%, failed %.1f %% of %d (median of %d)",
					tt.name, i+1, m.ratio, requestsTime(requests), 100*m.refused, 100*m.failed, requests, repeats)
				if !*nginxFull {
					// One short run on whatever machine this is: what takes a second to learn is a larger share of
					// two seconds, and nobody else was kept from the processor.
					want.ratio, want.refused = 1.5*want.ratio, 3*want.refused+0.02
				}
				atMost(t, fmt.Sprintf("run %d: time", i+1), m.ratio, want.ratio)
				atMost(t, fmt.Sprintf("run %d: share of 429s", i+1), m.refused, want.refused)
				atMost(t, fmt.Sprintf("run %d: share of failed calls", i+1), m.failed, 0)
			}
		})
	}
}

// requestsTime is how long requests take at 100 a second.
func requestsTime(n int) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

func runNginx(t *testing.T, tr *outflow.Transport, counter *refusalCounter, url string, requests int) nginxRun {
	t.Helper()
	before := counter.refused.Load()
	var failed atomic.Int64
	work := make(chan struct{}, requests)
	for range requests {
		work <- struct{}{}
	}
	close(work)
	start := time.Now()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range work {
				if status, _, err := get(t.Context(), tr, url); err != nil || status != http.StatusOK {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	n := float64(requests)
	return nginxRun{
		ratio:   float64(time.Since(start)) / float64(requestsTime(requests)),
		refused: float64(counter.refused.Load()-before) / n,
		failed:  float64(failed.Load()) / n,
	}
}

// medianOf takes each figure's median by itself.
func medianOf(runs []nginxRun) nginxRun {
	median := func(figure func(nginxRun) float64) float64 {
		var all []float64
		for _, r := range runs {
			all = append(all, figure(r))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return nginxRun{
		ratio:   median(func(r nginxRun) float64 { return r.ratio }),
		refused: median(func(r nginxRun) float64 { return r.refused }),
		failed:  median(func(r nginxRun) float64 { return r.failed }),
	}
}

// refusalCounter counts the 429s that come back.
type refusalCounter struct {
	base    *http.Transport
	refused atomic.Int64
}

func (c *refusalCounter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusTooManyRequests {
		c.refused.Add(1)
	}
	return resp, err
}
