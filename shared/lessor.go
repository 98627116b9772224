package shared

import (
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// lessor leases departures that some buckets hold jointly.
type lessor struct {
	g       *group
	tenant  leakyqueue.Tenant
	buckets []*bucketKeys

	// Guarded by Store.mu.
	members    []*member // of the buckets, for what was heard of them
	knownUntil time.Duration
	used       []int64
	outages    int // of the group, as of the last answer
}

// retryLater is when to ask again where asking was of no use.
const retryLater = 100 * time.Millisecond

// Open leases departures from the buckets, which are of one group.
func (s *Store) Open(of []leakyqueue.Shared, t leakyqueue.Tenant) leakyqueue.Lessor {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &lessor{tenant: t}
	for _, b := range of {
		keys := s.keysOf(b)
		l.buckets = append(l.buckets, keys)
		l.g = s.groupLocked(keys.tag)
	}
	l.outages = l.g.outages
	return l
}

// Ask has departures be leased, and others be given back.
func (l *lessor) Ask(a leakyqueue.Ask) { l.ask(a, l.granted) }

func (l *lessor) ask(a leakyqueue.Ask, granted func(*call, any, error, time.Duration, time.Duration)) {
	s := l.g.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.g.down || s.closed {
		go granted(nil, nil, errTimeout, 0, 0) // not from within the call
		return
	}
	c := &call{
		buckets:    l.buckets,
		owed:       a.Owed,
		instance:   s.instance,
		known:      s.now() < l.knownUntil,
		recovering: l.outages != l.g.outages,
		horizon:    s.cfg.Horizon,
		version:    s.cfg.Version,
		used:       l.used,
	}
	for _, r := range a.Runs {
		c.runs = append(c.runs, run{n: r.N, high: r.High, costs: r.Costs})
	}
	for _, d := range a.Back {
		c.back = append(c.back, slot{at: d.Token, costs: d.Costs})
	}
	s.counts.givenBack.Add(uint64(len(a.Back)))
	outages := l.g.outages
	s.sendLocked(&errand{group: l.g, script: leaseScript, keys: c.keys(), args: c.args(), done: func(reply any, err error, sent, received time.Duration) {
		if err == nil {
			s.mu.Lock()
			l.outages = outages
			s.mu.Unlock()
		}
		granted(c, reply, err, sent, received)
	}})
}

// granted passes on what was leased.
func (l *lessor) granted(c *call, answer any, err error, sent, received time.Duration) {
	s := l.g.s
	grant := leakyqueue.Grant{From: s.epoch, Retry: retryLater}
	if err != nil {
		l.tenant.Granted(grant)
		return
	}
	r, err := parseReply(answer, c)
	if err != nil {
		l.g.fails(err)
		l.tenant.Granted(grant)
		return
	}
	s.mu.Lock()
	l.g.clock.heard(sent, received, micros(r.now))
	l.g.live = max(1, r.live)
	l.knownUntil = received + r.expires
	l.used = r.used
	grant.Retry = micros(r.retry)
	grant.Tail = l.g.clock.local(micros(r.tail))
	grant.Lead = l.g.clock.lead(s.cfg.Horizon)
	grant.Leased = make([]leakyqueue.Leased, len(r.slots))
	for i, d := range r.slots {
		grant.Leased[i] = leakyqueue.Leased{Due: l.g.clock.local(micros(d.at)), Token: d.at, Costs: d.costs}
	}
	var paused []func()
	for i, until := range r.pausedUntil {
		if until > 0 {
			paused = append(paused, s.pausedLocked(l.buckets[i].name, l.g.clock.local(micros(until)))...)
		}
	}
	s.counts.leased.Add(uint64(len(r.slots)))
	s.mu.Unlock()
	for _, tell := range paused {
		tell()
	}
	l.tenant.Granted(grant)
}

// Close gives back what wasn't used.
func (l *lessor) Close(back []leakyqueue.Leased, owed []int64) {
	owes := false
	for _, o := range owed {
		owes = owes || o != 0
	}
	if len(back) > 0 || owes {
		l.ask(leakyqueue.Ask{Back: back, Owed: owed}, func(*call, any, error, time.Duration, time.Duration) {})
	}
}

// micros are so many microseconds: a moment by Redis' clock, or a duration.
func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
