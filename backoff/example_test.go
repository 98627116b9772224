package backoff_test

import (
	"fmt"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"
	"github.com/outflow-go/outflow/backoff"
)

func ExamplePolicy_Delay() {
	p := backoff.Policy{Base: 100 * time.Millisecond, Cap: time.Second, Jitter: backoff.Equal}

	var d time.Duration
	for attempt := 1; attempt <= 6; attempt++ {
		d = p.Delay(attempt, d)
		fmt.Println(d >= 50*time.Millisecond, d <= time.Second)
	}
	// Output:
	// true true
	// true true
	// true true
	// true true
	// true true
	// true true
}

// A BackOff for cenkalti's Retry that gives up after four retries.
func ExamplePolicy_New() {
	b, err := backoff.Policy{Jitter: backoff.None}.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	b = cenkalti.WithMaxRetries(b, 4)

	for d := b.NextBackOff(); d != cenkalti.Stop; d = b.NextBackOff() {
		fmt.Println(d)
	}
	// Output:
	// 200ms
	// 400ms
	// 800ms
	// 1.6s
}

func ExamplePolicy_Validate() {
	fmt.Println(backoff.Policy{Base: time.Minute}.Validate())
	fmt.Println(backoff.Policy{Factor: 0.5}.Validate())
	// Output:
	// backoff: Base is 1m0s and Cap is 20s (the default), want Base at most Cap
	// backoff: Factor is 0.5, want a finite number of 1 or more, or 0 for 2
}
