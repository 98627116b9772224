package limit

import (
	"math/bits"
	"time"
)

// meter is what a rate's arithmetic needs of its declaration.
type meter struct {
	interval span
	burst    int64
	ordinary int64 // the burst that requests of ordinary priority see
	steps    int64 // a mask that rounds nanoseconds down to steps of 1/64 to 1/128 of the burst
}

func newMeter(l Limit) meter {
	burst := int64(l.burst)
	m := meter{interval: l.interval(), burst: burst, ordinary: burst - l.kept(burst)}
	m.steps = -1 << max(0, bits.Len64(uint64(m.interval.times(burst).ns))-7)
	return m
}

// lows say how much a rate may be given back of an earlier charge. At every charge the bucket is ahead
// of the clock by some time (its theoretical arrival time less the moment of departure); if an earlier
// charge had been smaller, by no more than that, the later one would have found the same burst still
// used in part, and the difference would still be there. If it was less, or the clock was ahead, the
// rest was lost to a bucket that was full already. So what may be given back is bounded by the least of
// those times since the charge.
//
// That is kept for any charge in the past: each low is the least in a span of time that ends at a
// moment, and they rise, since an earlier one that isn't below a later one says nothing. Where the clock
// was ahead they are 0. There are only
// a few of them; where there were more, two spans are made one, with the lower of their lows.
type lows struct {
	n     int
	until [maxLows]time.Duration
	low   [maxLows]time.Duration
}

const maxLows = 8

// note notes a charge at t with the bucket ahead by low. Moments don't fall.
func (l *lows) note(t, low time.Duration) {
	for l.n > 0 && l.low[l.n-1] >= low {
		l.n--
	}
	if l.n == maxLows {
		least := 0
		for i := 1; i < maxLows-1; i++ {
			if l.low[i+1]-l.low[i] < l.low[least+1]-l.low[least] {
				least = i
			}
		}
		low := l.low[least]
		copy(l.until[least:], l.until[least+1:])
		copy(l.low[least:], l.low[least+1:])
		l.low[least] = low
		l.n--
	}
	l.until[l.n], l.low[l.n] = t, low
	l.n++
}

// since is the least time by which the bucket was ahead at any charge after t. Charges at t itself came
// before, or count more than what was charged between.
func (l *lows) since(t time.Duration) time.Duration {
	for i := range l.n {
		if l.until[i] > t {
			return l.low[i]
		}
	}
	return Never
}

// lower notes that so much was given back of a charge at t.
func (l *lows) lower(t, back time.Duration) {
	kept := *l
	l.n = 0
	for i := range kept.n {
		low := kept.low[i]
		if kept.until[i] > t {
			low -= back
		}
		l.note(kept.until[i], low)
	}
}

// note notes a charge at due, which is made already, for each rate with a burst. It goes in coarse steps,
// so that the lows of a bucket in steady use are all alike.
func (st *State) note(due time.Duration, cost int64) {
	for i := range st.lows {
		m := &st.rates[i]
		if m.burst == 1 {
			continue
		}
		before := st.tats[i].sub(m.interval.times(cost))
		l, low := &st.lows[i], time.Duration((before.ns-int64(due))&m.steps)
		if l.n == 1 && l.low[0] >= low {
			l.until[0], l.low[0] = st.last, low // as it mostly is where buckets are always full, or always empty
		} else {
			l.note(st.last, low)
		}
	}
}

// giveBack takes units from what was charged to the i-th rate at due.
func (st *State) giveBack(i int, due time.Duration, units int64) {
	m := &st.rates[i]
	back := m.interval.times(units)
	// After the charge the bucket was ahead by all of it, and only the time since then has changed that.
	most := back.sub(at(st.last - due)).max(span{})
	if m.burst > 1 {
		most = most.max(at(st.lows[i].since(due)))
	}
	if most.less(back) {
		back = most
	}
	st.tats[i] = st.tats[i].sub(back)
	if m.burst > 1 {
		st.lows[i].lower(due, back.ceil())
	}
}
