package shared

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/leakyqueue"
)

// What a Config has where it says nothing.
const (
	DefaultPrefix    = "outflow"
	DefaultHorizon   = 100 * time.Millisecond
	DefaultTimeout   = 150 * time.Millisecond
	DefaultSlotLease = 15 * time.Second
	DefaultMaxPause  = time.Hour
)

// ErrInvalid is what every error about a Config's values wraps.
var ErrInvalid = errors.New("shared: invalid")

// OnOutage says what becomes of requests while Redis can't be reached.
type OnOutage uint8

const (
	// LocalShare has each instance go on by itself, at its share of the limits: what is declared, divided by how many
	// instances there were, or by Config.ExpectedInstances if that is more.
	LocalShare OnOutage = iota
	// FailOpen has requests leave as if there were no limits.
	FailOpen
	// FailClosed refuses them with leakyqueue.ErrStoreUnavailable.
	FailClosed
)

// Config says how a Store shares limits. The zero Config is usable.
type Config struct {
	// Prefix begins the name of every key. Stores with the same prefix in the same Redis are one fleet. It must not
	// contain a brace. Defaults to DefaultPrefix.
	Prefix string

	// OnOutage says what becomes of requests while Redis can't be reached. Defaults to LocalShare.
	OnOutage OnOutage

	// ExpectedInstances is how many instances there are at least, for LocalShare: what an instance knows of others by
	// itself it knows only once it has reached Redis. It can't be negative. Defaults to 1.
	ExpectedInstances int

	// Horizon is how far ahead departures are leased, at most, by all instances together. A longer one takes fewer round
	// trips: with m instances and a rate r it is at least m/(Horizon·r) of them for each request. But as many departures as
	// the rate has in that time may leave twice if Redis loses its memory, or not at all if an instance crashes.
	// From a millisecond to a minute. Defaults to DefaultHorizon.
	Horizon time.Duration

	// Timeout is after which time without an answer it is taken to be an outage: at least that, or eight times what round
	// trips take. The client's own timeouts play no part. From 1 ms to a minute. Defaults to DefaultTimeout.
	Timeout time.Duration

	// SlotLease is for how long the slots of a concurrency stay with an instance that isn't heard of any more. They are
	// renewed at a third of it. From 300 ms to an hour. Defaults to DefaultSlotLease.
	SlotLease time.Duration

	// Version is that of the limits: give a deploy that changes them a higher one. Of instances that declare different
	// limits under one name, those of the highest version hold for all. Instances of the same version that differ each
	// go by their own.
	Version uint64

	// Share is the part of each limit that this Redis has, where there are several: above 0 to 1. Defaults to 1. With
	// [Regions] it changes while they run.
	Share float64

	// Spread keeps each bucket by itself, so that those of one group are spread over the nodes of a Cluster. Departures
	// that several buckets hold are then leased from one after the other, not jointly: see the package's documentation.
	Spread bool

	// Logger is told of outages and their ends, at level Warn and Info. Nil: nobody is.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	for _, r := range c.Prefix {
		if r == '{' || r == '}' {
			return c, fmt.Errorf("%w: Prefix is %q, want one without braces", ErrInvalid, c.Prefix)
		}
	}
	if c.OnOutage > FailClosed {
		return c, fmt.Errorf("%w: OnOutage is %d, want 0 to %d", ErrInvalid, c.OnOutage, FailClosed)
	}
	if c.ExpectedInstances < 0 {
		return c, fmt.Errorf("%w: ExpectedInstances is %d, want 0 or more", ErrInvalid, c.ExpectedInstances)
	}
	c.ExpectedInstances = max(1, c.ExpectedInstances)
	for _, f := range []struct {
		name        string
		value       *time.Duration
		least, most time.Duration
		otherwise   time.Duration
	}{
		{"Horizon", &c.Horizon, time.Millisecond, time.Minute, DefaultHorizon},
		{"Timeout", &c.Timeout, time.Millisecond, time.Minute, DefaultTimeout},
		{"SlotLease", &c.SlotLease, 300 * time.Millisecond, time.Hour, DefaultSlotLease},
	} {
		if *f.value == 0 {
			*f.value = f.otherwise
		}
		if *f.value < f.least || *f.value > f.most {
			return c, fmt.Errorf("%w: %s is %v, want %v to %v", ErrInvalid, f.name, *f.value, f.least, f.most)
		}
	}
	if c.Share == 0 {
		c.Share = 1
	}
	if !(c.Share > 0 && c.Share <= 1) {
		return c, fmt.Errorf("%w: Share is %v, want above 0 to 1", ErrInvalid, c.Share)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// A Store shares limits with all Stores of the same prefix in the same Redis. It is a [leakyqueue.Pacer], for
// outflow.Config.Store and leakyqueue.Rule.Share, and safe for concurrent use. Any number of Transports may have it.
type Store struct {
	rdb      redis.UniversalClient
	cfg      Config
	instance string
	epoch    time.Time // moments are durations since then, by the monotonic clock
	several  bool      // rdb is of several nodes, of which one may be gone

	counts    counts
	clockless atomic.Bool // scripts may not ask for the time

	mu         sync.Mutex // guards what follows, and every group, lessor and member
	groups     map[string]*group
	share      float64           // of the limits
	shares     int               // that there have been before
	leastShare float64           // that there will be
	regions    *Regions          // nil: the share stays what it is
	gauges     map[string]*gauge // of buckets, if there are regions
	line       *line             // of errands for any group, unless there are several nodes
	reached    bool              // the last call was answered
	closed     bool
	probing    bool // the loop that looks for groups that can be reached again runs
	renewal    bool // that which renews slots does
	hearing    bool // that which hears events does
	byKey      map[string]map[*member]struct{}
	joined     int // members ever

	life    context.Context // of the loops: ends with Close
	end     context.CancelFunc
	calls   context.Context // of calls of Redis: ends when Close doesn't wait for them any longer
	giveUp  context.CancelFunc
	loops   sync.WaitGroup
	flights sync.WaitGroup
}

type counts struct {
	roundTrips, leased, givenBack, outages atomic.Uint64
}

// Stats is what a Store has done.
type Stats struct {
	RoundTrips uint64 // calls of Redis; several scripts at once are one
	Leased     uint64 // departures
	GivenBack  uint64 // of those
	Outages    uint64 // that began
	Down       int    // groups that can't be reached now
	Instances  int    // the most that any group knows of, this one included
}

// New returns a Store over a client, which remains the caller's: its options aren't touched, and Close doesn't close it.
// It doesn't call Redis yet. The error names the field that is wrong and its value.
func New(rdb redis.UniversalClient, cfg Config) (*Store, error) {
	if rdb == nil {
		return nil, fmt.Errorf("%w: the client is nil", ErrInvalid)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	_, single := rdb.(*redis.Client)
	life, end := context.WithCancel(context.Background())
	calls, giveUp := context.WithCancel(context.Background())
	return &Store{
		rdb:        rdb,
		cfg:        cfg,
		instance:   rand.Text()[:13],
		epoch:      time.Now(),
		several:    !single,
		groups:     make(map[string]*group),
		share:      cfg.Share,
		leastShare: cfg.Share,
		line:       new(line),
		reached:    true,
		byKey:      make(map[string]map[*member]struct{}),
		life:       life,
		end:        end,
		calls:      calls,
		giveUp:     giveUp,
	}, nil
}

// now is the time since the epoch.
func (s *Store) now() time.Duration { return time.Since(s.epoch) }

// setShare has the limits be another share of those that are declared: for what is leased from now on, for slots, and for
// what is left to each instance in an outage.
func (s *Store) setShare(share float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if share == s.share {
		return
	}
	if share > s.share && !s.closed {
		s.loops.Go(s.soonerAll)
	}
	s.share = share
	s.shares++
	for _, g := range s.groups {
		for m := range g.members {
			m.slots.most = slotsOf(m.of.Limits, share)
			if m.slots.want > 0 || m.slots.out > 0 {
				m.askSlotsLocked()
			}
		}
		if g.down && !s.closed {
			s.loops.Go(g.tell)
		}
	}
}

// soonerAll has what was leased for later than a horizon, since the share was small, be leased anew.
func (s *Store) soonerAll() {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.byKey))
	s.mu.Unlock()
	s.sooner(keys)
}

// sooner does so for some buckets.
func (s *Store) sooner(keys []string) {
	s.mu.Lock()
	var told []leakyqueue.Watcher
	for _, key := range keys {
		for m := range s.byKey[key] {
			told = append(told, m.watcher)
		}
	}
	s.mu.Unlock()
	after := time.Now().Add(s.cfg.Horizon)
	for _, w := range told {
		w.Sooner(after)
	}
}

// Stats returns what the Store has done until now.
func (s *Store) Stats() Stats {
	st := Stats{
		RoundTrips: s.counts.roundTrips.Load(),
		Leased:     s.counts.leased.Load(),
		GivenBack:  s.counts.givenBack.Load(),
		Outages:    s.counts.outages.Load(),
		Instances:  1,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		st.Instances = max(st.Instances, g.live, g.holders)
		if g.down {
			st.Down++
		}
	}
	return st
}

// Close ends the Store. Close the queues and Transports that have it before: what they give back then is told to Redis, for
// which Close waits, but no longer than Config.Timeout. A call that hangs then ends with the client's own timeouts.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.loops.Wait()
	landed := make(chan struct{})
	go func() {
		s.flights.Wait()
		close(landed)
	}()
	select {
	case <-landed:
	case <-time.After(s.cfg.Timeout):
	}
	s.giveUp()
	return nil
}

var _ leakyqueue.Pacer = (*Store)(nil)
