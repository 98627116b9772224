package testserver

import (
	"net/http"
	"time"
)

// GCRA admits perSecond requests a second with the given burst, by the generic cell rate algorithm:
// in any window W at most burst + perSecond·W requests. perSecond is above 0 and at most 1e9; burst is 1
// or more. A refusal knows when there will be room.
//
// Over a real network a burst of 1 refuses a client that is perfectly even, because the network
// isn't: give a burst of a few. In virtual time a burst of 1 is exact to the nanosecond.
func GCRA(perSecond float64, burst int) *Policy {
	// Rounded down: never stricter than what was asked for.
	interval := time.Duration(float64(time.Second) / perSecond)
	if !(perSecond > 0) || interval < 1 || burst < 1 {
		panic("testserver: GCRA wants a rate above 0 and up to 1e9, and a burst of 1 or more")
	}
	return newPolicy(http.StatusTooManyRequests, func() meter {
		return &gcra{interval: interval, burst: burst}
	})
}

type gcra struct {
	interval time.Duration
	burst    int
	full     time.Duration // when the whole burst is there again: the theoretical arrival time
}

// judge refuses while the burst is used up: that is until one interval's worth of it is back.
func (g *gcra) judge(now time.Duration, _ *http.Request) ruling {
	earliest := g.full - time.Duration(g.burst-1)*g.interval
	if now < earliest {
		return ruling{refused: true, wait: earliest - now}
	}
	return ruling{}
}

func (g *gcra) charge(now time.Duration) { g.full = max(g.full, now) + g.interval }

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
