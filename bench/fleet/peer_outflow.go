package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

func init() {
	peers = append(peers, peer{name: "outflow", is: "leakyqueue with a rule that is shared", fleet: newOutflow})
}

type outflowFleet struct{ quota }

func newOutflow(q quota) (fleet, error) { return outflowFleet{q}, nil }

func (f outflowFleet) Instance(rdb *redis.Client) (instance, error) {
	store, err := shared.New(rdb, shared.Config{Prefix: "fleet"})
	if err != nil {
		return instance{}, err
	}
	queue, err := leakyqueue.New(leakyqueue.Config{MaxWaiting: -1})
	if err != nil {
		return instance{}, err
	}
	rule, err := queue.AddRule("api", limit.PerSecond(f.rate).WithBurst(f.burst))
	if err != nil {
		return instance{}, err
	}
	if err := rule.Share(store, leakyqueue.Sharing{}); err != nil {
		return instance{}, err
	}
	return instance{
		wait: departures(queue, rule, f.buckets),
		close: func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = queue.Close(ctx)
			_ = store.Close()
		},
	}, nil
}
