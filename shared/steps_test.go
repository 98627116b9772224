package shared

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/limit"
)

// saturate asks for n departures again and again, as somebody does who waits for each of them, until a moment, and
// returns when they leave.
func saturate(t *testing.T, rdb *redis.Client, c *call, until int64) []int64 {
	t.Helper()
	var all []int64
	for c.clock < until {
		rep := c.do(t, rdb)
		for _, s := range rep.slots {
			all = append(all, s.at)
		}
		next := c.clock + 10_000
		if n := len(rep.slots); n > 0 {
			next = max(c.clock+1, rep.slots[n-1].at)
		}
		c.clock = next
	}
	return all
}

// TestClockGoesBack has Redis' clock step back by 10 s: nobody waits for it to come by again, and nothing is
// forgotten.
func TestClockGoesBack(t *testing.T) {
	const step = 10_000_000
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, l := range []limit.Limit{
			limit.PerSecond(1000),
			limit.PerSecond(1000).WithBurst(50),
			limit.SlidingWindow(100, 100*time.Millisecond),
			limit.SlidingCounter(100, 100*time.Millisecond),
			limit.FixedWindow(100, 100*time.Millisecond),
			limit.FixedWindow(100, 100*time.Millisecond).ByClock(),
		} {
			c := asks(20, testBucket(t, l))
			c.clock = base
			saturate(t, rdb, c, base+1_000_000)
			back := c.clock - step
			c.clock = back
			after := saturate(t, rdb, c, back+1_000_000)
			stall := after[0] - back
			for i, at := range after[1:] {
				stall = max(stall, at-after[i])
			}
			if stall > 200_000 {
				t.Errorf("%v: nothing for %d us", l, stall)
			}
			// What comes in any 100 ms after it, those included that were due before.
			if n := len(after); n < 700 || n > 1300 {
				t.Errorf("%v: %d departures in a second", l, n)
			}
		}
	})
}

// A debt is no garbage, however far ahead it reaches, and stays one when the clock goes back.
func TestClockGoesBackDebtStays(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := asks(1, testBucket(t, limit.PerSecond(1)))
		c.runs[0].costs[0] = 3600
		c.do(t, rdb)
		c.clock -= 10_000_000
		c.runs[0].costs[0] = 1
		if rep := c.do(t, rdb); rep.slots[0].at != c.clock+3_600_000_000 {
			t.Errorf("after the clock went back the debt is %d us", rep.slots[0].at-c.clock)
		}
		// And a window's log.
		c = asks(5, testBucket(t, limit.SlidingWindow(5, time.Hour).WithHeadroom(0.1)))
		c.runs[0].high = true
		given := c.do(t, rdb)
		c.clock -= 10_000_000
		rep := c.do(t, rdb)
		if want := c.clock + 3_600_050_000; len(rep.slots) != 1 || rep.slots[0].at != want {
			t.Errorf("the window lets %v leave, want %d", rep.moments(c.clock), want-c.clock)
		}
		// What is handed back is found, although it was given by the other clock.
		c.back = []slot{rep.slots[0], given.slots[4]}
		c.runs[0].n = 0
		if rep := c.do(t, rdb); rep.used[0][0] != 4 {
			t.Errorf("%d are used, want 4", rep.used[0][0])
		}
	})
}

// TestClockGoesForward has Redis' clock step forward by 10 s: a rate lets at most what was reserved, a horizon's
// worth, and its burst leave again; a window what left in the part that the step skips.
func TestClockGoesForward(t *testing.T) {
	const step = 10_000_000
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, c := range []struct {
			l    limit.Limit
			over int
		}{
			{limit.PerSecond(1000), 100 + 1},
			{limit.PerSecond(1000).WithBurst(50), 100 + 50 + 1},
			{limit.SlidingWindow(1000, time.Second), 1000},
			{limit.FixedWindow(1000, time.Second).ByClock(), 1000},
		} {
			k := asks(1000, testBucket(t, c.l))
			before := len(saturate(t, rdb, k, base+2_000_000))
			k.clock = base + 2_000_000 + step
			after := len(saturate(t, rdb, k, base+4_000_000+step))
			if after > 2000+c.over || before > 2000+c.over {
				t.Errorf("%v: %d and then %d departures in 2 s each", c.l, before, after)
			}
			if after < 1900 {
				t.Errorf("%v: only %d departures after the step", c.l, after)
			}
		}
	})
}

// TestStateLost has Redis forget everything: who knew it starts a horizon later with nothing saved up, and windows
// with what they counted last.
func TestStateLost(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := context.Background()
		c := asks(100, testBucket(t, limit.PerSecond(1000).WithBurst(50)))
		c.do(t, rdb)
		rdb.FlushAll(ctx)
		c.known = []bool{true}
		c.runs[0].n = 3
		if rep := c.do(t, rdb); fmt.Sprint(rep.moments(base)) != "[100000]" && fmt.Sprint(rep.moments(base)) != "[100000 101000 102000]" {
			t.Errorf("after a flush %v leave", rep.moments(base))
		}
		// Of a sliding window nothing but its log is gone: what it held may have left just now.
		b := testBucket(t, limit.SlidingWindow(10, time.Hour))
		c = asks(7, b)
		c.do(t, rdb)
		rdb.Del(ctx, b.log)
		c.clock += 1_000_000
		if rep := c.do(t, rdb); len(rep.slots) != 3 || rep.used[0][0] != 10 || rep.tail != c.clock+3_600_050_000 {
			t.Errorf("without the log %v leave, %v are used, then %d", rep.moments(c.clock), rep.used, rep.tail-c.clock)
		}
		// Of two buckets one is new: only the other is lost.
		c = asks(1, testBucket(t, limit.PerSecond(1000)), testBucket(t, limit.PerSecond(500)))
		c.known = []bool{false, true}
		if rep := c.do(t, rdb); rep.slots[0].at != base+100_000 {
			t.Errorf("with one bucket lost %v leave", rep.moments(base))
		}
		c.known = []bool{true, true}
		c.buckets[1] = testBucket(t, limit.PerSecond(500))
		c.known[1] = false
		c.clock += 200_000
		if rep := c.do(t, rdb); rep.slots[0].at != c.clock {
			t.Errorf("with one bucket new %v leave", rep.moments(c.clock))
		}
		for _, l := range []limit.Limit{
			limit.SlidingWindow(10, time.Hour),
			limit.SlidingCounter(10, time.Hour),
			limit.FixedWindow(10, time.Hour),
			limit.FixedWindow(10, time.Hour).ByKey(),
			limit.Daily(10, 0, 0, time.UTC),
		} {
			c := asks(7, testBucket(t, l))
			c.clock += 1_000_000_000 // well after the window began
			c.used = c.do(t, rdb).used
			rdb.FlushAll(ctx)
			c.known = []bool{true}
			if rep := c.do(t, rdb); len(rep.slots) != 3 || rep.used[0][0] != 10 {
				t.Errorf("%v: after a flush %v leave, and %v are used", l, rep.moments(c.clock), rep.used)
			}
			// One that never knew it.
			rdb.FlushAll(ctx)
			c.known = nil
			if rep := c.do(t, rdb); len(rep.slots) != 7 {
				t.Errorf("%v: a new instance gets %d", l, len(rep.slots))
			}
		}
	})
}

func TestRecovering(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := asks(3, testBucket(t, limit.PerSecond(1000).WithBurst(50)))
		c.recovering = true
		if rep := c.do(t, rdb); rep.slots[0].at < base+100_000 {
			t.Errorf("%v leave", rep.moments(base))
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := context.Background()
		b := testBucket(t, limit.PerSecond(1000).WithBurst(50), limit.SlidingWindow(1000, time.Minute))
		sub := rdb.Subscribe(ctx, "pauses")
		defer sub.Close()
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		for _, fresh := range []bool{true, false} { // whether there is a state yet
			c := asks(5, b)
			if !fresh {
				c.do(t, rdb)
			}
			p := pause{bucket: b, length: 2 * time.Second, most: time.Minute, channel: "pauses", clock: c.clock}
			if now, until := p.do(t, rdb); now != base || until != base+2_000_000 {
				t.Fatalf("paused at %d until %d", now-base, until-base)
			}
			m, err := sub.ReceiveMessage(ctx)
			if want := fmt.Sprintf("%d %d %s", int64(base), int64(base+2_000_000), b.key); err != nil || m.Payload != want {
				t.Fatalf("told %q, %v, want %q", m.Payload, err, want)
			}
			p.length = time.Second // a shorter one changes nothing
			if _, until := p.do(t, rdb); until != base+2_000_000 {
				t.Fatalf("paused until %d", until-base)
			}
			sub.ReceiveMessage(ctx)
			rep := c.do(t, rdb)
			if len(rep.slots) != 0 || rep.pausedUntil[0] != base+2_000_000 || rep.tail != base+2_000_000 {
				t.Fatalf("in a pause got %v, paused until %d, tail %d", rep.moments(base), rep.pausedUntil[0]-base, rep.tail-base)
			}
			// It is ended, and nothing is lost by it.
			p.length = 0
			if _, until := p.do(t, rdb); until != 0 {
				t.Fatalf("paused until %d", until-base)
			}
			sub.ReceiveMessage(ctx)
			if rep := c.do(t, rdb); len(rep.slots) != 5 || rep.slots[4].at != base || rep.pausedUntil[0] != 0 {
				t.Fatalf("after it got %v", rep.moments(base))
			}
			// Shortly before its end those after it are reserved, one by one: the burst isn't saved up.
			p.length = time.Second
			p.do(t, rdb)
			sub.ReceiveMessage(ctx)
			c.clock += 950_000
			if rep := c.do(t, rdb); fmt.Sprint(rep.moments(base)) != "[1000000 1001000 1002000 1003000 1004000]" {
				t.Fatalf("at the end got %v", rep.moments(base))
			}
			rdb.Del(ctx, b.state, b.log)
		}
		// What nobody asked during a pause isn't saved up either.
		p := pause{bucket: b, length: time.Second, most: time.Minute, clock: base}
		p.do(t, rdb)
		c := asks(5, b)
		c.clock += 1_000_000
		if rep := c.do(t, rdb); fmt.Sprint(rep.moments(base)) != "[1000000]" && len(rep.slots) != 5 || rep.slots[0].at != base+1_000_000 {
			t.Errorf("after a pause got %v", rep.moments(base))
		} else if len(rep.slots) == 5 && rep.slots[4].at != base+1_004_000 {
			t.Errorf("after a pause got %v", rep.moments(base))
		}
		// A pause is believed up to a length.
		p = pause{bucket: b, length: 10000 * time.Hour, most: time.Minute, clock: c.clock}
		if now, until := p.do(t, rdb); until != now+60_000_000 {
			t.Errorf("paused for %d", until-now)
		}
	})
}

// TestFairness has one instance with thousands of waiters, and fifteen others: it gets its share of what is free
// at once, and of what is ahead.
func TestFairness(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, l := range []limit.Limit{
			limit.PerSecond(10).WithBurst(160),
			limit.SlidingWindow(160, time.Minute),
			limit.FixedWindow(160, time.Minute),
			limit.SlidingCounter(160, time.Minute),
		} {
			b := testBucket(t, l)
			for i := range 16 {
				c := asks(0, b)
				c.instance = fmt.Sprint(i)
				if rep := c.do(t, rdb); rep.live[0] != i+1 {
					t.Fatalf("%v: %d alive, want %d", l, rep.live[0], i+1)
				}
			}
			c := asks(5000, b)
			c.instance = ""
			if rep := c.do(t, rdb); len(rep.slots) != 10 {
				t.Errorf("%v: one of 16 gets %d of 160", l, len(rep.slots))
			}
			c.weight = 2
			if rep := c.do(t, rdb); len(rep.slots) != 19 { // of the 150 that are left, rounded up
				t.Errorf("%v: with weight 2 it gets %d of 150", l, len(rep.slots))
			}
			// Those that are not heard of don't count any more.
			c = asks(1, b)
			c.clock += 4_000_000
			if rep := c.do(t, rdb); rep.live[0] != 1 {
				t.Errorf("%v: %d alive, want 1", l, rep.live[0])
			}
		}
		// What is ahead: 1/16 of a horizon of 1,000/s is 6.
		b := testBucket(t, limit.PerSecond(1000))
		for i := range 16 {
			c := asks(0, b)
			c.instance = fmt.Sprint(i)
			c.do(t, rdb)
		}
		c := asks(5000, b)
		c.instance = ""
		if rep := c.do(t, rdb); len(rep.slots) != 1+6 {
			t.Errorf("one of 16 gets %d", len(rep.slots))
		}
	})
}

// TestHorizon has nobody get what is later, but one departure.
func TestHorizon(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, limits := range [][]limit.Limit{
			{limit.PerSecond(1)},
			{limit.PerSecond(1), limit.PerSecond(2)},
			{limit.SlidingWindow(1, time.Second)},
			{limit.FixedWindow(1, time.Second)},
		} {
			c := asks(10, testBucket(t, limits...))
			for i, want := range []int{1, 1, 1} {
				if rep := c.do(t, rdb); len(rep.slots) != want || rep.tail < base+int64(i+1)*1_000_000 {
					t.Errorf("%v: call %d got %v, then %d", limits, i, rep.moments(base), rep.tail-base)
				}
			}
		}
	})
}

// TestHandedBack has those that nobody used be used by others.
func TestHandedBack(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, limits := range [][]limit.Limit{
			{limit.PerSecond(100)},
			{limit.PerSecond(100), limit.PerSecond(3000).WithBurst(10)},
			{limit.PerSecond(100), limit.SlidingWindow(1000, time.Minute)},
			{limit.PerSecond(0.7)},
			{limit.PerSecond(100).WithBurst(4)},
		} {
			c := asks(50, testBucket(t, limits...))
			first := c.do(t, rdb)
			again := c.do(t, rdb) // all of them not due yet
			for i := len(again.slots) - 1; i >= 0; i-- {
				c.back = append(c.back, again.slots[i])
			}
			third := c.do(t, rdb)
			if fmt.Sprint(third.moments(base)) != fmt.Sprint(again.moments(base)) {
				t.Errorf("%v: after %v got %v, handed it back, and got %v", limits, first.moments(base), again.moments(base), third.moments(base))
			}
		}
	})
}

// TestAdaptive has the fleet's rate rise while it is used and fall when it is refused, but once a second at most.
func TestAdaptive(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := asks(20, testBucket(t, limit.AdaptiveRate(2, 100)))
		first := c.do(t, rdb).rate[0]
		if first < 2 || first > 10 {
			t.Errorf("it begins with %v/s", first)
		}
		saturate(t, rdb, c, base+4_000_000)
		rep := c.do(t, rdb)
		if rep.rate[0] < 4*first || rep.rate[0] > 6*first {
			t.Errorf("after 4 s it is %v/s", rep.rate[0])
		}
		c.refused = true
		cut := c.do(t, rdb).rate[0]
		if again := c.do(t, rdb).rate[0]; cut < 0.69*rep.rate[0] || cut > 0.71*rep.rate[0] || again != cut {
			t.Errorf("refused, it is %v/s, then %v/s, was %v/s", cut, again, rep.rate[0])
		}
		c.refused = false
		c.clock += 100_000_000
		if idle := c.do(t, rdb).rate[0]; idle > cut*1.06 {
			t.Errorf("while it wasn't used it rose to %v/s", idle)
		}
		for range 100 {
			c.refused = true
			c.clock += 2_000_000
			c.do(t, rdb)
		}
		if least := c.do(t, rdb).rate[0]; least < 2 || least > 2.2 {
			t.Errorf("refused for ever, it is %v/s", least)
		}
		c.refused = false
		saturate(t, rdb, c, c.clock+120_000_000)
		if most := c.do(t, rdb).rate[0]; most > 100 || most < 90 {
			t.Errorf("it rose to %v/s", most)
		}
	})
}

// TestToldReset has a server say when its window ends: what left shortly before it can have begun counts, too.
func TestToldReset(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := asks(5, testBucket(t, limit.FixedWindow(5, 16*time.Second)))
		c.do(t, rdb)
		for _, x := range []struct{ now, reset, want int64 }{
			{500_000, 16_500_000, 16_550_000},    // begun half a second after they left, which may be rounding
			{600_000, 40_000_000, 16_550_000},    // is not believed: more than two windows ahead
			{700_000, 100_000, 16_550_000},       // is past
			{800_000, 20_000_000, 20_050_000},    // the same window, told a little differently
			{900_000, 12_000_000, 12_050_000},    // and again
			{12_050_000, 28_000_000, 12_050_000}, // the next
		} {
			c.clock = base + x.now
			c.told = []told{{reset: base + x.reset}}
			c.runs[0].n = 0
			rep := c.do(t, rdb)
			if rep.tail != base+x.want {
				t.Errorf("at %d told %d, the next leaves at %d, want %d", x.now, x.reset, rep.tail-base, x.want)
			}
		}
	})
}
