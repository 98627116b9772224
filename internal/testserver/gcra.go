package testserver

import (
	"net/http"
	"time"
)

// GCRA admits perSecond requests a second with the given burst, by the generic cell rate algorithm:
// in any window W at most burst + perSecond·W requests. perSecond is above 0 and at most 1e9; burst is 1
// or more. A refusal knows when there will be room. A [Policy.Cost] above the burst is refused: there
// is no debt, so a test of a client that goes into debt gives the upstream a larger burst.
//
// Over a real network a burst of 1 refuses a client that is perfectly even, because the network
// isn't: give a burst of a few. In virtual time a burst of 1 is exact to the nanosecond.
func GCRA(perSecond float64, burst int) *Policy {
	// Rounded down: never stricter than what was asked for.
	interval := time.Duration(float64(time.Second) / perSecond)
	if !(perSecond > 0) || interval < 1 || burst < 1 {
		panic("testserver: GCRA wants a rate above 0 and up to 1e9, and a burst of 1 or more")
	}
	return newCounting(func(time.Time) meter { return &gcra{interval: interval, burst: burst} })
}

type gcra struct {
	interval time.Duration
	burst    int
	full     time.Duration // when the whole burst is there again: the theoretical arrival time
}

// judge refuses until as much of the burst is back as the request costs.
func (g *gcra) judge(now time.Duration, _ *http.Request, cost int) ruling {
	if cost > g.burst {
		return ruling{refused: true}
	}
	earliest := g.full - time.Duration(g.burst-cost)*g.interval
	if now < earliest {
		return ruling{refused: true, wait: earliest - now}
	}
	return ruling{}
}

func (g *gcra) charge(now time.Duration, cost int) {
	g.full = max(g.full, now) + time.Duration(cost)*g.interval
}

// correct takes or gives back the difference now, as upstreams do that keep no history.
func (g *gcra) correct(now, _ time.Duration, from, to int) { g.charge(now, to-from) }

func (g *gcra) release() {}

func (g *gcra) quota(now time.Duration) Quota {
	whole := time.Duration(g.burst) * g.interval
	missing := max(0, g.full-now)
	return Quota{
		Limit:     int64(g.burst),
		Remaining: int64(max(0, whole-missing) / g.interval),
		Reset:     missing,
		Window:    whole,
	}
}
