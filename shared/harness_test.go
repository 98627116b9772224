package shared_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

func TestMain(m *testing.M) {
	if run := processes[os.Getenv(processKind)]; run != nil {
		run()
		return
	}
	goleak.VerifyTestMain(m,
		// A client that found nobody at its server looks once a second whether it may be closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		goleak.Cleanup(func(code int) {
			fleettest.PrintTable(os.Stdout)
			os.Exit(code)
		}))
}

// processes are what the test binary does when a test has run it again, as a process of its own, by the value of
// processKind in its environment.
var processes = map[string]func(){}

const processKind = "OUTFLOW_TEST_PROCESS"

// onRedis runs a test against a fake within the process and, where there is one, against redis-server.
func onRedis(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("miniredis", func(t *testing.T) { test(t, miniredis.RunT(t).Addr()) })
	t.Run("redis-server", func(t *testing.T) { test(t, redistest.Start(t).Addr()) })
}

// instance is one of a fleet: a store with a client of its own, a queue, and one rule.
type instance struct {
	store *shared.Store
	queue *leakyqueue.Queue
	rule  *leakyqueue.Rule
	rdb   *redis.Client
	cut   *atomic.Bool // nothing comes through to Redis, or from it, as long as it is set

	mu    sync.Mutex
	left  []time.Duration // when requests left, since the fleet's begin
	ended []error         // of those that didn't
}

type fleet struct {
	t         *testing.T
	begin     time.Time
	instances []*instance
	out, most atomic.Int64  // requests that hold a ticket, now and at most
	over      chan struct{} // closed to have all give back what they hold
}

func startFleet(t *testing.T, n int, addr string, cfg shared.Config, limits ...limit.Limit) *fleet {
	t.Helper()
	f := &fleet{t: t, begin: time.Now(), over: make(chan struct{})}
	for range n {
		f.add(addr, cfg, limits...)
	}
	return f
}

func (f *fleet) add(addr string, cfg shared.Config, limits ...limit.Limit) *instance {
	f.t.Helper()
	i := &instance{cut: new(atomic.Bool)}
	i.rdb = redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if i.cut.Load() {
			return nil, errors.New("cut")
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &cuttable{Conn: c, cut: i.cut}, err
	}})
	var err error
	if i.store, err = shared.New(i.rdb, cfg); err != nil {
		f.t.Fatal(err)
	}
	if i.queue, err = leakyqueue.New(leakyqueue.Config{MaxWaiting: -1}); err != nil {
		f.t.Fatal(err)
	}
	if i.rule, err = i.queue.AddRule("api", limits...); err != nil {
		f.t.Fatal(err)
	}
	if err := i.rule.Share(i.store, leakyqueue.Sharing{}); err != nil {
		f.t.Fatal(err)
	}
	f.instances = append(f.instances, i)
	f.t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = i.queue.Close(gone)
		_ = i.store.Close()
		_ = i.rdb.Close()
	})
	return i
}

// cuttable is a connection through which nothing comes while it is cut: what was sent meanwhile is lost.
type cuttable struct {
	net.Conn
	cut *atomic.Bool
}

func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for c.cut.Load() {
		if _, err := c.Conn.Write(nil); err != nil { // closed
			return 0, err
		}
		time.Sleep(time.Millisecond)
	}
	return n, err
}

func (c *cuttable) Write(p []byte) (int, error) {
	if c.cut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// busy has so many callers ask again and again, and hold what they get, until ctx ends.
func (f *fleet) busy(ctx context.Context, wg *sync.WaitGroup, i *instance, callers int, hold time.Duration) {
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				var ticket leakyqueue.Ticket
				_, err := i.queue.Depart(ctx, leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: i.rule}}}, &ticket)
				if err != nil {
					i.mu.Lock()
					if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
						i.ended = append(i.ended, err)
					}
					i.mu.Unlock()
					time.Sleep(time.Millisecond)
					continue
				}
				at := time.Since(f.begin)
				out := f.out.Add(1)
				for m := f.most.Load(); out > m && !f.most.CompareAndSwap(m, out); m = f.most.Load() {
				}
				i.mu.Lock()
				i.left = append(i.left, at)
				i.mu.Unlock()
				if hold > 0 {
					select {
					case <-time.After(hold):
					case <-f.over:
					}
				}
				f.out.Add(-1)
				ticket.Done()
			}
		})
	}
}

// run keeps all instances busy for d.
func (f *fleet) run(d time.Duration, callers int, hold time.Duration) {
	ctx, cancel := context.WithTimeout(f.t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for _, i := range f.instances {
		f.busy(ctx, &wg, i, callers, hold)
	}
	wg.Wait()
}

// departures are those of all instances, in order.
func (f *fleet) departures() []time.Duration {
	var all []time.Duration
	for _, i := range f.instances {
		i.mu.Lock()
		all = append(all, i.left...)
		i.mu.Unlock()
	}
	slices.Sort(all)
	return all
}

// lateness is how late a departure may be used: 50 ms (leaseSlack), and the lead, which is 3 round trips.
const lateness = 60 * time.Millisecond

// within is how many of the moments are from one to another.
func within(all []time.Duration, from, to time.Duration) int {
	n := 0
	for _, at := range all {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// densest is how many of the moments are in any span of that length.
func densest(all []time.Duration, span time.Duration) int {
	n, from := 0, 0
	for i := range all {
		for all[i]-all[from] >= span {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}
