package workload

import (
	"time"

	"github.com/outflow-go/outflow/limit"
)

// Ideal is the least time that n calls can take under limits that hold jointly, if the upstream takes
// the given time for each of them: what no client can beat, however it is written.
//
// It follows the calls one by one. The k-th leaves when every limit lets it: a rate with burst b one
// interval after the (k−1)-th, but b−1 intervals sooner than an even pace would have it, and c
// concurrent ones when the (k−c)-th has been answered.
func Ideal(n int, service time.Duration, limits ...limit.Limit) time.Duration {
	if n == 0 {
		return 0
	}
	left := make([]time.Duration, n)
	for k := range left {
		if k > 0 {
			left[k] = left[k-1]
		}
		for _, l := range limits {
			left[k] = max(left[k], earliest(l, k, service, left))
		}
	}
	return left[n-1] + service
}

// earliest is when the k-th call may leave under one limit, given when those before it left.
func earliest(l limit.Limit, k int, service time.Duration, left []time.Duration) time.Duration {
	if perSecond, ok := l.Rate(); ok {
		// With all calls there from the start, the limit never rests, and no burst builds up again.
		return time.Duration(float64(k-l.Burst()+1) / float64(perSecond) * float64(time.Second))
	}
	if slots, ok := l.Slots(); ok && k >= slots {
		return left[k-slots] + service
	}
	return 0
}
