package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outflow-go/outflow/examples/internal/workload"
	"github.com/outflow-go/outflow/internal/testserver"
)

// A fleet is all the workers, and the upstream that they have in common.
type fleet struct {
	options
	upstream *testserver.Upstream
	workers  []*process
}

func (o options) run(ctx context.Context) (workload.Report, error) {
	redis, err := findRedis(ctx, o.redis)
	if err != nil {
		return workload.Report{}, err
	}
	defer redis.close()
	upstream := newUpstream()
	server, err := upstream.StartTCP()
	if err != nil {
		return workload.Report{}, err
	}
	defer server.Close()

	// Whatever happens, no worker is left.
	ctx, stop := context.WithCancel(ctx)
	f := &fleet{options: o, upstream: upstream}
	defer f.wait()
	defer stop()
	for i, share := range shares(o.Requests, o.Workers) {
		p, err := startProcess(ctx, i+1, share)
		if err != nil {
			return workload.Report{}, err
		}
		f.workers = append(f.workers, p)
	}

	// The time that processes take to start is not the limit's.
	for _, p := range f.workers {
		<-p.ready
	}
	start := time.Now()
	view := newView(f)
	for _, p := range f.workers {
		p.do(job{
			Requests: p.share,
			URL:      server.URL,
			Redis:    redis.address,
			Prefix:   redis.prefix,
			Fleet:    o.Workers,
			Without:  o.Without,
		})
	}
	f.wait()
	elapsed := time.Since(start)
	view.stop()
	return f.report(elapsed), nil
}

// wait returns when all workers are gone.
func (f *fleet) wait() {
	var wg sync.WaitGroup
	for _, p := range f.workers {
		wg.Go(func() { <-p.done })
	}
	wg.Wait()
}

// report sums up. What a worker didn't say has succeeded has failed: it may have been killed.
func (f *fleet) report(elapsed time.Duration) workload.Report {
	r := workload.Report{
		Without:  f.Without,
		Requests: f.Requests,
		Elapsed:  elapsed,
		Ideal:    workload.Ideal(f.Requests, serviceTime, fleetLimit),
	}
	for _, p := range f.workers {
		s, _ := p.status()
		r.OK += s.OK
		if r.FirstError == nil {
			r.FirstError = p.failure()
		}
	}
	r.Failed = r.Requests - r.OK
	t := trafficAt(f.upstream.Arrivals(), time.Now())
	r.Attempts, r.Throttled = int64(t.arrived), int64(t.throttled)
	return r
}

// shares divides requests among workers as evenly as can be.
func shares(requests, workers int) []int {
	s := make([]int, workers)
	for i := range s {
		s[i] = requests / workers
		if i < requests%workers {
			s[i]++
		}
	}
	return s
}

// totals are how many requests of the whole fleet wait for their turn, and how many have succeeded.
func (f *fleet) totals() (waiting, ok int) {
	for _, p := range f.workers {
		s, _ := p.status()
		waiting += s.Waiting
		ok += s.OK
	}
	return waiting, ok
}

// String is how the fleet stands.
func (f *fleet) String() string {
	waiting, _ := f.totals()
	t := trafficAt(f.upstream.Arrivals(), time.Now())
	return fmt.Sprintf("sent %4d  waiting %3d  %3d/s of %d/s  429s %d", t.arrived, waiting, t.rate, perSecond, t.throttled)
}
