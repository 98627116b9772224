package limit

import (
	"math"
	"math/bits"
	"sort"
	"time"
)

// noMoment is before any moment.
const noMoment = -time.Duration(maxNS)

// A record is what has left lately: the moments of departures and their units, oldest first, in a
// ring. Units are kept as running totals, so that the moment at which the k-th oldest unit left is
// found by binary search.
type record struct {
	ring   []entry // its length is 0 or a power of two
	head   int     // where the oldest entry is
	n      int
	gone   int64         // the total up to the entries that are no longer kept
	since  time.Duration // the moment of the last of those
	opened time.Duration // when the first departure of the newest entry was
}

// An entry is what left at a moment, or in a short time up to it.
type entry struct {
	at    time.Duration
	total int64 // all units so far, these included
}

func newRecord() record { return record{since: noMoment} }

func (r *record) entry(i int) *entry { return &r.ring[(r.head+i)&(len(r.ring)-1)] }

// upTo is the total of all that left before the i-th entry.
func (r *record) upTo(i int) int64 {
	if i == 0 {
		return r.gone
	}
	return r.entry(i - 1).total
}

func (r *record) total() int64 { return r.upTo(r.n) }

// after is the first entry that is later than t; r.n if none is.
func (r *record) after(t time.Duration) int {
	if r.n == 0 || r.entry(0).at > t { // the most frequent case
		return 0
	}
	return sort.Search(r.n, func(i int) bool { return r.entry(i).at > t })
}

// newest is when the last departure was, as far as the record goes.
func (r *record) newest() time.Duration {
	if r.n == 0 {
		return r.since
	}
	return r.entry(r.n - 1).at
}

// add notes a departure of so many units at now. It goes into the newest entry if that was opened less
// than width ago and not before boundary. Time doesn't run backwards: what seems to have left before
// others counts as having left with them.
func (r *record) add(now time.Duration, units int64, width, boundary time.Duration) {
	total := r.total() + units
	if r.n > 0 {
		last := r.entry(r.n - 1)
		now = max(now, last.at)
		if now == last.at || now < r.opened+width && r.opened >= boundary {
			*last = entry{at: now, total: total}
			return
		}
	}
	if r.n == len(r.ring) {
		r.makeRoom()
	}
	r.n++
	r.opened = now
	*r.entry(r.n - 1) = entry{at: now, total: total}
}

// makeRoom drops entries that were given back, and doubles the ring unless that freed half of it: so
// departures that are all given back take no memory, and each costs O(1) on average.
func (r *record) makeRoom() {
	old, n := *r, 0
	for i := range old.n {
		if e := *old.entry(i); e.total > old.upTo(i) || i == old.n-1 {
			n++
		}
	}
	size := max(4, len(old.ring))
	for n > size/2 {
		size *= 2
	}
	r.ring, r.head, r.n = make([]entry, size), 0, 0
	before := old.gone
	for i := range old.n {
		if e := *old.entry(i); e.total > before || i == old.n-1 {
			r.ring[r.n] = e
			r.n++
			before = e.total
		}
	}
}

// drop forgets what left at t or before.
func (r *record) drop(t time.Duration) {
	for r.n > 0 && r.entry(0).at <= t {
		e := r.entry(0)
		r.gone, r.since = e.total, e.at
		r.head = (r.head + 1) & (len(r.ring) - 1)
		r.n--
	}
}

// settle changes the units of the entry into which a departure at now went, but not to less than none.
// It does nothing if that departure doesn't count any more. If it had been given back, what is added
// counts with the next one. It takes time in proportion to the entries since.
func (r *record) settle(now time.Duration, more int64, exact bool) {
	i := r.after(now - 1)
	if i == r.n || now <= r.since || exact && r.entry(i).at != now && more < 0 {
		return
	}
	more = max(more, r.upTo(i)-r.entry(i).total)
	for ; i < r.n; i++ {
		r.entry(i).total += more
	}
}

func (r *record) clone() record {
	c := *r
	c.ring = make([]entry, len(r.ring))
	copy(c.ring, r.ring)
	return c
}

// addSat and mulSat stay at the end of the range of moments, mulDiv is ⌊a·b/c⌋ and mulDivUp ⌈a·b/c⌉, as
// far as they fit. None of the arguments is negative, and c isn't 0.

func addSat(a, b int64) int64 {
	if s := a + b; s >= a && s < maxNS {
		return s
	}
	return maxNS
}

func mulSat(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > maxNS {
		return maxNS
	}
	return int64(low)
}

func mulDiv(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(high, low, uint64(c))
	return int64(min(q, math.MaxInt64))
}

func mulDivUp(a, b, c int64) int64 {
	q := mulDiv(a, b, c)
	high, low := bits.Mul64(uint64(a), uint64(b))
	backHigh, backLow := bits.Mul64(uint64(q), uint64(c))
	if q < math.MaxInt64 && (backHigh < high || backLow < low) {
		q++
	}
	return q
}
