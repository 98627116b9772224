package limit

import (
	"math"
	"time"
)

// decide ends a round, unless it should be longer, and says what comes next.
func (g *Gradient) decide(now time.Duration) {
	n := float64(g.n)
	m := mean{g.sum / n, n}
	// The spread is pooled with that of earlier rounds, since few latencies say little about theirs.
	spread := max(0, g.squares/n/(m.value*m.value)-1) * n / (n - 1)
	spread = (g.spread*g.spreadOf + spread*n) / (g.spreadOf + n)
	wanted := fine
	if g.probe.limit > 0 || g.descent.limit > 0 {
		wanted = coarse
	} else if g.limit < g.threshold {
		wanted = steep
	}
	first := g.base.n == 0
	if first {
		g.base = m
	}
	above := m.above(g.base, g.slack(), spread)
	if spread > wanted*wanted*n && above < 2*sure && g.extend(now, m, 1) {
		if first {
			g.base = mean{}
		}
		return
	}
	// What is neither well nor surely too much, and a contrast that noise may hide, are looked at longer.
	deep := g.descent.limit > 0 && g.limit < 0.6*g.descent.limit
	if g.probe.limit == 0 && above > doubtful && (above < sure && g.raisedFrom == 0 ||
		above > sure && deep && g.doubt(m, spread) > 1 && m.n < 2*g.descent.latency.n) && g.extend(now, m, extension) {
		return
	}
	g.spread, g.spreadOf = spread, min(g.spreadOf+n, spreadMemory)
	second := g.second
	g.second = false
	previous, raisedFrom, full, flights := g.latest, g.raisedFrom, 2*g.full >= g.n, g.flights/n
	g.latest, g.raisedFrom, g.clean = m, 0, true
	if first {
		g.latest.n = 0 // it is in the baseline already
	}
	g.patience = min(g.longest, time.Duration(skewed*m.value), longestSettle)
	if g.base.above(m, g.slack()/2, spread) > sure {
		g.base = m
		g.latest.n = 0
		g.hold = min(g.hold, now+g.soon())
	}
	switch {
	case g.probe.limit > 0:
		g.probed(now, m, above > sure)
	case flights <= 0.6*float64(g.slots):
		g.rest(now, m, above > sure)
	case g.descent.limit > 0:
		g.descend(now, m, above > sure)
	case raisedFrom > 0 && above > doubtful:
		// A raise has to prove itself.
		if g.failed, g.gained = min(g.failed+1, 8), 0; g.nextProbe == 0 {
			g.nextProbe = now // the baseline hasn't been tested yet
		}
		g.wait(now, m)
		if above <= sure {
			g.restore(now, raisedFrom, m)
			return
		}
		g.lower(now, m, raisedFrom)
	case above > sure && !second:
		// The upstream changed, maybe in the midst of the round: what it is like now shows in another.
		g.second = true
		g.settle(now, m.value)
	case above > sure:
		g.lower(now, m, 0)
	case full:
		if raisedFrom > 0 {
			g.failed, g.refused = 0, 0
			g.gained++
			g.pool(previous) // even more slots show no queue
		}
		g.proceed(now, m, above <= doubtful)
	default:
		g.again(now)
	}
}

// extend has the round go on, if it may be so many times as long as a plain one.
func (g *Gradient) extend(now time.Duration, m mean, times int) bool {
	long := max(longestRound, time.Duration(8*m.value))
	if g.n >= times*mostAnswers || now >= g.settled+time.Duration(times)*long {
		return false
	}
	g.need = g.n + max(4, g.n/2)
	return true
}

// slack is what a latency may be above the baseline and be called the same.
func (g *Gradient) slack() float64 { return tolerance*g.base.value + grain }

// above is by how many standard errors one mean is above another and some slack.
func (m mean) above(than mean, slack, spread float64) float64 {
	gap := m.value - than.value - slack
	if gap <= 0 {
		return 0
	}
	return gap / (than.value * math.Sqrt(spread*(1/m.n+1/than.n)+1e-12))
}

// pool has the baseline follow a mean that was measured where nothing queues.
func (g *Gradient) pool(m mean) {
	n := g.base.n + m.n
	g.base.value += (m.value - g.base.value) * m.n / n
	g.base.n = min(n, baseMemory)
}

// proceed goes on from slots that were all in use.
func (g *Gradient) proceed(now time.Duration, m mean, well bool) {
	switch {
	case now >= g.nextProbe && g.slots > g.min && (g.limit >= g.threshold || g.failed > 0 || g.goal == g.max):
		g.probe = descent{limit: g.limit, latency: m}
		g.set(math.Ceil(g.limit / 2))
		g.settle(now, m.value)
	case well && now >= g.hold && g.goal < g.max:
		g.raisedFrom = g.limit
		if g.limit < g.threshold {
			g.set(max(math.Floor(g.limit)+1, min(g.limit*steepRaise, g.threshold)))
		} else {
			step := max(1, g.limit*gentleRaise) * float64(1+min(g.gained, 8))
			g.set(math.Floor(g.limit) + min(step, max(1, g.limit/3)))
		}
		if g.slots+1 == g.goal {
			g.slots = g.goal
			if g.refused > 0 {
				g.trial = trialOpen
			}
		}
		g.settle(now, m.value)
	default:
		g.again(now)
	}
}

// lower follows the gradient, but not below what was well before.
func (g *Gradient) lower(now time.Duration, m mean, least float64) {
	if g.descent.limit == 0 {
		g.descent = descent{g.limit, m, g.threshold, g.limit}
	}
	to := max(least, g.limit*max(deepestCut, g.base.value/m.value)+rounding)
	g.set(min(to, float64(g.slots-1)))
	g.threshold = min(g.threshold, g.limit)
	g.settle(now, m.value)
}

// doubt is the standard error of a fall in latency, in terms of what tells a queue from none.
func (g *Gradient) doubt(m mean, spread float64) float64 {
	due := 1 - g.limit/g.descent.limit
	return math.Sqrt(spread*(1/m.n+1/g.descent.latency.n)) / (due / 2)
}

// descend looks at what fewer slots have brought.
func (g *Gradient) descend(now time.Duration, m mean, high bool) {
	from := g.descent
	fall, due := 1-m.value/from.latency.value, 1-g.limit/from.limit
	told := g.limit < 0.6*from.limit || sure*g.doubt(m, g.spread) < 1 || g.slots <= g.min
	switch {
	case !high:
		g.descent = descent{}
		g.wait(now, m)
		g.pool(m)
		if fall < due/2 {
			g.threshold = from.threshold
			g.restore(now, from.back, m) // it was chance rather than a queue
			return
		}
		g.again(now)
	case m.above(from.latency, tolerance*from.latency.value, g.spread) > sure && g.slots > g.min:
		// It got slower meanwhile: there is nothing to compare with but this.
		g.descent = descent{g.limit, m, from.threshold, from.back}
		g.lower(now, m, 0)
	case told && fall < due/2:
		// The upstream is slower, whatever is in flight.
		g.rebase(m, from.threshold)
		g.restore(now, from.back, m)
	case g.slots <= g.min:
		g.rebase(m, g.threshold) // there are no fewer slots to compare with
		g.again(now)
	default:
		if told {
			g.descent = descent{} // it was a queue: what is still too much is seen from here
		}
		g.lower(now, m, 0)
	}
}

// rebase takes a baseline that is higher than the one before. If that was far off, then so was what
// followed from it.
func (g *Gradient) rebase(m mean, threshold float64) {
	if m.value > 1.5*g.base.value {
		threshold = math.Inf(1)
	}
	g.descent = descent{}
	g.base, g.threshold, g.failed = m, threshold, 0
	g.latest.n = 0
}

// wait puts the next raise off.
func (g *Gradient) wait(now time.Duration, m mean) {
	long := 4 * m.value * float64(int(1)<<g.failed)
	g.hold = now + time.Duration(min(long, max(float64(longestHold), 8*m.value), float64(time.Minute)))
}

// soon is how long the next raise is put off at least after a drop.
func (g *Gradient) soon() time.Duration {
	return time.Duration(min(4*g.latest.value, float64(time.Minute)))
}

// probed compares half the slots with all of them.
func (g *Gradient) probed(now time.Duration, m mean, high bool) {
	from := g.probe
	g.probe = descent{}
	if !high {
		g.pool(m)
	}
	if from.latency.above(g.base, g.slack(), g.spread) > sure {
		// There is a queue at full slots: the baseline was too high, and may still be.
		to := from.limit*max(deepestCut, g.base.value/from.latency.value) + rounding
		g.threshold = min(g.threshold, to)
		g.nextProbe = now + 10*time.Duration(m.value)
		g.restore(now, to, m)
		return
	}
	g.probeAfter = min(2*g.probeAfter, probeEvery)
	g.nextProbe = now + max(g.probeAfter, probeShare*time.Duration(m.value))
	g.restore(now, from.limit, m)
}

// rest takes the baseline from a round with little in flight.
func (g *Gradient) rest(now time.Duration, m mean, high bool) {
	g.descent = descent{}
	if high {
		g.base, g.latest.n = m, 0
	} else {
		g.pool(m)
	}
	g.nextProbe = max(g.nextProbe, now+g.probeAfter)
	g.again(now)
}

// drop lowers the slots by what was refused.
func (g *Gradient) drop(now, latency time.Duration, inFlight int) {
	admitted := float64(inFlight - 1)
	if now-latency < g.cutAt {
		// It left before the latest cut, and only says better how far that should have gone.
		if admitted < g.limit {
			g.set(max(g.floor, admitted))
			g.threshold = min(g.threshold, g.limit)
		}
		return
	}
	g.credit--
	if g.goal == g.min && g.slots == g.min {
		g.hold = max(g.hold, now+g.soon())
		return
	}
	long := g.soon()
	switch {
	case g.raisedFrom > 0:
		g.floor = g.raisedFrom
		g.set(max(g.floor, min(g.limit-1, admitted)))
		long = max(long, time.Second<<min(g.refused, 4))
		g.refused = min(g.refused+1, 8)
	case g.credit >= 0 || admitted >= g.limit:
		return // by chance, or left while there were more slots
	default:
		g.floor = dropCut * g.limit
		g.set(min(g.floor, g.limit-1))
	}
	g.credit = max(g.credit, 1)
	g.probe, g.descent, g.second = descent{}, descent{}, false
	if g.clean {
		// A cut that follows another before anything went well says nothing about where it would.
		g.threshold = g.limit
		g.hold = now + long
	}
	g.clean, g.raisedFrom, g.gained = false, 0, 0
	g.cutAt = now
	g.settle(now, float64(latency))
}
