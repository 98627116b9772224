package limit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

func TestAlignMakesAPlainWindow(t *testing.T) {
	const d, guard = time.Minute, 50 * ms
	st := newState(t, limit.FixedWindow(10, d))
	for range 10 {
		leave(&st, 20*time.Second, 1)
	}
	if at := st.Earliest(21*time.Second, 21*time.Second, 0, 1, false); at != 80*time.Second+guard {
		t.Fatalf("while the phase is unknown the next leaves at %v, want 1m20.05s", at)
	}
	if !st.Align(60*time.Second, 21*time.Second) {
		t.Fatal("the reset isn't believed")
	}
	for i, want := range []time.Duration{60*time.Second + guard, 120*time.Second + guard, 180*time.Second + guard} {
		for range 10 {
			if at := leave(&st, 21*time.Second, 1); at != want {
				t.Fatalf("window %d: departs at %v, want %v", i, at, want)
			}
		}
	}
}

func TestAlignCountsWhatLeftInTheWindow(t *testing.T) {
	const d = time.Minute
	for _, c := range []struct {
		name  string
		limit limit.Limit
		left  []time.Duration // one unit each, of 4
		now   time.Duration
		reset time.Duration
		free  int
	}{
		{"before the window", limit.FixedWindow(4, d), []time.Duration{1 * time.Second, 10 * time.Second}, 70 * time.Second, 80 * time.Second, 4},
		{"in it", limit.FixedWindow(4, d), []time.Duration{1 * time.Second, 30 * time.Second}, 70 * time.Second, 80 * time.Second, 3},
		{"just before it, by a reset in whole seconds", limit.FixedWindow(4, d), []time.Duration{30 * time.Second, 39 * time.Second}, 40 * time.Second, 100 * time.Second, 3},
		{"just begun, by a reset that was rounded up", limit.FixedWindow(4, d), []time.Duration{10 * time.Second, 39900 * ms}, 40 * time.Second, 100900 * ms, 3},
		{"longer than declared", limit.FixedWindow(4, d), []time.Duration{10 * time.Second, 39 * time.Second}, 40 * time.Second, 130 * time.Second, 2},
		{"the server's, whatever was declared", limit.FixedWindow(4, d).ByClock(), []time.Duration{50 * time.Second, 70 * time.Second}, 75 * time.Second, 100 * time.Second, 2},
	} {
		st := newState(t, c.limit)
		for _, at := range c.left {
			st.Charge(at, at, 1)
		}
		if !st.Align(c.reset, c.now) {
			t.Errorf("%s: not believed", c.name)
		}
		free := 0
		for st.Earliest(c.now, c.now, 0, 1, false) <= c.now+time.Second {
			leave(&st, c.now, 1)
			free++
		}
		if free != c.free {
			t.Errorf("%s: %d more leave in the window, want %d", c.name, free, c.free)
		}
	}
}

func TestAbsurdResetsAreIgnored(t *testing.T) {
	st := newState(t, limit.FixedWindow(1, time.Minute))
	leave(&st, time.Second, 1)
	before := st.Earliest(time.Second, time.Second, 3, 1, false)
	for _, reset := range []time.Duration{-time.Hour, 0, time.Second, 121*time.Second + 1, limit.Never} {
		if st.Align(reset, time.Second) {
			t.Errorf("a reset at %v is believed", reset)
		}
	}
	if after := st.Earliest(time.Second, time.Second, 3, 1, false); after != before {
		t.Errorf("a turn at %v is now at %v", before, after)
	}
	for _, l := range []limit.Limit{limit.SlidingWindow(1, time.Minute), limit.SlidingCounter(1, time.Minute), limit.PerSecond(1), limit.Daily(1, 0, 0, time.UTC)} {
		st := newState(t, l)
		if st.Align(30*time.Second, time.Second) {
			t.Errorf("%v has a reset", l)
		}
	}
	// Of several windows the one that is meant.
	st = newState(t, limit.FixedWindow(1, time.Minute), limit.FixedWindow(5, time.Hour))
	if st.Align(30*time.Second, 0) {
		t.Error("a reset is believed that may be of either window")
	}
	if !st.Align(30*time.Minute, 0) || !st.AlignWindow(time.Minute, 30*time.Second, 0) || st.AlignWindow(time.Second, time.Second, 0) {
		t.Error("a window that is named isn't found")
	}
	leave(&st, 0, 1)
	if at := leave(&st, 0, 1); at != 30050*ms {
		t.Errorf("departs at %v, want 30.05s", at)
	}
}

// An upstream with fixed windows of a phase that isn't known, which tells its reset with its answers,
// rounded up to whole seconds: it never refuses, and once its phase is known its quota is used.
func TestAlignFollowsTheServerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const d = time.Minute
		n := rapid.IntRange(1, 50).Draw(t, "n")
		phase := time.Duration(rapid.Int64Range(0, int64(d)).Draw(t, "phase"))
		// Windows that begin with the first request after the last one ended, or one after the other.
		onDemand := rapid.Bool().Draw(t, "on demand")
		st := newState(t, limit.FixedWindow(n, d))
		start, count := phase-d, 0
		now := time.Duration(0)
		for range 6 * n {
			if rapid.IntRange(0, n).Draw(t, "pause") == 0 {
				now += time.Duration(rapid.Int64Range(0, int64(2*d)).Draw(t, "for"))
			}
			now = leave(&st, now, 1)
			arrived := now + time.Duration(rapid.Int64Range(0, int64(50*ms)).Draw(t, "way"))
			if arrived >= start+d {
				count = 0
				if start = start + (arrived-start)/d*d; onDemand {
					start = arrived
				}
			}
			if count++; count > n {
				t.Fatalf("refused at %v", arrived)
			}
			reset := (start + d - arrived + time.Second - 1) / time.Second * time.Second
			now = arrived + 20*ms
			if !st.Align(now+reset, now) {
				t.Fatalf("at %v a reset in %v isn't believed", now, reset)
			}
		}
	})
}

// A phase that nobody has confirmed for two windows, in which nothing left, is forgotten.
func TestPhaseIsForgottenWhenIdle(t *testing.T) {
	l := limit.FixedWindow(3, time.Minute)
	st, fresh := newState(t, l), newState(t, l)
	leave(&st, time.Second, 1)
	st.Align(30*time.Second, time.Second)
	for range 2 {
		leave(&st, 40*time.Second, 1)
	}
	if last := 40*time.Second + 2*time.Minute; st.Full(last - 1) {
		t.Error("full as long as the phase is known")
	} else if !st.Full(last) {
		t.Error("not full after two idle windows")
	}
	for range 10 {
		if a, b := leave(&st, 170*time.Second, 1), leave(&fresh, 170*time.Second, 1); a != b {
			t.Fatalf("departs at %v, a new one at %v", a, b)
		}
	}
}
