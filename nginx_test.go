package outflow_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
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
			switch {
			case *nginxFull:
				repeats, requests = 5, 600
			case *signalsDir != "": // a picture of one run
				requests = 600
			}
			var got [2][]nginxRun
			for range repeats {
				url := startNginx(t, tt.burst)
				base := &http.Transport{MaxIdleConnsPerHost: 64}
				defer base.CloseIdleConnections()
				cfg := tt.cfg
				cfg.Base = base
				for i, o := range runNginx(t, cfg, url, requests) {
					o.Scenario, o.Conditions = "nginx, "+tt.name, fmt.Sprintf("run %d", i+1)
					o.save(t)
					got[i] = append(got[i], nginxRun{
						ratio:   o.ratio(),
						refused: float64(o.refused()) / float64(requests),
						failed:  float64(o.Failed) / float64(requests),
					})
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

// runNginx has 64 workers send the requests, twice with the same Transport.
func runNginx(t *testing.T, cfg outflow.Config, url string, requests int) (runs [2]outcome) {
	t.Helper()
	network := &network{base: cfg.Base, rng: rand.New(rand.NewPCG(0, 0))} // which adds nothing to the real one
	cfg.Base = network
	tr := newTransport(t, cfg)
	for i := range runs {
		earlier := len(network.attempts())
		work := make(chan struct{}, requests)
		for range requests {
			work <- struct{}{}
		}
		close(work)
		w := &watch{}
		start := time.Now()
		scenario{}.closedLoop(64, func() bool { _, more := <-work; return more }, func(int) {
			began := time.Now()
			status, _, err := get(t.Context(), tr, url)
			w.saw(span{began, time.Now(), status}, err)
		})
		attempts := network.attempts()[earlier:]
		o := outcome{
			Calls:    len(w.calls),
			Attempts: len(attempts),
			ByStatus: make(map[int]int),
			Elapsed:  time.Since(start),
			Minimal:  requestsTime(requests),
			Series:   series(start, w.calls, attempts),
		}
		for _, call := range w.calls {
			if call.status != http.StatusOK {
				o.Failed++
			}
		}
		for _, a := range attempts {
			o.ByStatus[a.status]++
		}
		runs[i] = o
	}
	return runs
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
