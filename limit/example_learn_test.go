package limit_test

import (
	"fmt"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// An upstream that allows ten a second is told nothing, and refuses what comes too soon.
func ExampleLearner() {
	l := limit.NewLearner(limit.LearnerBounds{})
	var now, free time.Duration
	refused := 0
	for now < 30*time.Second {
		due := l.Earliest(now, 0)
		now = due
		f := l.Depart(due, now, 1)
		if now >= free {
			free = now + time.Second/10
			l.Accepted(f, now)
			continue
		}
		refused++
		now += l.Refused(f, 0, 200*time.Millisecond, false, now)
	}
	fmt.Printf("%.0f a second, after fewer than 30 refusals: %t\n", l.Rate(), refused < 30)
	// Output: 10 a second, after fewer than 30 refusals: true
}

// Two of a hundred are left for ten seconds, and three are to leave.
func ExampleQuota() {
	var q limit.Quota
	now := time.Minute
	q.Tell(limit.Count{Limit: 100, Remaining: 2, Reset: 10 * time.Second}, now, now, 98, 98)
	for inFlight := range int64(3) {
		t := q.Earliest(now, 1, inFlight, 98+inFlight, 0, limit.SpreadLast)
		fmt.Println(t - now)
	}
	// Output:
	// 0s
	// 0s
	// 10s
}

// An upstream does four requests at a time, in 50 ms each; more than that wait in its queue.
func ExampleGradient() {
	g := limit.NewGradient(1, 64)
	now := time.Duration(0)
	for range 2000 {
		n := g.Slots() // all of them in use
		latency := 50 * time.Millisecond * time.Duration(max(n, 4)) / 4
		now += latency / time.Duration(n)
		g.Observe(now, latency, n, false)
	}
	fmt.Println(g.Slots() >= 3 && g.Slots() <= 5)
	// Output: true
}
