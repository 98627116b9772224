package leakyqueue

import (
	"slices"
	"sort"
	"time"
)

// What is asked for, and when, is decided here.

// maxAsked bounds one Ask.
const maxAsked = 1 << 12

// asksLocked prepares what is to be asked of a lease that was touched. ok is false if that is nothing.
func (l *lease) asksLocked(now time.Duration) (_ Ask, ok bool) {
	if l.bypassed() {
		l.handBackLocked(0)
		if l.with == nil {
			l.back, l.owes = nil, false
			return Ask{}, false
		}
	}
	need := l.needLocked(now)
	if !l.asking {
		l.handBackLocked(need + l.soonLocked(now))
	}
	if l.asking || l.notUntil > now {
		return Ask{}, false
	}
	ask := Ask{Back: l.back}
	if l.owes {
		ask.Owed = l.owed
	}
	if missing := need - l.atHand(); missing > 0 && !l.bypassed() && l.runsLow(now) {
		ask.Runs = l.runsLocked(missing)
	}
	if len(ask.Runs) == 0 && len(ask.Back) == 0 && !l.owes {
		return Ask{}, false
	}
	l.back = nil
	if l.owes {
		l.owed, l.owes = make([]int64, len(l.of)), false
	}
	l.asking = true
	return ask, true
}

// runsLow reports whether it is time to ask for more: what is at hand ends soon, or isn't enough for who goes first.
func (l *lease) runsLow(now time.Duration) bool {
	if len(l.hand) == 0 || l.hand[len(l.hand)-1].due-now < l.lead {
		return true
	}
	front := l.at.front(now)
	return front != nil && l.at.headCost(front) > l.atHand()
}

// handBackLocked gives back what is at hand beyond what is needed, if it may be of use to others: not what is
// due so soon that it would be gone by then.
func (l *lease) handBackLocked(need int64) {
	n := 0
	for i := len(l.hand) - 1; i >= 0; i-- {
		if h := &l.hand[i]; h.total-l.gone-h.units < need {
			break
		}
		n++
	}
	for n > 0 && !l.worthGivingBack(&l.hand[len(l.hand)-n]) {
		n--
	}
	l.giveBack(n)
}

func (l *lease) worthGivingBack(h *leased) bool {
	for _, b := range l.of {
		if b.fleet.keeps {
			return true
		}
	}
	return h.due > l.q.now()+l.lead
}

// needLocked is how many units those want who wait for the lease and have a slot if they leave.
func (l *lease) needLocked(now time.Duration) (need int64) {
	for i := range l.at.parked.levels {
		for _, n := range l.at.parked.levels[i] {
			cost := n.costs[len(n.costs)-1]
			free := int64(n.waiting())
			for _, b := range n.line.buckets {
				if b.slots != 0 {
					free = min(free, int64(b.slots-b.out))
				}
				if b.gateShut(now) {
					free = 0
				}
				if !b.learn.isCalm() { // what it holds back isn't known in advance
					if t := b.learn.earliest(b, now, 0, 1); t > now+l.lead {
						free = 0
					} else if n, _ := b.learn.learner.Slots(now); n > 0 {
						inFlight, _ := b.learn.learner.InFlight()
						free = min(free, int64(n)-int64(inFlight))
					}
				}
			}
			if all := int64(n.waiting()); free < all {
				cost = (cost*max(0, free) + all - 1) / all
			}
			need += cost
		}
	}
	return need
}

// soonLocked is how many units those want who were at the lease, and wait for what one of its buckets has learnt: for a moment
// after each departure, if that is a pace. What is at hand for them isn't given back, since others can't use all of that.
func (l *lease) soonLocked(now time.Duration) (units int64) {
	for _, b := range l.of {
		if b.parked.n == 0 || b.learn.isCalm() || l.atHand() == 0 {
			continue
		}
		by := now + l.slack()
		for i := range b.parked.levels {
			for _, n := range b.parked.levels[i] {
				if n.line.buckets[len(n.line.buckets)-1] != l.at {
					continue
				}
				all := n.waiting()
				soon := sort.Search(all, func(i int) bool { return b.learn.earliest(b, now, int64(i), 1) > by })
				units += n.costs[len(n.costs)-1] * int64(soon) / int64(all)
			}
		}
	}
	return units
}

// runsLocked are those who wait for the lease, as many as make up the missing units, without those for whom there
// is something at hand.
func (l *lease) runsLocked(missing int64) []Run {
	var runs []Run
	skip := l.atHand()
	asked := 0
	for i := range l.at.parked.levels {
		isHigh := level(i).high() && l.headroom()
		for _, n := range l.at.parked.levels[i] {
			last := len(n.costs) - 1
			if head := n.head(); n.costs[last] == int64(n.waiting())*head.costAt(last) && !head.mixed && head.cost == 1 {
				units := n.costs[last]
				if skipped := min(skip, units); skipped > 0 {
					skip, units = skip-skipped, units-skipped
				}
				units = min(units, missing, maxAsked)
				runs = l.addRun(runs, int(units), isHigh, nil)
				missing -= units
				continue
			}
			for _, w := range n.inOrder() {
				c := w.costAt(last)
				if skip >= c {
					skip -= c
					continue
				}
				if missing <= 0 || asked >= maxAsked/16 {
					break
				}
				asked++
				runs = l.addRun(runs, 1, isHigh, l.costsOf(w))
				missing -= c
			}
		}
	}
	return runs
}

// addRun adds requests to runs. Costs nil: 1 each.
func (l *lease) addRun(runs []Run, n int, high bool, costs []int64) []Run {
	if n <= 0 {
		return runs
	}
	if costs == nil {
		costs = l.ones()
	}
	if last := len(runs) - 1; last >= 0 && runs[last].High == high && slices.Equal(runs[last].Costs, costs) {
		runs[last].N += n
		return runs
	}
	return append(runs, Run{N: n, High: high, Costs: costs})
}

func (l *lease) ones() []int64 {
	ones := make([]int64, len(l.of))
	for i := range ones {
		ones[i] = 1
	}
	return ones
}

// costsOf is what w takes of each shared bucket.
func (l *lease) costsOf(w *waiter) []int64 {
	costs := make([]int64, 0, len(l.of))
	for i, b := range w.lane.line.buckets {
		if len(costs) < len(l.of) && b == l.of[len(costs)] {
			costs = append(costs, w.costAt(i))
		}
	}
	return costs
}

func (l *lease) headroom() bool {
	return slices.ContainsFunc(l.of, func(b *bucket) bool { return b.key.Rule.set.Headroom() })
}
