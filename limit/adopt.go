package limit

import (
	"math"
	"math/big"
	"slices"
	"time"
)

// Adopt returns the state under new limits that remembers what left under the old ones; the old state
// must not be used any more.
//
// Limits are matched by kind and position: the first rate with the first rate, the second fixed window
// with the second one. Of a rate the used part of the burst stays used; of a window what it remembers
// stays counted, and so does a phase that the server told, for windows of the same length. A limit that
// has no counterpart, or a longer window than it had, is charged with what the other limits remember, and
// before that with what they may have let leave.
// The same limits go on as if nothing had happened.
//
// So no span of time as long as the longer window, or shorter, has more departures than the larger of
// what the old limits allow in it and what the new ones do. It may have up to one old window's n more (or
// one new one's) where the old state can't know, when the new limit is slower and looks back further, and
// where it needn't, when the new one is a window that forgets all at its end. What the old limit let
// leave beyond what the new one allows is a debt, but for no longer than the old limit would remember it.
//
// Rates give nothing back of what was charged before (see [State.Refund]).
func (s Set) Adopt(old *State, now time.Duration) State {
	st := s.newState(old.origin)
	st.last, st.drained = old.last, max(old.drained, now, old.last+1)
	for i := range st.rates {
		m := &st.rates[i]
		if i < len(old.rates) {
			o := &old.rates[i]
			used := old.tats[i].sub(at(now)).max(span{})
			st.tats[i] = at(now).add(used.scaled(m.interval, o.interval))
			// Under a slower rate what left at the old one would have used a larger burst.
			if used := m.interval.times(max(0, m.burst-o.burst)); old.last != noMoment && o.interval.less(m.interval) {
				st.tats[i] = st.tats[i].add(used.sub(at(now - old.last)).max(span{}))
			}
			continue
		}
		fill := max(1, m.interval.times(m.burst).ceil())
		p := old.pastFor(rateLimit, 0, fill, now)
		for _, l := range p.after(now - fill) {
			st.tats[i] = st.tats[i].max(at(l.at)).add(m.interval.times(l.units))
			// By then the old limit would have forgotten it.
			most := at(l.at + p.memory).max(at(now)).add(m.interval.times(m.burst - 1))
			if most.less(st.tats[i]) {
				st.tats[i] = most
			}
		}
	}
	seen := map[kind]int{}
	for _, w := range st.windows {
		d := w.declared()
		position := seen[d.kind]
		seen[d.kind]++
		if same := old.nth(d.kind, position); same != nil && w.adopt(same) {
			continue
		}
		p := old.pastFor(d.kind, position, d.span(), now)
		p.replay(d, p.after(now-d.span()), w.note)
	}
	return st
}

// nth is the window of a kind at a position among those; nil if there is none.
func (st *State) nth(k kind, position int) windowState {
	for _, w := range st.windows {
		if w.declared().kind == k {
			if position == 0 {
				return w
			}
			position--
		}
	}
	return nil
}

// A past is what a limit remembers of departures.
type past struct {
	left []left // oldest first
	// At or before since at most so many more left, at n per span.
	since   time.Duration
	unknown int64
	n       int64
	span    time.Duration
	atOnce  int64         // and so many at once, at since
	memory  time.Duration // after that time the limit has forgotten a departure
}

type left struct {
	at    time.Duration
	units int64
}

// pastFor is the past that suits a window best: that of the limit it replaces, or of the shortest
// window that is as long, or of the longest one, or of a rate.
func (st *State) pastFor(k kind, position int, span, now time.Duration) past {
	best := st.nth(k, position)
	if best == nil {
		for _, w := range st.windows {
			if best == nil {
				best = w
			} else if has, is := best.declared().d, w.declared().d; has < span && is > has || is >= span && is < has {
				best = w
			}
		}
	}
	if best != nil {
		return best.past()
	}
	if len(st.rates) > 0 && st.last != noMoment {
		// By the level of the bucket at its last departure no more left until then than that, and what
		// leaked.
		m := &st.rates[0]
		level := int64(0)
		if used := st.tats[0].sub(at(st.last)); span64(m.interval) > 0 {
			level = int64(math.Ceil(span64(used) / span64(m.interval)))
		}
		n, span := m.pace()
		return past{
			left:    []left{{st.last, max(0, level)}},
			since:   st.last,
			unknown: math.MaxInt64,
			n:       n,
			span:    span,
			memory:  m.interval.times(m.burst).ceil(),
		}
	}
	return past{since: noMoment}
}

// pace is the rate as so many units per span.
func (m *meter) pace() (int64, time.Duration) {
	n := int64(1)
	if m.interval.ns < 1e6 {
		n = 1e6
	}
	return n, m.interval.times(n).ceil()
}

// span64 is a span in nanoseconds.
func span64(s span) float64 { return float64(s.ns) + float64(s.frac)/(1<<64) }

// after lists what is known, and before that what the old limit may have let leave after from.
func (p *past) after(from time.Duration) []left {
	var all []left
	if p.unknown > 0 && p.since > from && p.span > 0 {
		// Evenly, but the most that the old limit lets leave at once at the end.
		perSpan, length, atOnce := p.n, p.span, p.atOnce
		end, so := p.since, int64(0)
		for i := int64(compaction) - 1; i >= 0 && so < p.unknown; i-- {
			begin := from + time.Duration(mulDiv(int64(p.since-from), i, compaction))
			sum := min(p.unknown, addSat(atOnce, mulDivUp(int64(p.since-begin), perSpan, int64(length))))
			all = append(all, left{end, sum - so})
			end, so = begin, sum
		}
		slices.Reverse(all)
	}
	return append(all, p.left...)
}

// replay charges a window with what left. What is more than the window holds is charged as if it had
// left as soon as the window allows it, but not for longer than the old limit would remember it.
func (p *past) replay(w *window, all []left, charge func(time.Duration, int64)) {
	chain := slidingLog{window: window{n: w.n, d: w.span()}, record: newRecord()}
	steps := 0
	for _, l := range all {
		last := l.at + max(0, p.memory-w.span())
		for l.units > 0 {
			t, units := chain.earliest(l.at, 0, 1, true), l.units
			if steps++; t < last && steps < 1000 {
				r := &chain.record
				units = min(units, w.n-r.total()+r.upTo(r.after(t-w.span())))
			} else {
				t = last
			}
			chain.charge(t, units)
			charge(t, units)
			l.units -= units
		}
	}
}

// scaled is s·to/from, rounded up.
func (s span) scaled(to, from span) span {
	wide := func(s span) *big.Int {
		n := new(big.Int).Lsh(big.NewInt(s.ns), 64)
		return n.Add(n, new(big.Int).SetUint64(s.frac))
	}
	d := wide(from)
	q := new(big.Int).Mul(wide(s), wide(to))
	q.Add(q, d).Sub(q, big.NewInt(1)).Div(q, d)
	ns := new(big.Int).Rsh(q, 64)
	if !ns.IsInt64() || ns.Int64() > maxNS {
		return span{ns: maxNS}
	}
	return span{ns: ns.Int64(), frac: new(big.Int).And(q, new(big.Int).SetUint64(math.MaxUint64)).Uint64()}
}

func (r *record) past(w *window) past {
	p := past{since: r.since, unknown: r.gone, n: w.n, span: w.span(), atOnce: w.n, memory: w.span()}
	for i := range r.n {
		p.left = append(p.left, left{r.entry(i).at, r.entry(i).total - r.upTo(i)})
	}
	return p
}

func (s *slidingLog) past() past { return s.record.past(&s.window) }

func (s *slidingLog) adopt(w windowState) bool {
	old := w.(*slidingLog)
	if s.d == old.d {
		s.record = old.record
	}
	return s.d == old.d
}

// past has twice as much at once where that may leave around a boundary.
func (f *fixedLog) past() past {
	p := f.record.past(&f.window)
	p.atOnce *= 2
	return p
}

// adopt takes over the phase that the server told, too.
func (f *fixedLog) adopt(w windowState) bool {
	old := w.(*fixedLog)
	if f.d != old.d {
		return false
	}
	f.record = old.record
	if f.cal == nil && old.cal == nil {
		f.told, f.from = old.told, old.from
	}
	return true
}

func (c *counter) past() past {
	if c.last == noMoment {
		return past{since: noMoment}
	}
	return past{
		left:    []left{{c.start - 1, c.prev}, {c.last, c.curr}},
		since:   c.start - c.d - 1,
		unknown: math.MaxInt64,
		n:       c.n,
		span:    c.d,
		atOnce:  2 * c.n,
		memory:  2 * c.d,
	}
}

// adopt takes over the counters, if they count the same windows.
func (c *counter) adopt(w windowState) bool {
	old := w.(*counter)
	if c.d != old.d {
		return false
	}
	c.start, c.prev, c.curr, c.last = old.start, old.prev, old.curr, old.last
	return true
}
