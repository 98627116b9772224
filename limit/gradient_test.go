package limit_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// Eight at once in 50 ms each are 160 a second, and no more can be had.
func TestGradientKeepsLatencyLowAndThroughputHigh(t *testing.T) {
	for _, c := range []struct {
		name     string
		upstream fragile
		load     load
	}{
		{"queue in order", fragile{}, load{workers: 64}},
		{"latency in proportion", fragile{slows: queueing}, load{workers: 64}},
		{"cliff", fragile{slows: cliff}, load{workers: 64}},
		{"cliff, many workers", fragile{slows: cliff}, load{workers: 1000}},
		{"cliff, more comes than can be done", fragile{slows: cliff}, load{perSecond: 200}},
		{"queue, more comes than can be done", fragile{}, load{perSecond: 200}},
	} {
		g, u := limit.NewGradient(1, 64), c.upstream
		u.capacity, u.service = 8, steady(50*ms)
		o := simulate(&g, &u, c.load, 30*time.Second, 1, nil)
		p95, share := quantile(o.latencies, 0.95), float64(len(o.done))/(160*30)
		t.Logf("%-36s p95 %v, %.1f %% of the best throughput", c.name, p95, 100*share)
		if p95 > 75*ms || share < 0.85 {
			t.Errorf("%s: p95 %v, want at most 75ms; %.1f %% of the best throughput, want 85 %%", c.name, p95, 100*share)
		}
	}
}

// settled is how long after from slots come to be near want for two seconds, probes apart.
func settled(o outcome, from time.Duration, near func(slots int) bool) time.Duration {
	for i := int(from / (100 * ms)); i+20 <= len(o.slots); i++ {
		good := 0
		for _, s := range o.slots[i : i+20] {
			if near(s) {
				good++
			}
		}
		if good >= 16 && near(o.slots[i]) {
			return time.Duration(i)*100*ms - from
		}
	}
	return math.MaxInt64
}

func TestGradientFollowsACapacityThatMoves(t *testing.T) {
	for _, c := range []struct {
		name  string
		slows func(int, int) float64
		// Where latency grows by 25, what was sent before takes its time.
		fall time.Duration
	}{
		{"queue in order", nil, 4 * time.Second},
		{"latency in proportion", queueing, 4 * time.Second},
		{"cliff", cliff, 9 * time.Second},
	} {
		g, u := limit.NewGradient(1, 64), fragile{service: steady(50 * ms), slows: c.slows}
		o := simulate(&g, &u, load{workers: 64}, 45*time.Second, 1, func(now time.Duration) {
			u.capacity = []int{8, 20, 4}[min(2, now/(15*time.Second))]
		})
		up := settled(o, 15*time.Second, func(s int) bool { return s >= 17 && s <= 24 })
		down := settled(o, 30*time.Second, func(s int) bool { return s >= 3 && s <= 5 })
		t.Logf("%-22s from 8 to 20 in %v, to 4 in %v", c.name, up, down)
		if up > 5*time.Second || down > c.fall {
			t.Errorf("%s: from 8 to 20 in %v, want 5s, to 4 in %v, want %v", c.name, up, down, c.fall)
		}
	}
}

// The fault of a minimum as baseline: an upstream that got slower for good looks like a queue for ever.
func TestGradientRecoversFromSlowerUpstreams(t *testing.T) {
	for _, slows := range []func(int, int) float64{nil, queueing, cliff} {
		g, u := limit.NewGradient(1, 64), fragile{capacity: 8, slows: slows}
		o := simulate(&g, &u, load{workers: 64}, 60*time.Second, 1, func(now time.Duration) {
			u.service = steady([]time.Duration{50 * ms, 100 * ms, 400 * ms, 50 * ms}[min(3, now/(15*time.Second))])
		})
		for i, best := range []float64{160, 80, 20, 160} {
			// After three seconds: of 400 ms those are eight latencies.
			from := time.Duration(15*i+3) * time.Second
			share := float64(between(o.done, from, from+12*time.Second)) / (12 * best)
			t.Logf("at %v: %.1f %% of the best throughput", from, 100*share)
			if share < 0.8 {
				t.Errorf("at %v: %.1f %% of the best throughput, want 80 %%; slots %v", from, 100*share, o.slots)
			}
		}
	}
}

// The fault of a long average as baseline: a queue that lasts becomes the norm. Here it is there from the
// start, or comes so slowly that every round is within the tolerance of the one before.
func TestGradientDoesNotTakeAQueueForTheNorm(t *testing.T) {
	g, u := limit.NewGradient(1, 64), fragile{capacity: 1, service: steady(50 * ms)}
	o := simulate(&g, &u, load{workers: 64}, 60*time.Second, 1, nil)
	if last := o.slots[300:]; slices.Max(last) > 2 {
		t.Errorf("an upstream that does one at once has %v", last)
	}
	g, u = limit.NewGradient(1, 64), fragile{capacity: 16, service: steady(50 * ms)}
	o = simulate(&g, &u, load{workers: 64}, 180*time.Second, 1, func(now time.Duration) {
		u.capacity = 16 - int(min(12, now/(10*time.Second)))
	})
	for i, s := range o.slots[100:] {
		now := time.Duration(i+100) * 100 * ms
		if s > u.capacity+2 && now > 125*time.Second {
			t.Fatalf("at %v: %d slots of an upstream that does %d", now, s, u.capacity)
		}
	}
	if p95 := quantile(o.latencies, 0.95); p95 > 100*ms {
		t.Errorf("p95 %v", p95)
	}
}

func TestGradientIsNotFooledByNoise(t *testing.T) {
	const seeds = 20
	for _, c := range []struct {
		name     string
		upstream fragile
		perTime  float64 // the best throughput
		mean     float64 // share of it, over the seeds
		least    float64
	}{
		{"lognormal, sigma 0.3", fragile{capacity: 8, service: lognormal(50*ms, 0.3)}, 160, 0.9, 0.85},
		{"lognormal cliff", fragile{capacity: 8, service: lognormal(50*ms, 0.3), slows: cliff}, 160, 0.85, 0.8},
		{"lognormal, all 64 at once", fragile{capacity: 1000, service: lognormal(50*ms, 0.3)}, 1280, 0.9, 0.85},
		{"half 10 ms, half 200 ms", fragile{capacity: 8, service: mix(10*ms, 200*ms, 0.5)}, 8 / 0.105, 0.85, 0.6},
		{"a tenth 200 ms, else 10 ms", fragile{capacity: 8, service: mix(10*ms, 200*ms, 0.1)}, 8 / 0.029, 0.8, 0.6},
	} {
		least, sum, lowest := math.Inf(1), 0.0, 0
		for seed := range uint64(seeds) {
			g, u := limit.NewGradient(1, 64), c.upstream
			o := simulate(&g, &u, load{workers: 64}, 30*time.Second, seed, nil)
			share := float64(len(o.done)) / (30 * c.perTime)
			least, sum = min(least, share), sum+share
			if slices.Min(o.slots[200:]) < 3 {
				lowest++
			}
		}
		t.Logf("%-28s %.1f %% of the best throughput, with the worst of %d seeds %.1f %%", c.name, 100*sum/seeds, seeds, 100*least)
		if sum/seeds < c.mean || least < c.least || lowest > seeds/10 {
			t.Errorf("%s: %.2f of the best throughput, at worst %.2f; want %.2f, %.2f; after 20 s below 3 slots with %d seeds",
				c.name, sum/seeds, least, c.mean, c.least, lowest)
		}
	}
}

func TestGradientIsSeldomRefused(t *testing.T) {
	g, u := limit.NewGradient(1, 64), fragile{capacity: 8, service: steady(50 * ms), refuse: true}
	o := simulate(&g, &u, load{workers: 64}, 30*time.Second, 1, nil)
	share := float64(len(o.done)) / (160 * 30)
	t.Logf("%d of %d refused, %.1f %% of the best throughput", len(o.refused), len(o.done), 100*share)
	if len(o.refused) > 12 || share < 0.95 {
		t.Errorf("%d refused, want at most 12; %.1f %% of the best throughput, want 95 %%", len(o.refused), 100*share)
	}
	g, u = limit.NewGradient(1, 64), fragile{service: steady(50 * ms), refuse: true}
	o = simulate(&g, &u, load{workers: 64}, 45*time.Second, 1, func(now time.Duration) {
		u.capacity = []int{8, 20, 4}[min(2, now/(15*time.Second))]
	})
	t.Logf("8, 20, 4: %d of %d refused", len(o.refused), len(o.done))
	if last := o.slots[400:]; len(o.refused) > 150 || slices.Max(last) > 5 {
		t.Errorf("8, 20, 4: %d refused; at the end %v", len(o.refused), last)
	}
}

// A few refusals that have nothing to do with how many are out.
func TestGradientForgivesChance(t *testing.T) {
	g, u := limit.NewGradient(1, 64), fragile{capacity: 8, service: steady(50 * ms), flaky: 0.01}
	o := simulate(&g, &u, load{workers: 64}, 30*time.Second, 1, nil)
	if share := float64(len(o.done)) / (160 * 30); share < 0.85 {
		t.Errorf("%.1f %% of the best throughput with 1 %% refused", 100*share)
	}
}

func TestGradientComesBackAfterABrownOut(t *testing.T) {
	g, u := limit.NewGradient(1, 64), fragile{capacity: 20, service: steady(50 * ms)}
	o := simulate(&g, &u, load{workers: 64}, 30*time.Second, 1, func(now time.Duration) {
		u.flaky = 0
		if now >= 10*time.Second && now < 13*time.Second {
			u.flaky = 1
		}
	})
	t.Logf("%d refused, back after %v", between(o.refused, 0, time.Minute), settled(o, 13*time.Second, func(s int) bool { return s >= 17 }))
	if o.slots[128] != 1 {
		t.Errorf("%d slots in a brown-out", o.slots[128])
	}
	if back := settled(o, 13*time.Second, func(s int) bool { return s >= 17 }); back > 5*time.Second {
		t.Errorf("back after %v", back)
	}
}

// Without evidence slots neither grow nor decay.
func TestGradientStaysWhileLittleIsInFlight(t *testing.T) {
	g, u := limit.NewGradient(1, 64), fragile{capacity: 20, service: steady(50 * ms)}
	simulate(&g, &u, load{workers: 64}, 10*time.Second, 1, nil)
	before := g.Slots()
	for i := range 100_000 {
		g.Observe(10*time.Second+time.Duration(i)*ms*20, time.Duration(40+i%20)*ms, 1+i%5, false)
	}
	if got := g.Slots(); got != before || got < 17 {
		t.Errorf("%d slots, before %d", got, before)
	}
	g = limit.NewGradient(1, 64)
	o := simulate(&g, &fragile{capacity: 1000, service: steady(50 * ms)}, load{workers: 3}, 60*time.Second, 1, nil)
	if most := slices.Max(o.slots); most > 4 {
		t.Errorf("three workers have %d slots", most)
	}
}

func TestGradientStaysInItsBoundsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.OneOf(rapid.IntRange(-1, 100), rapid.Int())
		least, most := bound.Draw(t, "min"), bound.Draw(t, "max")
		g := limit.NewGradient(least, most)
		least = min(max(least, 1), limit.MaxConcurrent)
		most = min(max(most, least), limit.MaxConcurrent)
		hostile := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1, int64(time.Second)), rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64}))
		steps := rapid.OneOf(rapid.Int64Range(0, int64(time.Second)), rapid.Just(int64(0)), hostile)
		now := int64(0)
		for range rapid.IntRange(0, 2000).Draw(t, "steps") {
			now += steps.Draw(t, "step")
			g.Observe(time.Duration(now), time.Duration(hostile.Draw(t, "latency")), rapid.OneOf(rapid.IntRange(0, min(2*min(g.Slots(), 1000), 1000)), rapid.Int()).Draw(t, "in flight"), rapid.IntRange(0, 9).Draw(t, "dropped") == 0)
			if s := g.Slots(); s < least || s > most {
				t.Fatalf("%d slots, want %d to %d", s, least, most)
			}
		}
		// Whatever it was told, it learns again, however far its clock jumped.
		o := rejoin(&g, now, min(most, 4))
		if o < min(most, max(least, 4)) {
			t.Fatalf("%d slots after ten minutes of good answers, want %d to %d", o, min(most, max(least, 4)), most)
		}
	})
}

// rejoin has an upstream that does all at once in 10 ms answer for ten minutes.
func rejoin(g *limit.Gradient, from int64, want int) int {
	if from > math.MaxInt64/2 || from < 0 {
		from = 0
	}
	for i := range int64(60_000) {
		for range min(g.Slots(), 8) {
			g.Observe(time.Duration(from+i*int64(10*ms)), 10*ms, g.Slots(), false)
		}
		if g.Slots() >= want {
			return g.Slots()
		}
	}
	return g.Slots()
}

func BenchmarkGradientObserve(b *testing.B) {
	for name, refused := range map[string]int{"answers": 0, "some refused": 100} {
		b.Run(name, func(b *testing.B) {
			g := limit.NewGradient(1, 64)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				g.Observe(time.Duration(i)*ms, time.Duration(40+i%20)*ms, g.Slots(), refused > 0 && i%refused == 0)
			}
		})
	}
}
