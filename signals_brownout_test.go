package outflow_test

import (
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
)

// brownOutClosed is an upstream that refuses everything for 3 s, without a hint, and then takes 50 ms for
// each request, however many come at once.
func brownOutClosed(t *testing.T, cfg outflow.Config, c conditions) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		const calls, unwell, service = 2000, 3 * time.Second, 50 * time.Millisecond
		return scenario{
			name:     "brown-out, closed loop",
			upstream: testserver.New(testserver.BrownOut(0, unwell)).Answering(testserver.After(service, testserver.OK())),
			calls:    calls,
			minimal:  unwell + time.Duration(calls)*(service+c.roundTrip())/time.Duration(c.workers),
			recovers: unwell,
		}
	})
}

// Peers: 1.0 to 2.3 × with 4 to 18 % more attempts than calls, or every call fails. 1,280 requests, all
// that 64 workers can, hit the upstream in the second after it has recovered.
func TestSignalsBrownOutClosedLoop(t *testing.T) {
	for _, c := range everyday() {
		t.Run(c.String(), func(t *testing.T) {
			o := brownOutClosed(t, outflow.Config{}, c)
			atMost(t, "failed calls", o.Failed, 0)
			atMost(t, "attempts for each call", float64(o.Attempts)/float64(o.Calls), 1.03)
			atMost(t, "time", o.ratio(), 1.25)
		})
	}
}

// brownOutOpen is an upstream that refuses everything from 4 s to 7 s, while 200 calls come each second.
func brownOutOpen(t *testing.T, cfg outflow.Config, c conditions) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		const calls, perSecond, service = 2000, 200, 5 * time.Millisecond
		return scenario{
			name: "brown-out, open loop",
			upstream: testserver.New(testserver.BrownOut(4*time.Second, 7*time.Second)).
				Answering(testserver.After(service, testserver.OK())),
			calls:     calls,
			perSecond: perSecond,
			minimal:   (calls-1)*time.Second/perSecond + service + c.roundTrip(),
			recovers:  7 * time.Second,
		}
	})
}

// Peers: 1.4 to 2.2 attempts for each call, 250 to 745 of them in the second after recovery.
func TestSignalsBrownOutOpenLoop(t *testing.T) {
	for _, c := range everyday() {
		t.Run(c.String(), func(t *testing.T) {
			o := brownOutOpen(t, outflow.Config{}, c)
			atMost(t, "failed calls", o.Failed, 0)
			atMost(t, "attempts for each call", float64(o.Attempts)/float64(o.Calls), 1.03)
			atMost(t, "attempts in the second after recovery", o.After, 250)
		})
	}
}
