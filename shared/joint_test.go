package shared

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/limit"
)

// Where a narrow bucket has a departure wait, the wide one's departures until then are others'.
func TestNarrowBucketsCostTheWideOneNothing(t *testing.T) {
	for _, tt := range []struct {
		name         string
		wide, narrow limit.Limit
		tenants      int
		wantNarrow   float64 // departures per second, of all tenants
	}{
		{"one", limit.PerSecond(1000), limit.PerSecond(20), 1, 20},
		{"ten that take all", limit.PerSecond(100), limit.PerSecond(20), 10, 0},
		{"five hundred", limit.PerSecond(100), limit.Per(1, time.Minute), 500, 500. / 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachRedis(t, func(t *testing.T, rdb *redis.Client) { costsNothing(t, rdb, tt.wide, tt.narrow, tt.tenants, tt.wantNarrow) })
		})
	}
}

func costsNothing(t *testing.T, rdb *redis.Client, wide, narrow limit.Limit, tenants int, wantNarrow float64) {
	const step, seconds = 2000, 6
	bucket := func(key string, l limit.Limit) *bucketKeys {
		b, err := newBucket("test:", "x", uniqueKey()+key, 1, l)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all := bucket("wide", wide)
	type caller struct {
		call
		latest, notBefore int64
	}
	newCaller := func(buckets ...*bucketKeys) *caller {
		ones := slices.Repeat([]int64{1}, len(buckets))
		return &caller{call: call{buckets: buckets, horizon: 100 * time.Millisecond, runs: []run{{n: 10, costs: ones}}}}
	}
	callers := []*caller{newCaller(all)}
	for i := range tenants {
		callers = append(callers, newCaller(all, bucket(fmt.Sprint("narrow ", i), narrow)))
	}
	var left [2][]int64 // from the wide bucket alone, and from a narrow one, too
	for now := int64(base); now < base+seconds*1e6; now += step {
		for i, c := range callers {
			if c.latest > now+2*step || c.notBefore > now {
				continue
			}
			c.clock = now
			r := c.do(t, rdb)
			if len(r.slots) == 0 {
				c.notBefore = r.tail - micros(c.horizon)
			}
			for _, s := range r.slots {
				c.latest = max(c.latest, s.at)
				left[min(i, 1)] = append(left[min(i, 1)], s.at)
			}
		}
	}
	within := func(times []int64) float64 {
		n := 0
		for _, at := range times {
			if at >= base+1e6 && at < base+seconds*1e6-200_000 {
				n++
			}
		}
		return float64(n) / (seconds - 1.2)
	}
	alone, joint := within(left[0]), within(left[1])
	rate, _ := wide.Rate()
	t.Logf("%.1f/s by the wide bucket alone, and %.1f/s by a narrow one too, of %v/s", alone, joint, rate)
	if sum := alone + joint; sum < 0.995*float64(rate) || sum > 1.005*float64(rate) {
		t.Errorf("%.1f departures a second, want %v", sum, rate)
	}
	if joint < 0.9*wantNarrow {
		t.Errorf("%.1f departures a second from narrow buckets, want %v", joint, wantNarrow)
	}
	if alone < 1 {
		t.Errorf("%.1f departures a second by the wide bucket alone", alone)
	}
}
