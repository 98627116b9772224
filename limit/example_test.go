package limit_test

import (
	"fmt"
	"time"

	"github.com/outflow-go/outflow/limit"
)

func ExampleParse() {
	for _, text := range []string{"100/s burst 20", "300/m", "concurrent 10", "fast"} {
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
