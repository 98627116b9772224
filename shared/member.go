package shared

import (
	"strconv"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// member is one bucket of one queue.
type member struct {
	s       *Store
	id      string // of all instances' members
	g       *group
	key     string
	of      leakyqueue.Shared
	watcher leakyqueue.Watcher

	// Guarded by Store.mu.
	keys        *bucketKeys
	shares      int // Store.shares, as of the keys
	left        bool
	live        int           // instances that share the bucket, as it knows; 0: it doesn't
	refused     bool          // the upstream has refused somebody, of which Redis wasn't told yet
	beaten      time.Duration // when Redis was asked for no more than who else there is
	pausedUntil time.Duration // the latest pause that was told to Redis, or heard of from there
	pausing     bool          // it is being told
	slots       slots
}

// Check says why a bucket's limits can't be shared: the error wraps limit.ErrInvalid and names the limit.
func (s *Store) Check(b leakyqueue.Shared) error {
	s.mu.Lock()
	share := min(s.share, s.leastShare)
	s.mu.Unlock()
	_, err := s.compile(b, share)
	return err
}

// Join has a bucket be one with those of other instances.
func (s *Store) Join(b leakyqueue.Shared, w leakyqueue.Watcher) leakyqueue.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined++
	m := &member{s: s, id: s.instance + "." + strconv.Itoa(s.joined), key: bucketName(b), of: b, keys: s.bucketLocked(b), shares: s.shares, watcher: w}
	m.slots.most = slotsOf(b.Limits, s.share)
	m.g = s.groupLocked(s.tag(b))
	m.g.members[m] = struct{}{}
	if s.byKey[m.key] == nil {
		s.byKey[m.key] = make(map[*member]struct{})
	}
	s.byKey[m.key][m] = struct{}{}
	if m.g.down && !s.closed {
		s.loops.Go(m.g.tell)
	}
	if !s.hearing && !s.closed {
		s.hearing = true
		s.loops.Go(s.hear)
	}
	return m
}

// Leave ends it, and gives back its slots but those that are out: they come back with the end of their lease.
func (m *member) Leave(out int) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.left {
		return
	}
	m.left = true
	m.slots.granted, m.slots.want, m.slots.out = 0, 0, out
	m.askSlotsLocked()
	delete(m.g.members, m)
	delete(m.s.byKey[m.key], m)
	if len(m.s.byKey[m.key]) == 0 {
		delete(m.s.byKey, m.key)
	}
}

// Pause has the fleet pause. What many answers at once ask for is told once: a pause that is no more than a millisecond
// longer than one that is known is none.
func (m *member) Pause(until time.Time) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	t := min(until.Sub(m.s.epoch), m.s.now()+DefaultMaxPause)
	if t <= m.pausedUntil+time.Millisecond {
		return
	}
	m.pausedUntil = t
	m.tellPauseLocked()
}

func (m *member) tellPauseLocked() {
	d := m.pausedUntil - m.s.now()
	if m.pausing || d <= 0 || m.g.down || m.s.closed {
		return
	}
	m.pausing = true
	told := m.pausedUntil
	p := &pause{bucket: m.keys, length: d, most: DefaultMaxPause, channel: m.s.channel()}
	p.clock, p.ours = m.s.ourClock()
	m.s.sendLocked(&errand{group: m.g, script: pauseScript, keys: p.keys(), args: p.args(), done: func(_ any, err error, _, _ time.Duration) {
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		m.pausing = false
		if err == nil && m.pausedUntil > told+time.Millisecond {
			m.tellPauseLocked()
		}
	}})
}

// Resume ends the fleet's pause.
func (m *member) Resume() {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.pausedUntil = 0
	if m.g.down || m.s.closed {
		return
	}
	p := &pause{bucket: m.keys, channel: m.s.channel()}
	p.clock, p.ours = m.s.ourClock()
	m.s.sendLocked(&errand{group: m.g, script: pauseScript, keys: p.keys(), args: p.args(), done: func(any, error, time.Duration, time.Duration) {}})
}

// pausedLocked has the members of a bucket be paused until then, except those that know. What it returns is to be called
// without the lock.
func (s *Store) pausedLocked(name string, until time.Duration) []func() {
	var tell []func()
	if until <= s.now() {
		return nil
	}
	for m := range s.byKey[name] {
		if until > m.pausedUntil+time.Millisecond {
			m.pausedUntil = until
			w := m.watcher
			tell = append(tell, func() { w.Paused(s.epoch.Add(until)) })
		}
	}
	return tell
}

// sharedLocked has the members of a bucket know how many instances share it, except those that do. What it returns is to
// be called without the lock.
func (s *Store) sharedLocked(key string, n int) []func() {
	var tell []func()
	for m := range s.byKey[key] {
		if m.live != n {
			m.live = n
			w := m.watcher
			tell = append(tell, func() { w.Queues(n) })
		}
	}
	return tell
}

// backLocked has Redis be told what it missed in an outage.
func (m *member) backLocked() {
	m.tellPauseLocked()
	if m.slots.want > 0 || m.slots.out > 0 {
		m.askSlotsLocked()
	}
}
