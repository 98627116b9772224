package limit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// Whatever is declared and asked, answers stay in range, and what lies further ahead is no earlier.
func TestAnswersStayInRangeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) limit.Set {
			limits := rapid.SliceOfN(rapid.Custom(anyLimit).Filter(func(l limit.Limit) bool { return l.Validate() == nil }), 1, 4).Draw(t, label)
			set, err := limit.Join(limits...)
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
		set := draw("limits")
		st := set.NewState(epoch, bucketKey)
		now := time.Duration(0)
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			most := min(set.MaxCost(), 1<<30)
			now += time.Duration(rapid.OneOf(rapid.Int64Range(0, 1e9), rapid.Int64Range(0, 1e18)).Draw(t, "gap"))
			if now > limit.Never/2 {
				return
			}
			cost := rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, most)).Draw(t, "cost")
			ahead := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, 1<<62)).Draw(t, "ahead")
			high := rapid.Bool().Draw(t, "high")
			at, behind := st.Earliest(now, now, 0, cost, high), st.Earliest(now, now, ahead, cost, high)
			if at < now || behind < at || behind > limit.Never {
				t.Fatalf("%v: at %v: %d at %v, behind %d at %v", set.Limits(), now, cost, at, ahead, behind)
			}
			if at < limit.Never/4 {
				now = at
				st.Charge(at, at, cost)
				st.Settle(at, at, cost, rapid.Int64Range(0, 1<<31).Draw(t, "true cost"))
			}
			if rapid.IntRange(0, 4).Draw(t, "change") == 0 {
				set = draw("other limits")
				st = set.Adopt(&st, now)
			}
			if st.Interval() < 0 || st.Mark(now) < now || st.Leap() < 0 {
				t.Fatalf("%v: interval %v, mark %v, leap %v", set.Limits(), st.Interval(), st.Mark(now), st.Leap())
			}
		}
	})
}

func TestInterval(t *testing.T) {
	st := newState(t, limit.PerSecond(3), limit.SlidingWindow(7, time.Second), limit.Concurrent(1))
	if got := st.Interval(); got != 333333334 {
		t.Errorf("one unit takes %v, want 333.333334ms", got)
	}
	st = newState(t, limit.SlidingCounter(2, time.Second))
	if got := st.Interval(); got != 505*ms {
		t.Errorf("one unit takes %v, want 505ms", got)
	}
}

// A day that begins in the morning has begun the day before.
func TestBeforeTheTimeOfDay(t *testing.T) {
	st := newState(t, limit.Daily(1, 9, 0, time.UTC))
	for i, want := range []time.Duration{8 * time.Hour, 9*time.Hour + 50*ms, 33*time.Hour + 50*ms} {
		if at := st.Earliest(8*time.Hour, 8*time.Hour, int64(i), 1, false); at != want {
			t.Errorf("behind %d at %v, want %v", i, at, want)
		}
	}
}
