package limit

import (
	"math"
	"time"
)

type phaseOf uint8

const (
	ramping    phaseOf = iota // nothing is known of what is too fast
	holding                   // something is
	recovering                // from an outage
)

const (
	doubling   = 200 * time.Millisecond
	recovery   = 4 * time.Second // to double after an outage
	minHorizon = 5 * time.Second
	maxHorizon = 10 * time.Minute
	slowest    = 0.05                   // requests per second: the longest that anybody waits for his turn is 20 s
	modest     = 1.0                    // requests per second, to begin with
	cheap      = 100 * time.Millisecond // a pause that is short
	atOnce     = 100 * time.Millisecond // accepted within this time, a number is a burst
	lately     = 2 * time.Second
	idle       = time.Second / 2 // without a departure: nobody was held back
)

// pace is a rate that changes.
type pace struct {
	rate    float64       // per second; 0: none
	next    time.Duration // departure
	last    time.Duration // one
	phase   phaseOf
	from    float64       // the rate at the phase's beginning
	goal    float64       // the rate that is safe, in holding
	begun   time.Duration // the phase's first departure, or 0
	busy    time.Duration // since when there is always somebody to hold back
	held    time.Duration // how long the pace has held others back in this phase
	horizon time.Duration // how long until the goal

	burst     float64       // accepted at once; 0: unknown
	bursting  uint64        // departures up to this one were part of that
	lasted    time.Duration // how long that took
	saved     float64       // units that came back in the pause, of which half may leave at twice the rate
	low, high float64       // what is known of the limit if burst is not
	units     float64       // accepted since the last refusal
	refusedAt time.Duration
	row       int     // refusals without an acceptance between them
	cost      float64 // of the request that was refused
}

func (p *pace) ramp(rate float64, b LearnerBounds) {
	p.phase, p.from, p.held, p.begun = ramping, rate, 0, 0
	p.set(rate, b)
}

func (p *pace) hold(rate, goal float64, horizon time.Duration, b LearnerBounds) {
	p.phase, p.from, p.goal, p.horizon, p.held, p.begun = holding, rate, max(goal, rate), horizon, 0, 0
	p.set(rate, b)
}

func (p *pace) recover(rate float64, b LearnerBounds) {
	p.phase, p.from, p.held, p.begun = recovering, rate, 0, 0
	p.set(rate, b)
}

func (p *pace) set(rate float64, b LearnerBounds) {
	if least := slowest * max(p.cost, 1); !(rate > least) {
		rate = least
	}
	rate = max(rate, b.Min)
	if b.Max > 0 {
		rate = min(rate, b.Max)
	}
	p.rate = rate
	if b.Declared > 0 && rate >= b.Declared {
		p.rate = 0
	}
}

// strict reports whether a departure that comes too soon after the one before may be refused for that.
func (p *pace) strict() bool { return p.burst <= 2 && p.rate < 500 }

func (p *pace) depart(due, now time.Duration, cost int64, roundTrip time.Duration, b LearnerBounds) {
	if p.rate == 0 {
		return
	}
	if p.begun == 0 {
		p.begun, p.busy = now, now
	}
	// Only time in which it held others back says that it is high enough.
	if gap := now - p.last; gap < spanOf(1.5*float64(cost)/p.rate) {
		p.advance(gap, roundTrip, b)
	} else if gap > idle {
		p.busy = now
	}
	p.last = now
	if p.rate == 0 {
		return
	}
	if p.strict() {
		due = now
	}
	interval := spanOf(float64(cost) / p.rate)
	if p.saved > 0 {
		p.saved -= float64(cost) / 2
		interval /= 2
	}
	p.next = max(p.next, due)
	p.next += min(interval, Never-p.next)
}

// advance lets the rate follow its curve for a time in which it has held others back.
func (p *pace) advance(by, roundTrip time.Duration, b LearnerBounds) {
	p.held += by
	switch p.phase {
	case ramping:
		d := max(doubling, 4*roundTrip, spanOf(2/p.rate))
		p.set(p.rate*math.Exp2(float64(by)/float64(d)), b)
	case recovering:
		p.set(p.rate*math.Exp2(float64(by)/float64(recovery)), b)
	case holding:
		x := float64(p.held)/float64(p.horizon) - 1
		if x < 0 {
			p.set(p.goal+(p.goal-p.from)*x*x*x, b)
		} else {
			p.set(p.goal*(1+0.1*x*x*x), b)
		}
	}
}

func (p *pace) accepted(f Flight) {
	p.units += float64(f.cost)
	p.row = 0
	if f.sequence <= p.bursting {
		p.burst += float64(f.cost)
	}
}

// backOff is how long nobody leaves after a refusal that gave no hint: a departure's time if the rate is about right,
// otherwise if there was another and no acceptance between them.
func (p *pace) backOff(otherwise time.Duration, accepts bool, b LearnerBounds) time.Duration {
	rate := p.rate
	if rate == 0 {
		rate = b.Declared
	}
	if rate > 0 && p.row == 0 && accepts {
		return min(spanOf(1/rate), otherwise)
	}
	return otherwise
}

// refused finds the rate that would not have been refused.
func (p *pace) refused(f Flight, pause time.Duration, l *Learner, now time.Duration) {
	h, b := &l.accepted, l.bounds
	defer func() { p.units, p.refusedAt = 0, f.at; p.row++ }()
	horizon := min(max(min(pause, maxHorizon)*30, minHorizon), maxHorizon)
	p.cost = float64(f.cost)
	if p.rate == 0 {
		p.first(f, pause, l, horizon)
		return
	}
	fast := p.rate
	switch low, high := p.bracket(f.at, h); {
	case p.burst > 2 && low > 0:
		p.hold(min(low, fast), min(low+(high-low)/4, fast), horizon, b)
		p.saved = min(p.burst, p.rate*pause.Seconds()) / 2
		return
	case p.burst > 0 && p.phase == ramping && low > 0:
		fast = min(fast, low)
	case p.burst == 0 && p.phase == ramping && b.Declared == 0:
		// It may have been idle while the rate was low, so there is no upper bound but this.
		switch low = p.units / max(f.at-p.begun, 1).Seconds(); {
		case p.units == 0:
			low = fast / 2
		case p.busy > p.begun: // there was less to do for a while, so that says nothing
			low = fast * 3 / 4
		}
		p.low, p.high = 0.9*low, fast
		p.hold(min(low, fast), min(math.Sqrt(low*fast), fast), horizon/2, b)
		return
	case p.burst == 0 && b.Declared == 0 && p.busy == p.begun && p.units >= 10:
		low, high = p.average(f.at)
		fast = min(low+(high-low)/4, 0.97*fast)
		p.hold(fast, low+(high-low)/2, horizon, b)
		return
	}
	by := 0.98
	switch {
	case p.row > 0: // nothing was accepted since the one before
		by = 0.7
	case p.units < 3:
		by = 0.9
	case p.units < 20:
		by = 0.94
	case p.units < 100:
		by = 0.96
	}
	if b.Declared > 0 && p.row == 0 && p.units >= 20 && pause < cheap {
		// One that now and then is a moment too soon costs less than a slower rate.
		p.hold(0.985*fast, 0.98*b.Declared, minHorizon, b)
		return
	}
	if p.phase == holding && p.units >= 20 && fast > 0.95*p.goal {
		horizon = min(2*p.horizon, maxHorizon) // again
	}
	p.hold(by*fast, 0.99*fast, horizon, b)
}

// first makes of the first refusal what can be made of it.
func (p *pace) first(f Flight, pause time.Duration, l *Learner, horizon time.Duration) {
	b, roundTrip := l.bounds, l.roundTrip
	if b.Declared > 0 {
		p.hold(0.98*b.Declared, 0.995*b.Declared, horizon, b)
		return
	}
	units, begin := l.accepted.since(f.at - lately)
	if n, since := l.passed.lately(); n > 2*units { // most weren't tracked
		units, begin = n, since
	}
	lasted := f.at - begin
	if units == 0 {
		lasted = 0
	}
	if lasted > max(atOnce, 2*roundTrip) && units >= 20 && lasted > lately/2 {
		rate := float64(units) / lasted.Seconds()
		p.hold(0.9*rate, rate, horizon, b)
		return
	}
	if lasted <= max(atOnce, 2*roundTrip) {
		p.burst, p.bursting, p.lasted = float64(units), l.sequence, lasted
		if lasted < 20*time.Millisecond { // in which hardly any came back
			p.lasted = 0
		}
	}
	p.ramp(max(modest*p.cost, float64(max(units, 1))/(lasted+pause/3+time.Millisecond).Seconds()), b)
}

// bracket returns the rates between which a limit of that burst lies that accepted what it did, and refused
// one more at t; 0 if what left while there was always somebody to hold back is too little to tell.
func (p *pace) bracket(t time.Duration, h *history) (low, high float64) {
	burst := max(p.burst, 1)
	var lastAt time.Duration
	var all float64
	h.back(func(at time.Duration, units int64) bool {
		if at < p.busy {
			return false
		}
		if all == 0 {
			lastAt = at
		}
		all = float64(units)
		if lastAt-at < 2*p.lasted {
			return true
		}
		if d := (lastAt - at - p.lasted).Seconds(); d > 0 {
			low = max(low, (all-burst)/d)
		}
		if d := (t - at - p.lasted).Seconds(); d > 0 {
			high = max(high, (all+1-burst)/d)
		}
		return true
	})
	if all < burst+5 { // too few to tell
		return 0, 0
	}
	if d := (t - p.refusedAt).Seconds(); d > 0 && burst > 2 && p.busy == p.begun {
		low = max(low, all/d)
	}
	return low, max(low, high)
}

// average returns the rates between which a limit of unknown burst lies that was used up at the refusal
// before and is again at t: in the time between them less than it allowed was accepted if it was idle, and
// more in the time since the pause, if something had been saved up.
func (p *pace) average(t time.Duration) (low, high float64) {
	low, high = p.units/max(t-p.refusedAt, 1).Seconds(), p.units/max(t-p.begun, 1).Seconds()
	if p.high > 0 && p.low < high && low < p.high {
		low, high = max(low, p.low), min(high, p.high)
	}
	p.low, p.high = low, max(low, high)
	return p.low, p.high
}
