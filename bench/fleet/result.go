package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// A result is what came of a run.
type result struct {
	load
	quota quota

	admitted   float64 // per second, of all buckets
	used       float64 // the share of the limits
	trips      float64 // for each that was admitted
	commands   float64
	redisCPU   float64 // of one core
	redisEach  time.Duration
	clientCPU  float64
	othersCPU  float64 // what else ran on this machine
	max100ms   int     // in any window, of the bucket that had most
	max1s      int
	spacing50  time.Duration // of a single bucket
	spacing99  time.Duration
	leastShare int // of an instance
	mostShare  int

	waits  []time.Duration // of the open loop, in order
	stuck  int             // of those, who hadn't left by the end of the grace
	failed int64
	err    error // the first of those
}

func (r *run) result(from, to meter, left [][]perWaiter) result {
	span := to.at - from.at
	res := result{load: r.load, quota: r.quota, failed: r.failed.Load()}
	if err := r.failure.Load(); err != nil {
		res.err = *err
	}
	shares := make([]int, len(left))
	total := 0
	for b := range r.buckets {
		var all []time.Duration
		for i := range left {
			for _, of := range left[i][b] {
				all = append(all, of...)
				for _, at := range of {
					if at >= from.at && at < to.at {
						shares[i]++
					}
				}
			}
		}
		slices.Sort(all)
		res.max100ms = max(res.max100ms, maxWithin(all, 100*time.Millisecond))
		res.max1s = max(res.max1s, maxWithin(all, time.Second))
		if r.buckets == 1 {
			a, _ := slices.BinarySearch(all, from.at)
			z, _ := slices.BinarySearch(all, to.at)
			gaps := gaps(all[a:z])
			res.spacing50, res.spacing99 = quantile(gaps, 0.5), quantile(gaps, 0.99)
		}
	}
	for _, n := range shares {
		total += n
	}
	res.leastShare, res.mostShare = slices.Min(shares), slices.Max(shares)
	res.admitted = float64(total) / span.Seconds()
	res.used = res.admitted / (r.rate * float64(r.buckets))
	each := 1 / float64(max(1, total))
	res.trips = float64(to.trips-from.trips) * each
	res.commands = float64(to.redis.commands-from.redis.commands) * each
	redis := to.redis.cpu - from.redis.cpu
	res.redisCPU = redis.Seconds() / span.Seconds()
	res.redisEach = time.Duration(float64(redis) * each)
	res.clientCPU = (to.own - from.own).Seconds() / span.Seconds()
	res.othersCPU = max(0, (to.others-from.others).Seconds()/span.Seconds())
	return res
}

// allowed is how many departures a bucket's limit has room for in any window.
func (q quota) allowed(window time.Duration) int {
	return int(math.Ceil(q.rate*window.Seconds()-1e-6)) + q.burst
}

// withSlack is the same for outflow, which catches up what a late timer has lost.
func (q quota) withSlack(window time.Duration) int {
	return q.allowed(window + leakyqueue.DefaultSlack)
}

// maxWithin is how many of sorted moments are within any one window, whose end isn't part of it.
func maxWithin(moments []time.Duration, window time.Duration) int {
	most, first := 0, 0
	for i, at := range moments {
		for at-moments[first] >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// gaps are those between sorted moments, in order of length.
func gaps(moments []time.Duration) []time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(moments); i++ {
		gaps = append(gaps, moments[i]-moments[i-1])
	}
	slices.Sort(gaps)
	return gaps
}

// quantile is the nearest rank among sorted durations.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// note says what a row doesn't.
func (r result) note() string {
	s := ""
	if r.failed > 0 {
		s += fmt.Sprintf("%s, %d instances, %v/s: %d calls failed, the first with: %v\n", r.label, r.instances, r.rate, r.failed, r.err)
	}
	if r.stuck > 0 {
		s += fmt.Sprintf("%s, %d instances, %v/s: %d hadn't left %v after the end, and count as if they had then\n", r.label, r.instances, r.rate, r.stuck, r.grace())
	}
	return s
}
