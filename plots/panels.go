package main

import "time"

// panels are what is drawn of some runs, on one axis of time in seconds.
type panels struct {
	departures []step // per second
	limited    []point
	overloaded []point
	waiting    []step
	inFlight   []step
	starts     []float64 // of the runs after the first
	end        float64
}

// A step is a value from a moment on.
type step struct{ from, to, value float64 }

// A point is a number at a moment.
type point struct{ at, n float64 }

// panelsOf puts runs one after another. Departures are counted over bins of that length.
func panelsOf(outcomes []outcome, bin time.Duration) panels {
	var p panels
	perBin := max(1, int(bin/tickLength))
	for i, o := range outcomes {
		start := p.end
		if i > 0 {
			p.starts = append(p.starts, start)
		}
		at := func(tick int) float64 { return start + float64(tick)*tickLength.Seconds() }
		for from := 0; from < len(o.Series); from += perBin {
			// The last bin is as long as the others, though nothing may leave any more in it.
			n := 0
			for _, t := range o.Series[from:min(from+perBin, len(o.Series))] {
				n += t.Departures
			}
			length := float64(perBin) * tickLength.Seconds()
			p.departures = append(p.departures, step{at(from), min(at(from+perBin), at(len(o.Series))), float64(n) / length})
		}
		for j, t := range o.Series {
			middle := at(j) + tickLength.Seconds()/2
			if t.Limited > 0 {
				p.limited = append(p.limited, point{middle, float64(t.Limited)})
			}
			if t.Overloaded > 0 {
				p.overloaded = append(p.overloaded, point{middle, float64(t.Overloaded)})
			}
			p.waiting = append(p.waiting, step{at(j), at(j + 1), float64(t.Waiting)})
			p.inFlight = append(p.inFlight, step{at(j), at(j + 1), float64(t.InFlight)})
		}
		p.end = at(len(o.Series))
	}
	return p
}

// highest is the greatest of the values.
func highest(steps ...[]step) float64 {
	var most float64
	for _, some := range steps {
		for _, s := range some {
			most = max(most, s.value)
		}
	}
	return most
}

func most(points ...[]point) float64 {
	var most float64
	for _, some := range points {
		for _, p := range some {
			most = max(most, p.n)
		}
	}
	return most
}
