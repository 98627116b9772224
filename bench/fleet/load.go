package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A load is one run: who shares what, and for how long.
type load struct {
	entry
	rate      float64 // of each bucket
	buckets   int
	instances int
	waiters   int // of each instance and bucket; the open loop has none
	warmUp    time.Duration
	length    time.Duration // after the warm-up
}

// perWaiter are the moments at which each waiter left, since the start.
type perWaiter [][]time.Duration

// A run is a fleet at work.
type run struct {
	load
	quota     quota
	server    *server
	instances []instance
	trips     atomic.Int64
	started   time.Time
	stops     []func()

	failed  atomic.Int64
	failure atomic.Pointer[error]
}

func (l load) start(ctx context.Context) (*run, error) {
	r := &run{load: l, quota: quota{rate: l.rate, burst: l.burst(l.rate), buckets: l.buckets}}
	f, err := l.fleet(r.quota)
	if err != nil {
		return nil, err
	}
	if r.server, err = startRedis(ctx); err != nil {
		return nil, err
	}
	r.stops = append(r.stops, r.server.stop)
	for range l.instances {
		rdb := r.server.client(&r.trips)
		r.stops = append(r.stops, func() { rdb.Close() })
		i, err := f.Instance(rdb)
		if err != nil {
			r.stop()
			return nil, fmt.Errorf("%s: %w", l.label, err)
		}
		r.stops = append(r.stops, i.close)
		r.instances = append(r.instances, i)
	}
	r.started = time.Now()
	return r, nil
}

func (r *run) stop() {
	for _, stop := range slices.Backward(r.stops) {
		stop()
	}
}

// wait has a request wait at an instance. It may leave if the answer is true. A failure is what the
// caller would have to cope with; here it asks again.
func (r *run) wait(ctx context.Context, instance, bucket int) bool {
	for ctx.Err() == nil {
		err := r.instances[instance].wait(ctx, bucket)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			r.failed.Add(1)
			r.failure.CompareAndSwap(nil, &err)
			_ = sleep(ctx, time.Millisecond)
		}
	}
	return false
}

// A meter is what has been used at a moment.
type meter struct {
	at     time.Duration
	trips  int64
	redis  redisCount
	own    time.Duration
	others time.Duration
}

func (r *run) read(ctx context.Context) (meter, error) {
	redis, err := r.server.count(ctx)
	m := meter{at: time.Since(r.started), trips: r.trips.Load(), redis: redis, own: ownCPU()}
	m.others = allCPU() - m.own - redis.cpu
	return m, err
}

// measure reads the meters after the warm-up and at the end.
func (r *run) measure(ctx context.Context) (from, to meter, err error) {
	if err := sleep(ctx, r.warmUp); err != nil {
		return from, to, err
	}
	if from, err = r.read(ctx); err != nil {
		return from, to, err
	}
	if err := sleep(ctx, r.length); err != nil {
		return from, to, err
	}
	to, err = r.read(ctx)
	return from, to, err
}

// closed has every waiter ask again as soon as it may leave.
func (l load) closed(ctx context.Context) (result, error) {
	r, err := l.start(ctx)
	if err != nil {
		return result{}, err
	}
	defer r.stop()
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	left := make([][]perWaiter, l.instances)
	for i := range left {
		left[i] = make([]perWaiter, l.buckets)
		for b := range left[i] {
			left[i][b] = make(perWaiter, l.waiters)
		}
	}
	for w := range l.waiters { // the first of all instances before the second of any
		for i := range left {
			for b := range left[i] {
				wg.Go(func() {
					var own []time.Duration
					for r.wait(working, i, b) {
						own = append(own, time.Since(r.started))
					}
					left[i][b][w] = own
				})
			}
		}
	}
	from, to, err := r.measure(ctx)
	cancel()
	wg.Wait()
	if err != nil {
		return result{}, err
	}
	return r.result(from, to, left), nil
}

// grace is how much longer than the open loop those who came in time may wait.
func (l load) grace() time.Duration { return 2 * l.length }

// open has requests come at random at a share of the limit, at instances at random.
func (l load) open(ctx context.Context, share float64) (result, error) {
	r, err := l.start(ctx)
	if err != nil {
		return result{}, err
	}
	defer r.stop()
	working, cancel := context.WithCancel(ctx)
	defer cancel()

	type request struct {
		came, left time.Duration
		instance   int
		gone       bool
	}
	var mu sync.Mutex
	var requests []request
	var wg sync.WaitGroup
	end := l.warmUp + l.length
	wg.Go(func() {
		random := rand.New(rand.NewPCG(1, 2)) // the same for every peer
		precisely(func(sleep func(time.Duration)) {
			for at := time.Duration(0); ; {
				at += time.Duration(random.ExpFloat64() / (share * l.rate) * float64(time.Second))
				i := random.IntN(l.instances)
				if at >= end || working.Err() != nil {
					return
				}
				sleep(at - time.Since(r.started))
				wg.Go(func() {
					came := time.Since(r.started)
					gone := r.wait(working, i, 0)
					q := request{came, time.Since(r.started), i, gone}
					mu.Lock()
					requests = append(requests, q)
					mu.Unlock()
				})
			}
		})
	})
	from, to, err := r.measure(ctx)
	if err == nil {
		// Who still waits has come in time and counts as well.
		late := time.AfterFunc(l.grace(), cancel)
		wg.Wait()
		late.Stop()
	}
	cancel()
	wg.Wait()
	if err != nil {
		return result{}, err
	}

	left := make([][]perWaiter, l.instances)
	for i := range left {
		left[i] = []perWaiter{make(perWaiter, 1)}
	}
	var waits []time.Duration
	stuck := 0
	for _, q := range requests {
		if q.gone {
			left[q.instance][0][0] = append(left[q.instance][0][0], q.left)
		}
		if q.came >= from.at && q.came < to.at {
			waits = append(waits, q.left-q.came)
			if !q.gone {
				stuck++
			}
		}
	}
	res := r.result(from, to, left)
	slices.Sort(waits)
	res.waits, res.stuck = waits, stuck
	return res, nil
}
