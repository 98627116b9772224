package outflow_test

import (
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

// A client that was told the limit meets the least time of each scenario, and nobody is refused: so that is
// what the one that learns it is measured against. Without jitter, which no even pace survives.
func TestScenariosAreMetByWhoIsTold(t *testing.T) {
	for _, c := range []conditions{{}, {latency: time.Millisecond}, {latency: 100 * time.Millisecond}} {
		for name, tt := range map[string]struct {
			limit limit.Limit
			run   func(*testing.T, outflow.Config, conditions) outcome
		}{
			"GCRA": {limit.PerSecond(100).WithBurst(20), gcra100},
			"window": {limit.FixedWindow(200, 2*time.Second).ByClock(), func(t *testing.T, cfg outflow.Config, c conditions) outcome {
				return window200(t, cfg, c, "told", testserver.RateLimitFields)
			}},
			"concurrency": {limit.Concurrent(8), eightAtOnce},
			"cliff":       {limit.Concurrent(8), cliff},
		} {
			t.Run(name+" "+c.String(), func(t *testing.T) {
				o := tt.run(t, outflow.Config{Limits: []limit.Limit{tt.limit}}, c)
				atMost(t, "failed calls", o.Failed, 0)
				atMost(t, "429s", o.refused(), 0)
				// What the upstream says of its windows, in whole seconds, makes it later by a round trip each.
				atMost(t, "time", o.ratio(), when(name == "window" && !c.near(), 1.11, 1.005))
				atLeast(t, "time", o.ratio(), 0.999)
			})
		}
	}
}
