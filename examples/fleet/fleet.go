package main

import (
	"context"
	"fmt"
	"time"

	"github.com/outflow-go/outflow/examples/internal/workload"
	"github.com/outflow-go/outflow/internal/testserver"
)

// A fleet is all the workers, and what they have in common.
type fleet struct {
	options
	redis    *redisServer
	upstream *testserver.Upstream
	server   *testserver.Server
	workers  []*process
	stop     context.CancelFunc // tells the workers to
}

func (o options) run(ctx context.Context) (workload.Report, error) {
	f, err := o.start(ctx)
	if err != nil {
		return workload.Report{}, err
	}
	defer f.close()
	return f.work(), nil
}

// start starts all processes, which then wait for their jobs.
func (o options) start(ctx context.Context) (_ *fleet, err error) {
	f := &fleet{options: o, upstream: newUpstream()}
	ctx, f.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.redis, err = findRedis(ctx, o.redis); err != nil {
		return nil, err
	}
	if f.server, err = f.upstream.StartTCP(); err != nil {
		return nil, err
	}
	for i, share := range shares(o.Requests, o.Workers) {
		p, err := startProcess(ctx, i+1, share)
		if err != nil {
			return nil, err
		}
		f.workers = append(f.workers, p)
	}
	// The time that this takes is not the limit's.
	for _, p := range f.workers {
		<-p.ready
	}
	return f, nil
}

// work has the workers do their jobs, and shows how they get on.
func (f *fleet) work() workload.Report {
	start := time.Now()
	view := newView(f)
	for _, p := range f.workers {
		p.do(job{
			Requests: p.share,
			URL:      f.server.URL,
			Redis:    f.redis.address,
			Prefix:   f.redis.prefix,
			Fleet:    f.Workers,
			Without:  f.Without,
		})
	}
	f.wait()
	view.stop()
	return f.report(start)
}

// wait returns when all workers are gone.
func (f *fleet) wait() {
	for _, p := range f.workers {
		<-p.done
	}
}

// close leaves nothing behind.
func (f *fleet) close() {
	f.stop()
	f.wait()
	if f.server != nil {
		f.server.Close()
	}
	if f.redis != nil {
		f.redis.close()
	}
}

// report sums up. What a worker didn't say has succeeded has failed: it may have been killed.
func (f *fleet) report(start time.Time) workload.Report {
	r := workload.Report{
		Without:  f.Without,
		Requests: f.Requests,
		Ideal:    workload.Ideal(f.Requests, serviceTime, fleetLimit),
	}
	for _, p := range f.workers {
		s, heard := p.status()
		r.OK += s.OK
		r.Elapsed = max(r.Elapsed, heard.Sub(start))
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
