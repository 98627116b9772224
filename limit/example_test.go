package limit_test

import (
	"fmt"
	"time"

	"github.com/outflow-go/outflow/limit"
)

func ExampleParse() {
	for _, text := range []string{
		"100/s burst 20", "300/m", "concurrent 10",
		"5000/h fixed", "300/m sliding headroom 10%", "1000/day at 00:00 America/Los_Angeles",
		"1000/day at 00:00 Mars", "fast",
	} {
		l, err := limit.Parse(text)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(l)
	}
	// Output:
	// 100/s burst 20
	// 300/m
	// concurrent 10
	// 5000/h fixed
	// 300/m sliding headroom 10%
	// 1000/day at 00:00 America/Los_Angeles
	// error: parse "1000/day at 00:00 Mars": invalid limit: zone is "Mars", want the name of a place in the IANA time zone database, as in America/Los_Angeles, or UTC: unknown time zone Mars
	// error: parse "fast": invalid limit: "fast" has no "/": want n/period
}

// A bucket of ten a second, and never more than two at once: when may each of five requests leave
// that come together?
func ExampleState() {
	set, err := limit.Join(limit.PerSecond(10).WithBurst(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	bucket := set.NewState(time.Time{}, "")
	now := 5 * time.Second // since an epoch of one's own
	for range 5 {
		at := bucket.Earliest(now, now, 0, 1, false)
		bucket.Charge(at, at, 1)
		fmt.Println(at - now)
	}
	// Output:
	// 0s
	// 0s
	// 100ms
	// 200ms
	// 300ms
}

// It is known that the upstream counts by the hour, but not when its hours begin. Until it says so, no
// hour anywhere has more than its quota.
func ExampleState_Align() {
	set, err := limit.Join(limit.FixedWindow(5000, time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	bucket := set.NewState(time.Now(), "account 7")
	now := 10 * time.Minute
	bucket.Charge(now, now, 5000)
	fmt.Println("the next leaves at", bucket.Earliest(now, now, 0, 1, false))

	// The answer says "RateLimit-Reset: 300".
	bucket.Align(now+300*time.Second, now)
	fmt.Println("the next leaves at", bucket.Earliest(now, now, 0, 1, false))
	// Output:
	// the next leaves at 1h10m0.05s
	// the next leaves at 15m0.05s
}

// A tenth of a quota is kept for urgent requests while the window is young.
func ExampleLimit_WithHeadroom() {
	set, err := limit.Join(limit.FixedWindow(1000, time.Hour).ByClock().WithHeadroom(0.1))
	if err != nil {
		fmt.Println(err)
		return
	}
	bucket := set.NewState(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), "")
	for _, minute := range []time.Duration{1, 30, 59} {
		now := minute * time.Minute
		left := 0
		for bucket.Earliest(now, now, 0, 1, false) == now {
			bucket.Charge(now, now, 1)
			left++
		}
		fmt.Printf("at 12:%02d %d ordinary requests leave; an urgent one may at once: %v\n",
			minute, left, bucket.Earliest(now, now, 0, 1, true) == now)
	}
	// Output:
	// at 12:01 901 ordinary requests leave; an urgent one may at once: true
	// at 12:30 49 ordinary requests leave; an urgent one may at once: true
	// at 12:59 48 ordinary requests leave; an urgent one may at once: true
}

// What a request to a language model costs is known when its answer has come.
func ExampleState_Settle() {
	set, err := limit.Join(limit.SlidingWindow(10_000, time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	bucket := set.NewState(time.Now(), "")
	bucket.Charge(0, 0, 8000) // estimated
	now := 2 * time.Second
	fmt.Println("4000 more may leave at", bucket.Earliest(now, now, 0, 4000, false))
	bucket.Settle(0, 0, 8000, 5500) // the answer says what it really was
	fmt.Println("4000 more may leave at", bucket.Earliest(now, now, 0, 4000, false))
	// Output:
	// 4000 more may leave at 1m0.05s
	// 4000 more may leave at 2s
}

// A quota was raised while it was in use.
func ExampleSet_Adopt() {
	before, _ := limit.Join(limit.SlidingWindow(100, time.Hour))
	after, _ := limit.Join(limit.SlidingWindow(150, time.Hour))
	bucket := before.NewState(time.Now(), "")
	bucket.Charge(0, 0, 100)

	now := time.Minute
	bucket = after.Adopt(&bucket, now)
	fmt.Println("50 may leave at", bucket.Earliest(now, now, 0, 50, false))
	fmt.Println("51 may leave at", bucket.Earliest(now, now, 0, 51, false))
	// Output:
	// 50 may leave at 1m0s
	// 51 may leave at 1h0m0.05s
}
