package testserver_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

// The policies and the figures about arrivals are compared with versions that follow the definition
// and nothing else, over random histories.

// admitsGCRA is GCRA by its definition: no window, ending now, holds more than the burst and what
// comes in during the window.
func admitsGCRA(admitted []time.Duration, now, interval time.Duration, burst int) bool {
	for i, at := range admitted {
		held := len(admitted) - i + 1 // from at until now, both included
		if time.Duration(held-burst)*interval > now-at {
			return false
		}
	}
	return true
}

func TestGCRAFollowsItsDefinition(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		perSecond := 1 + rng.IntN(1_000_000)
		interval := time.Second / time.Duration(perSecond)
		burst := 1 + rng.IntN(5)
		synctest.Test(t, func(t *testing.T) {
			up := testserver.New(testserver.GCRA(float64(perSecond), burst))
			start := time.Now()
			var admitted []time.Duration
			for range 200 {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(interval) * 0.7))
				now := time.Since(start)
				want := 429
				if admitsGCRA(admitted, now, interval, burst) {
					want = 200
					admitted = append(admitted, now)
				}
				if got := (step{}).send(up).StatusCode; got != want {
					t.Fatalf("seed %d, %d/s, burst %d, at %d: %d, want %d", seed, perSecond, burst, now, got, want)
				}
			}
		})
	}
}

func TestWindowFollowsItsDefinition(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		length := time.Duration(1 + rng.IntN(1000))
		n := 1 + rng.IntN(5)
		synctest.Test(t, func(t *testing.T) {
			up := testserver.New(testserver.Window(n, length))
			start := time.Now()
			admitted := make(map[time.Duration]int) // by the window's beginning
			for range 200 {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(length) / float64(n) * 0.7))
				begin := time.Since(start).Truncate(length)
				want := 429
				if admitted[begin] < n {
					want = 200
					admitted[begin]++
				}
				if got := (step{}).send(up).StatusCode; got != want {
					t.Fatalf("seed %d, %d per %d, in window %d: %d, want %d", seed, n, length, begin, got, want)
				}
			}
		})
	}
}

func naiveMaxInWindow(as testserver.Arrivals, d time.Duration) int {
	most := 0
	for _, first := range as {
		n := 0
		for _, a := range as {
			if since := a.At.Sub(first.At); since >= 0 && since < d {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func naiveMinGap(as testserver.Arrivals) time.Duration {
	if len(as) < 2 {
		return 0
	}
	shortest := as.Span()
	for i, a := range as {
		for _, b := range as[i+1:] {
			shortest = min(shortest, b.At.Sub(a.At))
		}
	}
	return shortest
}

func TestFiguresFollowTheirDefinition(t *testing.T) {
	origin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var as testserver.Arrivals
		at := origin
		for range rng.IntN(60) {
			at = at.Add(time.Duration(rng.IntN(10)))
			as = append(as, testserver.Arrival{At: at})
		}
		for _, d := range []time.Duration{1, 2, 7, 20, 1000} {
			if got, want := as.MaxInWindow(d), naiveMaxInWindow(as, d); got != want {
				t.Errorf("seed %d: MaxInWindow(%d) = %d, want %d", seed, d, got, want)
			}
		}
		if got, want := as.MinGap(), naiveMinGap(as); got != want {
			t.Errorf("seed %d: MinGap = %d, want %d", seed, got, want)
		}
	}
}
