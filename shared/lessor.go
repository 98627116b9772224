package shared

import (
	"slices"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// lessor leases departures that some buckets hold jointly.
type lessor struct {
	g      *group
	tenant leakyqueue.Tenant // nil for a part of a spread
	of     []leakyqueue.Shared

	// Guarded by Store.mu.
	buckets    []*bucketKeys
	shares     int // Store.shares, as of the buckets
	knownUntil time.Duration
	used       [][]int64
	beaten     time.Duration // when Redis was told that this instance is there
	outages    int           // of the group, as of the last answer
}

// retryLater is when to ask again where asking was of no use.
const retryLater = 100 * time.Millisecond

// Open leases departures from the buckets, which are of one group unless they are spread.
func (s *Store) Open(of []leakyqueue.Shared, t leakyqueue.Tenant) leakyqueue.Lessor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cfg.Spread || len(of) == 1 {
		l := s.lessorLocked(of)
		l.tenant = t
		return l
	}
	sp := &spread{tenant: t}
	for i := range of {
		sp.parts = append(sp.parts, s.lessorLocked(of[i:i+1]))
	}
	return sp
}

func (s *Store) lessorLocked(of []leakyqueue.Shared) *lessor {
	l := &lessor{g: s.groupLocked(s.tag(of[0])), of: of}
	l.compileLocked()
	l.outages = l.g.outages
	return l
}

// compileLocked has the buckets be of the Store's share. Those of calls that are on their way stay as they are.
func (l *lessor) compileLocked() {
	s := l.g.s
	l.buckets, l.shares = make([]*bucketKeys, len(l.of)), s.shares
	for i, b := range l.of {
		l.buckets[i] = s.bucketLocked(b)
	}
}

// Ask has departures be leased, and others be given back.
func (l *lessor) Ask(a leakyqueue.Ask) { l.ask(a, l.tenant.Granted) }

// ask has what comes of it be told to granted, without a lock held.
func (l *lessor) ask(a leakyqueue.Ask, granted func(leakyqueue.Grant)) {
	s := l.g.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.g.down || s.closed {
		go granted(leakyqueue.Grant{From: s.epoch, Retry: retryLater}) // not from within the call
		return
	}
	if l.shares != s.shares {
		l.compileLocked()
	}
	now := s.now()
	c := &call{
		buckets:    l.buckets,
		owed:       a.Owed,
		known:      slices.Repeat([]bool{now < l.knownUntil}, len(l.buckets)),
		recovering: l.outages != l.g.outages && l.g.intact != l.g.outages,
		refused:    l.refusedLocked(),
		horizon:    s.cfg.Horizon,
		used:       l.used,
		around:     time.Now(),
	}
	c.clock, c.ours = s.ourClock()
	if l.beaten == 0 || now-l.beaten >= heartbeat {
		c.instance, l.beaten = s.instance, now
	}
	for _, r := range a.Runs {
		c.runs = append(c.runs, run{n: r.N, high: r.High, costs: r.Costs})
	}
	for i := len(a.Back) - 1; i >= 0; i-- {
		leased := a.Back[i].Token.(*slot)
		c.back = append(c.back, slot{at: leased.at, off: leased.off, costs: a.Back[i].Costs})
	}
	s.counts.givenBack.Add(uint64(len(a.Back)))
	l.gaugeAskLocked(a)
	outages, share := l.g.outages, s.share
	s.sendLocked(&errand{group: l.g, script: leaseScript, keys: c.keys(), args: c.args(), done: func(reply any, err error, sent, received time.Duration) {
		if err == nil {
			s.mu.Lock()
			l.outages = outages
			s.mu.Unlock()
		}
		g := l.grant(c, reply, err, sent, received)
		granted(g)
		l.granted(c, g, share)
	}})
}

// grant is what was leased.
func (l *lessor) grant(c *call, answer any, err error, sent, received time.Duration) leakyqueue.Grant {
	s := l.g.s
	grant := leakyqueue.Grant{From: s.epoch, Retry: retryLater}
	if err != nil {
		return grant
	}
	r, err := parseReply(answer, c)
	if err != nil {
		l.g.fails(err)
		return grant
	}
	s.mu.Lock()
	l.g.clock.heard(sent, received, moment(r.now))
	l.g.live = slices.Max(r.live)
	l.gaugeReplyLocked(c, &r, received)
	l.knownUntil = received + r.expires
	l.used = r.used
	grant.Retry = 0
	if len(r.slots) == 0 && len(c.runs) > 0 {
		// Nothing is leased so far ahead: a longer pause is on, or a wider bucket would be kept for a narrower one.
		grant.Retry = max(time.Millisecond, moment(r.tail-r.now)-s.cfg.Horizon)
	}
	grant.Tail = l.g.clock.local(moment(r.tail))
	grant.Lead = l.g.clock.lead(s.cfg.Horizon)
	grant.Leased = make([]leakyqueue.Leased, len(r.slots))
	for i, d := range r.slots {
		grant.Leased[i] = leakyqueue.Leased{Due: l.g.clock.local(moment(d.at)), Token: &r.slots[i], Costs: d.costs}
	}
	var tell []func()
	for i, n := range r.live {
		tell = append(tell, s.sharedLocked(l.buckets[i].key, n)...)
	}
	for i, until := range r.pausedUntil {
		if until > 0 {
			tell = append(tell, s.pausedLocked(l.buckets[i].key, l.g.clock.local(moment(until)))...)
		}
	}
	s.counts.leased.Add(uint64(len(r.slots)))
	s.mu.Unlock()
	for _, f := range tell {
		f()
	}
	return grant
}

// granted looks after what was leased by a share that was smaller than it is now.
func (l *lessor) granted(c *call, g leakyqueue.Grant, share float64) {
	s := l.g.s
	s.mu.Lock()
	n := len(g.Leased)
	late := n > 0 && g.Leased[n-1].Due > s.now()+s.cfg.Horizon && share < s.share
	s.mu.Unlock()
	if late {
		var keys []string
		for _, b := range c.buckets {
			keys = append(keys, b.key)
		}
		s.sooner(keys)
	}
}

// Close gives back what wasn't used.
func (l *lessor) Close(back []leakyqueue.Leased, owed []int64) {
	owes := false
	for _, o := range owed {
		owes = owes || o != 0
	}
	if len(back) > 0 || owes {
		l.ask(leakyqueue.Ask{Back: back, Owed: owed}, func(leakyqueue.Grant) {})
	}
}

// moment is so many microseconds: since 1970 by Redis' clock, or since then.
func moment(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
