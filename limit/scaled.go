package limit

import "time"

// Scaled returns the limit of which one of several has a share, above 0 to 1, if each of them keeps to its own: so much
// of a rate and its burst, of a window's units, or of the slots. What is counted in whole units is rounded down, but not
// below 1. An adaptive rate becomes one of a share of its min, which can be relied on while nothing is learnt.
func (l Limit) Scaled(share float64) Limit {
	if !(share > 0 && share < 1) {
		return l
	}
	part := func(n float64) float64 { return max(1, float64(int64(n*share))) }
	switch l.kind {
	case rateLimit:
		l.n *= share
		l.burst = int(part(float64(l.burst)))
	case adaptiveRate:
		return Per(l.least*share, time.Second)
	case adaptiveConcurrency:
		l.least, l.n = part(l.least), part(l.n)
	case concurrency:
		l.n = part(l.n)
	default:
		l.n = part(l.n)
		l.burst = int(float64(l.burst) * share)
	}
	return l
}
