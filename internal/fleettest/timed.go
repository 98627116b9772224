package fleettest

import (
	"flag"
	"testing"
)

var timed = flag.Bool("fleet.timed", false, "run the tests that measure what takes time: alone, and without -race")

// Timed skips a test that measures what takes time, unless it is asked for: beside other tests, or under the race detector,
// it would measure those. .ci/run asks for it.
func Timed(t testing.TB) {
	t.Helper()
	if !*timed {
		t.Skip("it measures what takes time: with -fleet.timed")
	}
}
