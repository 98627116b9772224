package main

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

var full = flag.Bool("fleet.full", false, "measure as long and as much as the command does")

// brief is what BenchmarkFleet measures unless it is to do all. Nothing of less than two seconds shows
// what a burst of a whole second's departures does.
var brief = map[string]struct{ limits, instances, peers string }{
	"closed": {"1000,10000", "1,16", "in-memory,redis_rate:1,redis_rate:10ms,locked-bucket,outflow"},
	"open":   {"1000", "16", "in-memory:11ms,redis_rate:10ms,locked-bucket,outflow:11ms"},
	"scale":  {"1000", "16", scalePeers},
}

// BenchmarkFleet is what the command shows, shorter and with less, so that all of it takes less than 20
// seconds. With -fleet.full it is the same.
func BenchmarkFleet(b *testing.B) {
	if _, err := findRedis(); err != nil {
		b.Skip(err)
	}
	for _, loop := range []string{"closed", "open", "scale"} {
		var args []string
		if !*full {
			args = []string{"-seconds", "0.4", "-warmup", "0.15", "-tries", "1", "-limit", brief[loop].limits, "-instances", brief[loop].instances}
		}
		o, err := parse(args)
		if err != nil {
			b.Fatal(err)
		}
		if !*full {
			o.entries = known(brief[loop].peers)
		}
		for _, l := range o.loads(loop) {
			b.Run(fmt.Sprintf("%s/%v/instances=%d/%s", loop, l.rate*float64(l.buckets), l.instances, l.label), func(b *testing.B) {
				var r result
				for b.Loop() {
					var err error
					if r, err = o.measure(b.Context(), loop, l); err != nil {
						b.Fatal(err)
					}
				}
				report(b, loop, r)
			})
		}
	}
}

func report(b *testing.B, loop string, r result) {
	if note := r.note(); note != "" {
		b.Log(note)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.admitted, "admitted/s")
	b.ReportMetric(100*r.used, "%used")
	b.ReportMetric(r.trips, "roundtrips/admit")
	b.ReportMetric(r.commands, "commands/admit")
	b.ReportMetric(100*r.redisCPU, "%cpu-redis")
	b.ReportMetric(100*r.clientCPU, "%cpu-client")
	b.ReportMetric(100*r.othersCPU, "%cpu-others")
	for _, w := range []struct {
		unit   string
		window time.Duration
		max    int
	}{
		{"100ms", 100 * time.Millisecond, r.max100ms},
		{"1s", time.Second, r.max1s},
	} {
		if w.window > r.warmUp+r.length {
			continue
		}
		b.ReportMetric(float64(w.max), "max/"+w.unit)
		b.ReportMetric(float64(r.quota.allowed(w.window)), "limit/"+w.unit)
	}
	if loop == "open" {
		for _, q := range []struct {
			unit string
			q    float64
		}{
			{"ms-p50", 0.5},
			{"ms-p90", 0.9},
			{"ms-p99", 0.99},
			{"ms-p99.9", 0.999},
		} {
			b.ReportMetric(quantile(r.waits, q.q).Seconds()*1000, q.unit)
		}
		return
	}
	b.ReportMetric(float64(r.mostShare)/float64(max(1, r.leastShare)), "most/least")
}

// BenchmarkFleetFastPath is what a departure costs where nothing holds it back: the base that a shared
// bucket is compared with.
func BenchmarkFleetFastPath(b *testing.B) {
	const fast, burst = 1e9, 1e6
	queue, err := leakyqueue.New(leakyqueue.Config{MaxWaiting: -1})
	if err != nil {
		b.Fatal(err)
	}
	rule, err := queue.AddRule("api", limit.PerSecond(fast).WithBurst(burst))
	if err != nil {
		b.Fatal(err)
	}
	fastPath(b, "in-memory", departures(queue, rule, 1))
}

func fastPath(b *testing.B, name string, wait waitFunc) {
	b.Run(name+"/serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := wait(b.Context(), 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(name+"/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := wait(b.Context(), 0); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

func TestMaxWithin(t *testing.T) {
	ms := func(n ...int) []time.Duration {
		var moments []time.Duration
		for _, n := range n {
			moments = append(moments, time.Duration(n)*time.Millisecond)
		}
		return moments
	}
	for _, c := range []struct {
		moments []time.Duration
		want    int
	}{
		{nil, 0},
		{ms(5), 1},
		{ms(0, 100), 1},
		{ms(0, 99), 2},
		{ms(0, 0, 0, 500, 590, 599, 600, 601), 4},
		{ms(0, 10, 20, 105), 3},
	} {
		if got := maxWithin(c.moments, 100*time.Millisecond); got != c.want {
			t.Errorf("maxWithin(%v) = %d, want %d", c.moments, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var sorted []time.Duration
	for i := range 1000 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := quantile(sorted, q); got != want {
			t.Errorf("quantile(%v) = %d, want %d", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		rate   float64
		burst  int
		window time.Duration
		want   int
	}{
		{1000, 1, 100 * time.Millisecond, 101},
		{10_000, 100, time.Second, 10_100},
		{3, 1, 100 * time.Millisecond, 2},
	} {
		if got := (quota{rate: c.rate, burst: c.burst}).allowed(c.window); got != c.want {
			t.Errorf("%v/s, burst %d: allowed(%v) = %d, want %d", c.rate, c.burst, c.window, got, c.want)
		}
	}
}

// TestRealRedisClosed checks the meters against what is known of redis_rate and of the stand-in: one
// command a try, and four round trips with six commands.
func TestRealRedisClosed(t *testing.T) {
	if _, err := findRedis(); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		peer            string
		rate            float64
		trips, commands float64
	}{
		{"in-memory", 1000, 0, 0},
		{"redis_rate:1s", 1e9, 1, 3}, // EVALSHA, TIME, and SET: it reads with GET as well
		{"locked-bucket", 1000, 4, 6},
	} {
		e, err := parseEntry(c.peer)
		if err != nil {
			t.Fatal(err)
		}
		l := load{entry: e, rate: c.rate, buckets: 1, instances: 1, waiters: 4, warmUp: 100 * time.Millisecond, length: 300 * time.Millisecond}
		r, err := l.closed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.admitted == 0 || r.failed > 0 {
			t.Errorf("%s: %v/s left, %d failed: %v", c.peer, r.admitted, r.failed, r.err)
		}
		if off := r.trips - c.trips; off < -0.5 || off > 0.5 {
			t.Errorf("%s: %.2f round trips, want %v", c.peer, r.trips, c.trips)
		}
		if off := r.commands - c.commands; off < -0.5 || off > 0.5 {
			t.Errorf("%s: %.2f commands, want %v", c.peer, r.commands, c.commands)
		}
	}
}
