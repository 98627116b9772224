package limit_test

import (
	"testing"
	"time"

	"github.com/outflow-go/outflow/limit"
)

func TestKindOfEveryLimit(t *testing.T) {
	for want, l := range map[limit.Kind]limit.Limit{
		limit.NoKind:                  {},
		limit.KindRate:                limit.PerSecond(3),
		limit.KindConcurrent:          limit.Concurrent(3),
		limit.KindSlidingWindow:       limit.SlidingWindow(3, time.Second),
		limit.KindSlidingCounter:      limit.SlidingCounter(3, time.Second),
		limit.KindFixedWindow:         limit.FixedWindow(3, time.Second).ByClock(),
		limit.KindAdaptiveRate:        limit.AdaptiveRate(1, 3),
		limit.KindAdaptiveConcurrency: limit.AdaptiveConcurrency(1, 3),
	} {
		if got := l.Kind(); got != want {
			t.Errorf("%v: kind is %d, want %d", l, got, want)
		}
	}
	if got := limit.Daily(1, 0, 0, time.UTC).Kind(); got != limit.KindFixedWindow {
		t.Errorf("Daily: kind is %d, want %d", got, limit.KindFixedWindow)
	}
}

func TestIntervalIsExact(t *testing.T) {
	for _, c := range []struct {
		l    limit.Limit
		want string
	}{
		{limit.PerSecond(3), "1000000000/3"},
		{limit.PerSecond(0.5), "2000000000/1"},
		{limit.Per(7, time.Minute), "60000000000/7"},
		{limit.PerSecond(1e9), "1/1"},
	} {
		got, ok := c.l.Interval()
		if !ok || got.String() != c.want {
			t.Errorf("%v: interval is %v, %v, want %s", c.l, got, ok, c.want)
		}
	}
	for _, l := range []limit.Limit{limit.PerSecond(0), limit.Concurrent(1), {}} {
		if got, ok := l.Interval(); ok {
			t.Errorf("%v: interval is %v, want none", l, got)
		}
	}
}

func TestKeptAndGuard(t *testing.T) {
	for _, c := range []struct {
		l     limit.Limit
		kept  int
		guard time.Duration
	}{
		{limit.PerSecond(3).WithBurst(10).WithHeadroom(0.25), 3, 0},
		{limit.PerSecond(3).WithHeadroom(0.25), 0, 0},
		{limit.FixedWindow(10, time.Second).WithBurst(10).WithHeadroom(0.1), 2, 10 * time.Millisecond},
		{limit.SlidingWindow(1, time.Hour).WithHeadroom(0.5), 0, 50 * time.Millisecond},
		{limit.Concurrent(4).WithHeadroom(0.5), 2, 0},
		{limit.AdaptiveRate(1, 2), 0, 0},
	} {
		if got := c.l.Kept(); got != c.kept {
			t.Errorf("%v: keeps %d, want %d", c.l, got, c.kept)
		}
		if got := c.l.Guard(); got != c.guard {
			t.Errorf("%v: guard is %v, want %v", c.l, got, c.guard)
		}
	}
}

func TestWindowAtIsThatOfTheState(t *testing.T) {
	now := time.Date(2026, 3, 8, 11, 30, 17, 123, time.UTC)
	place, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		l          limit.Limit
		start, end time.Time
	}{
		{limit.FixedWindow(1, time.Hour).ByClock(), now.Truncate(time.Hour), now.Truncate(time.Hour).Add(time.Hour)},
		{limit.SlidingCounter(1, time.Minute), now.Truncate(time.Minute), now.Truncate(time.Minute).Add(time.Minute)},
		// The clocks go forward on that day.
		{limit.Daily(1, 0, 0, place), time.Date(2026, 3, 8, 8, 0, 0, 0, time.UTC), time.Date(2026, 3, 9, 7, 0, 0, 0, time.UTC)},
		{limit.Monthly(1, 1, 0, 0, time.UTC), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)},
	} {
		start, end, ok := c.l.WindowAt(now, "key")
		if !ok || !start.Equal(c.start) || !end.Equal(c.end) {
			t.Errorf("%v: window is %v to %v, %v, want %v to %v", c.l, start, end, ok, c.start, c.end)
		}
	}

	l := limit.FixedWindow(1, time.Hour).ByKey()
	start, end, ok := l.WindowAt(now, "key")
	if !ok || end.Sub(start) != time.Hour || start.After(now) || !end.After(now) {
		t.Fatalf("%v: window is %v to %v, %v, at %v", l, start, end, ok, now)
	}
	set, err := limit.Join(l)
	if err != nil {
		t.Fatal(err)
	}
	st := set.NewState(now, "key")
	st.Charge(0, 0, 1)
	if got, want := st.Earliest(0, 0, 0, 1, false), end.Add(l.Guard()).Sub(now); got != want {
		t.Errorf("%v: the state lets the next leave at %v, want %v", l, got, want)
	}

	for _, l := range []limit.Limit{limit.FixedWindow(1, time.Hour), limit.SlidingWindow(1, time.Hour), limit.PerSecond(1), {}} {
		if _, _, ok := l.WindowAt(now, ""); ok {
			t.Errorf("%v: has a window by the clock", l)
		}
	}
}
