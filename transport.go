package outflow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// Config says what a Transport does. The zero Config is usable: it holds no limit of its own, obeys
// what upstreams say, finds the limits that they refuse by, and retries.
type Config struct {
	// Base sends the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper

	// Limits hold jointly for each host: the URL's host in lower case, with its port unless that is
	// the scheme's own. They hold in addition to the rules'.
	Limits []limit.Limit

	// Rules are finer: every rule that matches a request applies to it, and it leaves when all of
	// them let it. Where several match, an upstream's refusal pauses the last of them only, so wide
	// rules come first.
	Rules []Rule

	// Breaker makes the circuit breaker of a host when that is first used, for requests that match no
	// rule with a Breaker of its own: see [Breaker]. Nil: none.
	Breaker func(host string) Breaker

	// Queue bounds the waiting: its length, how long, and how long a pause is waited for.
	Queue leakyqueue.Config

	// Retry says which attempts are repeated, and when.
	Retry Retry

	// Store has the limits hold for all Transports together that have one over the same data, in however many
	// processes: see package shared. Their rules are told apart by their names, and need the same limits. Pauses are
	// shared, too. Nil: this process.
	Store Store

	// Learn says what is made of what upstreams answer. Defaults to LearnLimits.
	Learn Learn

	// Spread says how what an upstream says is left of a quota is used up until it is renewed. Defaults to
	// limit.SpreadLast: as fast as the limits let it until a tenth is left.
	Spread limit.Spread
}

// A Store is where limits are kept that several processes share. A *shared.Store is one.
type Store = leakyqueue.Pacer

// A Transport is an http.RoundTripper that keeps the pace of its upstreams. It is safe for
// concurrent use and has no goroutine of its own.
type Transport struct {
	base      http.RoundTripper
	queue     *leakyqueue.Queue
	hosts     *leakyqueue.Rule // a bucket for each host
	hostsHold atomic.Bool      // Config.Limits aren't empty: hosts hold what matches a rule, too
	rules     []compiledRule
	settles   bool      // some rule has Settle
	pools     bool      // some rule has a Pool
	breaks    bool      // some rule has a Breaker, or hosts do
	breakers  *breakers // of hosts; nil: they have none
	retry     retrier
	counts    counters
}

// New returns a Transport, or an error that names the field of the Config that is wrong and its value.
func New(cfg Config) (*Transport, error) {
	queue, err := leakyqueue.New(cfg.Queue)
	if err != nil {
		return nil, fmt.Errorf("outflow: Config.Queue: %w", err)
	}
	t := &Transport{base: cfg.Base, queue: queue, breaks: cfg.Breaker != nil, breakers: newBreakers(cfg.Breaker)}
	t.hostsHold.Store(len(cfg.Limits) > 0)
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.hosts, err = queue.AddRule("host", cfg.Limits...); err != nil {
		return nil, fmt.Errorf("outflow: Config.Limits: %w", err)
	}
	if err := cfg.checkLearning(); err != nil {
		return nil, fmt.Errorf("outflow: Config.%w", err)
	}
	cfg.learn(t.hosts, "")
	for i, r := range cfg.Rules {
		c, err := r.compile(queue)
		if err != nil {
			return nil, fmt.Errorf("outflow: Config.Rules[%d].%w", i, err)
		}
		cfg.learn(c.rule, r.Unit)
		t.rules = append(t.rules, c)
		t.settles = t.settles || c.settle != nil
		t.pools = t.pools || c.use != nil
		t.breaks = t.breaks || c.breakers != nil
	}
	if err := t.share(&cfg); err != nil {
		return nil, fmt.Errorf("outflow: Config.%w", err)
	}
	if t.retry, err = cfg.Retry.compile(queue.MaxPause()); err != nil {
		return nil, fmt.Errorf("outflow: Config.Retry.%w", err)
	}
	return t, nil
}

// RoundTrip sends req when its turn comes, and again as [Retry] says. Its errors are those of Base,
// or an [*Error] for a request that did not leave; a response with any status is none, also when the
// tries have run out. The request isn't modified, and its body is always closed.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ours := leftovers{request: req}
	defer ours.close()
	if req.URL == nil {
		return nil, errors.New("outflow: Request.URL is nil")
	}
	var few [4]leakyqueue.Key
	keys, shadow := t.appendKeys(few[:0], req)
	opts := optionsOf(req.Context())
	demand := leakyqueue.Demand{Cost: opts.cost, Keys: keys, Priority: opts.priority, Flow: opts.flow}
	tries := t.retry.begin()
	turn, held, err := t.enter(req.Context(), demand, shadow)
	ours.held = held
	if err != nil {
		opts.trace.record(leakyqueue.Departure{}, err)
		return nil, err
	}
	for out := req; ; {
		// Wait for the turn. The slots that come with it are held to the end of the response's body.
		left, err := turn.Await(req.Context())
		opts.trace.record(left, err)
		if err != nil {
			return nil, err
		}
		t.measure(shadow, demand, ours.held)

		// Send it, unless a circuit breaker is open.
		ours.request = nil
		ours.response, err = t.send(req, out, keys, ours.held, &tries, left)
		ours.held.got(ours.response)

		// Hear what the upstream says, for those who wait, before anybody gets a slot from this.
		heard := t.observe(req, keys, ours.held, ours.response, left, &tries)

		// Is it to be sent again, could it be, and is there a turn for it? Until all that is certain,
		// the response remains whole: it may be the caller's.
		verdict := t.retry.judge(req, ours.response, err, heard, &tries)
		if verdict.err != nil {
			err = verdict.err
		}
		if !verdict.again {
			return ours.handOver(req, err)
		}
		again := rewind(req)
		if again == nil {
			return ours.handOver(req, err)
		}
		ours.request = again
		demand.Place, demand.Delay = left.Place, verdict.delay
		next, hold, refused := t.enter(req.Context(), demand, shadow)
		if refused != nil {
			return ours.handOver(req, err)
		}
		ours.exchange(next, hold)
		t.counts.retries.Add(1)
		out, turn = again, next
	}
}

// Close lets the requests that wait leave at their turns and refuses new ones with [ErrClosed]. It
// returns when nobody waits and no slot of a concurrency limit is out; if ctx ends first, those who
// still wait get ErrClosed, and Close returns the context's cause. Requests that have left are not
// cut off, and Base is not closed.
func (t *Transport) Close(ctx context.Context) error { return t.queue.Close(ctx) }

// CloseIdleConnections does so in Base, if Base can: http.Client's method of that name calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Earliest returns when req could leave if it came now, as far as rates and pauses decide it, and
// takes nothing. A concurrency limit, or requests that share only some of its buckets, may make it
// later. It is the zero time for a request that never leaves, because its cost is out of range.
func (t *Transport) Earliest(req *http.Request) time.Time {
	var few [4]leakyqueue.Key
	keys, _ := t.appendKeys(few[:0], req)
	opts := optionsOf(req.Context())
	at, err := t.queue.Earliest(leakyqueue.Demand{Cost: opts.cost, Keys: keys, Priority: opts.priority, Flow: opts.flow})
	if err != nil {
		return time.Time{}
	}
	return at
}
