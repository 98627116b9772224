package outflow_test

import (
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

// eightAtOnce is an upstream that handles 8 requests at a time, 50 ms each, and refuses more without a
// hint. The least time is what a client takes that knows the 8: while an answer is under way to it, it has
// one fewer at the upstream.
func eightAtOnce(t *testing.T, cfg outflow.Config, c conditions) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		const calls, slots, service = 2000, 8, 50 * time.Millisecond
		return scenario{
			name:     "8 at a time",
			upstream: testserver.New(testserver.Concurrency(slots)).Answering(testserver.After(service, testserver.OK())),
			calls:    calls,
			minimal:  time.Duration(calls) * (service + c.roundTrip()) / slots,
		}
	})
}

// Peers told nothing need 273 to 691 429s at 1.2 to 9.2 ×.
func TestSignalsConcurrency(t *testing.T) {
	for _, c := range everyday() {
		t.Run(c.String(), func(t *testing.T) {
			var times []float64
			for range when(c.near(), 5, 1) {
				o := eightAtOnce(t, outflow.Config{}, c)
				atMost(t, "failed calls", o.Failed, 0)
				atMost(t, "429s", o.refused(), when(c.near(), 8, 16))
				times = append(times, o.ratio())
			}
			slices.Sort(times)
			atMost(t, "time, the median", times[len(times)/2], when(c.near(), 1.05, 1.10))
			atMost(t, "time", times[len(times)-1], 1.15)
		})
	}
}

// cliff is an upstream that never refuses, but slows down when more than 8 requests are in flight: with
// twice as many each takes four times as long, so the more come, the fewer are done.
func cliff(t *testing.T, cfg outflow.Config, c conditions) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		const calls, slots, service = 2000, 8, 50 * time.Millisecond
		var inFlight atomic.Int64
		return scenario{
			name: "latency cliff beyond 8",
			upstream: testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := inFlight.Add(1)
				defer inFlight.Add(-1)
				crowd := max(1, float64(n)/slots)
				time.Sleep(time.Duration(float64(service) * crowd * crowd))
				_, _ = io.WriteString(w, "ok\n")
			})),
			calls: calls,
			// Eight at the upstream at all times are the best throughput there is.
			minimal: time.Duration(calls) * (service + c.roundTrip()) / slots,
		}
	})
}

// adaptiveConcurrency is what the client of the cliff declares.
var adaptiveConcurrency = []limit.Limit{limit.AdaptiveConcurrency(1, 64)}

func TestSignalsLatencyCliff(t *testing.T) {
	for _, c := range everyday() {
		t.Run(c.String(), func(t *testing.T) {
			o := cliff(t, outflow.Config{Limits: adaptiveConcurrency}, c)
			atMost(t, "failed calls", o.Failed, 0)
			atMost(t, "p95 latency at the upstream", o.AtUpstream, when(c.near(), 75*time.Millisecond, 500*time.Millisecond))
			atLeast(t, "share of the best throughput", 1/o.ratio(), 0.85)
		})
	}
}
