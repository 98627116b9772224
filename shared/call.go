package shared

import (
	"fmt"
	"strconv"
	"time"
)

// membership is how long an instance counts as alive after its last heartbeat.
const membership = 3 * time.Second

// A call is one of lease.lua: everything for a set of buckets that hold jointly, in one round trip.
type call struct {
	buckets []*bucketKeys // all their keys have the same hash tag
	runs    []run         // wanted, in this order
	back    []slot        // not used, the latest first: what is charged for them is given back
	settled []slot        // whose costs turned out to be others: by so much more or, below 0, less
	owed    []int64       // for each bucket: what left without a reservation, charged as of now; nil: nothing
	told    []told        // by servers

	instance string        // who asks; "": this call is no heartbeat, which is due once a second
	weight   int           // how many shares the instance has; 0: one
	horizon  time.Duration // how far ahead departures are reserved

	// known says of each bucket whether this instance has seen its state, and it can't have expired: if it
	// is missing, it was lost. used is then what its windows counted at the last reply, as there. What was
	// reserved before is no longer handed back.
	known []bool
	used  [][]int64
	// recovering has rates start no earlier than a horizon from now: others may be using up what they
	// reserved before an outage.
	recovering bool
	// refused lets adaptive rates know that the upstream refused what left at their pace.
	refused bool

	// clock is what to take for Redis' clock, in us since 1970, where scripts may not ask it; 0: ask.
	clock int64
	// around is about what Redis' clock shows, to within hours. Only windows of the calendar need it.
	around time.Time
}

// A run is so many departures, each of which costs each bucket so much; 0: it isn't charged for them.
type run struct {
	n     int
	high  bool
	costs []int64
}

// A slot is a departure that was reserved.
type slot struct {
	at    int64   // in us since 1970, by Redis' clock
	run   int     // which of the call's runs it is of
	costs []int64 // for each bucket
	off   []int64 // how far the buckets' clocks were ahead of Redis' then
}

// told is that a server said when its window ends.
type told struct {
	bucket int           // of the call's buckets
	d      time.Duration // the window's length; 0: whichever it can be, as [limit.State.Align] says
	reset  int64         // us since 1970, by Redis' clock
}

// check says what is wrong with what is wanted: costs beyond what the script counts exactly.
func (c *call) check() error {
	for i, r := range c.runs {
		if len(r.costs) != len(c.buckets) {
			return fmt.Errorf("run %d has %d costs, want %d", i, len(r.costs), len(c.buckets))
		}
		for _, cost := range r.costs {
			if cost < 0 || cost > maxCost {
				return fmt.Errorf("run %d: cost is %d, want 0 to %d", i, cost, maxCost)
			}
		}
	}
	return nil
}

func (c *call) keys() []string {
	keys := make([]string, 0, 3*len(c.buckets))
	for _, b := range c.buckets {
		keys = append(keys, b.state, b.log, b.members)
	}
	return keys
}

// maxRun is how many departures one call asks for at most, of all its runs.
const maxRun = 10_000

func (c *call) args() []any {
	a := make([]any, 0, 16+8*len(c.buckets)+(2+len(c.buckets))*len(c.runs)+(1+2*len(c.buckets))*(len(c.back)+len(c.settled)))
	if c.clock > 0 {
		a = append(a, c.clock)
	} else {
		a = append(a, "")
	}
	a = append(a, micros(c.horizon), max(1, c.weight), c.instance, micros(membership),
		c.seen(), flag(c.recovering), flag(c.refused), len(c.buckets))
	for i, b := range c.buckets {
		owed := int64(0)
		if i < len(c.owed) {
			owed = min(max(0, c.owed[i]), maxCost)
		}
		var used []byte
		if i < len(c.used) {
			for _, n := range c.used[i] {
				used = strconv.AppendInt(used, n, 10)
				used = append(used, ' ')
			}
		}
		a = append(a, b.version, b.spec, b.bounds(c.around), owed, string(used))
	}
	a = append(a, len(c.back)+len(c.settled))
	for _, s := range c.back {
		a = c.settlement(a, s, -1)
	}
	for _, s := range c.settled {
		a = c.settlement(a, s, 1)
	}
	a = append(a, len(c.told))
	for _, t := range c.told {
		a = append(a, t.bucket+1, micros(t.d), t.reset)
	}
	a = append(a, len(c.runs))
	for i, r := range c.runs {
		a = append(a, c.wanted(i), flag(r.high))
		for _, cost := range r.costs {
			a = append(a, cost)
		}
	}
	return a
}

func (c *call) settlement(a []any, s slot, sign int64) []any {
	a = append(a, s.at)
	for i := range c.buckets {
		var off, cost int64
		if i < len(s.off) {
			off = s.off[i]
		}
		if i < len(s.costs) {
			cost = min(max(-maxCost, s.costs[i]), maxCost)
		}
		a = append(a, off, sign*cost)
	}
	return a
}

// wanted is how many departures of a run the script is asked for: not so many that their costs can't be
// added up.
func (c *call) wanted(i int) int {
	room := maxRun
	for _, r := range c.runs[:i] {
		room -= max(0, r.n)
	}
	n := max(0, min(c.runs[i].n, room))
	for _, cost := range c.runs[i].costs {
		if cost > 0 {
			n = min(n, int(maxCost/cost))
		}
	}
	return n
}

// seen has a digit for each bucket.
func (c *call) seen() string {
	digits := make([]byte, len(c.buckets))
	for i := range digits {
		digits[i] = '0'
		if i < len(c.known) && c.known[i] {
			digits[i] = '1'
		}
	}
	return string(digits)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A pause stops all departures of a bucket.
type pause struct {
	bucket  *bucketKeys
	length  time.Duration // 0: it ends
	most    time.Duration // what is longer isn't believed
	channel string        // where those are told who hold departures; "": nowhere
	clock   int64         // as in a call
}

func (p *pause) keys() []string { return []string{p.bucket.state} }

func (p *pause) args() []any {
	var clock any = ""
	if p.clock > 0 {
		clock = p.clock
	}
	return []any{clock, micros(p.length), micros(min(p.most, maxPause)), p.channel, p.bucket.key}
}

// maxPause is the longest pause that a script believes.
const maxPause = 31 * 24 * time.Hour
