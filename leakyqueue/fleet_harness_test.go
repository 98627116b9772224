package leakyqueue

import (
	"slices"
	"sync"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// fakePacer is a Pacer of rates and concurrencies within the process, whose answers take a round trip. It does what a
// shared store has to, in the plainest way.
type fakePacer struct {
	rtt, horizon time.Duration
	slotLease    time.Duration // 0: slots are for ever

	mu      sync.Mutex
	epoch   time.Time
	buckets map[fakeKey]*fakeBucket
	outage  Outage
	asks    int
	unused  int // departures that were given back
	tokens  int64
	given   map[int64][]time.Duration // where each departure is in each of its buckets
}

type fakeKey struct{ rule, key string }

// A fakeBucket is intervals that departures take, each as long as the rate needs for it. They are disjoint.
type fakeBucket struct {
	interval    time.Duration // 0: there is no rate
	burst       int64
	taken       []fakeSpan // in order
	pausedUntil time.Duration
	members     map[*fakeMember]bool
	slots       int
}

type fakeSpan struct{ from, to time.Duration }

// fit is when a cost may leave from s on, and from where on it is taken then.
func (b *fakeBucket) fit(s time.Duration, cost int64) (t, v time.Duration) {
	if b.interval == 0 {
		return s, s
	}
	var free time.Duration
	for i := 0; ; i++ {
		t = max(s, free-time.Duration(b.burst-cost)*b.interval)
		v = max(free, t)
		if i == len(b.taken) {
			return t, v
		}
		if v+time.Duration(cost)*b.interval <= b.taken[i].from && v <= t+time.Duration(b.burst-1)*b.interval {
			return t, v
		}
		free = b.taken[i].to
	}
}

func (b *fakeBucket) take(v time.Duration, cost int64) {
	i, _ := slices.BinarySearchFunc(b.taken, v, func(s fakeSpan, v time.Duration) int { return int(s.from - v) })
	b.taken = slices.Insert(b.taken, i, fakeSpan{v, v + time.Duration(cost)*b.interval})
}

func (b *fakeBucket) giveBack(v time.Duration, cost int64) {
	for i := range b.taken {
		if s := &b.taken[i]; s.from == v {
			s.to -= time.Duration(cost) * b.interval
		}
	}
	b.taken = slices.DeleteFunc(b.taken, func(s fakeSpan) bool { return s.to <= s.from && b.interval > 0 })
}

// forget drops what doesn't matter any more.
func (b *fakeBucket) forget(now time.Duration) {
	b.taken = slices.DeleteFunc(b.taken, func(s fakeSpan) bool { return s.to < now-time.Duration(b.burst)*b.interval })
}

type fakeMember struct {
	p             *fakePacer
	b             *fakeBucket
	w             Watcher
	granted, want int
}

func newFakePacer(rtt time.Duration) *fakePacer {
	return &fakePacer{rtt: rtt, horizon: 100 * time.Millisecond, epoch: time.Now(), buckets: make(map[fakeKey]*fakeBucket), given: make(map[int64][]time.Duration)}
}

func (p *fakePacer) now() time.Duration { return time.Since(p.epoch) }

func (p *fakePacer) bucket(s Shared) *fakeBucket {
	k := fakeKey{s.Rule, s.Key}
	if p.buckets[k] == nil {
		set, err := limit.Join(s.Limits...)
		if err != nil {
			panic(err)
		}
		state := set.NewState(p.epoch, s.Key)
		p.buckets[k] = &fakeBucket{interval: state.Interval(), burst: 1, members: make(map[*fakeMember]bool), slots: set.Slots()}
	}
	return p.buckets[k]
}

// later calls f after half a round trip.
func (p *fakePacer) later(f func()) { time.AfterFunc(p.rtt/2, f) }

func (p *fakePacer) Check(Shared) error { return nil }

func (p *fakePacer) Join(s Shared, w Watcher) Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &fakeMember{p: p, b: p.bucket(s), w: w}
	m.b.members[m] = true
	if o := p.outage; o != (Outage{}) {
		p.later(func() { w.Outage(o) })
	}
	return m
}

func (m *fakeMember) Pause(until time.Time) {
	m.p.later(func() {
		m.p.mu.Lock()
		defer m.p.mu.Unlock()
		m.b.pausedUntil = max(m.b.pausedUntil, until.Sub(m.p.epoch))
		for o := range m.b.members {
			m.p.later(func() { o.w.Paused(until) })
		}
	})
}

func (m *fakeMember) Resume() {
	m.p.later(func() {
		m.p.mu.Lock()
		defer m.p.mu.Unlock()
		m.b.pausedUntil = 0
		for o := range m.b.members {
			m.p.later(o.w.Resumed)
		}
	})
}

func (m *fakeMember) Slots(want, out int) {
	m.p.mu.Lock()
	m.want = max(want, out) // what is on its way arrives in no particular order
	m.p.mu.Unlock()
	m.p.later(func() {
		m.p.mu.Lock()
		defer m.p.mu.Unlock()
		m.b.share(m.p)
	})
}

// share gives everybody what is free, those first who have least.
func (b *fakeBucket) share(p *fakePacer) {
	free := b.slots
	for o := range b.members {
		o.granted = min(o.granted, o.want)
		free -= o.granted
	}
	for free > 0 {
		var least *fakeMember
		for o := range b.members {
			if o.granted < o.want && (least == nil || o.granted < least.granted) {
				least = o
			}
		}
		if least == nil {
			break
		}
		least.granted++
		free--
	}
	for o := range b.members {
		var until time.Time
		if p.slotLease > 0 {
			until = time.Now().Add(p.slotLease)
		}
		p.later(func() {
			p.mu.Lock()
			n := o.granted
			p.mu.Unlock()
			o.w.Slots(n, until, false)
		})
	}
}

func (m *fakeMember) Heard(Answer, int) {}

func (m *fakeMember) Leave(int) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	delete(m.b.members, m)
	m.b.share(m.p)
}

func (p *fakePacer) Open(of []Shared, t Tenant) Lessor {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &fakeLessor{p: p, t: t}
	for _, s := range of {
		l.of = append(l.of, p.bucket(s))
	}
	return l
}

type fakeLessor struct {
	p  *fakePacer
	of []*fakeBucket
	t  Tenant
}

// due is when a request may leave, as things stand.
func (l *fakeLessor) due(now time.Duration, r Run) time.Duration {
	t := now
	for before := -time.Nanosecond; t != before; {
		before = t
		for i, b := range l.of {
			t = max(t, b.pausedUntil)
			t, _ = b.fit(t, r.Costs[i])
		}
	}
	return t
}

func (l *fakeLessor) Ask(a Ask) {
	l.p.later(func() {
		l.p.mu.Lock()
		defer l.p.mu.Unlock()
		l.p.asks++
		now := l.p.now()
		g := Grant{From: l.p.epoch, Lead: min(max(2*time.Millisecond, 3*l.p.rtt), l.p.horizon/2)}
		l.p.unused += len(a.Back)
		l.back(a.Back, a.Owed)
		if l.p.outage != (Outage{}) {
			g.Retry = 10 * time.Millisecond
			l.p.later(func() { l.t.Granted(g) })
			return
		}
		most := 1 << 30 // of what isn't due yet, the buckets' members have equal parts
		for _, b := range l.of {
			b.forget(now)
			if b.interval > 0 && len(b.members) > 0 {
				most = min(most, max(1, int(l.p.horizon/b.interval)/len(b.members)))
			}
		}
		for _, r := range a.Runs {
			for range r.N {
				t := l.due(now, r)
				if most == 0 || t > now+l.p.horizon && len(g.Leased) > 0 {
					break
				}
				l.p.tokens++
				for i, b := range l.of {
					_, v := b.fit(t, r.Costs[i])
					b.take(v, r.Costs[i])
					l.p.given[l.p.tokens] = append(l.p.given[l.p.tokens], v)
				}
				g.Leased = append(g.Leased, Leased{Due: t, Token: l.p.tokens, Costs: r.Costs})
				most--
			}
			g.Tail = l.due(now, r)
		}
		l.p.later(func() { l.t.Granted(g) })
	})
}

func (l *fakeLessor) back(back []Leased, owed []int64) {
	for _, d := range back {
		token := d.Token.(int64)
		for i, v := range l.p.given[token] {
			l.of[i].giveBack(v, d.Costs[i])
		}
	}
	for i, o := range owed {
		for ; o > 0; o-- {
			_, v := l.of[i].fit(l.p.now(), 1)
			l.of[i].take(v, 1)
		}
	}
}

func (l *fakeLessor) Close(back []Leased, owed []int64) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.back(back, owed)
}

// tell has everybody be told of an outage, or of its end.
func (p *fakePacer) tell(o Outage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outage = o
	for _, b := range p.buckets {
		for m := range b.members {
			p.later(func() { m.w.Outage(o) })
		}
	}
}
