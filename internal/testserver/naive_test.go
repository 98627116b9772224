package testserver_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

// The policies and the figures about arrivals are compared with versions that follow the definition
// and nothing else, over random histories.

// An admission is one request of a history.
type admission struct {
	at   time.Time
	cost int
}

// sum is what those cost that are in [from, to).
func sum(admitted []admission, from, to time.Time) int {
	total := 0
	for _, a := range admitted {
		if !a.at.Before(from) && a.at.Before(to) {
			total += a.cost
		}
	}
	return total
}

// admitsGCRA is GCRA by its definition: no window, ending now, holds more than the burst and what
// comes in during the window.
func admitsGCRA(admitted []admission, now time.Time, cost int, interval time.Duration, burst int) bool {
	held := cost // from then until now, both included
	for _, a := range slices.Backward(admitted) {
		held += a.cost
		if time.Duration(held-burst)*interval > now.Sub(a.at) {
			return false
		}
	}
	return cost <= burst
}

// admitsCounter weighs the window before in whole and broken numbers without rounding.
func admitsCounter(admitted []admission, now time.Time, cost, n int, length time.Duration, phase time.Time) bool {
	begin := phase
	for !begin.After(now) {
		begin = begin.Add(length)
	}
	begin = begin.Add(-length)
	estimate := big.NewRat(int64(length-now.Sub(begin)), int64(length))
	estimate.Mul(estimate, big.NewRat(int64(sum(admitted, begin.Add(-length), begin)), 1))
	estimate.Add(estimate, big.NewRat(int64(sum(admitted, begin, now.Add(1))+cost), 1))
	return estimate.Cmp(big.NewRat(int64(n), 1)) <= 0
}

// usedFromFirst is what counts at a moment in windows that each begin with the first after the one before.
func usedFromFirst(admitted []admission, now time.Time, length time.Duration) int {
	var end time.Time
	used := 0
	for _, a := range append(admitted[:len(admitted):len(admitted)], admission{now, 0}) {
		if !a.at.Before(end) {
			end, used = a.at.Add(length), 0
		}
		used += a.cost
	}
	return used
}

// A limit of n per length is judged by the definition of some policy: at now, after a history, with the
// upstream's start.
type definition func(admitted []admission, start, now time.Time, cost, n int, length time.Duration) bool

func TestPoliciesFollowTheirDefinition(t *testing.T) {
	for name, tt := range map[string]struct {
		policy func(n int, length time.Duration) *testserver.Policy
		admits definition
	}{
		"GCRA": {
			// Its interval is rounded down, so the length is made of that.
			func(n int, length time.Duration) *testserver.Policy {
				return testserver.GCRA(float64(time.Second/(length/time.Duration(n))), n)
			},
			func(admitted []admission, _, now time.Time, cost, n int, length time.Duration) bool {
				interval := time.Second / (time.Second / (length / time.Duration(n)))
				return admitsGCRA(admitted, now, cost, interval, n)
			},
		},
		"Window": {
			testserver.Window,
			func(admitted []admission, start, now time.Time, cost, n int, length time.Duration) bool {
				begin := start.Add(now.Sub(start).Truncate(length))
				return sum(admitted, begin, begin.Add(length))+cost <= n
			},
		},
		"Window aligned": {
			func(n int, length time.Duration) *testserver.Policy { return testserver.Window(n, length).Aligned(0) },
			func(admitted []admission, _, now time.Time, cost, n int, length time.Duration) bool {
				begin := time.Unix(0, now.UnixNano()/int64(length)*int64(length))
				return sum(admitted, begin, begin.Add(length))+cost <= n
			},
		},
		"Window from the first": {
			func(n int, length time.Duration) *testserver.Policy { return testserver.Window(n, length).FromFirst() },
			func(admitted []admission, _, now time.Time, cost, n int, length time.Duration) bool {
				return usedFromFirst(admitted, now, length)+cost <= n
			},
		},
		"Window with boundaries": {
			func(n int, length time.Duration) *testserver.Policy {
				return testserver.Window(n, length).Boundaries(func(t time.Time) time.Time { return nextSquare(t, length) })
			},
			func(admitted []admission, _, now time.Time, cost, n int, length time.Duration) bool {
				end := nextSquare(now, length)
				used := cost
				for _, a := range admitted {
					if nextSquare(a.at, length).Equal(end) {
						used += a.cost
					}
				}
				return used <= n
			},
		},
		"SlidingLog": {
			testserver.SlidingLog,
			func(admitted []admission, _, now time.Time, cost, n int, length time.Duration) bool {
				return sum(admitted, now.Add(1-length), now.Add(1))+cost <= n
			},
		},
		"SlidingCounter": {
			testserver.SlidingCounter,
			func(admitted []admission, start, now time.Time, cost, n int, length time.Duration) bool {
				phase := time.Unix(0, start.UnixNano()/int64(length)*int64(length))
				return admitsCounter(admitted, now, cost, n, length, phase)
			},
		},
		"SlidingCounter from the start": {
			func(n int, length time.Duration) *testserver.Policy {
				return testserver.SlidingCounter(n, length).FromStart()
			},
			func(admitted []admission, start, now time.Time, cost, n int, length time.Duration) bool {
				return admitsCounter(admitted, now, cost, n, length, start)
			},
		},
		"SlidingCounter with an offset": {
			func(n int, length time.Duration) *testserver.Policy {
				return testserver.SlidingCounter(n, length).Aligned(-length/3 - 7*length)
			},
			func(admitted []admission, start, now time.Time, cost, n int, length time.Duration) bool {
				phase := time.Unix(0, (start.UnixNano()/int64(length)-1)*int64(length)).Add(-length / 3)
				return admitsCounter(admitted, now, cost, n, length, phase)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(40) {
				synctest.Test(t, func(t *testing.T) { followsDefinition(t, seed, tt.policy, tt.admits) })
			}
		})
	}
}

// nextSquare is the next of some boundaries of which no two are equally far apart.
func nextSquare(t time.Time, length time.Duration) time.Time {
	at := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC).Add(24*time.Hour - length/2)
	for i := time.Duration(1); !at.After(t); i++ {
		at = at.Add(length/2 + i*i*length/100)
	}
	return at
}

// followsDefinition compares a policy with its definition over a random history of costs and gaps. With
// every other seed, costs are corrected after a random while.
func followsDefinition(t *testing.T, seed uint64, policy func(int, time.Duration) *testserver.Policy, admits definition) {
	rng := rand.New(rand.NewPCG(seed, 0))
	n := 1 + rng.IntN(10)
	length := time.Duration(n) * time.Duration(1+rng.IntN(1_000_000))
	time.Sleep(time.Duration(rng.Int64N(int64(length) * 3))) // so that the start is at no phase of the clock's

	p := policy(n, length).Cost(headerCost)
	corrections := make(chan func(*http.Request), 1)
	up := testserver.New(p).Answering(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		(<-corrections)(r)
	}))
	start := time.Now()
	var admitted []admission
	for i := range 200 {
		time.Sleep(time.Duration(rng.ExpFloat64() * float64(length) / float64(n)))
		now := time.Now()
		cost := max(0, rng.IntN(n+3)-rng.IntN(n+3))
		truth := cost
		// What a GCRA corrects isn't the past, so its definition has nothing to say about that.
		if seed%2 == 1 && !strings.Contains(t.Name(), "GCRA") {
			truth = max(0, cost+rng.IntN(5)-2)
		}
		want := 429
		if admits(admitted, start, now, cost, n, length) {
			want = 200
			admitted = append(admitted, admission{now, truth})
			corrections <- func(r *http.Request) {
				if truth != cost {
					p.Settle(r, truth)
				}
			}
		}
		if got := sendCost(up, cost); got != want {
			t.Fatalf("seed %d, %d per %v, request %d of cost %d at %v: %d, want %d",
				seed, n, length, i, cost, now.Sub(start), got, want)
		}
	}
	total := 0
	for _, a := range admitted {
		total += a.cost
	}
	if got := up.Arrivals().OK().TotalCost(); got != total {
		t.Errorf("seed %d: TotalCost = %d, want %d", seed, got, total)
	}
}

// Corrections that come late, when others were admitted meanwhile, and in another order.
func TestLateCorrectionsFollowTheDefinition(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rng.IntN(20)
		length := time.Duration(1+rng.IntN(1000)) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			p := testserver.SlidingLog(n, length).Cost(headerCost)
			up := testserver.New(p).Answering(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				took, truth, _ := strings.Cut(r.Header.Get(testserver.LabelHeader), " ")
				d, _ := time.ParseDuration(took)
				time.Sleep(d)
				cost, _ := strconv.Atoi(truth)
				p.Settle(r, cost)
			}))
			for i := range 100 {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(length) / float64(n)))
				synctest.Wait()
				now := time.Now()
				cost := rng.IntN(n + 1)
				label := fmt.Sprint(time.Duration(rng.Int64N(int64(length))), max(0, cost+rng.IntN(5)-2))
				used := 0 // by what is known at this moment
				for _, a := range up.Arrivals().Where(func(a testserver.Arrival) bool { return a.Status != 429 }) {
					if now.Sub(a.At) < length {
						used += a.Cost
					}
				}
				r := httptest.NewRequest("POST", "/", nil)
				r.Header.Set(costHeader, strconv.Itoa(cost))
				r.Header.Set(testserver.LabelHeader, label)
				go up.ServeHTTP(httptest.NewRecorder(), r)
				synctest.Wait()
				refused := up.Arrivals()[i].Status == 429
				if refused != (used+cost > n) {
					t.Fatalf("seed %d, %d per %v, request %d of cost %d with %d used: refused: %v", seed, n, length, i, cost, used, refused)
				}
			}
			time.Sleep(length)
			synctest.Wait()
			for _, a := range up.Arrivals().OK() {
				if _, truth, _ := strings.Cut(a.Label, " "); truth != strconv.Itoa(a.Cost) {
					t.Errorf("seed %d: cost %d, want %s", seed, a.Cost, truth)
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

func naiveMaxCostInWindow(as testserver.Arrivals, d time.Duration) int {
	most := 0
	for _, first := range as {
		cost := 0
		for _, a := range as {
			if since := a.At.Sub(first.At); since >= 0 && since < d {
				cost += a.Cost
			}
		}
		most = max(most, cost)
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
			as = append(as, testserver.Arrival{At: at, Cost: rng.IntN(5)})
		}
		for _, d := range []time.Duration{1, 2, 7, 20, 1000} {
			if got, want := as.MaxInWindow(d), naiveMaxInWindow(as, d); got != want {
				t.Errorf("seed %d: MaxInWindow(%d) = %d, want %d", seed, d, got, want)
			}
			if got, want := as.MaxCostInWindow(d), naiveMaxCostInWindow(as, d); got != want {
				t.Errorf("seed %d: MaxCostInWindow(%d) = %d, want %d", seed, d, got, want)
			}
		}
		if got, want := as.MinGap(), naiveMinGap(as); got != want {
			t.Errorf("seed %d: MinGap = %d, want %d", seed, got, want)
		}
	}
}
