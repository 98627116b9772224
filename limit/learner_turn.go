package limit

import (
	"math"
	"time"
)

// takes is how long so many units take, in seconds, at the pace as it will rise if nothing is refused: who waits
// for a turn that comes sooner than at today's pace isn't to be told that it comes too late. It is never too long.
func (p *pace) takes(units float64, roundTrip time.Duration, b LearnerBounds) (t float64) {
	if !(units > 0) {
		return 0
	}
	all := units
	if p.saved > 0 {
		units = max(units/2, units-p.saved)
	}
	switch p.phase {
	case ramping:
		d := max(doubling, 4*roundTrip).Seconds()
		t = p.takesRamping(units, d)
	case recovering:
		t = takesDoubling(units, p.rate, recovery.Seconds())
	default:
		t = p.takesHolding(units)
	}
	if b.Max > 0 {
		t = max(t, all/b.Max)
	}
	return t
}

// takesRamping is for a rate that doubles with each two departures, and once that takes less than d in each d.
func (p *pace) takesRamping(units, d float64) (t float64) {
	rate, fast := p.rate, 2/d
	if rate < fast {
		slow := 2 * math.Log2(fast/rate) // units
		then := rate * math.Exp2(min(units, slow)/2)
		t = 2 / math.Ln2 * (1/rate - 1/then)
		if units <= slow {
			return t
		}
		units, rate = units-slow, fast
	}
	return t + takesDoubling(units, rate, d)
}

// takesDoubling is for a rate that doubles in each d.
func takesDoubling(units, rate, d float64) float64 {
	return d * math.Log2(1+units*math.Ln2/(rate*d))
}

// takesHolding is for the curve that [pace.advance] follows: at most the goal until the horizon, and then the integral
// of goal·(1 + x³/10), with x in horizons.
func (p *pace) takesHolding(units float64) float64 {
	h := p.horizon.Seconds()
	from := float64(p.held)/float64(p.horizon) - 1
	t := 0.0
	if from < 0 {
		if t = -from * h; units <= t*p.goal {
			return units / p.goal
		}
		units, from = units-t*p.goal, 0
	}
	// Newton's method, from above. The curve is convex, so that each step stays there.
	n := units/(p.goal*h) + from + math.Pow(from, 4)/40
	x := min(n, math.Sqrt(math.Sqrt(40*n)))
	for range 8 {
		x -= (x + math.Pow(x, 4)/40 - n) / (1 + math.Pow(x, 3)/10)
	}
	return t + max(0, x-from)*h*0.999
}
