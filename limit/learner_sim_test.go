package limit_test

import (
	"container/heap"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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
	trace    bool
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
	if s.trace && a.status != 200 {
		n, _ := s.l.Slots(s.now)
		fmt.Printf("%8.3f %d rate %.1f slots %d in flight %d\n", s.now.Seconds(), a.status, s.l.Rate(), n, inFlight(s.l))
	}
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
	if s.trace && a.status != 200 {
		n, _ := s.l.Slots(s.now)
		fmt.Printf("%8.3f -> with %d rate %.1f slots %d \n", s.now.Seconds(), f, s.l.Rate(), n)
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

func (s *sim) report(t *testing.T, name string, ideal time.Duration) {
	t.Logf("%-28s %.3f× failed %d attempts %d 429s %d 503s %d", name, s.finished.Seconds()/ideal.Seconds(), s.failed, s.attempts, s.by[429], s.by[503])
}

func jitter(s *sim, base, spread time.Duration) {
	s.oneWay = func() time.Duration { return base/2 + time.Duration(s.rand.Float64()*float64(spread)) }
}

func TestSim(t *testing.T) {
	const ms = time.Millisecond
	for _, rtt := range []time.Duration{0, 1 * ms, 20 * ms, 100 * ms} {
		for seed := range uint64(3) {
			mk := func(up simUpstream) *sim {
				s := newSim(limit.NewLearner(limit.LearnerBounds{}), up, seed)
				if rtt > 0 {
					jitter(s, rtt, rtt/5)
				}
				s.late = func() time.Duration { return time.Duration(s.rand.Float64() * float64(300*time.Microsecond)) }
				return s
			}
			name := fmt.Sprintf("rtt %v", rtt)
			s := mk(&gcra{rate: 100, burst: 20, hint: time.Second})
			s.run()
			s.report(t, name+" gcra b20 hint", 19800*ms)
			s = mk(&gcra{rate: 100, burst: 20})
			s.run()
			s.report(t, name+" gcra b20 no hint", 19800*ms)
			for _, burst := range []float64{1, 6} {
				var up simUpstream = &gcra{rate: 100, burst: burst, coarse: true}
				if burst > 1 {
					up = &delaying{gcra{rate: 100, burst: burst, coarse: true}}
				}
				s = mk(up)
				s.calls = 600
				s.run()
				s.report(t, fmt.Sprintf("%s nginx b%v", name, burst-1), 6000*ms)
				l := s.l
				at := s.now
				s = mk(up)
				s.l, s.now, s.calls = l, at+time.Second, 600
				s.run()
				s.finished -= at + time.Second
				s.report(t, fmt.Sprintf("%s nginx b%v again", name, burst-1), 6000*ms)
			}
			s = mk(&atOnce{max: 8, takes: 50 * ms})
			s.run()
			s.report(t, name+" 8 at once", time.Duration(250*(50*ms+rtt)))
			s = mk(&brownOut{to: 3 * time.Second, takes: 50 * ms})
			s.run()
			s.report(t, name+" brown-out closed", 4560*ms)
			s = mk(&brownOut{from: 4 * time.Second, to: 7 * time.Second, takes: 50 * ms})
			s.open = 5 * ms
			s.run()
			s.report(t, name+" brown-out open", 10*time.Second)
			after := 0
			for _, d := range s.departs {
				if d >= 7*time.Second && d < 8*time.Second {
					after++
				}
			}
			t.Logf("   after recovery %d", after)
		}
	}
}

func TestTrace(t *testing.T) {
	s := newSim(limit.NewLearner(limit.LearnerBounds{}), &gcra{rate: 100, burst: 20, hint: time.Second}, 1)
	s.trace = true
	s.run()
	s.report(t, "gcra", 19800*time.Millisecond)
	_ = slices.Max(s.departs)
}

func TestTrace2(t *testing.T) {
	const ms = time.Millisecond
	mk := func(up simUpstream, rtt time.Duration) *sim {
		s := newSim(limit.NewLearner(limit.LearnerBounds{}), up, 1)
		s.trace = true
		if rtt > 0 {
			jitter(s, rtt, rtt/5)
		}
		s.late = func() time.Duration { return time.Duration(s.rand.Float64() * float64(300*time.Microsecond)) }
		return s
	}
	s := mk(&gcra{rate: 100, burst: 1, coarse: true}, 20*ms)
	s.calls = 600
	s.run()
	s.report(t, "rtt 20 nginx 0", 6000*ms)
	s = mk(&gcra{rate: 100, burst: 20, hint: time.Second}, 100*ms)
	s.run()
	s.report(t, "rtt 100", 19800*ms)
}

func inFlight(l *limit.Learner) int {
	n, _ := l.InFlight()
	return n
}
