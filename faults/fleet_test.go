package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/faults"
	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/shared"
)

// A network that is slow, that loses connections, or both, under a fleet of 16 instances at 1,000/s. The clients are as
// go-redis makes them, which try again by themselves up to three times, but where the case says that they don't.
func TestRealRedisFleetOverABadNetwork(t *testing.T) {
	const (
		// The answer that is under way for 50 ms brings departures that were due meanwhile, as long as the clock goes by
		// the faster answers of before. Heal takes that away again.
		answer = 50

		// An instance that lost its connection leaves at its share until it is back, while those that didn't may have all
		// of the rate: as many as when all return from an outage, and one for each instance.
		mixed = 240 + 16

		// A lost connection may take all four tries of one instance, for which go-redis waits up to 8, 16 and 32 ms, with
		// the deadline and the probes after that; but never those of all.
		stall = 250 * time.Millisecond
	)
	for _, tt := range []struct {
		name    string
		mode    shared.OnOutage
		delay   time.Duration
		loses   float64
		retries int // as in redis.Options
		bounds  fleettest.Bounds
	}{
		{"100 ms added", shared.LocalShare, 100 * time.Millisecond, 0, 0, fleettest.Bounds{Over: answer, Stall: stall, Recovery: stall, Used: 0.85}},
		{"10 % lost", shared.LocalShare, 0, 0.1, 0, fleettest.Bounds{Over: mixed, Stall: stall, Recovery: 2 * stall, Used: 0.85}},
		{"100 ms added, 10 % lost", shared.LocalShare, 100 * time.Millisecond, 0.1, 0, fleettest.Bounds{Over: answer + mixed, Stall: 2 * stall, Recovery: 2 * stall, Used: 0.7}},
		{"10 % lost, client without retries", shared.LocalShare, 0, 0.1, -1, fleettest.Bounds{Over: mixed, Stall: stall, Recovery: 2 * stall, Used: 0.8}},
		{"10 % lost, client without retries", shared.FailOpen, 0, 0.1, -1, fleettest.Bounds{Over: -1, Stall: stall, Recovery: 2 * stall}},
		{"10 % lost, client without retries", shared.FailClosed, 0, 0.1, -1, fleettest.Bounds{Over: 3, Stall: 2 * stall, Recovery: 2 * stall, Used: 0.5, Refuses: true}},
	} {
		t.Run(fmt.Sprintf("%s/%d", tt.name, tt.mode), func(t *testing.T) {
			srv := redistest.Start(t)
			network := faults.Start(t, srv.Addr())
			f := fleettest.Start(t, fleettest.Config{Store: shared.Config{OnOutage: tt.mode}, Client: func() redis.UniversalClient {
				return redis.NewClient(&redis.Options{Addr: network.Addr(), MaxRetries: tt.retries})
			}})
			f.Run(5*time.Second, func() {
				f.Wait(time.Second)
				f.Begins()
				if tt.delay > 0 {
					network.Delay(tt.delay, 0)
				}
				if tt.loses > 0 {
					network.LoseConnections(tt.loses)
				}
				f.Wait(4 * time.Second)
				network.Heal()
				f.Ends()
			})
			f.Check(tt.name+", for 3 s", tt.bounds)
		})
	}
}
