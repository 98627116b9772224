package shared

import (
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// gauge is what a Store makes use of in a bucket, in parts of the whole limits: see [Regions].
type gauge struct {
	rate    float64 // units per second, of the slowest of the rates; 0: there is none
	windows []windowGauge
	units   float64       // that were leased since the last look
	part    float64       // of the rate, on average
	short   bool          // more were wanted than could be leased soon, since the last look
	until   time.Duration // and that is so until then, if nobody asks again
	live    int           // instances
	used    time.Duration
}

// windowGauge is what a window counts of all instances.
type windowGauge struct {
	n     float64
	d     time.Duration
	part  float64
	until time.Duration // nothing of that counts any longer
}

// gaugeLocked returns the gauge of a bucket.
func (s *Store) gaugeLocked(b leakyqueue.Shared, name string) *gauge {
	m := s.gauges[name]
	if m == nil {
		m = &gauge{}
		for _, l := range b.Limits {
			if n, d, ok := l.Window(); ok {
				m.windows = append(m.windows, windowGauge{n: float64(n + l.Burst()), d: d + l.Guard()})
			} else if t, ok := l.Scaled(s.share).Interval(); ok {
				ns, _ := t.Float64()
				if r := 1e9 / ns / s.share; m.rate == 0 || r < m.rate {
					m.rate = r
				}
			}
		}
		s.gauges[name] = m
	}
	m.used = s.now()
	return m
}

// gaugeAskLocked counts what is given back, and what left beyond what was leased.
func (l *lessor) gaugeAskLocked(a leakyqueue.Ask) {
	if l.g.s.regions == nil {
		return
	}
	for i, b := range l.of {
		m := l.g.s.gaugeLocked(b, l.buckets[i].key)
		for _, d := range a.Back {
			m.units -= float64(d.Costs[i])
		}
		if a.Owed != nil {
			m.units += float64(a.Owed[i])
		}
	}
}

// gaugeReplyLocked counts what was leased.
func (l *lessor) gaugeReplyLocked(c *call, r *reply, received time.Duration) {
	s := l.g.s
	if s.regions == nil {
		return
	}
	wanted := 0
	for i := range c.runs {
		wanted += c.wanted(i)
	}
	short := len(r.slots) < wanted && r.tail-r.now > micros(s.cfg.Horizon)/2
	for i, b := range l.of {
		m := s.gaugeLocked(b, c.buckets[i].key)
		m.live, m.short, m.until = r.live[i], m.short || short, 0
		if short {
			m.until = min(l.g.clock.local(moment(r.tail)), s.now()+time.Hour) // who waits doesn't ask again before
		}
		for _, d := range r.slots {
			m.units += float64(d.costs[i])
		}
		for k, n := range r.used[i] {
			if k < len(m.windows) {
				w := &m.windows[k]
				w.part, w.until = float64(n)/w.n, received+w.d
			}
		}
	}
}

// averaged is of how many departures a rate's use is the average, at least: of slow ones few leave between two looks.
const averaged = 8

// use is how much of the limits a Store makes use of: 1 is all.
type use struct {
	own    float64 // by this instance
	region float64 // by all of the region, as far as this instance can tell
	held   float64 // what can't be let go yet, by this instance: slots
	spent  float64 // or by all of the region: what windows count
}

// forgetGauge is how long a gauge is kept that isn't used.
const forgetGauge = time.Minute

// useLocked looks at the gauges after so much time. Of several buckets that counts which takes the most.
func (s *Store) useLocked(elapsed time.Duration) use {
	var u use
	now := s.now()
	for name, m := range s.gauges {
		own, region := 0.0, 0.0
		if m.rate > 0 {
			part := max(0, m.units) / m.rate / elapsed.Seconds()
			if m.part += (part - m.part) * min(1, elapsed.Seconds()*m.rate/averaged); m.part < 0.001 {
				m.part = 0
			}
			own = m.part
			region = own * float64(max(1, m.live))
		}
		counted := m.part > 0
		for _, w := range m.windows {
			if now < w.until {
				own, region = max(own, w.part), max(region, w.part)
				u.spent = max(u.spent, w.part)
				counted = true
			}
		}
		if m.short || now < m.until {
			own, region = 1, 1
		}
		u.own, u.region = max(u.own, own), max(u.region, region)
		m.units, m.short = 0, false
		if !counted && now-m.used > forgetGauge {
			delete(s.gauges, name)
		}
	}
	for _, g := range s.groups {
		for m := range g.members {
			if all := float64(slotsOf(m.of.Limits, 1)); all > 0 {
				sl := &m.slots
				u.own = max(u.own, float64(sl.want)/all)
				u.region = max(u.region, float64(sl.want*max(1, m.live, g.live))/all)
				u.held = max(u.held, float64(max(sl.granted, sl.out, sl.excess))/all)
			}
		}
	}
	return u
}
