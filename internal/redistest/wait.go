package redistest

import (
	"testing"
	"time"
)

// await asks until the answer is nil, and ends the test when that takes too long.
func await(t testing.TB, what string, within time.Duration, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("redistest: not in %v: %s: %v", within, what, err)
		}
		time.Sleep(2 * pollEvery)
	}
}
