package leakyqueue

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outflow-go/outflow/limit"
)

const (
	// DefaultMaxWaiting is Config.MaxWaiting where that is zero.
	DefaultMaxWaiting = 10_000

	// DefaultMaxPause is Config.MaxPause where that is zero.
	DefaultMaxPause = 5 * time.Minute

	// DefaultSlack is Config.Slack where that is zero.
	DefaultSlack = 10 * time.Millisecond

	// MaxCost is the highest cost that a Demand may have.
	MaxCost = 1 << 30
)

const (
	never     = time.Duration(math.MaxInt64)
	longest   = never / 4   // longer durations are cut to these 73 years, so that no sum overflows
	idleAfter = time.Minute // how long a bucket that is as good as new is remembered
	// evictAtOnce bounds the time for which a clean-up holds the lock to some 100 µs.
	evictAtOnce = 1000
	// patience is how often a head may be passed over before it claims a bucket.
	patience = 8
)

// Config sets a queue's bounds. The zero Config is usable.
type Config struct {
	// MaxWaiting is how many requests may wait for the same buckets; what becomes of one more is for
	// Overflow to say. A retry, which has a Place, is let in nevertheless: it was in already.
	//
	// Negative: any number. Defaults to DefaultMaxWaiting.
	MaxWaiting int

	// Overflow says who gives way when MaxWaiting is reached. Defaults to RefuseNewcomer.
	Overflow Overflow

	// MaxWait is the longest that a request may wait for its turn. One whose turn would come later
	// is refused with ErrDeadline, at once where that can be known.
	//
	// Zero: as long as its context lasts. It can't be negative.
	MaxWait time.Duration

	// MaxPause is the longest pause that anybody waits for. During a longer one, those who wait and
	// those who come are refused with ErrDeadline, and after MaxPause requests leave again,
	// whatever the pause was said to be: nobody can park the queue for ever.
	//
	// It can't be negative. Defaults to DefaultMaxPause.
	MaxPause time.Duration

	// MaxHold is how long a ticket may hold its slots: then they are given back and the bucket's
	// Counts.HoldsExpired goes up. It is for callers who can't be trusted to call Ticket.Done.
	//
	// Zero: until Done. It can't be negative.
	MaxHold time.Duration

	// Slack is how late a departure may be and still be caught up: the next ones then follow sooner
	// than the rate would have it, until the lateness is made up for. Without it a rate above
	// 1,000/s isn't reached on Linux, where an idle program's timers are late by up to 1.1 ms. A rate
	// r with burst b lets at most b + r·(W + Slack) leave in any window W, rounded up.
	//
	// Negative: none. Defaults to DefaultSlack.
	Slack time.Duration

	// Weights are those of the flows that are to have more than others: of two that both wait, one of
	// weight 3 gets three times as much of a bucket as one of weight 1. From 1 to MaxWeight; a flow that
	// isn't there has 1. The map isn't to be changed afterwards.
	Weights map[string]int
}

// withDefaults returns the Config with its defaults filled in, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	for _, f := range []struct {
		name  string
		value *time.Duration
	}{{"MaxWait", &c.MaxWait}, {"MaxPause", &c.MaxPause}, {"MaxHold", &c.MaxHold}} {
		if *f.value < 0 {
			return c, fmt.Errorf("leakyqueue: %w: %s is %v, want 0 or more", ErrInvalid, f.name, *f.value)
		}
		*f.value = min(*f.value, longest)
	}
	if c.Overflow > Block {
		return c, fmt.Errorf("leakyqueue: %w: Overflow is %d, want 0 to %d", ErrInvalid, c.Overflow, Block)
	}
	for flow, w := range c.Weights {
		if w < 1 || w > MaxWeight {
			return c, fmt.Errorf("leakyqueue: %w: Weights[%q] is %d, want 1 to %d", ErrInvalid, flow, w, MaxWeight)
		}
	}
	c.MaxWaiting = cmp.Or(c.MaxWaiting, DefaultMaxWaiting)
	c.MaxPause = cmp.Or(c.MaxPause, DefaultMaxPause)
	c.Slack = min(max(cmp.Or(c.Slack, DefaultSlack), 0), longest)
	return c, nil
}

// A Queue lets requests leave at the pace of their buckets' limits, in order. It is safe for
// concurrent use. It has no goroutine of its own, and one timer, however many wait.
type Queue struct {
	cfg Config
	// patience is the constant, except in tests of what holds without claims.
	patience int
	own      *Rule                  // of demands that name no keys
	crowded  atomic.Bool            // somebody waits
	spare    atomic.Pointer[waiter] // made, but not used
	epoch    time.Time              // moments are durations since then, by the monotonic clock

	// mu guards what follows, and every bucket, lane, waiter and ticket. Nothing is waited for, and
	// nobody is called or woken, while it is held, but for a Pacer, who waits for nothing either.
	mu       sync.Mutex
	rules    []*Rule
	pools    []*pool
	buckets  list[bucket]        // all but those of pools, the least recently used first
	named    map[string]*bucket  // by the upstreams' names of them; nil: there is none
	lines    map[string]*line    // of those who wait for several buckets, by ID
	wakes    heap[*bucket]       // by when the oldest head parked there may leave
	delayed  heap[delayedWaiter] // by when they join their lane
	arrivals arrivals            // who waits, and since when; empty without MaxWait
	out      list[Ticket]        // those that hold a slot, in the order of departure
	leases   map[string]*bucket  // of several shared buckets, by their line's ID
	touched  []*lease            // to be looked at before mu is given up
	gates    []*bucket           // their slots are, too
	woken    list[waiter]        // to be woken when mu is given up
	stirred  []*bucket           // their order may have changed: to be dispatched before that
	roomy    []*line             // may have room for those outside
	waiting  int                 // in lanes or delayed
	round    uint64              // how often the lock was given up
	places   Place               // the last one given
	ids      uint64              // the last given to a bucket
	closing  bool                // newcomers are refused
	closed   bool                // everybody is
	drained  chan struct{}       // closed when nobody waits or holds a slot any more
	timer    *time.Timer         // calls fire
	armed    time.Duration       // when the timer fires; never if it isn't set
}

// New returns a queue in which the given limits hold jointly, and that holds nobody back without
// any. Rules for requests that aren't all alike are added with [Queue.AddRule]. The error names the
// field or limit that is wrong and its value.
func New(cfg Config, limits ...limit.Limit) (*Queue, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	q := &Queue{
		cfg:      cfg,
		patience: patience,
		epoch:    time.Now(),
		buckets:  list[bucket]{linksOf: bucketLinks},
		lines:    make(map[string]*line),
		out:      list[Ticket]{linksOf: ticketLinks},
		woken:    list[waiter]{linksOf: orderLinks},
		armed:    never,
		drained:  make(chan struct{}),
	}
	q.timer = time.AfterFunc(never, q.fire)
	q.timer.Stop()
	if q.own, err = q.AddRule("queue", limits...); err != nil {
		return nil, err
	}
	return q, nil
}

// MaxPause returns Config.MaxPause, or its default.
func (q *Queue) MaxPause() time.Duration { return q.cfg.MaxPause }

// AddRule adds a set of limits that hold jointly for each of the rule's keys. The name is for errors
// and statistics.
func (q *Queue) AddRule(name string, limits ...limit.Limit) (*Rule, error) {
	r, err := q.newRule(name, limits)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rules = append(q.rules, r)
	return r, nil
}

func (q *Queue) newRule(name string, limits []limit.Limit) (*Rule, error) {
	set, err := limit.Join(limits...)
	if err != nil {
		return nil, fmt.Errorf("leakyqueue: rule %q: %w", name, err)
	}
	r := &Rule{q: q, name: name, set: set, maxCost: set.MaxCost(), buckets: make(map[string]*bucket)}
	r.slots.Store(slotsOf(set))
	return r, nil
}

// slotsOf is not 0 if departures hold slots.
func slotsOf(set limit.Set) int64 {
	_, most, adapts := set.AdaptiveConcurrency()
	if n := set.Slots(); n > 0 || !adapts {
		return int64(n)
	}
	return int64(most)
}

// now is the time since the epoch. It is monotonic: a wall clock that jumps moves nothing.
func (q *Queue) now() time.Duration { return time.Since(q.epoch) }

// deadlineOf is when ctx ends. A deadline by the wall clock counts from what the wall clock says now.
func deadlineOf(ctx context.Context, now time.Duration) time.Duration {
	t, ok := ctx.Deadline()
	if !ok {
		return never
	}
	return now + min(time.Until(t), longest)
}
