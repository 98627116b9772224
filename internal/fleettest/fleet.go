package fleettest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// Config says what fleet there is. What is zero is as the issue has it: 16 instances at 1,000/s with burst 1.
type Config struct {
	Instances int
	Waiters   int     // callers of each instance, who ask again as soon as they have left; 16 if zero
	Rate      float64 // per second
	Store     shared.Config

	// Client is called for each instance. Its options are go-redis' own but for what the test sets.
	Client func() redis.UniversalClient
}

// A Fleet is instances that share a limit, each with a client, a store and a queue of its own.
type Fleet struct {
	t     testing.TB
	cfg   Config
	start time.Time

	mu        sync.Mutex
	instances []*instance
	ctx       context.Context // of the run, once it runs
	callers   sync.WaitGroup
	due       []time.Duration // of what was leased and not given back, since start
	back      map[any]bool    // what was given back, by its token
	tokens    []any           // of due

	ran, began, ended time.Duration
	late              []lateness
}

type instance struct {
	store *shared.Store
	queue *leakyqueue.Queue
	rule  *leakyqueue.Rule

	mu      sync.Mutex
	left    []time.Duration
	refused int     // by ErrStoreUnavailable
	lost    []error // that failed for any other reason
}

// think is how long a caller waits after it left, where the outage lets all go: else they would do nothing but leave.
const think = 50 * time.Millisecond

// silent keeps go-redis from logging what the tests do to it.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Start makes the instances, which end with the test. None calls Redis yet.
func Start(t testing.TB, cfg Config) *Fleet {
	t.Helper()
	Timed(t)
	redis.SetLogger(silent{})
	if cfg.Instances == 0 {
		cfg.Instances = 16
	}
	if cfg.Waiters == 0 {
		cfg.Waiters = 16
	}
	if cfg.Rate == 0 {
		cfg.Rate = 1000
	}
	f := &Fleet{t: t, cfg: cfg, start: time.Now(), back: make(map[any]bool)}
	for range cfg.Instances {
		f.add()
	}
	return f
}

func (f *Fleet) add() {
	f.t.Helper()
	rdb := f.cfg.Client()
	i := new(instance)
	var err error
	if i.store, err = shared.New(rdb, f.cfg.Store); err != nil {
		f.t.Fatal(err)
	}
	if i.queue, err = leakyqueue.New(leakyqueue.Config{MaxWaiting: -1}); err != nil {
		f.t.Fatal(err)
	}
	if i.rule, err = i.queue.AddRule("api", limit.PerSecond(f.cfg.Rate)); err != nil {
		f.t.Fatal(err)
	}
	if err := i.rule.Share(&watched{i.store, f}, leakyqueue.Sharing{}); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = i.queue.Close(gone)
		_ = i.store.Close()
		_ = rdb.Close()
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances = append(f.instances, i)
	if f.ctx != nil {
		f.busyLocked(i)
	}
}

// Join has one more instance, which goes on until the run ends.
func (f *Fleet) Join() { f.add() }

// Run keeps all instances busy for d, while script does what is to go wrong. It ends when both have.
func (f *Fleet) Run(d time.Duration, script func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context()) // without a deadline, by which requests are refused ahead of it
	defer cancel()
	defer time.AfterFunc(d, cancel).Stop()
	f.mu.Lock()
	f.start, f.ctx = time.Now(), ctx
	for _, i := range f.instances {
		f.busyLocked(i)
	}
	f.mu.Unlock()
	for range watchers {
		f.callers.Go(func() { f.watchTimers(ctx) })
	}
	script()
	f.callers.Wait()
	f.ran = time.Since(f.start)
}

// Wait waits until so long after the start of the run.
func (f *Fleet) Wait(until time.Duration) { time.Sleep(until - f.Elapsed()) }

// Elapsed is the time since the start of the run.
func (f *Fleet) Elapsed() time.Duration { return time.Since(f.start) }

// Begins and Ends note when something is wrong, and when it no longer is.
func (f *Fleet) Begins() { f.began = time.Since(f.start) }

// Ends notes that Redis is well again.
func (f *Fleet) Ends() { f.ended = time.Since(f.start) }

func (f *Fleet) busyLocked(i *instance) {
	ctx := f.ctx
	thinks := f.cfg.Store.OnOutage == shared.FailOpen
	for range f.cfg.Waiters {
		f.callers.Go(func() {
			for ctx.Err() == nil {
				_, err := i.queue.Depart(ctx, leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: i.rule}}}, nil)
				at := time.Since(f.start)
				i.mu.Lock()
				switch {
				case err == nil:
					i.left = append(i.left, at)
				case ctx.Err() != nil:
				case errors.Is(err, leakyqueue.ErrStoreUnavailable):
					i.refused++
				default:
					i.lost = append(i.lost, err)
				}
				i.mu.Unlock()
				if err != nil || thinks {
					select {
					case <-ctx.Done():
					case <-time.After(think):
					}
				}
			}
		})
	}
}

// lateness is by how much a timer was late, and when it fired.
type lateness struct{ at, late time.Duration }

// watchers is how many timers are watched at once: where the processors are busy, not all are late alike.
const watchers = 4

// watchTimers measures how late timers of this process are, and those whom they wake, as a queue's timer wakes a caller: so
// late are departures, whoever paces them, and as many more than the limit's may then be in a span. Only where a machine
// is busy is that more than 2 ms.
func (f *Fleet) watchTimers(ctx context.Context) {
	fired := make(chan time.Duration)
	f.callers.Go(func() {
		for begin := range fired {
			if at := f.Elapsed(); at-begin > 2*time.Millisecond {
				f.mu.Lock()
				f.late = append(f.late, lateness{at, at - begin - time.Millisecond})
				f.mu.Unlock()
			}
		}
	})
	for ctx.Err() == nil {
		begin := f.Elapsed()
		time.Sleep(time.Millisecond)
		fired <- begin
	}
	close(fired)
}

// lateIn is how late timers were at most that fired from one moment to another.
func (f *Fleet) lateIn(from, to time.Duration) time.Duration {
	most := time.Millisecond
	for _, l := range f.late {
		if l.at >= from && l.at-l.late <= to {
			most = max(most, l.late)
		}
	}
	return most
}

// Stats is what the stores did.
func (f *Fleet) Stats() shared.Stats {
	var sum shared.Stats
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.instances {
		s := i.store.Stats()
		sum.RoundTrips += s.RoundTrips
		sum.Leased += s.Leased
		sum.GivenBack += s.GivenBack
		sum.Outages += s.Outages
		sum.Down += s.Down
		sum.Instances = max(sum.Instances, s.Instances)
	}
	return sum
}

// Departures are those of all instances, since the start of the run and in order.
func (f *Fleet) Departures() []time.Duration {
	var all []time.Duration
	for i := range f.instances {
		all = append(all, f.Of(i)...)
	}
	slices.Sort(all)
	return all
}

// Of are the departures of one instance.
func (f *Fleet) Of(instance int) []time.Duration {
	i := f.instances[instance]
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.left)
}

// Leased is when what was leased and not given back was due, in order: unlike [Fleet.Departures] it isn't late where the
// machine is busy.
func (f *Fleet) Leased() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []time.Duration
	for i, due := range f.due {
		if !f.back[f.tokens[i]] {
			all = append(all, due)
		}
	}
	slices.Sort(all)
	return all
}

// watched is a store of which the fleet sees what it leases.
type watched struct {
	leakyqueue.Pacer
	f *Fleet
}

func (w *watched) Open(of []leakyqueue.Shared, t leakyqueue.Tenant) leakyqueue.Lessor {
	return &lessor{w.Pacer.Open(of, &tenant{t, w.f}), w.f}
}

type lessor struct {
	leakyqueue.Lessor
	f *Fleet
}

func (l *lessor) Ask(a leakyqueue.Ask) {
	l.f.givenBack(a.Back)
	l.Lessor.Ask(a)
}

func (l *lessor) Close(back []leakyqueue.Leased, owed []int64) {
	l.f.givenBack(back)
	l.Lessor.Close(back, owed)
}

func (f *Fleet) givenBack(back []leakyqueue.Leased) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range back {
		f.back[b.Token] = true
	}
}

type tenant struct {
	leakyqueue.Tenant
	f *Fleet
}

func (t *tenant) Granted(g leakyqueue.Grant) {
	t.f.mu.Lock()
	for _, l := range g.Leased {
		t.f.due = append(t.f.due, g.From.Add(l.Due).Sub(t.f.start))
		t.f.tokens = append(t.f.tokens, l.Token)
	}
	t.f.mu.Unlock()
	t.Tenant.Granted(g)
}
