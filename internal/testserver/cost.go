package testserver

import (
	"net/http"
	"time"
)

// A counter is a meter that counts by cost.
type counter interface {
	meter
	// correct changes the cost of a request that was charged at a moment.
	correct(now, at time.Duration, from, to int)
}

// newCounting makes a policy whose meters are counters.
func newCounting(newMeter func(start time.Time) meter) *Policy {
	p := newPolicy(http.StatusTooManyRequests, newMeter)
	p.counts = true
	return p
}

// Cost counts each request as what f says, 0 or more, in place of 1. A cost above the limit, for a
// [GCRA] its burst, is refused always, and such a refusal doesn't know when there will be room. It
// panics unless the policy counts: GCRA, Window, SlidingLog and SlidingCounter do.
func (p *Policy) Cost(f func(*http.Request) int) *Policy {
	if !p.counts {
		panic("testserver: only GCRA, Window, SlidingLog and SlidingCounter have a Cost")
	}
	p.costOf = f
	return p
}

// Settle corrects the cost of a request that was admitted, from what [Policy.Cost] had estimated to what
// it came to. A handler calls it, with the request that it was given, before it answers: what comes later
// is then judged by the true cost, and [Arrival.Cost] has it. More than one correction is possible. That
// is how the token limits of LLM APIs count:
//
//	tokens := testserver.Window(100_000, time.Minute).Cost(estimate)
//	up := testserver.New(testserver.Window(60, time.Minute), tokens)
//	up.Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		tokens.Settle(r, used(r))
//		…
//
// A log corrects the moment of admission. Windows that are over are not corrected, unless a sliding
// counter still weighs them. GCRA takes or gives back the difference at the moment of the call. Nothing
// is corrected for a request that wasn't charged to the policy. Settle panics if the policy has no Cost,
// and if cost is below 0.
func (p *Policy) Settle(r *http.Request, cost int) {
	if p.costOf == nil {
		panic("testserver: Settle wants a policy with a Cost")
	}
	mustBeCost(cost)
	v, _ := r.Context().Value(visitKey{}).(*visit)
	if v != nil {
		v.upstream.settle(v, p, cost)
	}
}

// visitKey is where a handler's request has its visit.
type visitKey struct{}

func (u *Upstream) settle(v *visit, p *Policy, cost int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	first := true
	for i := range v.charged {
		c := &v.charged[i]
		if c.policy == p {
			// The start may be another by now, but then so are the meters.
			c.meter.(counter).correct(time.Since(u.start), v.at, c.cost, cost)
			c.cost = cost
			if first {
				v.record.arrivals[v.index].Cost = cost
			}
		}
		first = first && !c.priced()
	}
}

// cost is what a request costs under the policy.
func (p *Policy) cost(r *http.Request) int {
	if p.costOf == nil {
		return 1
	}
	cost := p.costOf(r)
	mustBeCost(cost)
	return cost
}

func mustBeCost(cost int) {
	if cost < 0 {
		panic("testserver: a cost is 0 or more")
	}
}
