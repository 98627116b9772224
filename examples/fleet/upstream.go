package main

import (
	"net/http"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

// newUpstream limits all workers together. Its burst allows for what a network and a busy machine do to a
// client's pace, and is of little use to clients that just send.
func newUpstream() *testserver.Upstream {
	return testserver.New(
		testserver.GCRA(perSecond, 2*burst).RefuseWith(testserver.Reply(http.StatusTooManyRequests, "")),
	).Answering(testserver.After(serviceTime, testserver.OK()))
}

// traffic is what the upstream has seen. It knows better than the workers: those may have been killed.
type traffic struct {
	arrived   int // requests
	throttled int // of these, answered with 429
	rate      int // of these, within the last second
}

func trafficAt(arrivals testserver.Arrivals, now time.Time) traffic {
	t := traffic{arrived: len(arrivals), throttled: arrivals.Count(http.StatusTooManyRequests)}
	for _, a := range arrivals {
		if now.Sub(a.At) < time.Second {
			t.rate++
		}
	}
	return t
}
