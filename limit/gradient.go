package limit

import (
	"math"
	"time"
)

// A Gradient learns how many requests an upstream does at once without keeping any of them waiting: the
// control law of [AdaptiveConcurrency], as arithmetic on what was observed. It isn't safe for concurrent
// use. The zero Gradient has no slots; use [NewGradient].
//
// Beyond what an upstream does at once, latency grows in proportion to the number in flight, and throughput
// doesn't grow any more (Little's law). So the mean latency of a round, all of it at one number of slots,
// is compared with a baseline, which is the latency where nothing waits:
//
//   - it is no higher, and all slots were in use: there are more, by a half at first and later by a tenth,
//     and the more often that was too many, the longer it is waited for;
//   - it is higher in two rounds, or in one after a raise: slots·baseline/latency, no less than half;
//   - a request more than are known to be well was refused: back to what was in flight besides it;
//   - more than a few others were dropped: 0.7 of the slots, once for all that left before.
//
// A baseline that is a minimum takes an upstream that got slower for good for a queue, and one that is a
// long average takes a queue that lasts for the norm. This one is tested by contrast. If fewer slots bring
// less than half of the fall in latency that a queue would show, it wasn't one: what is measured now is the
// baseline, and the slots come back. And every ten seconds in which all slots are in use, half of them are
// left out for a round: if that is faster than the baseline, there was a queue all along.
//
// While little is in flight the slots stay, and the baseline follows. Latencies are compared by their
// standard errors, so steady ones are held closely, and noisy ones take longer rounds and more of them.
//
// docs/decisions/0009-adaptive-concurrency.md says what that is taken from, and how well it does.
type Gradient struct {
	min, max int
	slots    int
	goal     int     // slots are opened one by one until there are so many
	limit    float64 // the goal before it is rounded
	trial    trial
	last     time.Duration

	// The round counts what ends from settled on.
	changed        time.Duration // the slots
	settled, until time.Duration // it lasts until then at least
	need, n        int           // as it is now, and so many answers
	full           int           // how many left when no more could
	flights        float64       // sum of what was in flight
	sum, squares   float64       // of latencies, in ns
	longest        time.Duration // of them
	patience       time.Duration // so long did those take longest that left before

	base, latest mean
	spread       float64 // the relative variance of single latencies, of so many of them
	spreadOf     float64

	descent descent
	probe   descent // the slots to come back to

	raisedFrom     float64 // by the latest decision; 0: it was another
	gained, failed int     // raises in a row
	threshold      float64 // below it slots are raised steeply
	second         bool    // round that is looked at, since the one before was slow
	hold           time.Duration
	nextProbe      time.Duration
	probeAfter     time.Duration

	cutAt   time.Duration // by a drop
	floor   float64       // what left before the cut lowers no further
	credit  float64       // so many drops may yet be chance
	refused int           // raises in a row that ended in a drop
	clean   bool          // a round has passed since the cut
}

// A mean of so many latencies, in ns.
type mean struct{ value, n float64 }

// A descent is where slots were lowered from.
type descent struct {
	limit     float64 // 0: nowhere
	latency   mean
	threshold float64
	back      float64 // where to go back to, if that wasn't why
}

// A trial is a slot more for one request only: where more were refused before, many might be at once.
type trial uint8

const (
	noTrial trial = iota
	trialOpen
	trialOut
)

const (
	gradientStart = 4    // slots, if the bounds allow it: nearly as careful as one, and it can be halved
	steepRaise    = 1.5  // overshoots by half at worst; doubling would by all
	gentleRaise   = 0.1  // of the slots, at least one, and more after raises that went well
	deepestCut    = 0.5  // by latency, in one round, as in Gradient2
	dropCut       = 0.7  // by a drop, as CUBIC's (RFC 9438, §4.6)
	rounding      = 0.1  // 8·9/9 is 8 slots, not 7.999
	tolerance     = 0.04 // of the baseline: less is as good as none,
	grain         = float64(time.Millisecond / 2)

	// In standard errors. A raise has to prove itself, so doubt is enough to take it back.
	sure     = 3.0
	doubtful = 1.6

	// A round has so many answers, and ends when the relative standard error of its mean is small enough.
	// The more the slots changed, the more latency would, and the less exact it need be.
	firstAnswers  = 24
	fewestAnswers = 8
	mostAnswers   = 256
	fine          = 0.03
	coarse        = 0.08        // half the slots
	steep         = 0.15        // half as many more
	longestRound  = time.Second // or eight latencies
	extension     = 4           // times as long and as many, where it can't be told yet

	longestHold = 3 * time.Second // or eight latencies
	firstProbe  = time.Second     // and then after twice as long each time
	probeEvery  = 10 * time.Second
	probeShare  = 50 // latencies between two at least, so that a probe costs some 2 %

	// What is known before anything is: latencies that deviate by half their mean.
	spreadPrior  = 0.25
	spreadMemory = 256
	baseMemory   = 1024

	// So many drops are forgiven, and one more with each so many answers: up to 5 % may be chance.
	creditMost      = 2
	creditPerAnswer = 1.0 / 16

	// A latency of an hour mustn't stop everything for one.
	longestLatency = time.Hour
	longestSettle  = 10 * time.Second
	stragglers     = 3 * time.Second
	skewed         = 8 // mean latencies that are waited for the longest one
)

// NewGradient returns a Gradient that has seen nothing yet. Bounds out of range are brought into it.
func NewGradient(least, most int) Gradient {
	least = min(max(least, 1), MaxConcurrent)
	most = min(max(most, least), MaxConcurrent)
	g := Gradient{min: least, max: most, threshold: math.Inf(1), clean: true, probeAfter: firstProbe,
		spread: spreadPrior, spreadOf: fewestAnswers}
	g.set(gradientStart)
	g.slots = g.goal
	g.begin()
	g.need, g.patience = firstAnswers, longestSettle
	return g
}

// Slots returns how many requests may be out at once at present.
func (g *Gradient) Slots() int { return g.slots }

// Observe notes how a request ended: at now, a moment since an epoch, after it took latency from its
// departure to the response's headers, with inFlight requests out when it left, itself included. It was
// dropped if it was refused (429, 503), or timed out or failed for load. Other failures aren't observed.
//
// Moments before the epoch count as 0. A clock that goes back by more than a second is taken for another one.
func (g *Gradient) Observe(now, latency time.Duration, inFlight int, dropped bool) {
	now = min(max(now, 0), Never)
	if now < g.last {
		if g.last-now > time.Second {
			g.restart(now) // another clock
		}
		now = g.last
	}
	g.last = now
	latency = min(max(latency, 1), longestLatency)
	inFlight = min(max(inFlight, 1), MaxConcurrent)
	if dropped {
		g.drop(now, latency, inFlight)
		return
	}
	g.credit = min(g.credit+creditPerAnswer, creditMost)
	if g.slots < g.goal || g.trial != noTrial {
		g.open(now, latency, inFlight)
		return
	}
	if now-latency < g.changed && now < max(g.changed+stragglers, g.settled) {
		// It left under another number of slots, and others may have.
		g.settled = max(g.settled, now)
		g.until = max(g.until, now+min(latency, stragglers))
		if g.n > 0 {
			g.begin()
		}
		return
	}
	if now < g.settled {
		return
	}
	ns := float64(latency)
	g.n++
	g.sum += ns
	g.squares += ns * ns
	g.longest = max(g.longest, latency)
	g.flights += float64(inFlight)
	if inFlight+inFlight/8 >= g.slots {
		g.full++
	}
	if g.n >= g.need && now >= g.until && now >= g.settled+min(g.longest, g.patience) {
		g.decide(now)
	}
}

// open gives one more of the slots that are to come, at each answer to one that left while they were in
// use. One by one they leave an upstream the time to refuse before the rest is there.
func (g *Gradient) open(now, latency time.Duration, inFlight int) {
	opened := false
	switch g.trial {
	case trialOpen:
		if opened = inFlight >= g.goal; !opened {
			g.trial = trialOut
		}
		g.slots = g.goal - 1
	case trialOut:
		opened = inFlight >= g.goal
	default:
		opened = inFlight >= g.slots/2
	}
	if opened {
		g.slots++
	}
	switch {
	case g.slots == g.goal:
		g.trial = noTrial
		g.settle(now, float64(latency))
	case now > g.until: // they aren't wanted any more
		g.trial, g.raisedFrom = noTrial, 0
		g.limit, g.goal = float64(g.slots), g.slots
		g.settle(now, float64(latency))
	}
}

// set aims at a number of slots. Fewer are in force at once.
func (g *Gradient) set(limit float64) {
	g.limit = min(max(limit, float64(g.min)), float64(g.max))
	g.goal = int(g.limit)
	g.slots = min(g.slots, g.goal)
	g.trial = noTrial
}

// restore goes back to what was held before.
func (g *Gradient) restore(now time.Duration, limit float64, m mean) {
	g.set(limit)
	g.slots = g.goal
	g.settle(now, m.value)
}

// settle begins a round once those that left before now have ended.
func (g *Gradient) settle(now time.Duration, latency float64) {
	l := time.Duration(min(max(latency, g.latest.value), float64(longestSettle)))
	g.changed, g.settled = now, now+max(l+l/4, g.patience)
	if g.slots < g.goal || g.trial != noTrial {
		g.until = now + 4*l // by then they should be open
	} else {
		g.until = g.settled + l
	}
	g.begin()
}

func (g *Gradient) begin() {
	g.n, g.full, g.flights, g.sum, g.squares, g.longest = 0, 0, 0, 0, 0, 0
	g.need = max(fewestAnswers, min(g.slots, mostAnswers))
}

// again begins another round with the same slots.
func (g *Gradient) again(now time.Duration) {
	g.begin()
	g.settled, g.until = now, now+time.Duration(min(g.latest.value, float64(longestSettle)))
}

// restart forgets all moments.
func (g *Gradient) restart(now time.Duration) {
	g.last, g.changed, g.settled, g.until, g.hold, g.nextProbe, g.cutAt = now, now, now, now, now, now, now
	g.begin()
}
