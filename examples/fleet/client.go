package main

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/examples/internal/workload"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// A client is what a worker makes its requests with.
type client struct {
	http    *http.Client
	wire    *workload.Wire
	waiting func() int // how many requests wait for their turn
	close   func()
}

func newClient(j job) (*client, error) {
	wire := workload.NewWire(atOnce)
	if j.Without {
		return newClientWithout(wire), nil
	}

	// This is all there is to a fleet: a Store over a Redis that all have, and a Transport with it.
	rdb := redis.NewClient(&redis.Options{Addr: j.Redis})
	store, err := shared.New(rdb, shared.Config{Prefix: j.Prefix, ExpectedInstances: j.Fleet})
	if err != nil {
		return nil, err
	}
	transport, err := outflow.New(outflow.Config{
		Base:   wire,
		Limits: []limit.Limit{fleetLimit},
		Store:  store,
	})
	if err != nil {
		return nil, err
	}

	return &client{
		http: &http.Client{Transport: transport},
		wire: wire,
		waiting: func() (n int) {
			for _, b := range transport.Stats().Buckets {
				n += b.Waiting
			}
			return n
		},
		close: func() {
			// When work is over, nobody waits any more: this is to give back what is unused.
			ctx, cancel := context.WithTimeout(context.Background(), shared.DefaultTimeout)
			defer cancel()
			_ = transport.Close(ctx)
			_ = store.Close()
			_ = rdb.Close()
			wire.CloseIdleConnections()
		},
	}, nil
}

// newClientWithout has a limiter within the process, which keeps the whole limit: what a program has that
// was written to run once, and now runs more than once. A client without any would be refused as well,
// and show less: this one does all that a process can do by itself.
func newClientWithout(wire *workload.Wire) *client {
	p := &paced{limiter: rate.NewLimiter(perSecond, burst), base: wire}
	return &client{
		http:    &http.Client{Transport: p},
		wire:    wire,
		waiting: func() int { return int(p.waiting.Load()) },
		close:   wire.CloseIdleConnections,
	}
}

// paced lets requests go when a limiter does.
type paced struct {
	limiter *rate.Limiter
	base    http.RoundTripper
	waiting atomic.Int64
}

func (p *paced) RoundTrip(req *http.Request) (*http.Response, error) {
	p.waiting.Add(1)
	err := p.limiter.Wait(req.Context())
	p.waiting.Add(-1)
	if err != nil {
		return nil, err
	}
	return p.base.RoundTrip(req)
}
