package limit_test

import (
	"container/heap"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// answer is what a simulated upstream says to a request, and when.
type answer struct {
	status int
	after  time.Duration // the request's arrival
	wait   time.Duration // Retry-After
}

// simUpstream is a simulated one.
type simUpstream interface {
	arrive(now time.Duration) answer
	ended(now time.Duration)
}

type simEvent struct {
	at time.Duration
	n  int
	do func()
}
type simEvents []simEvent

func (e simEvents) Len() int { return len(e) }
func (e simEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e simEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *simEvents) Push(x any)   { *e = append(*e, x.(simEvent)) }
func (e *simEvents) Pop() any     { x := (*e)[len(*e)-1]; *e = (*e)[:len(*e)-1]; return x }

type call struct{ tries int }

// sim is a client with a queue, as leakyqueue has it, before a simulated upstream.
type sim struct {
	l        *limit.Learner
	up       simUpstream
	oneWay   func() time.Duration
	late     func() time.Duration // timers
	now      time.Duration
	events   simEvents
	n        int
	queue    []*call // retries in front
	paused   time.Duration
	armed    time.Duration
	workers  int
	calls    int
	rand     *rand.Rand
	open     time.Duration // open loop: between arrivals
	failed   int
	done     int
	finished time.Duration
	attempts int
	by       map[int]int
	departs  []time.Duration
	statuses []int
	resting  map[int]func()
}

func (s *sim) at(d time.Duration, do func()) {
	s.n++
	heap.Push(&s.events, simEvent{s.now + d, s.n, do})
}

func (s *sim) newcomer() {
	if s.calls > 0 {
		s.calls--
		s.queue = append(s.queue, &call{})
	}
}

func (s *sim) dispatch(due time.Duration) {
	for len(s.queue) > 0 {
		n, grows := s.l.Slots(s.now)
		if n > 0 && inFlight(s.l) >= n {
			if grows < limit.Never {
				s.arm(grows)
			}
			return
		}
		t := max(s.l.Earliest(max(due, s.now-10*time.Millisecond), 0), s.paused)
		if t > s.now {
			s.arm(t)
			return
		}
		c := s.queue[0]
		s.queue = s.queue[1:]
		s.depart(c, t)
	}
}

func (s *sim) arm(t time.Duration) {
	if s.armed > s.now && s.armed <= t {
		return
	}
	s.armed = t
	s.at(t-s.now+s.late(), func() {
		if s.armed == t {
			s.armed = 0
		}
		s.dispatch(t)
	})
}

func (s *sim) depart(c *call, due time.Duration) {
	c.tries++
	s.attempts++
	f := s.l.Depart(due, s.now, 1)
	s.departs = append(s.departs, s.now)
	s.statuses = append(s.statuses, 0)
	i := len(s.statuses) - 1
	s.at(s.oneWay(), func() {
		a := s.up.arrive(s.now)
		s.statuses[i] = a.status
		s.by[a.status]++
		s.at(a.after, func() {
			if a.status == 200 {
				s.up.ended(s.now)
			}
			s.at(s.oneWay(), func() { s.answered(c, f, a) })
		})
	})
}

func (s *sim) answered(c *call, f limit.Flight, a answer) {
	again := func(rest time.Duration) {
		if c.tries >= 5 {
			s.failed++
			s.finish()
			return
		}
		if rest > 0 {
			id := s.n
			join := func() {
				if _, ok := s.resting[id]; ok {
					delete(s.resting, id)
					s.queue = append([]*call{c}, s.queue...)
					s.dispatch(s.now)
				}
			}
			s.resting[id] = join
			s.at(rest, join)
		} else {
			s.queue = append([]*call{c}, s.queue...)
		}
	}
	otherwise := time.Duration(float64(200*time.Millisecond) * math.Exp2(float64(c.tries-1)) * (0.5 + s.rand.Float64()/2))
	switch a.status {
	case 200:
		down := s.l.Down()
		s.l.Accepted(f, s.now)
		if down && !s.l.Down() {
			for _, id := range slices.Sorted(maps.Keys(s.resting)) {
				s.at(0, s.resting[id])
			}
		}
		s.finish()
	case 429:
		p := s.l.Refused(f, a.wait, otherwise, false, s.now)
		if a.wait > 0 {
			p = a.wait + time.Duration(s.rand.Float64()*float64(a.wait)/20)
		}
		s.paused = max(s.paused, s.now+p)
		again(0)
	default:
		rest := s.l.Overloaded(f, a.wait, s.now)
		if rest == 0 {
			rest = time.Duration(float64(200*time.Millisecond) * math.Exp2(float64(c.tries-1)) * s.rand.Float64())
		} else {
			rest <<= c.tries - 1
		}
		again(rest)
	}
	s.dispatch(s.now)
}

func (s *sim) finish() {
	s.done++
	s.finished = s.now
	if s.open == 0 {
		s.newcomer()
	}
}

func newSim(l *limit.Learner, up simUpstream, seed uint64) *sim {
	s := &sim{l: l, up: up, rand: rand.New(rand.NewPCG(seed, 1)), workers: 64, calls: 2000, by: map[int]int{}, resting: map[int]func(){}}
	s.oneWay = func() time.Duration { return 0 }
	s.late = func() time.Duration { return 0 }
	return s
}

func (s *sim) run() time.Duration {
	if s.open > 0 {
		total := s.calls
		for i := range total {
			s.at(time.Duration(i)*s.open, func() { s.newcomer(); s.dispatch(s.now) })
		}
	} else {
		for range s.workers {
			s.newcomer()
		}
		s.dispatch(0)
	}
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(simEvent)
		s.now = e.at
		e.do()
	}
	return s.now
}

// gcra is a limit with a burst.
type gcra struct {
	rate   float64
	burst  float64
	tat    time.Duration
	hint   time.Duration
	coarse bool // whole milliseconds, as nginx
}

func (g *gcra) arrive(now time.Duration) answer {
	if g.coarse {
		now = now.Truncate(time.Millisecond)
	}
	t := time.Duration(float64(time.Second) / g.rate)
	if now < g.tat-time.Duration((g.burst-1)*float64(t)) {
		return answer{status: 429, wait: g.hint}
	}
	g.tat = max(g.tat, now) + t
	return answer{status: 200}
}
func (g *gcra) ended(time.Duration) {}

// delaying is nginx' limit_req with a burst and without nodelay.
type delaying struct {
	gcra
}

func (d *delaying) arrive(now time.Duration) answer {
	a := d.gcra.arrive(now)
	if a.status == 200 {
		a.after = max(0, d.tat-time.Duration(float64(time.Second)/d.rate)-now)
	}
	return a
}

type atOnce struct {
	n, max int
	takes  time.Duration
}

func (c *atOnce) arrive(time.Duration) answer {
	if c.n >= c.max {
		return answer{status: 429}
	}
	c.n++
	return answer{status: 200, after: c.takes}
}
func (c *atOnce) ended(time.Duration) { c.n-- }

type brownOut struct{ from, to, takes time.Duration }

func (b *brownOut) arrive(now time.Duration) answer {
	if now >= b.from && now < b.to {
		return answer{status: 503}
	}
	return answer{status: 200, after: b.takes}
}
func (b *brownOut) ended(time.Duration) {}

func jitter(s *sim, base, spread time.Duration) {
	s.oneWay = func() time.Duration { return base/2 + time.Duration(s.rand.Float64()*float64(spread)) }
}

func inFlight(l *limit.Learner) int {
	n, _ := l.InFlight()
	return n
}
