package shared

import (
	"slices"
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
	used       [][]int64
	refused    bool // the upstream has refused somebody since the last call
	outages    int  // of the group, as of the last answer
}

// retryLater is when to ask again where asking was of no use.
const retryLater = 100 * time.Millisecond

// Open leases departures from the buckets, which are of one group.
func (s *Store) Open(of []leakyqueue.Shared, t leakyqueue.Tenant) leakyqueue.Lessor {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &lessor{tenant: t}
	l.g = s.groupLocked(s.tag(of[0]))
	for _, b := range of {
		l.buckets = append(l.buckets, s.bucket(b))
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
		recovering: l.outages != l.g.outages && l.g.intact != l.g.outages,
		refused:    l.refused,
		horizon:    s.cfg.Horizon,
		used:       l.used,
		around:     time.Now(),
	}
	l.refused = false
	for _, r := range a.Runs {
		c.runs = append(c.runs, run{n: r.N, high: r.High, costs: r.Costs})
	}
	for i := len(a.Back) - 1; i >= 0; i-- {
		leased := a.Back[i].Token.(*slot)
		c.back = append(c.back, slot{at: leased.at, off: leased.off, costs: a.Back[i].Costs})
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
	l.g.clock.heard(sent, received, moment(r.now))
	l.g.live = slices.Max(r.live)
	l.knownUntil = received + r.expires
	l.used = r.used
	grant.Retry = 0
	grant.Tail = l.g.clock.local(moment(r.tail))
	grant.Lead = l.g.clock.lead(s.cfg.Horizon)
	grant.Leased = make([]leakyqueue.Leased, len(r.slots))
	for i, d := range r.slots {
		grant.Leased[i] = leakyqueue.Leased{Due: l.g.clock.local(moment(d.at)), Token: &r.slots[i], Costs: d.costs}
	}
	var paused []func()
	for i, until := range r.pausedUntil {
		if until > 0 {
			paused = append(paused, s.pausedLocked(l.buckets[i].key, l.g.clock.local(moment(until)))...)
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

// moment is so many microseconds: since 1970 by Redis' clock, or since then.
func moment(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
