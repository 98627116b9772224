package main

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// inMemory is no peer: all instances use one queue of this process. It shows what can be seen at all
// here, with these timers and this many goroutines.
var inMemory = peer{name: "in-memory", is: "one leakyqueue for all, without Redis: what can be measured here at most", fleet: newMemory}

type memoryFleet struct {
	wait func(ctx context.Context, bucket int) error
}

func newMemory(q quota) (fleet, error) {
	queue, err := leakyqueue.New(leakyqueue.Config{MaxWaiting: -1})
	if err != nil {
		return nil, err
	}
	rule, err := queue.AddRule("api", limit.PerSecond(q.rate).WithBurst(q.burst))
	if err != nil {
		return nil, err
	}
	return memoryFleet{departures(queue, rule, q.buckets)}, nil
}

func (f memoryFleet) Instance(*redis.Client) (instance, error) {
	return instance{wait: f.wait, close: func() {}}, nil
}

// departures returns what waits for a bucket of a rule.
func departures(queue *leakyqueue.Queue, rule *leakyqueue.Rule, buckets int) waitFunc {
	demands := make([]leakyqueue.Demand, buckets)
	for i := range demands {
		demands[i].Keys = []leakyqueue.Key{{Rule: rule, Value: strconv.Itoa(i)}}
	}
	return func(ctx context.Context, bucket int) error {
		_, err := queue.Depart(ctx, demands[bucket], nil)
		return err
	}
}
