package shared

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/limit"
)

// TestNoDrift takes very many departures, and none of them is a microsecond off the exact moment, rounded up.
func TestNoDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes its time")
	}
	for _, c := range []struct {
		l     limit.Limit
		total int
	}{
		{limit.PerSecond(3), 1_000_000},
		{limit.PerSecond(7), 1_000_000},
		{limit.PerSecond(30_000), 1_000_000},
		{limit.PerSecond(1e6), 1_000_000},
		{limit.PerSecond(1e9), 1_000_000},
		{limit.PerSecond(999_983), 1_000_000},
		{limit.PerSecond(0.1), 100_000},
		{limit.Per(1, 31*24*time.Hour), 30},
		{limit.Per(7, 31*24*time.Hour), 200},
		{limit.PerSecond(30_000).WithBurst(1000), 100_000},
		{limit.PerSecond(7).WithBurst(3), 10_000},
	} {
		t.Run(c.l.String(), func(t *testing.T) {
			eachRedis(t, func(t *testing.T, rdb *redis.Client) {
				total := c.total
				if strings.HasSuffix(t.Name(), "miniredis") {
					total = min(total, 20_000) // it takes its time
				}
				exactly(t, rdb, total, c.l)
				// The general case, too: a second rate never holds anybody.
				exactly(t, rdb, min(c.total, 5_000), c.l, limit.PerSecond(1e9).WithBurst(limit.MaxBurst))
			})
		})
	}
}

func exactly(t *testing.T, rdb *redis.Client, total int, limits ...limit.Limit) {
	t.Helper()
	k := call{buckets: []*bucketKeys{testBucket(t, limits...)}, horizon: 365 * 24 * time.Hour, clock: base}
	interval, _ := limits[0].Interval()
	interval.Quo(interval, big.NewRat(1000, 1))
	burst := limits[0].Burst()
	num, den, i := interval.Num(), interval.Denom(), 0
	one, moment, rest := big.NewInt(1), new(big.Int), new(big.Int)
	for i < total {
		k.runs = []run{{n: min(maxRun, total-i), costs: []int64{1}}}
		rep := k.do(t, rdb)
		if len(rep.slots) == 0 {
			t.Fatalf("nothing after %d departures", i)
		}
		for _, s := range rep.slots {
			want := int64(base)
			if i >= burst {
				moment.Mul(num, big.NewInt(int64(i-burst+1)))
				moment.QuoRem(moment, den, rest)
				if rest.Sign() > 0 {
					moment.Add(moment, one)
				}
				want += moment.Int64()
			}
			if s.at != want {
				t.Fatalf("departure %d at %d, want %d", i, s.at-base, want-base)
			}
			i++
		}
		// Time goes on, or else what is reserved ahead would be all there is.
		k.clock = max(k.clock, rep.slots[len(rep.slots)-1].at)
	}
}

// TestIntervalThatIsNoFraction is that of a rate whose interval can't be kept exactly: it is rounded up, and so
// little that a year at a million a second is a minute late at most.
func TestIntervalThatIsNoFraction(t *testing.T) {
	for _, n := range []float64{0.1, 1.0 / 3, 123.456, 7654321.5, 999_999_937, 3.141592653589793, 1e-6 / 7} {
		l := limit.PerSecond(n)
		exact, ok := l.Interval()
		if !ok {
			t.Fatal(l.Validate())
		}
		words, err := rateSpec(exact, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		var i, r, q, rest int64
		for j, p := range []*int64{&rest, &i, &r, &q} {
			if _, err := fmt.Sscan(words[j], p); err != nil {
				t.Fatal(err)
			}
		}
		got := new(big.Rat).Add(big.NewRat(i, 1), big.NewRat(r, q))
		exact.Quo(exact, big.NewRat(1000, 1))
		off := new(big.Rat).Sub(got, exact)
		if off.Cmp(big.NewRat(1, maxDenominator)) > 0 || -float(off) > float(exact)/(1<<53) || q > maxDenominator || r >= q {
			f, _ := off.Float64()
			t.Errorf("%v: interval is %d + %d/%d us, %v more than %v", l, i, r, q, f, exact)
		}
	}
}

// TestWindowOfAMonth has windows of 31 days, whose spans in microseconds times their units are beyond what a
// double holds.
func TestWindowOfAMonth(t *testing.T) {
	const month = 31 * 24 * time.Hour
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, l := range []limit.Limit{
			limit.SlidingWindow(1_000_003, month),
			limit.FixedWindow(1_000_003, month),
			limit.FixedWindow(1_000_003, month).ByClock(),
			limit.SlidingCounter(1_000_003, month),
			limit.SlidingWindow(1_000_003, month).WithHeadroom(0.3),
			limit.SlidingCounter(1_000_003, month).WithHeadroom(0.3),
			limit.FixedWindow(1_000_003, month).ByClock().WithHeadroom(0.3),
			limit.FixedWindow(3, 10*365*24*time.Hour),
			limit.SlidingCounter(3, 10*365*24*time.Hour),
		} {
			set, err := limit.Join(l)
			if err != nil {
				t.Fatal(err)
			}
			b := testBucket(t, l)
			st := set.NewState(time.UnixMicro(base), b.key)
			k := call{buckets: []*bucketKeys{b}, horizon: time.Second, clock: base, runs: []run{{n: 1}}}
			at := time.Duration(0)
			for i, cost := range []int64{400_000, 300_000, 300_003, 1, 500_000, 7, 300_000, 200_000, 1_000_003, 1} {
				cost = min(cost, set.MaxCost())
				k.runs[0].costs = []int64{cost}
				rep := k.do(t, rdb)
				want := st.Earliest(at, at, 0, cost, false)
				if want > 60*365*24*time.Hour {
					break // beyond what the script counts
				}
				// Of what the State counts in nanoseconds the script does so in microseconds, rounded up.
				if got := rep.slots[0].at - base; got != int64((want+999)/1000) {
					t.Fatalf("%v: departure %d of cost %d at %d us, want %v", l, i, cost, got, want)
				}
				at = time.Duration(rep.slots[0].at-base) * time.Microsecond
				st.Charge(at, at, cost)
				k.clock = base + int64(at/time.Microsecond)
			}
		}
	})
}

func float(r *big.Rat) float64 {
	f, _ := r.Float64()
	return f
}
