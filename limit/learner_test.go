package limit_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/outflow-go/outflow/limit"
	"pgregory.net/rapid"
)

// longestTurn is for how long a Learner has anybody wait for his turn who isn't refused anew, pauses apart.
const longestTurn = 20 * time.Second

// checked is a Learner that is told anything, in any order, and looked at after each step.
type checked struct {
	t interface {
		Helper()
		Fatalf(string, ...any)
	}
	l     *limit.Learner
	b     limit.LearnerBounds
	now   time.Duration
	out   []limit.Flight
	inUse int64
	cost  int64 // of each
}

// turn is for how long anybody may have to wait for his turn.
func (c *checked) turn() time.Duration {
	slowest := 1 / longestTurn.Seconds()
	if c.b.Max > 0 {
		slowest = min(slowest, c.b.Max/float64(c.cost), max(c.b.Min, 0.1)/float64(c.cost))
	}
	return time.Duration(min(1.001*float64(time.Second)/slowest, float64(limit.Never)))
}

func (c *checked) depart(due time.Duration) {
	c.out = append(c.out, c.l.Depart(due, c.now, c.cost))
	c.inUse += c.cost
}

func (c *checked) look() {
	c.t.Helper()
	n, grows := c.l.Slots(c.now)
	if n < 0 || n > 0 && grows < c.now {
		c.t.Fatalf("at %v there are %d slots, until %v", c.now, n, grows)
	}
	inFlight, units := c.l.InFlight()
	if inFlight != len(c.out) || units != c.inUse {
		c.t.Fatalf("%d in flight, of %d units, want %d of %d", inFlight, units, len(c.out), c.inUse)
	}
	rate := c.l.Rate()
	if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
		c.t.Fatalf("the pace is %v", rate)
	}
	if rate > 0 && (rate < c.b.Min || c.b.Max > 0 && rate > c.b.Max) {
		c.t.Fatalf("the pace is %v, out of its bounds %+v", rate, c.b)
	}
	if c.b.Max > 0 && rate == 0 && c.b.Declared == 0 {
		c.t.Fatalf("there is no pace, want one up to %v", c.b.Max)
	}
	if at := c.l.Earliest(c.now, 0); at < c.now || at-c.now > c.turn() {
		c.t.Fatalf("at %v the next may leave at %v, with the pace %v", c.now, at, rate)
	}
	for _, ahead := range []int64{1, 1 << 10, 1 << 40, math.MaxInt64} {
		if at := c.l.Earliest(c.now, ahead); at < c.now || at > limit.Never {
			c.t.Fatalf("at %v, with %d ahead, the next may leave at %v", c.now, ahead, at)
		}
	}
	if calm := c.l.Calm(); calm && (n != 0 || rate != 0 || c.l.Down()) {
		c.t.Fatalf("it is calm, with %d slots and the pace %v", n, rate)
	}
}

// step does something, as p says.
func (c *checked) step(p [12]byte) {
	c.t.Helper()
	span := func(b []byte) time.Duration {
		// From nothing to 300 years, short ones often.
		d := time.Duration(binary.LittleEndian.Uint16(b)) * time.Microsecond
		switch b[1] >> 5 {
		case 0:
			return 0
		case 7:
			return limit.Never
		default:
			return d << (b[1] >> 5 * 3)
		}
	}
	c.now = max(c.now, min(c.now+min(span(p[4:]), time.Hour), 1000*time.Hour))
	cost := c.cost
	var f limit.Flight
	if p[0]%16 > 3 {
		f = limit.Untracked(min(c.now, span(p[6:])), cost)
		if i := int(p[2]); len(c.out) > 0 && p[3]%4 != 0 {
			i %= len(c.out)
			f = c.out[i]
			c.out = append(c.out[:i], c.out[i+1:]...)
			c.inUse -= f.Cost()
		}
	}
	wait, otherwise := span(p[8:]), span(p[10:])
	switch p[0] % 16 {
	case 0, 1:
		if due := c.l.Earliest(min(c.now, span(p[6:])), 0); due <= c.now {
			c.depart(due)
		}
	case 2:
		if due := c.l.Earliest(c.now, 0); due <= c.now {
			c.l.Pass(due, c.now, cost)
		}
	case 3:
		c.now = c.l.Earliest(c.now, 0)
		c.depart(c.now)
	case 4, 5:
		c.l.Lost(f)
	case 6, 7, 8:
		if pause := c.l.Refused(f, wait, otherwise, p[0]&16 != 0, c.now); pause < 0 || pause > otherwise {
			c.t.Fatalf("a pause of %v, otherwise %v", pause, otherwise)
		}
	case 9, 10:
		if rest := c.l.Overloaded(f, wait, c.now); rest < 0 || rest > 8*longestTurn {
			c.t.Fatalf("a rest of %v", rest)
		}
	default:
		c.l.Accepted(f, c.now)
	}
	c.look()
}

var everyBounds = []limit.LearnerBounds{
	{}, {Declared: 100}, {Declared: 0.001, NoWindow: true}, {Declared: 1e9}, {Min: 1, Max: 10}, {Min: 0.01, Max: 1e9},
	{Passive: true}, {NoWindow: true}, {Min: 5, Max: 50, Declared: 20}, {Min: 5, Max: 5},
}

// Whatever a Learner is told, what it says makes sense, and nobody waits for ever.
func TestLearnerIsToldAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := everyBounds[rapid.IntRange(0, len(everyBounds)-1).Draw(t, "bounds")]
		c := &checked{t: t, l: limit.NewLearner(b), b: b, cost: rapid.SampledFrom([]int64{1, 10, 5000, 1 << 30}).Draw(t, "cost")}
		for _, p := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 12, 12), 0, 200).Draw(t, "steps") {
			c.step([12]byte(p))
		}
	})
}

func FuzzLearner(f *testing.F) {
	f.Add(uint8(0), uint8(0), []byte("000000000000"))
	f.Fuzz(func(t *testing.T, bounds, cost uint8, steps []byte) {
		b := everyBounds[int(bounds)%len(everyBounds)]
		c := &checked{t: t, l: limit.NewLearner(b), b: b, cost: int64(1) << (cost % 31)}
		for i := 0; len(steps) >= 12 && i < 500; i++ {
			c.step([12]byte(steps))
			steps = steps[12:]
		}
	})
}

// Of a rule that counts tokens, nothing but one refusal says nothing of how many would do; the next request isn't held
// for hours.
func TestARefusedFirstRequestOfManyUnits(t *testing.T) {
	l := limit.NewLearner(limit.LearnerBounds{NoWindow: true})
	f := l.Depart(0, 0, 5000)
	l.Refused(f, time.Second, 0, false, 10*time.Millisecond)
	now := 2 * time.Second
	for i := range 20 {
		at := l.Earliest(now, 0)
		if at-now > longestTurn {
			t.Fatalf("request %d leaves after %v", i, at-now)
		}
		now = max(now, at)
		f := l.Depart(now, now, 5000)
		l.Accepted(f, now+10*time.Millisecond)
	}
	if now > time.Minute {
		t.Errorf("20 requests took %v", now)
	}
}

// While the pace still rises, those who wait are not told that it won't.
func TestARisingPaceIsNotTakenForALowOne(t *testing.T) {
	l := limit.NewLearner(limit.LearnerBounds{NoWindow: true})
	l.Refused(l.Depart(0, 0, 1), time.Second, 0, false, time.Millisecond)
	now := time.Second
	told := l.Earliest(now, 99)
	for range 100 {
		now = l.Earliest(now, 0)
		l.Accepted(l.Depart(now, now, 1), now)
	}
	if told > now {
		t.Errorf("the hundredth was to leave at %v, and left at %v", told, now)
	}
	if told < now/2 {
		t.Errorf("the hundredth was to leave at %v, and left at %v only", told, now)
	}
}
