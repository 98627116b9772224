package bench

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// BenchmarkPace has 64 callers keep a limit for two seconds, and reads at a recording server, over
// TCP, how much of it they used and how many arrived within any 100 ms and any second. The bound is
// ARCHITECTURE's: b + r·(W + slack), rounded up.
func BenchmarkPace(b *testing.B) {
	const callers, length = 64, 2 * time.Second
	for _, perSecond := range []float64{100, 1000, 10_000} {
		for _, c := range []struct {
			name string
			rt   func(base http.RoundTripper) http.RoundTripper
		}{
			{"outflow", func(base http.RoundTripper) http.RoundTripper {
				t, err := outflow.New(outflow.Config{Base: base, Limits: []limit.Limit{limit.PerSecond(perSecond)}})
				if err != nil {
					b.Fatal(err)
				}
				return t
			}},
			{"peer=xtimerate", func(base http.RoundTripper) http.RoundTripper {
				return xtimeRate{base, rate.NewLimiter(rate.Limit(perSecond), 1)}
			}},
		} {
			b.Run(fmt.Sprintf("%.0f/%s", perSecond, c.name), func(b *testing.B) {
				up := testserver.New()
				server := up.TCP(b)
				server.Transport.MaxIdleConnsPerHost = callers
				rt := c.rt(server.Transport)
				for b.Loop() {
					up.Reset()
					run(b, rt, server.URL, callers, length)
				}
				arrivals := up.Arrivals()
				report := func(window time.Duration, unit string) {
					bound := math.Ceil(1 + perSecond*(window+leakyqueue.DefaultSlack).Seconds())
					b.ReportMetric(float64(arrivals.MaxInWindow(window)), "max/"+unit)
					b.ReportMetric(bound, "bound/"+unit)
				}
				report(100*time.Millisecond, "100ms")
				report(time.Second, "1s")
				b.ReportMetric(100*arrivals.Utilisation(perSecond, 1), "%used")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// run has callers send one request after the other until length is over.
func run(b *testing.B, rt http.RoundTripper, url string, callers int, length time.Duration) {
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for time.Now().Before(end) {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
				if err != nil {
					b.Error(err)
					return
				}
				resp, err := rt.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
}
