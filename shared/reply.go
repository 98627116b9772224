package shared

import (
	"errors"
	"fmt"
	"time"
)

// A reply is what lease.lua answers.
type reply struct {
	now     int64         // Redis' clock, us since 1970
	slots   []slot        // granted, in the order of the runs
	tail    int64         // when one more like the last run's would be due, as things stand
	expires time.Duration // for so long from now the states are remembered

	// For each bucket:
	live        []int     // instances that use it
	pausedUntil []int64   // 0: it isn't
	rate        []float64 // what an adaptive rate allows, per second; 0: there is none
	used        [][]int64 // what each of its windows counts now
}

// errReply is what every error about a reply wraps that can't be the script's.
var errReply = errors.New("not a reply of the script")

// latest is the latest moment that the script answers: FAR in lease.lua.
const latest = 1 << 52

// parseReply reads what the script answered to a call.
func parseReply(v any, c *call) (reply, error) {
	r := reader{rest: nil}
	var ok bool
	if r.rest, ok = v.([]any); !ok {
		return reply{}, fmt.Errorf("%w: it is a %T", errReply, v)
	}
	rep := reply{now: r.between(1, latest), tail: r.between(0, latest)}
	rep.expires = time.Duration(r.between(1, latest/2)) * time.Microsecond
	if n := r.between(0, 1<<20); r.err == nil && int(n) != len(c.buckets) {
		return reply{}, fmt.Errorf("%w: it is for %d buckets, want %d", errReply, n, len(c.buckets))
	}
	off := make([]int64, len(c.buckets))
	for i := range c.buckets {
		rep.live = append(rep.live, int(r.between(1, 1<<30)))
		rep.pausedUntil = append(rep.pausedUntil, r.between(0, latest))
		off[i] = r.between(0, latest)
		rep.rate = append(rep.rate, float64(r.between(0, 1<<53))/1e6)
		var used []int64
		for range r.between(0, int64(len(r.rest))) {
			used = append(used, r.between(0, 1<<53))
		}
		rep.used = append(rep.used, used)
	}
	wanted, run := 0, -1
	next := func() bool { // the run of the next slot
		for wanted == 0 {
			if run++; run >= len(c.runs) {
				return false
			}
			wanted = c.wanted(run)
		}
		wanted--
		return true
	}
	for len(r.rest) > 0 && r.err == nil {
		at, n := r.between(0, latest), r.between(1, maxRun)
		var m meter
		if at == 0 {
			m = r.meter(n)
		}
		for i := range n {
			if !next() {
				return reply{}, fmt.Errorf("%w: it has more departures than were wanted", errReply)
			}
			if m.parts > 0 {
				at = m.due(i)
			}
			rep.slots = append(rep.slots, slot{at: at, run: run, costs: c.runs[run].costs, off: off})
		}
	}
	if r.err != nil {
		return reply{}, r.err
	}
	return rep, nil
}

// A meter is how a rate's departures follow each other: the i-th is at first + i·step, rounded up, but not
// before start. Fractions are so many parts of a microsecond.
type meter struct {
	start                            int64
	first, firstPart, step, stepPart int64
	parts                            int64 // 0: no meter
}

func (m *meter) due(i int64) int64 {
	return max(m.start, m.first+i*m.step+(m.firstPart+i*m.stepPart+m.parts-1)/m.parts)
}

// meter reads one of n departures.
func (r *reader) meter(n int64) meter {
	m := meter{
		start:     r.between(1, latest),
		first:     r.between(-latest, latest),
		firstPart: r.between(0, maxDenominator),
		step:      r.between(0, latest),
		stepPart:  r.between(0, 1<<53),
		parts:     r.between(1, maxDenominator),
	}
	if r.err == nil && (m.step > latest/n || m.stepPart > (1<<53)/n) {
		r.err = fmt.Errorf("%w: %d departures of %d us", errReply, n, m.step)
	}
	return m
}

// parsePaused reads what pause.lua answered: Redis' clock, and until when the bucket is paused.
func parsePaused(v any) (now, until int64, err error) {
	list, ok := v.([]any)
	if !ok || len(list) != 2 {
		return 0, 0, fmt.Errorf("%w: it is %v", errReply, v)
	}
	r := reader{rest: list}
	now, until = r.between(1, latest), r.between(0, latest)
	return now, until, r.err
}

// A reader takes integers off a reply, up to the first that is none.
type reader struct {
	rest []any
	err  error
}

func (r *reader) between(least, most int64) int64 {
	if r.err != nil {
		return least
	}
	if len(r.rest) == 0 {
		r.err = fmt.Errorf("%w: it ends too early", errReply)
		return least
	}
	n, ok := r.rest[0].(int64)
	if !ok || n < least || n > most {
		r.err = fmt.Errorf("%w: %v (%T) isn't within %d and %d", errReply, r.rest[0], r.rest[0], least, most)
		return least
	}
	r.rest = r.rest[1:]
	return n
}
