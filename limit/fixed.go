package limit

import (
	"hash/fnv"
	"time"
)

// fixedLog is a fixed window. As long as its phase isn't known it is a sliding log, in which what left
// within a sixteenth of a window shares an entry. Once it is known, what counts is the units that left
// since the window began. The log is kept all the same, since the phase may be told anew.
type fixedLog struct {
	slidingLog
	phase  phase
	anchor time.Duration // a moment at which a window begins, if the phase is declared
	cal    *calendar     // nil: all windows have the length d

	start, end time.Duration // the calendar's window as of the last departure

	// What the server told: its window ends at told, and what left after from is in it. Nothing was
	// told as long as told is noMoment.
	told, from time.Duration
}

// compaction is how many entries a window's log has, about.
const compaction = 16

// rounding is how much earlier than a server said a window may have begun: resets are often told in
// whole seconds.
func (f *fixedLog) rounding() time.Duration { return min(f.d/compaction, 2*time.Second) }

func newFixedLog(w window, l Limit, loc *time.Location, o origin) *fixedLog {
	f := &fixedLog{
		slidingLog: slidingLog{window: w, record: newRecord(), width: w.d / compaction},
		phase:      l.phase,
		told:       noMoment,
	}
	switch l.phase {
	case daily, monthly:
		f.cal = newCalendar(l, loc, o)
	case byClock:
		f.anchor = o.clockPhase(w.d)
	case byKey:
		h := fnv.New64a()
		h.Write([]byte(o.key))
		f.anchor = o.clockPhase(w.d) + time.Duration(h.Sum64()%uint64(w.d))
	}
	return f
}

// An origin is where a bucket's moments and its key come from.
type origin struct {
	wall int64 // the epoch in Unix nanoseconds
	key  string
}

// clockPhase is the last moment not after the epoch at which the wall clock showed a multiple of d.
func (o origin) clockPhase(d time.Duration) time.Duration {
	return -time.Duration(((o.wall % int64(d)) + int64(d)) % int64(d))
}

// heard reports whether the phase that the server told still holds at t. After two windows in which
// nothing left it is as good as none: many upstreams begin a window with its first request.
func (f *fixedLog) heard(t time.Duration) bool {
	return f.told != noMoment && t < max(f.told, f.record.newest())+2*f.d
}

func (f *fixedLog) known(t time.Duration) bool { return f.phase != unknownPhase || f.heard(t) }

// at returns when the window in which t is begins and ends. The phase is known at t.
func (f *fixedLog) at(t time.Duration) (start, end time.Duration) {
	if f.cal != nil {
		if t >= f.start && t < f.end {
			return f.start, f.end
		}
		return f.cal.at(t)
	}
	anchor := f.anchor
	if f.heard(t) {
		if t < f.told {
			return min(f.from, t), f.told
		}
		anchor = f.told
	}
	start = t - (t-anchor)%f.d
	if start > t {
		start -= f.d
	}
	return start, start + f.d
}

// following returns when the window begins and ends that comes some windows after the one that ends at end.
func (f *fixedLog) following(end time.Duration, windows int64) (time.Duration, time.Duration) {
	if f.cal != nil {
		return f.cal.following(end, windows)
	}
	start := later(end, windows, f.d)
	return start, start + f.d
}

// earliest has nothing leave within a guard of a window's begin and end: what leaves then may arrive in
// another window than it was counted in.
func (f *fixedLog) earliest(t time.Duration, ahead, cost int64, high bool) time.Duration {
	if !f.known(t) {
		return f.slidingLog.earliest(t, ahead, cost, high)
	}
	if cost > f.n {
		return Never
	}
	start, end := f.at(t)
	var used int64
	if t >= end-f.guard {
		start, end = f.following(end, 0)
	} else {
		used = f.record.total() - f.record.upTo(f.record.after(start-1))
	}
	if free := f.n - used; addSat(ahead, cost) > free {
		// Those ahead fill this window and some whole ones, and begin another; where the request
		// doesn't fit in with those it has the next for itself.
		left := max(0, ahead-max(0, free))
		full, begun := left/f.n, left%f.n
		if begun+cost > f.n {
			full, begun = full+1, 0
		}
		start, end = f.following(end, full)
		used, ahead = 0, begun
	}
	t = max(t, start+f.guard)
	if high || f.kept == 0 || used+ahead == 0 {
		return t
	}
	return max(t, end-f.guard-f.lent(f.n-used-ahead-cost, end-start))
}

func (f *fixedLog) charge(now time.Duration, cost int64) {
	f.record.drop(now - f.span())
	f.note(now, cost)
}

func (f *fixedLog) note(now time.Duration, cost int64) {
	if !f.heard(now) {
		f.told = noMoment // for good, and not until something leaves again
	}
	boundary := noMoment
	if f.known(now) {
		f.start, f.end = f.at(now)
		boundary = f.start
	}
	f.record.add(now, cost, f.width, boundary)
}

func (f *fixedLog) full(now time.Duration) bool {
	return f.slidingLog.full(now) && !f.heard(now)
}

func (f *fixedLog) clone() windowState {
	c := *f
	c.record = f.record.clone()
	return &c
}

// plausible reports whether a window that runs at now may end at reset.
func (f *fixedLog) plausible(reset, now time.Duration) bool {
	return reset > now && reset <= now+2*f.d
}

// align has the window that runs at now end at reset, which is plausible.
func (f *fixedLog) align(reset, now time.Duration) {
	start := reset - f.d
	from := start - f.rounding()
	switch {
	case start > now+f.rounding():
		from = now - f.span() // longer than was declared: whatever is remembered may be in it
	case start > now:
		from = now - f.rounding()
	}
	if f.heard(now) {
		// The same window, told a little differently: what counted in it still does.
		if start, end := f.at(now); reset < end+f.d/2 {
			from = min(from, start)
		}
	}
	f.told, f.from = reset, from
}
