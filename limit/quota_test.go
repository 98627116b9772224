package limit_test

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// counted is an upstream with a quota, and a client that goes by what it says, with more to do than it may. Who is
// on the way takes any time, so that requests and answers overtake one another; some answers never come.
type counted struct {
	rand   *rand.Rand
	now    time.Duration
	n      int
	events simEvents

	limit   int64
	window  time.Duration // of a fixed one
	phase   time.Duration
	perSec  float64 // of one that fills up
	used    int64
	index   int64
	filled  time.Duration
	level   float64
	noReset bool
	slowest time.Duration // on the way
	lost    float64

	q                 limit.Quota
	spread            limit.Spread
	inFlight, sent    int64
	maxCost           int64
	accepted, refused int64
	perWindow         map[int64]int64
	paused            time.Duration // after a refusal, until it says
	started           bool
	armed             bool
}

func (c *counted) at(d time.Duration, do func()) {
	c.n++
	heap.Push(&c.events, simEvent{c.now + d, c.n, do})
}

// serve is the upstream's part.
func (c *counted) serve(cost int64) (ok bool, count limit.Count) {
	if c.perSec > 0 {
		c.level = min(float64(c.limit), c.level+c.perSec*(c.now-c.filled).Seconds())
		c.filled = c.now
		if ok = c.level >= float64(cost); ok {
			c.level -= float64(cost)
		}
		reset := time.Duration((float64(c.limit) - c.level) / c.perSec * float64(time.Second))
		if c.noReset {
			reset = -1
		}
		return ok, limit.Count{Limit: c.limit, Remaining: int64(c.level), Reset: reset}
	}
	if i := int64((c.now + c.phase) / c.window); i != c.index {
		c.index, c.used = i, 0
	}
	if ok = c.used+cost <= c.limit; ok {
		c.used += cost
		c.perWindow[c.index] += cost
	}
	return ok, limit.Count{Limit: c.limit, Remaining: c.limit - c.used, Reset: time.Duration(c.index+1)*c.window - c.phase - c.now}
}

func (c *counted) leave() {
	for {
		if !c.started && c.inFlight > 0 || c.q.Asking(c.now) {
			return // nothing is known yet
		}
		cost := 1 + c.rand.Int64N(c.maxCost)
		t := c.q.Earliest(max(c.now, c.paused), cost, c.inFlight, c.sent, 1000, c.spread)
		if t > c.now {
			if !c.armed {
				c.armed = true
				c.at(min(t-c.now, time.Second), func() { c.armed = false; c.leave() })
			}
			return
		}
		c.q.Depart(c.now, c.inFlight, c.sent)
		c.inFlight += cost
		c.sent += cost
		left, upTo := c.now, c.sent
		way := time.Duration(c.rand.Int64N(int64(c.slowest) + 1))
		c.at(way, func() {
			ok, count := c.serve(cost)
			if ok {
				c.accepted += cost
			} else {
				c.refused++
			}
			if c.rand.Float64() < c.lost {
				c.at(5*time.Second, func() { c.inFlight -= cost; c.leave() })
				return
			}
			c.at(way, func() { // as long, so that the client can tell when the window ends
				c.inFlight -= cost
				c.started = c.started || ok
				c.q.Hear(!ok, cost)
				switch {
				case ok:
					c.q.Tell(count, left, c.now, upTo, c.sent)
				case c.perSec > 0:
					c.paused = max(c.paused, c.now+250*time.Millisecond)
				default:
					c.paused = max(c.paused, left+(c.now-left)/2+count.Reset)
				}
				c.leave()
			})
		})
	}
}

func (c *counted) run(until time.Duration) {
	c.perWindow = make(map[int64]int64)
	c.level = float64(c.limit)
	c.index = -1
	c.leave()
	for len(c.events) > 0 {
		e := heap.Pop(&c.events).(simEvent)
		if e.at > until || c.inFlight > 100*c.limit {
			return
		}
		c.now = e.at
		e.do()
	}
}

// No more leave than the upstream has left, in each of its windows, and no less by much.
func TestQuotaOfAFixedWindowIsNeverExceeded(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := &counted{rand: r, limit: 5 + r.Int64N(200), window: time.Duration(2+r.IntN(60)) * time.Second, maxCost: 1 + r.Int64N(5),
			slowest: time.Duration(1+r.IntN(400)) * time.Millisecond, spread: limit.Spread(r.IntN(3))}
		c.phase = time.Duration(r.Int64N(int64(c.window)))
		if r.IntN(3) == 0 {
			c.lost = 0.05
		}
		name := fmt.Sprintf("seed %d: %d per %v, costs up to %d, %v on the way, %v lost", seed, c.limit, c.window, c.maxCost, c.slowest, c.lost)
		c.run(20 * c.window)
		most := int64(0)
		if c.lost > 0 { // nobody has told of some that were accepted
			most = 3 + c.accepted/25
		}
		if c.refused > most {
			t.Errorf("%s: %d were refused of %d accepted", name, c.refused, c.accepted)
		}
		for i := c.index - 15; i < c.index; i++ {
			least := c.limit - c.maxCost
			if c.lost > 0 {
				least = c.limit / 4
			}
			if c.spread != limit.SpreadNone {
				least -= c.limit/5 + c.maxCost
			}
			if c.perWindow[i] < least {
				t.Errorf("%s: %d in a window, want %d", name, c.perWindow[i], least)
				break
			}
		}
	}
}

// A limit that fills up is used as fast as it does. Refusals are few where it tells no reset; where that is the time
// until it is full, a Quota by itself takes it for a window's at first, and it is for a Learner to see to the refusals.
func TestQuotaThatFillsUp(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 4))
		c := &counted{rand: r, limit: 10 + r.Int64N(100), perSec: float64(1 + r.IntN(50)), maxCost: 1, slowest: time.Duration(1+r.IntN(100)) * time.Millisecond,
			noReset: r.IntN(2) == 0}
		name := fmt.Sprintf("seed %d: %d, %v/s, no reset: %v, %v on the way", seed, c.limit, c.perSec, c.noReset, c.slowest)
		const lasts = 60
		c.run(lasts * time.Second)
		least := 0.5
		if c.noReset {
			least = 0.8
			if most := 3 + c.accepted/20; c.refused > most {
				t.Errorf("%s: %d were refused of %d accepted", name, c.refused, c.accepted)
			}
		}
		if share := float64(c.accepted) / (float64(c.limit) + lasts*c.perSec); share < least {
			t.Errorf("%s: %.0f %% of it was used", name, 100*share)
		}
	}
}

// longestSilence is for how long a Quota has anybody wait without the server having said so.
const longestSilence = time.Minute

// hear has a Quota told anything, by steps.
func hear(t *testing.T, steps []byte) {
	var q limit.Quota
	var now, renewed time.Duration
	var sent int64
	number := func(b byte) int64 {
		switch n := int64(b & 31); b >> 5 {
		case 0:
			return -1
		case 1:
			return math.MaxInt64 - n
		case 2:
			return -n << 50
		default:
			return n << (b >> 5 * 3) >> 9
		}
	}
	span := func(b []byte) time.Duration {
		switch d := time.Duration(binary.LittleEndian.Uint16(b)) * time.Millisecond; b[0] & 7 {
		case 0:
			return 0
		case 1:
			return -d
		case 2:
			return limit.Never - d
		case 3:
			return 10 * 365 * 24 * time.Hour
		default:
			return d
		}
	}
	for ; len(steps) >= 10; steps = steps[10:] {
		p := steps[:10]
		now += time.Duration(binary.LittleEndian.Uint16(p[1:])) * time.Duration(1+p[3]) * time.Microsecond
		switch p[0] & 3 {
		case 0:
			sent += int64(p[4])
			q.Depart(now, int64(p[5]), sent)
		case 1:
			q.Hear(p[4]&1 != 0, int64(p[5]))
		default:
			left := max(0, now-time.Duration(p[4])*time.Millisecond)
			c := limit.Count{Limit: number(p[5]), Remaining: number(p[6]), Reset: span(p[7:])}
			q.Tell(c, left, now, max(0, sent-int64(p[9])), sent)
			if c.Reset > 0 {
				renewed = max(renewed, min(now, limit.Never-c.Reset)+min(c.Reset, limit.Never))
			}
		}
		for _, cost := range []int64{1, 1000, 1 << 30} {
			for spread := range limit.SpreadNone + 1 {
				for _, inFlight := range []int64{0, 5, 1 << 40} {
					at := q.Earliest(now, cost, inFlight, sent+inFlight, inFlight, spread)
					if last := max(now+longestSilence, min(renewed, limit.Never-5*time.Second)+5*time.Second); at < now || at > last {
						t.Fatalf("at %v the next may leave at %v, after the %v that the server has said", now, at, renewed)
					}
				}
			}
		}
		if at := q.Renewed(); at < 0 {
			t.Fatalf("it is renewed at %v", at)
		}
	}
}

// Whatever a server says, a Quota makes sense of it, and has nobody wait for longer than was said.
func TestQuotaIsToldAnything(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 5))
		steps := make([]byte, 10*(1+r.IntN(40)))
		for i := range steps {
			steps[i] = byte(r.Uint32())
		}
		hear(t, steps)
	}
}

func FuzzQuota(f *testing.F) {
	f.Add([]byte("00000000000000000000"))
	f.Fuzz(hear)
}

// What is left for several is used up by them together, and not by each.
func TestQuotaAmong(t *testing.T) {
	const n = 4
	clients := make([]limit.Quota, n)
	inFlight := make([]int64, n)
	for i := range clients {
		clients[i].Among(n)
		clients[i].Tell(limit.Count{Limit: 100, Remaining: 41, Reset: time.Minute}, 0, 0, 0, 0)
	}
	left := 0
	for sent := true; sent; {
		sent = false
		for i := range clients {
			if clients[i].Earliest(time.Second, 1, inFlight[i], inFlight[i], 0, limit.SpreadNone) == time.Second {
				inFlight[i]++
				left++
				sent = true
			}
		}
	}
	if left != 40 {
		t.Errorf("%d left of the 41 that there were for %d, want 40", left, n)
	}
}
