package limit

import (
	"math"
	"time"
)

// A Learner finds out how much an upstream takes that hasn't said so, from how it answers. It holds back in
// three ways: by a pace; by how many may be in flight; and during an outage, by letting out no more than a
// probe now and then. One that was never refused holds back nothing but the start.
//
// It is arithmetic: it isn't safe for concurrent use, has no clock, and needs a fixed amount of memory.
// Moments are counted from any fixed one, and don't go back.
//
// # Rate or concurrency
//
// A refusal seldom says which of the two was exceeded. One that says when to come again is a matter of the
// rate, and so is one that left with no more than one other in flight. Any other is taken for a matter of
// concurrency: if it wasn't, in flight soon falls to where the next refusal says so.
//
// # In flight
//
// It starts with 4 in flight, and half as many again in each round trip: TCP's slow start (RFC 5681 §3.1),
// which doubles, with less to lose. A refusal for concurrency ends that, at what is in flight when all that is
// refused is back. Whether one more would do is tried later: after half a second, then 10 s, and twice as long
// each time it would not.
//
// # Pace
//
// The first refusal for the rate tells how many were accepted in how long: that is the rate to begin with, and,
// if they were accepted at once, the burst. From there the rate doubles every fifth of a second, or every four
// round trips, up to the next refusal. A limit of rate r and burst b refuses when more than b + r·t came in
// some time t, so the refusal tells r, if b is known, to within a departure.
//
// From then on the rate follows a cubic curve, as in CUBIC (RFC 9438 §4.2): back to what is known to be
// accepted, flat around there, and only then above, to find a limit that was raised. How soon depends on what
// a refusal costs: where each means a long pause, they are risked seldom.
//
// # Outage
//
// Three answers in a row that say that the upstream is unwell are an outage. In it one request is let out
// whenever it has lasted an eighth longer. When one is answered well, the others follow with a number in
// flight that doubles in each round trip, and at the rate that was answered well before, which then grows.
type Learner struct {
	bounds  LearnerBounds
	opening opening
	pace    pace
	outage  outage

	sequence  uint64        // of the last departure
	told      uint64        // the last departure before the latest refusal was known: those up to it are no news
	toldAt    time.Duration // when that refusal became known
	refused   bool          // there was one
	inFlight  int
	units     int64         // in flight
	sent      int64         // units, ever
	roundTrip time.Duration // smoothed; 0: unknown
	accepted  history
	passed    passed
}

// LearnerBounds say within what bounds a [Learner] looks for a limit. The zero LearnerBounds are none.
type LearnerBounds struct {
	// Min and Max bound the pace, in units per second. With a Max there is a pace from the start, which
	// begins at Min. Zero: no bound.
	Min, Max float64

	// Declared is the rate at which those leave whom the Learner doesn't hold, per second. A refusal makes it
	// hold them a little below. Zero: unknown.
	Declared float64

	// Passive has it learn nothing, and hold back nobody: it only counts what is in flight.
	Passive bool

	// NoWindow has it not count what is in flight, because something else does, or the start is declared.
	NoWindow bool
}

// A Flight is a departure that wasn't answered yet. The zero Flight, or one made by [Untracked], is of a departure
// that the Learner wasn't told of by [Learner.Depart].
type Flight struct {
	sequence uint64
	at       time.Duration
	with     int32 // in flight when it left, itself included
	cost     int32
	upTo     int64 // units that had left, itself included
}

// NewLearner returns a Learner that knows nothing yet.
func NewLearner(b LearnerBounds) *Learner {
	l := &Learner{bounds: b}
	l.opening.begin(4, 0.5)
	if b.NoWindow || b.Passive {
		l.opening = opening{}
	}
	if b.Max > 0 {
		l.pace.ramp(max(b.Min, 0.1), b)
	}
	return l
}

// Inherit takes up what old has in flight, which is answered to l from then on.
func (l *Learner) Inherit(old *Learner) {
	l.sequence, l.told, l.inFlight, l.units, l.sent = old.sequence, old.sequence, old.inFlight, old.units, old.sent
}

// Join takes up what o has in flight, which is answered to l from then on with [Flight.Joined].
func (l *Learner) Join(o *Learner) {
	l.inFlight += o.inFlight
	l.units += o.units
	l.sent += o.sent
}

// Joined is the flight for a Learner that its own has been joined with.
func (f Flight) Joined() Flight {
	if f.sequence != 0 {
		f.sequence, f.upTo = 1, 0 // as old as any
	}
	return f
}

// Slots returns how many may be in flight at now, and when that grows if nothing is answered until then; 0 is
// any number, and [Never] says that it doesn't.
func (l *Learner) Slots(now time.Duration) (n int, grows time.Duration) { return l.opening.slots(now) }

// InFlight returns how many departures weren't answered yet, and what they cost together.
func (l *Learner) InFlight() (n int, units int64) { return l.inFlight, l.units }

// Sent returns what all departures have cost together.
func (l *Learner) Sent() int64 { return l.sent }

// Rate returns the pace, per second; 0: there is none.
func (l *Learner) Rate() float64 { return l.pace.rate }

// Down reports whether the upstream is taken to be down.
func (l *Learner) Down() bool { return l.outage.on }

// DownSince returns since when, if it is.
func (l *Learner) DownSince() (since time.Duration, down bool) { return l.outage.since, l.outage.on }

// Earliest returns the first moment, not before since, at which a request may leave when ahead units have left
// before it, as far as the pace and an outage go.
func (l *Learner) Earliest(since time.Duration, ahead int64) time.Duration {
	t := since
	if l.pace.rate > 0 {
		t = max(t, l.pace.next+min(spanOf(l.pace.takes(float64(ahead), l.roundTrip, l.bounds)), Never-l.pace.next))
	}
	if l.outage.on {
		t = max(t, l.outage.probe)
	}
	return min(t, Never)
}

// Depart notes a departure that was due at due, as [Learner.Earliest] said, and leaves at now.
func (l *Learner) Depart(due, now time.Duration, cost int64) Flight {
	l.sequence++
	l.inFlight++
	l.units += cost
	l.sent += cost
	l.pace.depart(due, now, cost, l.roundTrip, l.bounds)
	l.outage.depart(now)
	l.opening.departed(l.inFlight, now)
	return Flight{sequence: l.sequence, at: now, with: int32(min(l.inFlight, math.MaxInt32)), cost: int32(min(cost, math.MaxInt32)), upTo: l.sent}
}

// Pass notes a departure of which only a refusal will be told, with [Untracked]: a Learner that is [Learner.Calm]
// needn't hear of more. It counts as accepted until then.
func (l *Learner) Pass(due, now time.Duration, cost int64) {
	l.passed.add(now, cost)
	l.sent += cost
	l.pace.depart(due, now, cost, l.roundTrip, l.bounds)
	l.pace.units += float64(cost)
	l.pace.row = 0
	l.outage.depart(now)
}

// Untracked is the Flight of a departure that was noted with [Learner.Pass].
func Untracked(left time.Duration, cost int64) Flight {
	return Flight{at: left, with: 1, cost: int32(min(cost, math.MaxInt32))}
}

// landed takes f out of what is in flight.
func (l *Learner) landed(f Flight) {
	if f.sequence != 0 {
		l.inFlight = max(0, l.inFlight-1)
		l.units = max(0, l.units-int64(f.cost))
	}
}

// news reports whether f left after the latest refusal was known.
func (l *Learner) news(f Flight) bool {
	if f.sequence == 0 {
		return !l.refused || f.at > l.toldAt
	}
	return f.sequence > l.told
}

// Accepted notes an answer that refuses nothing.
func (l *Learner) Accepted(f Flight, now time.Duration) {
	l.landed(f)
	if f.sequence == 0 {
		return
	}
	if trip := now - f.at; l.roundTrip == 0 {
		l.roundTrip = max(trip, 1)
	} else {
		l.roundTrip += (trip - l.roundTrip) / 8
	}
	l.accepted.add(f.at, int64(f.cost))
	l.opening.accepted(f, l.news(f), now, l.roundTrip)
	l.pace.accepted(f)
	if l.outage.ends(f) {
		l.opening.begin(2, 1)
		l.opening.changed = now
		if l.bounds.NoWindow {
			l.opening = opening{}
		}
		if l.pace.rate == 0 && l.outage.before > 0 {
			l.pace.recover(l.outage.before, l.bounds)
		}
	}
}

// Lost notes that an attempt ended without an answer that says anything about limits.
func (l *Learner) Lost(f Flight) { l.landed(f) }

// Refused notes a refusal that concerns this client. The wait is what the upstream asked for; 0: it gave no
// hint. It returns for how long nobody should leave, if it gave none: 0, or up to otherwise.
func (l *Learner) Refused(f Flight, wait, otherwise time.Duration, concurrency bool, now time.Duration) (pause time.Duration) {
	l.landed(f)
	if f.sequence == 0 {
		l.pace.units = max(0, l.pace.units-float64(f.cost))
	}
	if l.bounds.Passive {
		return otherwise
	}
	news := l.news(f)
	if news {
		l.refused, l.told, l.toldAt = true, l.sequence, now
	}
	if !l.bounds.NoWindow || concurrency {
		if concurrency || wait == 0 && l.opening.concerns(f, l.pace.rate > 0) {
			l.opening.refused(news, l.inFlight, now)
			return 0
		}
		l.opening.shrink(l.inFlight)
	}
	if wait == 0 {
		pause = l.pace.backOff(otherwise, l.accepted.n > 0 || l.passed.units > 1, l.bounds)
	}
	if news {
		l.pace.refused(f, max(wait, pause), l, now)
	}
	if wait == 0 && !news {
		return 0
	}
	return pause
}

// Overloaded notes an answer that says that the upstream is unwell. The wait is what it asked for; 0: it gave
// no hint. In an outage it returns for how long this request should let others go first.
func (l *Learner) Overloaded(f Flight, wait, now time.Duration) (rest time.Duration) {
	l.landed(f)
	if l.bounds.Passive {
		return 0
	}
	return l.outage.overloaded(f, wait, now, l.sequence, &l.accepted, &l.passed)
}

// Knows reports whether the Learner has learnt anything that a new one would not know.
func (l *Learner) Knows() bool {
	return l.pace.rate > 0 && l.bounds.Max == 0 || l.pace.burst > 0 || l.opening.ceiling > 0 || l.outage.on
}

// Calm reports whether it holds back nobody, and needn't be told of departures as long as all are accepted.
func (l *Learner) Calm() bool {
	return l.pace.rate == 0 && l.opening.size == 0 && !l.outage.on && l.outage.row == 0
}

// spanOf is a number of seconds.
func spanOf(seconds float64) time.Duration {
	if ns := seconds * 1e9; ns < float64(Never) {
		return time.Duration(ns)
	}
	return Never
}

// history is the moments at which the last accepted requests left.
type history struct {
	at     [256]time.Duration
	before [256]int64 // units that left earlier
	n      uint64
	total  int64
}

func (h *history) add(at time.Duration, units int64) {
	if h.n > 0 {
		at = max(at, h.at[(h.n-1)%256])
	}
	h.at[h.n%256], h.before[h.n%256] = at, h.total
	h.n++
	h.total += units
}

// back calls f for the latest departure, then the one before, and so on, with how many units left from then
// on, until it returns false.
func (h *history) back(f func(at time.Duration, units int64) bool) {
	for i := h.n; i > 0 && i+256 > h.n; i-- {
		if !f(h.at[(i-1)%256], h.total-h.before[(i-1)%256]) {
			return
		}
	}
}

// since returns how many units left from a moment on, as far as is remembered, and when the first of them did.
func (h *history) since(from time.Duration) (units int64, first time.Duration) {
	h.back(func(at time.Duration, n int64) bool {
		if at < from {
			return false
		}
		units, first = n, at
		return true
	})
	return units, first
}

// passed counts departures, and remembers how many there were a second or two ago.
type passed struct {
	units int64
	marks [2]struct {
		at    time.Duration
		units int64
	}
}

func (p *passed) add(now time.Duration, units int64) {
	if p.units == 0 || now-p.marks[0].at >= time.Second {
		p.marks[1] = p.marks[0]
		if p.units == 0 || now-p.marks[0].at >= lately { // it was idle
			p.marks[1].at, p.marks[1].units = now, p.units
		}
		p.marks[0].at, p.marks[0].units = now, p.units
	}
	p.units += units
}

// lately returns how many units left in the last second or two, and since when.
func (p *passed) lately() (units int64, since time.Duration) {
	return p.units - p.marks[1].units, p.marks[1].at
}

// Tracked reports whether a Learner was told of the departure.
func (f Flight) Tracked() bool { return f.sequence != 0 }

// Left returns when the departure was.
func (f Flight) Left() time.Duration { return f.at }

// InFlight returns how many were in flight when it left, itself included.
func (f Flight) InFlight() int { return int(f.with) }

// Cost returns what it cost.
func (f Flight) Cost() int64 { return int64(f.cost) }

// UpTo returns what all departures up to this one, itself included, have cost together.
func (f Flight) UpTo() int64 { return f.upTo }
