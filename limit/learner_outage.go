package limit

import "time"

const (
	outageAfter = 3
	probeFirst  = 100 * time.Millisecond
	probeLast   = 20 * time.Second
)

// outage is whether the upstream is down for everybody.
type outage struct {
	on     bool
	row    int           // of overloaded answers
	since  time.Duration // the first of them
	last   uint64        // the last departure that was no probe
	probe  time.Duration // when the next may leave
	before float64       // the rate that was answered well before; 0: unknown
}

func (o *outage) gap(now time.Duration) time.Duration {
	return min(max((now-o.since)/8, probeFirst), probeLast)
}

func (o *outage) depart(now time.Duration) {
	if o.on {
		o.probe = now + o.gap(now)
	}
}

func (o *outage) overloaded(f Flight, wait, now time.Duration, sequence uint64, h *history, p *passed) (rest time.Duration) {
	if o.row++; o.row == 1 {
		o.since = now
	}
	if !o.on {
		if o.row < outageAfter && wait == 0 {
			return 0
		}
		o.on, o.last = true, sequence
		o.before = h.rate(o.since) + p.rate(o.since)
		o.probe = now + o.gap(now)
	}
	if wait > 0 {
		return 0
	}
	return 8 * o.gap(now)
}

// ends reports whether an outage does with f, which was accepted.
func (o *outage) ends(f Flight) bool {
	if !o.on {
		o.row = 0
		return false
	}
	if f.sequence <= o.last {
		return false
	}
	o.on, o.row = false, 0
	return true
}

// rate is how many per second left lately, before t; 0: too few to tell.
func (h *history) rate(t time.Duration) float64 {
	units, begin := h.since(t - lately)
	if d := t - begin; units >= 10 && d > atOnce {
		return float64(units) / d.Seconds()
	}
	return 0
}

func (p *passed) rate(t time.Duration) float64 {
	units, begin := p.lately()
	if d := t - begin; units >= 10 && d > atOnce && d < 2*lately {
		return float64(units) / d.Seconds()
	}
	return 0
}
