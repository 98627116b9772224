package limit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// A refund gives back no more than what the departure still costs those who come later: the state is
// never better than if it had not been charged.
func TestReviewRefundIsNeverOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newState(t, drawRate(t))
		without := st.Clone()
		now := time.Duration(0)
		cost := rapid.Int64Range(1, 5).Draw(t, "cost")
		charged := st.Earliest(now, 0, cost)
		st.Charge(charged, cost)
		for range rapid.IntRange(0, 5).Draw(t, "departures between") {
			now += time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "gap"))
			c := rapid.Int64Range(1, 5).Draw(t, "other cost")
			now = st.Earliest(now, 0, c)
			st.Charge(now, c)
			without.Charge(now, c)
		}
		st.Refund(charged, cost)
		// Each departure is rounded up to a nanosecond, from which the other state goes on.
		if got, best := st.Earliest(now, 0, 1), without.Earliest(now, 0, 1); got < best-10 {
			t.Fatalf("after a refund the next leaves at %v, without the charge at %v", got, best)
		}
	})
}

func TestReviewRefundKeepsTheDrain(t *testing.T) {
	st := newState(t, limit.PerSecond(1).WithBurst(5))
	st.Charge(0, 4)
	st.Drain(10 * time.Second)
	st.Refund(0, 4)
	st.Charge(st.Earliest(10*time.Second, 0, 1), 1)
	if at := st.Earliest(10*time.Second, 0, 1); at != 11*time.Second {
		t.Errorf("the second after the pause leaves at %v, want 11s", at)
	}
}

// Earliest behind others: with several rates "exact" would be what comes of letting them leave one by
// one; at least it is never later, which would refuse who could make it.
func TestReviewEarliestBehindOthersIsNeverLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newState(t, drawRate(t), drawRate(t))
		now := time.Duration(0)
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			now += time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "gap"))
			st.Charge(st.Earliest(now, 0, 1), 1)
		}
		one := st.Clone()
		var ahead int64
		for range rapid.IntRange(0, 20).Draw(t, "ahead") {
			cost := rapid.Int64Range(1, 9).Draw(t, "cost")
			one.Charge(one.Earliest(now, 0, cost), cost)
			ahead += cost
		}
		cost := rapid.Int64Range(1, 9).Draw(t, "own cost")
		// The k-th interval is rounded up by less than 2⁻⁶⁴ ns each time: 1 ns for the ceil.
		if got, want := st.Earliest(now, ahead, cost), one.Earliest(now, 0, cost); got > want+1 {
			t.Fatalf("behind %d at %v: %v, one by one %v", ahead, now, got, want)
		}
	})
}

// Those ahead leave from now on, also after a time in which nothing was used.
func TestReviewThoseAheadLeaveFromNowOn(t *testing.T) {
	st := newState(t, limit.PerSecond(1))
	st.Charge(0, 1)
	if at := st.Earliest(10*time.Second, 3, 1); at != 13*time.Second {
		t.Errorf("behind three at 10s: %v, want 13s", at)
	}
}
