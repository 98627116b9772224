package limit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// The scenarios of the Transport's TestSignals…, without a Transport, and with networks of which nobody is told.
func TestLearnerFindsLimitsNobodyDeclared(t *testing.T) {
	for _, rtt := range []time.Duration{0, ms, 20 * ms, 100 * ms} {
		for seed := range uint64(3) {
			learn := func(up simUpstream) *sim {
				s := newSim(limit.NewLearner(limit.LearnerBounds{}), up, seed)
				if rtt > 0 {
					jitter(s, rtt, rtt/5)
				}
				s.late = func() time.Duration { return time.Duration(s.rand.Float64() * float64(300*time.Microsecond)) }
				return s
			}
			check := func(name string, s *sim, least time.Duration, most float64, refused int) {
				t.Helper()
				ratio := s.finished.Seconds() / least.Seconds()
				if s.failed > 0 || ratio > most || s.by[429]+s.by[503] > refused {
					t.Errorf("round trip %v, seed %d, %s: %d failed, %.3f × (at most %v), %d refused (at most %d)",
						rtt, seed, name, s.failed, ratio, most, s.by[429]+s.by[503], refused)
				}
			}
			slow := rtt.Seconds() * 10 // what feedback that takes a tenth of a second costs
			s := learn(&gcra{rate: 100, burst: 20, hint: time.Second})
			s.run()
			check("a burst, with a hint", s, 19800*ms, 1.25+slow/2, 60)
			s = learn(&gcra{rate: 100, burst: 20})
			s.run()
			check("a burst, without a hint", s, 19800*ms, 1.3, 60)

			for name, up := range map[string]simUpstream{
				"nginx without burst": &gcra{rate: 100, burst: 1, coarse: true},
				"nginx with burst":    &delaying{gcra{rate: 100, burst: 6, coarse: true}},
			} {
				s = learn(up)
				s.calls = 600
				s.run()
				check(name, s, 6*time.Second, 1.5+4*slow, 60)
				again := learn(up)
				again.l, again.now, again.calls = s.l, s.now+time.Second, 600
				again.run()
				again.finished -= s.now + time.Second
				check(name+", again", again, 6*time.Second, 1.15+4*slow, 12)
			}

			s = learn(&atOnce{max: 8, takes: 50 * ms})
			s.run()
			check("8 at a time", s, 250*(50*ms+rtt), 1.15, 20)

			s = learn(&brownOut{to: 3 * time.Second, takes: 50 * ms})
			s.run()
			check("a brown-out", s, 3*time.Second+2000*(50*ms+rtt)/64, 1.25, 40)
			s = learn(&brownOut{from: 4 * time.Second, to: 7 * time.Second, takes: 50 * ms})
			s.open = 5 * ms
			s.run()
			check("a brown-out, open loop", s, 10*time.Second, 1.3, 60)
			after := 0
			for _, d := range s.departs {
				if d >= 7*time.Second && d < 8*time.Second {
					after++
				}
			}
			if after > 250 {
				t.Errorf("round trip %v, seed %d: %d in the second after recovery, want at most 250", rtt, seed, after)
			}
		}
	}
}

// Whatever is answered, nobody waits for long: the next may leave within 20 s for each unit of the last, and somebody may be
// in flight. Counts are never negative.
func TestLearnerNeverParksProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := rapid.SampledFrom([]limit.LearnerBounds{
			{}, {Declared: 100}, {Min: 1, Max: 50}, {NoWindow: true}, {Passive: true}, {Declared: 0.01}, {Min: 1e-9, Max: 1e9},
		}).Draw(t, "bounds")
		l := limit.NewLearner(bounds)
		var now time.Duration
		var flights []limit.Flight
		duration := rapid.SampledFrom([]time.Duration{0, 1, ms, 10 * ms, time.Second, time.Minute, 24 * time.Hour})
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += duration.Draw(t, "passes")
			switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
			case what == 0 || len(flights) == 0:
				n, _ := l.Slots(now)
				if inFlight, _ := l.InFlight(); n > 0 && inFlight >= n {
					continue
				}
				due := l.Earliest(now, 0)
				if due < now || due > now+101*time.Second && bounds.Min == 0 {
					t.Fatalf("the next leaves at %v, it is %v", due, now)
				}
				now = due
				flights = append(flights, l.Depart(due, now, int64(rapid.IntRange(1, 5).Draw(t, "cost"))))
			default:
				i := rapid.IntRange(0, len(flights)-1).Draw(t, "which")
				f := flights[i]
				flights = append(flights[:i], flights[i+1:]...)
				wait := duration.Draw(t, "asked")
				switch what {
				case 1, 2:
					l.Accepted(f, now)
				case 3:
					if p := l.Refused(f, wait, 200*ms, rapid.Bool().Draw(t, "concurrency"), now); p < 0 || p > 20*time.Second {
						t.Fatalf("a pause of %v", p)
					}
				case 4:
					if rest := l.Overloaded(f, wait, now); rest < 0 {
						t.Fatalf("a rest of %v", rest)
					}
				case 5:
					l.Lost(f)
				}
			}
			if n, units := l.InFlight(); n != len(flights) || units < int64(n) {
				t.Fatalf("%d in flight of cost %d, want %d", n, units, len(flights))
			}
			if n, grows := l.Slots(now); n < 0 || n > 0 && grows <= now {
				t.Fatalf("%d slots, more at %v, it is %v", n, grows, now)
			}
			if r := l.Rate(); r < 0 || r != r || bounds.Max > 0 && r > bounds.Max || bounds.Declared > 0.05 && r > bounds.Declared {
				t.Fatalf("a rate of %v", r)
			}
		}
	})
}

// windowServer counts in fixed windows, and says what is left.
type windowServer struct {
	n      int64
	d      time.Duration
	window time.Duration
	used   int64
	over   int64
}

func (w *windowServer) arrive(now time.Duration, cost int64) limit.Count {
	if i := now / w.d; i != w.window {
		w.window, w.used = i, 0
	}
	w.used += cost
	w.over = max(w.over, w.used-w.n)
	return limit.Count{Limit: w.n, Remaining: max(0, w.n-w.used), Reset: (w.window+1)*w.d - now}
}

// In whatever order the answers come, no more leave in a window than the server says are left, but for those that left
// before it had said anything; and all that is allowed is used.
func TestQuotaIsNeverOverAndUsed(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		server := &windowServer{n: 20 + r.Int64N(200), d: time.Duration(1+r.IntN(10)) * time.Second, window: -1}
		rtt := time.Duration(r.IntN(100)) * ms
		var q limit.Quota
		type flight struct {
			left, arrives, back time.Duration
			cost, upTo          int64
			count               limit.Count
			arrived             bool
		}
		var flights []*flight
		var now time.Duration
		var inFlight, sent, served int64
		end := 5 * server.d
		for now < end {
			// The first one goes alone: nothing is known before.
			for cost := 1 + r.Int64N(3); inFlight == 0 || q.Renewed() != limit.Never && inFlight < 64; cost = 1 + r.Int64N(3) {
				if q.Asking(now) || q.Earliest(now, cost, inFlight, sent, 0, limit.SpreadNone) > now {
					break
				}
				q.Depart(now)
				sent += cost
				inFlight += cost
				there := rtt/2 + time.Duration(r.Int64N(int64(rtt/4+1)))
				flights = append(flights, &flight{left: now, arrives: now + there, back: now + there + rtt/2 + time.Duration(r.Int64N(int64(rtt/4+1))), cost: cost, upTo: sent})
			}
			now += ms
			for _, f := range flights {
				if !f.arrived && f.arrives <= now {
					f.arrived, f.count = true, server.arrive(f.arrives, f.cost)
					if f.arrives < end {
						served += f.cost
					}
				}
			}
			var rest []*flight
			for _, f := range flights {
				if f.back > now {
					rest = append(rest, f)
					continue
				}
				inFlight -= f.cost
				q.Tell(f.count, f.left, now, f.upTo, sent)
				q.Hear(false, f.cost)
			}
			flights = rest
		}
		if server.over > 3 {
			t.Errorf("seed %d: %d more than %d left in a window of %v, with a round trip of %v", seed, server.over, server.n, server.d, rtt)
		}
		if share := float64(served) / float64(5*server.n); share < 0.9 {
			t.Errorf("seed %d: %.2f of what %d per %v allow was used, with a round trip of %v", seed, share, server.n, server.d, rtt)
		}
	}
}

// What a server says, and in whatever order, never makes a turn earlier than now or parks for ever.
func FuzzQuota(f *testing.F) {
	f.Add(int64(100), int64(0), int64(time.Second), int64(5), int64(3))
	f.Add(int64(-1), int64(1<<62), int64(-1), int64(0), int64(0))
	f.Add(int64(0), int64(0), int64(1<<62), int64(1<<40), int64(-7))
	f.Fuzz(func(t *testing.T, size, left, reset, at, upTo int64) {
		var q limit.Quota
		now := time.Hour
		for i := range 4 {
			c := limit.Count{Limit: size, Remaining: left + int64(i)*upTo%97, Reset: time.Duration(reset)}
			q.Tell(c, now-time.Duration(at%int64(time.Minute)), now, upTo, max(upTo, 0)+int64(i))
			q.Hear(i%2 == 1, 1)
			now += time.Duration(uint64(at) % uint64(time.Minute))
			q.Depart(now)
			for _, spread := range []limit.Spread{limit.SpreadLast, limit.SpreadAll, limit.SpreadNone} {
				if e := q.Earliest(now, 1, 0, upTo, 9, spread); e < now {
					t.Fatalf("a turn at %v, it is %v: %+v", e, now, fmt.Sprint(q))
				}
			}
			_, _, _ = q.Asking(now), q.Known(now), q.Renewed()
		}
	})
}
