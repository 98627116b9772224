package limit_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// most is how many units a limit lets leave in a span of time from the first to the last of them.
func most(l limit.Limit, w time.Duration) int64 {
	if r, ok := l.Rate(); ok {
		return int64(l.Burst()) + int64(math.Ceil(float64(r)*w.Seconds()+1e-6))
	}
	n, d, _ := l.Window()
	windows := int64(w/d) + 1
	if l != limit.SlidingWindow(n, d).WithBurst(l.Burst()) && l != limit.FixedWindow(n, d).WithBurst(l.Burst()) {
		windows++ // a boundary may be between
	}
	return windows * int64(n+l.Burst())
}

// rateOf is what a limit lets leave in a second, in the long run, and over how long it looks back.
func rateOf(l limit.Limit) (float64, time.Duration) {
	if r, ok := l.Rate(); ok {
		return float64(r), time.Duration(float64(l.Burst()) / float64(r) * 1e9)
	}
	n, d, _ := l.Window()
	return float64(n+l.Burst()) / d.Seconds(), d
}

func TestAdoptIsNeverOverProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) limit.Limit {
			n := rapid.IntRange(1, 30).Draw(t, label+" n")
			d := rapid.SampledFrom([]time.Duration{100 * ms, time.Second, 3 * time.Second, 10 * time.Second}).Draw(t, label+" d")
			return []limit.Limit{
				limit.Per(float64(n), d),
				limit.Per(float64(n), d).WithBurst(1 + n/3),
				limit.SlidingWindow(n, d),
				limit.FixedWindow(n, d),
				limit.FixedWindow(n, d).ByClock(),
				limit.FixedWindow(n, d).ByKey(),
				limit.SlidingCounter(n, d),
			}[rapid.IntRange(0, 6).Draw(t, label+" kind")]
		}
		a, b := draw("old"), draw("new")
		st := newState(t, a)
		var all []left
		now := time.Duration(0)
		use := func(label string) {
			for range rapid.IntRange(0, 100).Draw(t, label) {
				if rapid.IntRange(0, 20).Draw(t, "idle") == 0 {
					now += time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "for"))
				}
				at := leave(&st, now, 1)
				now = max(now, at)
				all = append(all, left{at, 1})
			}
		}
		use("departures before")
		change := len(all)
		set, err := limit.Join(b)
		if err != nil {
			t.Fatal(err)
		}
		now += time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "until the change"))
		st = set.Adopt(&st, now)
		use("departures after")
		// What the new limit can't know of.
		var slack int64
		before, back := rateOf(a)
		if n, _, ok := b.Window(); ok && most(b, 0) > int64(n) {
			slack = max(most(a, 0), int64(n)) // at the end of its window it forgets all that left before
		}
		after, span := rateOf(b)
		if after < before && span > back {
			slack = max(slack, most(a, 0)+1)
		}
		for i := range change {
			for j := change; j < len(all); j++ {
				w := all[j].at - all[i].at
				if w > max(back, span) {
					continue
				}
				if got := int64(j - i + 1); got > max(most(a, w), most(b, w))+slack {
					t.Fatalf("from %v to %v: %d leave in %v, %v and %v allow %d and %d (slack %d); changed after %d of %v", a, b, got, w, a, b, most(a, w), most(b, w), slack, change, all)
				}
			}
		}
	})
}

// The same limits go on as if nothing had happened.
func TestAdoptingTheSameChangesNothingProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := []limit.Limit{drawWindow(t).limit, drawRate(t), drawWindow(t).limit}[:rapid.IntRange(1, 3).Draw(t, "limits")]
		set, err := limit.Join(limits...)
		if err != nil {
			t.Fatal(err)
		}
		st := set.NewState(epoch, bucketKey)
		now := time.Duration(0)
		for range rapid.IntRange(0, 30).Draw(t, "departures") {
			now += time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "gap"))
			if at := st.Earliest(now, now, 0, 1, true); at < now+time.Hour {
				now = at
				st.Charge(at, at, 1)
			}
		}
		adopted := set.Adopt(new(st.Clone()), now)
		for range 30 {
			if a, b := leave(&st, now, 1), leave(&adopted, now, 1); a != b {
				t.Fatalf("%v: departs at %v, adopted at %v", limits, a, b)
			}
		}
	})
}

func TestAdoptKeepsWhatWasUsed(t *testing.T) {
	const h = time.Hour
	for _, c := range []struct {
		name     string
		from, to limit.Limit
		used     int
		free     int           // at once after the change
		next     time.Duration // when the next leaves then
	}{
		{"more per window", limit.FixedWindow(100, h), limit.FixedWindow(200, h), 60, 140, h + 100*ms}, // what left in a sixteenth of it counts as having left at 50 ms
		{"less per window", limit.FixedWindow(100, h).ByClock(), limit.FixedWindow(70, h).ByClock(), 60, 10, h + 50*ms},
		{"less than was used", limit.SlidingWindow(100, h), limit.SlidingWindow(50, h), 60, 0, h + 70*ms},
		{"counters", limit.SlidingCounter(100, h), limit.SlidingCounter(200, h), 60, 140, h + h/200},
		{"a longer window", limit.SlidingWindow(100, time.Minute), limit.SlidingWindow(100, h), 60, 40, h + 70*ms},
		{"a shorter window", limit.SlidingWindow(100, h), limit.SlidingWindow(100, time.Minute), 60, 40, time.Minute + 70*ms},
		{"a larger burst", limit.PerSecond(10).WithBurst(10), limit.PerSecond(10).WithBurst(20), 6, 14, 120 * ms},
		{"a faster rate", limit.PerSecond(10).WithBurst(10), limit.PerSecond(100).WithBurst(10), 6, 4, 57 * ms},
		{"from a rate to a window", limit.Per(100, h), limit.SlidingWindow(100, h), 1, 0, (h+50*ms)/16 + 48125*time.Microsecond}, // it may have been in steady use,
		{"from a window to a rate", limit.SlidingWindow(10, time.Minute), limit.Per(10, time.Minute).WithBurst(10), 4, 6, 6020 * ms},
		{"from two counters to a log", limit.SlidingCounter(100, h), limit.SlidingWindow(100, h), 60, 40, h + 70*ms},
		{"from no limit", limit.Concurrent(5), limit.SlidingWindow(100, h), 60, 100, h + 100*ms},
		{"what never was used", limit.SlidingCounter(100, h), limit.SlidingWindow(70, h), 0, 70, h + 100*ms},
	} {
		st := newState(t, c.from)
		for range c.used {
			leave(&st, 20*ms, 1)
		}
		set, err := limit.Join(c.to)
		if err != nil {
			t.Fatal(err)
		}
		now := 50 * ms
		st = set.Adopt(&st, now)
		free := 0
		for st.Earliest(now, now, 0, 1, false) == now {
			leave(&st, now, 1)
			free++
		}
		next := st.Earliest(now, now, 0, 1, false)
		if free != c.free || next != c.next {
			t.Errorf("%s: %d leave at once and the next at %v, want %d and %v", c.name, free, next, c.free, c.next)
		}
	}
	// A phase that the server told.
	st := newState(t, limit.FixedWindow(10, h))
	leave(&st, 0, 10)
	st.Align(time.Minute, 0)
	set, _ := limit.Join(limit.FixedWindow(20, h))
	st = set.Adopt(&st, time.Second)
	leave(&st, time.Second, 10)
	if at := st.Earliest(time.Second, time.Second, 0, 1, false); at != time.Minute+50*ms {
		t.Errorf("the next window begins at %v", at)
	}
}
