package shared_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

var regionsFull = flag.Bool("regions.full", false, "run all tests of regions, which takes three minutes")

// rarely skips a test of regions unless all are to be run.
func rarely(t *testing.T) {
	t.Helper()
	if !*regionsFull {
		t.Skip("it takes long: with -regions.full")
	}
}

const (
	regionsPeriod  = 100 * time.Millisecond
	regionsLease   = time.Second
	regionsHorizon = 20 * time.Millisecond
)

// world is regions with a Redis each, of which the first is the ledger, and the second the next. They have one fleet's
// clock and count of departures.
type world struct {
	*fleet
	names   []string
	addrs   []string
	ledgers []string
	regions []*region
	hold    time.Duration // of what leaves
}

type region struct {
	instances []*instance
	sharing   []*shared.Regions
	far       *atomic.Bool // cut from the ledgers but its own Redis
}

func startWorld(t *testing.T, perRegion int, addrs, ledgers []string, alone float64, limits ...limit.Limit) *world {
	t.Helper()
	w := &world{fleet: &fleet{t: t, begin: time.Now(), over: make(chan struct{})}, names: []string{"east", "west", "south"}[:len(addrs)], addrs: addrs, ledgers: ledgers}
	for n := range addrs {
		r := &region{far: new(atomic.Bool)}
		w.regions = append(w.regions, r)
		for range perRegion {
			w.addTo(n, alone, limits...)
		}
	}
	return w
}

func cuttableClient(addr string, cut *atomic.Bool) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: 300 * time.Millisecond, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if cut.Load() {
			return nil, errors.New("cut")
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &cuttable{Conn: c, cut: cut}, err
	}})
}

func (w *world) addTo(n int, alone float64, limits ...limit.Limit) {
	w.t.Helper()
	r := w.regions[n]
	i := &instance{cut: new(atomic.Bool)}
	i.rdb = cuttableClient(w.addrs[n], i.cut)
	var err error
	if i.store, err = shared.New(i.rdb, shared.Config{Horizon: regionsHorizon, ExpectedInstances: 2}); err != nil {
		w.t.Fatal(err)
	}
	var ledgers []redis.UniversalClient
	for _, addr := range w.ledgers {
		cut := r.far
		if addr == w.addrs[n] {
			cut = i.cut
		}
		rdb := cuttableClient(addr, cut)
		ledgers = append(ledgers, rdb)
		w.t.Cleanup(func() { _ = rdb.Close() })
	}
	s, err := shared.NewRegions(i.store, shared.RegionsConfig{
		Region: w.names[n], Regions: w.names, Ledgers: ledgers, Alone: alone, Period: regionsPeriod, Lease: regionsLease,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	r.sharing = append(r.sharing, s)
	if i.queue, err = leakyqueue.New(leakyqueue.Config{MaxWaiting: -1}); err != nil {
		w.t.Fatal(err)
	}
	if i.rule, err = i.queue.AddRule("api", limits...); err != nil {
		w.t.Fatal(err)
	}
	if err := i.rule.Share(i.store, leakyqueue.Sharing{}); err != nil {
		w.t.Fatal(err)
	}
	r.instances = append(r.instances, i)
	w.instances = append(w.instances, i)
	w.t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = i.queue.Close(gone)
		_ = i.store.Close()
		_ = i.rdb.Close()
	})
}

// busyFor keeps regions busy.
func (w *world) busyFor(d time.Duration, regions ...*region) (from time.Duration) {
	from = time.Since(w.begin)
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for _, r := range regions {
		for _, i := range r.instances {
			w.busy(ctx, &wg, i, 32, w.hold)
		}
	}
	wg.Wait()
	return from
}

// sum is of the shares that any instance of each region has at most.
func (w *world) sum() float64 {
	sum := 0.0
	for _, r := range w.regions {
		most := 0.0
		for _, s := range r.sharing {
			most = max(most, s.Stats().Share)
		}
		sum += most
	}
	return sum
}

// watchSum returns what the sum of shares was at most, up to the call.
func (w *world) watchSum() func() float64 {
	most, end := 0.0, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			most = max(most, w.sum())
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() float64 { close(end); wg.Wait(); return most }
}

// onTwoRedis is onRedis with two of them.
func onTwoRedis(t *testing.T, test func(t *testing.T, addrs []string)) {
	t.Run("miniredis", func(t *testing.T) { test(t, []string{miniredis.RunT(t).Addr(), miniredis.RunT(t).Addr()}) })
	t.Run("redis-server", func(t *testing.T) {
		test(t, []string{redistest.Start(t).Addr(), redistest.Start(t).Addr()})
	})
}

// Shares follow the demand, and never add up to more than the limits.
func TestRegionsFollowTheDemand(t *testing.T) {
	rarely(t)
	onTwoRedis(t, func(t *testing.T, addrs []string) {
		const rate = 1000
		w := startWorld(t, 2, addrs, addrs, 0, limit.PerSecond(rate))
		east, west := w.regions[0], w.regions[1]
		sum := w.watchSum()
		for _, c := range []struct {
			name    string
			regions []*region
			settles time.Duration
			least   float64 // of the rate, afterwards
		}{
			{"east", []*region{east}, 1500 * time.Millisecond, 0.95},
			{"west", []*region{west}, time.Second, 0.95},
			{"both", []*region{east, west}, time.Second, 0.95},
			{"east again", []*region{east}, time.Second, 0.95},
		} {
			from := w.busyFor(c.settles+2*time.Second, c.regions...)
			all := w.departures()
			first := 0 // tenths of a second until the rate is had
			for at := from; within(all, at, at+100*time.Millisecond) < rate/10*9/10 && first < 40; at += 100 * time.Millisecond {
				first++
			}
			part := float64(within(all, from+c.settles, from+c.settles+2*time.Second)) / (2 * rate)
			t.Logf("%s: %.1f %% of the rate, 90 %% of it after %d00 ms", c.name, 100*part, first)
			if part < c.least {
				t.Errorf("%s: %.1f %% of the rate, want %.1f %%", c.name, 100*part, 100*c.least)
			}
		}
		all := w.departures()
		most := sum()
		if most > 1.0005 {
			t.Errorf("the shares added up to %v", most)
		}
		second, tenth := densest(all, time.Second), densest(all, 100*time.Millisecond)
		t.Logf("at most %d departures in a second, %d in 100 ms; the shares added up to %.3f at most", second, tenth, most)
		if bound := rate + rate/50; second > bound {
			t.Errorf("%d departures in a second, want at most %d", second, bound)
		}
	})
}

// Who waits for a departure that was leased for much later, by a small share, leaves sooner when the share grows.
func TestRegionsOfASlowLimit(t *testing.T) {
	rarely(t)
	onTwoRedis(t, func(t *testing.T, addrs []string) {
		const rate = 4
		w := startWorld(t, 2, addrs, addrs, 0, limit.PerSecond(rate))
		time.Sleep(3 * time.Second) // until both have their base
		w.busyFor(4*time.Second, w.regions[1])
		n := within(w.departures(), 5*time.Second, 7*time.Second)
		t.Logf("%d departures in 2 s, the first at %v", n, w.departures()[0])
		if n < 2*rate-1 || n > 2*rate+1 {
			t.Errorf("%d departures in 2 s, want %d", n, 2*rate)
		}
	})
}

func TestRegionsConfig(t *testing.T) {
	rdb := cuttableClient("127.0.0.1:1", new(atomic.Bool))
	defer rdb.Close()
	good := shared.RegionsConfig{Region: "a", Regions: []string{"a", "b"}, Ledgers: []redis.UniversalClient{rdb}}
	for _, c := range []struct {
		name   string
		change func(*shared.RegionsConfig)
	}{
		{"none", func(c *shared.RegionsConfig) { c.Regions = nil }},
		{"too many", func(c *shared.RegionsConfig) { c.Regions = make([]string, 51) }},
		{"one twice", func(c *shared.RegionsConfig) { c.Regions = []string{"a", "b", "a"} }},
		{"another region", func(c *shared.RegionsConfig) { c.Region = "c" }},
		{"no ledger", func(c *shared.RegionsConfig) { c.Ledgers = nil }},
		{"a nil ledger", func(c *shared.RegionsConfig) { c.Ledgers = []redis.UniversalClient{nil} }},
		{"alone below the base", func(c *shared.RegionsConfig) { c.Alone = 0.02 }},
		{"alone with more than all", func(c *shared.RegionsConfig) { c.Alone = 1.1 }},
		{"a period too short", func(c *shared.RegionsConfig) { c.Period = 100 * time.Millisecond }},
		{"a lease too short", func(c *shared.RegionsConfig) { c.Lease = 7 * time.Second }},
	} {
		s, err := shared.New(rdb, shared.Config{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := good
		c.change(&cfg)
		if _, err := shared.NewRegions(s, cfg); !errors.Is(err, shared.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", c.name, err)
		}
		if _, err := shared.NewRegions(s, good); err != nil {
			t.Errorf("after %s: %v", c.name, err)
		}
		if _, err := shared.NewRegions(s, good); !errors.Is(err, shared.ErrInvalid) {
			t.Errorf("regions twice: %v, want ErrInvalid", err)
		}
		s.Close()
	}
}
