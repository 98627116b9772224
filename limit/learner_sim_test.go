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
	s.at(s.oneWay(), func() {
		a := s.up.arrive(s.now)
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
		for i := range s.calls {
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

// want fails unless the work took at most times as long as at the least, with so many refusals at most, and none failed.
func (s *sim) want(t *testing.T, ideal time.Duration, times float64, refusals int) {
	t.Helper()
	took, refused := s.finished.Seconds()/ideal.Seconds(), s.by[429]+s.by[503]
	t.Logf("%.3f times %v, %d refusals", took, ideal, refused)
	if s.failed > 0 || s.done != s.attempts-refused {
		t.Errorf("%d failed, %d of %d attempts that were accepted are done", s.failed, s.done, s.attempts-refused)
	}
	if took > times || refused > refusals {
		t.Errorf("%.3f times as long as at the least, with %d refusals, want %.2f and %d", took, refused, times, refusals)
	}
}

// What a Learner makes of upstreams whose limits nobody has told it, at several latencies. The bounds are a little
// looser than what it does: who changes how it learns sees here what became worse.
func TestLearnerFindsOutWhatAnUpstreamTakes(t *testing.T) {
	const ms = time.Millisecond
	nginx := func() simUpstream { return &gcra{rate: 100, burst: 1, coarse: true} }
	delays := func() simUpstream { return &delaying{gcra{rate: 100, burst: 6, coarse: true}} }
	type bound struct { // for each of the latencies
		times    [4]float64
		refusals [4]int
	}
	latencies := [4]time.Duration{0, 1 * ms, 20 * ms, 100 * ms}
	for _, tt := range []struct {
		name     string
		upstream func() simUpstream
		calls    int
		every    time.Duration // open loop
		ideal    time.Duration // without the latency
		perTrip  int           // latencies that it takes besides
		again    bool          // by one that knows the limit already
		bound
	}{
		{name: "gcra with a hint", upstream: func() simUpstream { return &gcra{rate: 100, burst: 20, hint: time.Second} },
			calls: 2000, ideal: 19800 * ms, bound: bound{[4]float64{1.15, 1.2, 1.3, 1.35}, [4]int{18, 18, 24, 44}}},
		{name: "gcra without a hint", upstream: func() simUpstream { return &gcra{rate: 100, burst: 20} },
			calls: 2000, ideal: 19800 * ms, bound: bound{[4]float64{1.1, 1.1, 1.22, 1.15}, [4]int{22, 22, 25, 44}}},
		{name: "nginx", upstream: nginx, calls: 600, ideal: 6000 * ms, bound: bound{[4]float64{1.2, 1.25, 2.2, 8}, [4]int{12, 12, 16, 26}}},
		{name: "nginx, known", upstream: nginx, calls: 600, again: true, ideal: 6000 * ms, bound: bound{[4]float64{1.05, 1.08, 4, 6}, [4]int{4, 4, 6, 16}}},
		{name: "nginx with a burst", upstream: delays, calls: 600, ideal: 6000 * ms, bound: bound{[4]float64{1.01, 1.01, 1.05, 1.15}, [4]int{5, 5, 6, 12}}},
		{name: "nginx with a burst, known", upstream: delays, calls: 600, again: true, ideal: 6000 * ms, bound: bound{[4]float64{1.01, 1.01, 1.15, 1.25}, [4]int{4, 4, 5, 14}}},
		{name: "8 at once", upstream: func() simUpstream { return &atOnce{max: 8, takes: 50 * ms} },
			calls: 2000, ideal: 12500 * ms, perTrip: 250, bound: bound{[4]float64{1.02, 1.03, 1.1, 1}, [4]int{8, 8, 10, 13}}},
		{name: "a brown-out, closed loop", upstream: func() simUpstream { return &brownOut{to: 3 * time.Second, takes: 50 * ms} },
			calls: 2000, ideal: 4560 * ms, bound: bound{[4]float64{1.2, 1.22, 1.42, 2.2}, [4]int{30, 30, 30, 30}}},
		{name: "a brown-out, open loop", upstream: func() simUpstream { return &brownOut{from: 4 * time.Second, to: 7 * time.Second, takes: 50 * ms} },
			calls: 2000, every: 5 * ms, ideal: 10 * time.Second, bound: bound{[4]float64{1.25, 1.25, 1.25, 1.35}, [4]int{40, 40, 45, 62}}},
	} {
		for i, latency := range latencies {
			for seed := range uint64(3) {
				t.Run(fmt.Sprintf("%s, latency %v, seed %d", tt.name, latency, seed), func(t *testing.T) {
					newOne := func(l *limit.Learner, up simUpstream) *sim {
						s := newSim(l, up, seed)
						if latency > 0 {
							jitter(s, latency, latency/5)
						}
						s.late = func() time.Duration { return time.Duration(s.rand.Float64() * float64(300*time.Microsecond)) }
						s.calls, s.open = tt.calls, tt.every
						return s
					}
					up := tt.upstream()
					s := newOne(limit.NewLearner(limit.LearnerBounds{}), up)
					s.run()
					if tt.again {
						known := newOne(s.l, up)
						known.now = s.now + time.Second
						known.run()
						known.finished -= s.now + time.Second
						s = known
					}
					s.want(t, tt.ideal+time.Duration(tt.perTrip)*latency, tt.times[i], tt.refusals[i])
					if b, ok := up.(*brownOut); ok && tt.every > 0 {
						after := 0
						for _, d := range s.departs {
							if d >= b.to && d < b.to+time.Second {
								after++
							}
						}
						if arrive := int(time.Second / tt.every); after > arrive*5/4 {
							t.Errorf("%d attempts in the second after the recovery, want at most a quarter more than %d", after, arrive)
						}
					}
				})
			}
		}
	}
}

func jitter(s *sim, base, spread time.Duration) {
	s.oneWay = func() time.Duration { return base/2 + time.Duration(s.rand.Float64()*float64(spread)) }
}

func inFlight(l *limit.Learner) int {
	n, _ := l.InFlight()
	return n
}
