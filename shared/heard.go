package shared

import (
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// heartbeat is how often an instance lets others know of itself by a bucket of which it leases nothing.
const heartbeat = membership / 3

// Heard passes on what an upstream said: that it refused somebody, for a rate that the fleet learns; and that there is a
// quota, which is for all who share the bucket, so that their number matters.
func (m *member) Heard(a leakyqueue.Answer, _ int) {
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Verdict == leakyqueue.Limited {
		m.refused = true
	}
	if now := s.now(); (m.beaten == 0 || now-m.beaten >= heartbeat) && !m.g.down && !s.closed && !m.left {
		m.beaten = now
		if m.shares != s.shares {
			m.keys, m.shares = s.bucketLocked(m.of), s.shares
		}
		c := &call{
			buckets:  []*bucketKeys{m.keys},
			instance: s.instance,
			refused:  m.refusedLocked(),
			horizon:  s.cfg.Horizon,
			around:   time.Now(),
		}
		c.clock, c.ours = s.ourClock()
		s.sendLocked(&errand{group: m.g, script: leaseScript, keys: c.keys(), args: c.args(), done: m.beat(c)})
	}
}

// beat takes up who else there is.
func (m *member) beat(c *call) func(any, error, time.Duration, time.Duration) {
	return func(answer any, err error, _, _ time.Duration) {
		if err != nil {
			return
		}
		r, err := parseReply(answer, c)
		if err != nil {
			m.g.fails(err)
			return
		}
		m.s.mu.Lock()
		tell := m.s.sharedLocked(m.key, r.live[0])
		m.s.mu.Unlock()
		for _, f := range tell {
			f()
		}
	}
}

// refusedLocked reports whether the upstream has refused somebody since it was asked last.
func (m *member) refusedLocked() bool {
	refused := m.refused
	m.refused = false
	return refused
}

// refusedLocked reports whether the upstream has refused somebody of the buckets since that was asked last.
func (l *lessor) refusedLocked() bool {
	refused := false
	for _, b := range l.buckets {
		for m := range l.g.s.byKey[b.key] {
			refused = m.refusedLocked() || refused
		}
	}
	return refused
}
