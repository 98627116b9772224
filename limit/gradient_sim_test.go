package limit_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// A fragile upstream does so many requests at once, and the others queue.
type fragile struct {
	capacity int
	service  func(*rand.Rand) time.Duration
	// slows says by how much a request takes longer with so many in flight; nil: they queue in order.
	slows  func(inFlight, capacity int) float64
	refuse bool // what is beyond the capacity
	flaky  float64

	busy []time.Duration // when each of those that are done at once will be free
}

const refusal = 2 * time.Millisecond

// answer returns how long a request takes that comes at now, as one of inFlight.
func (u *fragile) answer(now time.Duration, inFlight int, rnd *rand.Rand) (latency time.Duration, refused bool) {
	if u.refuse && inFlight > u.capacity || u.flaky > 0 && rnd.Float64() < u.flaky {
		return refusal, true
	}
	s := u.service(rnd)
	if u.slows != nil {
		return time.Duration(float64(s) * max(1, u.slows(inFlight, u.capacity))), false
	}
	for len(u.busy) < u.capacity {
		u.busy = append(u.busy, now)
	}
	if len(u.busy) > u.capacity { // some have gone, with what they would have done last
		slices.Sort(u.busy)
		u.busy = u.busy[:u.capacity]
	}
	first := 0
	for i, at := range u.busy {
		if at < u.busy[first] {
			first = i
		}
	}
	end := max(now, u.busy[first]) + s
	u.busy[first] = end
	return end - now, false
}

func steady(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

// lognormal has the given mean.
func lognormal(mean time.Duration, sigma float64) func(*rand.Rand) time.Duration {
	return func(rnd *rand.Rand) time.Duration {
		return time.Duration(float64(mean) * math.Exp(sigma*rnd.NormFloat64()-sigma*sigma/2))
	}
}

func mix(short, long time.Duration, share float64) func(*rand.Rand) time.Duration {
	return func(rnd *rand.Rand) time.Duration {
		if rnd.Float64() < share {
			return long
		}
		return short
	}
}

// A load is what comes: from workers of which each waits for its answer, or so many a second.
type load struct {
	workers   int
	perSecond float64
}

type event struct {
	at, left time.Duration
	inFlight int
	kind     int // an arrival, an answer, a refusal or a change
}

const (
	arrival = iota
	answered
	refusedKind
	change
)

type outcome struct {
	done      []time.Duration // when
	latencies []time.Duration
	left      []time.Duration
	refused   []time.Duration // when
	slots     []int           // every 100 ms
	out       []int
}

// simulate runs a load through a Gradient. at(i) is told of each tenth of a second that begins.
func simulate(g *limit.Gradient, u *fragile, l load, span time.Duration, seed uint64, at func(now time.Duration)) outcome {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var o outcome
	var heap []event
	push := func(e event) {
		i, _ := slices.BinarySearchFunc(heap, e, func(a, b event) int { return -cmp.Compare(a.at, b.at) })
		heap = slices.Insert(heap, i, e)
	}
	waiting, out := l.workers, 0
	if l.perSecond > 0 {
		push(event{at: time.Duration(rnd.ExpFloat64() / l.perSecond * 1e9)})
	}
	push(event{kind: change})
	for len(heap) > 0 {
		e := heap[len(heap)-1]
		heap = heap[:len(heap)-1]
		now := e.at
		if now > span {
			break
		}
		switch e.kind {
		case arrival:
			waiting++
			push(event{at: now + time.Duration(rnd.ExpFloat64()/l.perSecond*1e9)})
		case answered, refusedKind:
			out--
			refused := e.kind == refusedKind
			if l.workers > 0 || refused {
				waiting++
			}
			if refused {
				o.refused = append(o.refused, now)
			} else {
				o.done = append(o.done, now)
				o.left = append(o.left, e.left)
				o.latencies = append(o.latencies, now-e.left)
			}
			g.Observe(now, now-e.left, e.inFlight, refused)
		case change:
			if at != nil {
				at(now)
			}
			o.slots = append(o.slots, g.Slots())
			o.out = append(o.out, out)
			push(event{at: now + 100*time.Millisecond, kind: change})
		}
		for waiting > 0 && out < g.Slots() {
			waiting--
			out++
			latency, refused := u.answer(now, out, rnd)
			kind := answered
			if refused {
				kind = refusedKind
			}
			push(event{at: now + latency, left: now, inFlight: out, kind: kind})
		}
	}
	return o
}

// between counts moments from one to another.
func between(all []time.Duration, from, to time.Duration) int {
	n := 0
	for _, t := range all {
		if t >= from && t < to {
			n++
		}
	}
	return n
}

func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(q*float64(len(sorted)-1))]
}

func queueing(inFlight, capacity int) float64 { return float64(inFlight) / float64(capacity) }

func cliff(inFlight, capacity int) float64 {
	return math.Pow(float64(inFlight)/float64(capacity), 2)
}
