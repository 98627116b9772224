package shared

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/limit"
)

// BenchmarkLease measures what a call costs Redis: its own time per call, without the network, by its
// INFO commandstats, and all of its CPU per call where calls are pipelined.
func BenchmarkLease(b *testing.B) {
	rate := limit.PerSecond(1e6)
	for _, c := range []struct {
		name      string
		limits    [][]limit.Limit
		n         int
		heartbeat bool
	}{
		{name: "rate of 1", limits: [][]limit.Limit{{rate}}, n: 1},
		{name: "rate of 64", limits: [][]limit.Limit{{rate}}, n: 64},
		{name: "rate with burst of 64", limits: [][]limit.Limit{{rate.WithBurst(1000)}}, n: 64},
		{name: "rate of 64 with heartbeat", limits: [][]limit.Limit{{rate}}, n: 64, heartbeat: true},
		{name: "two rates of 64", limits: [][]limit.Limit{{rate, limit.PerSecond(2e6).WithBurst(10)}}, n: 64},
		{name: "two buckets of 64", limits: [][]limit.Limit{{rate}, {limit.PerSecond(2e6)}}, n: 64},
		{name: "sliding window of 64", limits: [][]limit.Limit{{limit.SlidingWindow(10_000, 10*time.Millisecond)}}, n: 64},
		{name: "sliding counter of 64", limits: [][]limit.Limit{{limit.SlidingCounter(10_000, 10*time.Millisecond)}}, n: 64},
		{name: "fixed window of 64", limits: [][]limit.Limit{{limit.FixedWindow(10_000, 10*time.Millisecond)}}, n: 64},
		{name: "window by clock of 64", limits: [][]limit.Limit{{limit.FixedWindow(10_000, 10*time.Millisecond).ByClock()}}, n: 64},
	} {
		b.Run(c.name, func(b *testing.B) {
			rdb := realRedis(b)
			k := call{runs: []run{{n: c.n}}, horizon: 100 * time.Millisecond}
			for _, l := range c.limits {
				k.buckets = append(k.buckets, testBucket(b, l...))
				k.runs[0].costs = append(k.runs[0].costs, 1)
			}
			if c.heartbeat {
				k.instance = "one"
			}
			got := len(k.do(b, rdb).slots)
			ctx := context.Background()
			rdb.ConfigResetStat(ctx)
			before := cpu(b, rdb)
			args, keys := k.args(), k.keys()
			for done := 0; done < b.N; {
				p := rdb.Pipeline()
				for ; done < b.N && p.Len() < 64; done++ {
					leaseScript.EvalSha(ctx, p, keys, args...)
				}
				if _, err := p.Exec(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(1e6*(cpu(b, rdb)-before)/float64(b.N), "redis-us/op")
			b.ReportMetric(inside(b, rdb), "script-us/op")
			b.ReportMetric(float64(got), "granted")
		})
	}
}

// cpu is how many seconds Redis has been busy.
func cpu(b *testing.B, rdb *redis.Client) float64 {
	info := rdb.Info(context.Background(), "cpu").Val()
	sum := 0.0
	for _, m := range regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`).FindAllStringSubmatch(info, -1) {
		s, _ := strconv.ParseFloat(m[1], 64)
		sum += s
	}
	return sum
}

// inside is how long a script took on average, in us.
func inside(b *testing.B, rdb *redis.Client) float64 {
	info := rdb.Info(context.Background(), "commandstats").Val()
	m := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([0-9.]+)`).FindStringSubmatch(info)
	if m == nil {
		b.Fatal("no figures of evalsha")
	}
	us, _ := strconv.ParseFloat(m[1], 64)
	return us
}
