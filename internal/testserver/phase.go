package testserver

import "time"

// windows are the windows that a policy counts in, one after the other.
type windows struct {
	length time.Duration
	equal  bool // they have to be of equal length
	left   phase
}

// A phase says how much is left of the window that a moment is in: at, which is that long after the
// upstream's start. It is above 0.
type phase func(at time.Time, sinceStart time.Duration) time.Duration

// newWindows makes windows that begin with the upstream.
func newWindows(length time.Duration) *windows {
	w := &windows{length: length}
	w.left = w.fromStart
	return w
}

func (w *windows) fromStart(_ time.Time, sinceStart time.Duration) time.Duration {
	return w.length - sinceStart%w.length
}

func (w *windows) aligned(offset time.Duration) phase {
	return func(at time.Time, _ time.Duration) time.Duration {
		elapsed := time.Duration(at.UnixNano()-int64(offset)) % w.length
		if elapsed < 0 { // before the offset
			elapsed += w.length
		}
		return w.length - elapsed
	}
}

// FromStart has windows follow one another from the upstream's start, not from the clock's full hours, so
// that a client can't know their phase unless it is told. It panics if the policy has no windows:
// [Window] and [SlidingCounter] do. Default for Window.
func (p *Policy) FromStart() *Policy {
	w := p.mustHaveWindows()
	w.left = w.fromStart
	return p
}

// FromFirst has a window begin with the first request that is admitted after the one before has ended, as it
// does where a counter is stored with an expiry. It panics if the policy isn't a [Window].
func (p *Policy) FromFirst() *Policy {
	w := p.mustHaveWindows()
	if w.equal {
		panic("testserver: a sliding counter's windows follow one another")
	}
	w.left = func(time.Time, time.Duration) time.Duration { return w.length }
	return p
}

// Aligned has windows of length d begin at each multiple of d of Unix time, and offset later. It panics
// if the policy has no windows. Default for [SlidingCounter], with an offset of 0.
func (p *Policy) Aligned(offset time.Duration) *Policy {
	w := p.mustHaveWindows()
	w.left = w.aligned(offset)
	return p
}

// Boundaries has windows end where next says, given a moment: at the first boundary after it. It is for
// windows by the calendar, whose lengths differ: see [Daily]. The d of the policy is then no more than
// what is advertised. It panics if the policy isn't a [Window]; and, once it serves, if next returns
// what isn't after its argument.
func (p *Policy) Boundaries(next func(time.Time) time.Time) *Policy {
	w := p.mustHaveWindows()
	if w.equal {
		panic("testserver: a sliding counter's windows are of equal length")
	}
	w.left = func(at time.Time, _ time.Duration) time.Duration {
		at = at.Round(0) // the wall clock's, not the monotonic one's
		left := next(at).Sub(at)
		if left <= 0 {
			panic("testserver: a boundary that is not after its argument")
		}
		return left
	}
	return p
}

func (p *Policy) mustHaveWindows() *windows {
	if p.windows == nil {
		panic("testserver: only Window and SlidingCounter have windows")
	}
	return p.windows
}

// Daily gives [Policy.Boundaries] for a quota that is renewed each day when the clocks of a place come to
// read hour:minute, or, where they skip that, a later time of the day. Where they come to it twice in one
// night, because they are turned back over it, that is the second time still the same day: nothing is
// renewed.
func Daily(hour, minute int, place *time.Location) func(time.Time) time.Time {
	// How many days have begun, since some day, by the clock at t.
	day := func(t time.Time) time.Time {
		t = t.In(place)
		begun := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
		if t.Hour()*60+t.Minute() < hour*60+minute {
			begun = begun.AddDate(0, 0, -1)
		}
		return begun
	}
	return func(t time.Time) time.Time {
		// Minute by minute, as who looks at a clock: slow, but there is no case to forget. Clocks are
		// turned back by 2 h at the most, so a day that was already begun was begun within them.
		today := day(t)
		for back := range 3 * 60 {
			if d := day(t.Add(-time.Duration(back) * time.Minute)); d.After(today) {
				today = d
			}
		}
		at := t.Truncate(time.Minute)
		for !day(at).After(today) {
			at = at.Add(time.Minute)
		}
		return at
	}
}
