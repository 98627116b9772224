package outflow_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
)

// The signals_*_test.go files measure what a client makes of an upstream about which it was told nothing,
// or little. A scenario is an upstream and who calls it; conditions are what the world adds; an outcome is
// what was measured. All of it runs in virtual time.
//
//	go test -run TestSignals -v .                    one line for each scenario and conditions
//	go test -run TestSignals -signals.dir /tmp/s .   and its time series, as JSON

// conditions are what differs from one run of a scenario to the next.
type conditions struct {
	latency time.Duration // of the network, there and back
	jitter  time.Duration // added to it at random, from 0 to this: requests overtake one another
	workers int           // who share the calls of a closed loop; 0: 64
	phase   time.Duration // how far the clock is into a second when the upstream starts
	seed    uint64
}

func (c conditions) orDefault() conditions {
	c.workers = cmp.Or(c.workers, 64)
	return c
}

// roundTrip is how long the network takes on average.
func (c conditions) roundTrip() time.Duration { return c.latency + c.jitter/2 }

func (c conditions) String() string {
	s := fmt.Sprintf("latency=%v", c.latency)
	if c.jitter > 0 {
		s += fmt.Sprintf("+%v seed=%d", c.jitter, c.seed)
	}
	if c.phase > 0 {
		s += fmt.Sprintf(" phase=%v", c.phase)
	}
	if c.workers != 0 && c.workers != 64 {
		s += fmt.Sprintf(" workers=%d", c.workers)
	}
	return s
}

// near reports whether the conditions are those that the targets were set for. Where the network is slow,
// what is refused in the time that it takes to hear of the first refusal is more.
func (c conditions) near() bool { return c.latency+c.jitter <= time.Millisecond }

// everyday are the conditions under which a scenario's targets are to be met. The first is what they were
// set for; the others are there so that the control law isn't made for that alone.
func everyday() []conditions {
	const ms = time.Millisecond
	all := []conditions{
		{latency: ms},
		{},
		{latency: 20 * ms},
		{latency: 100 * ms},
		{latency: 10 * ms, jitter: 20 * ms, seed: 1},
		{latency: 20 * ms, jitter: 100 * ms, seed: 3},
	}
	if testing.Short() {
		return []conditions{all[0], all[4]}
	}
	return all
}

// A scenario is an upstream and who calls it.
type scenario struct {
	name     string
	upstream *testserver.Upstream

	// Closed loop: workers share calls, or go on until the time is up if calls is 0. What is then still
	// under way is cut off and isn't a failure. Open loop, where perSecond isn't 0: so many calls begin
	// each second, evenly, whatever becomes of those before.
	calls     int
	during    time.Duration
	perSecond int

	minimal  time.Duration // how long the calls take at the least; 0: that isn't the question
	recovers time.Duration // when the upstream has recovered, since the start; 0: it was never unwell
	quota    int           // how much cost the upstream admits during that time; 0: that isn't the question

	// request makes the next request of a worker, counted from 0; nil: GET /. It is called by several at once.
	request func(ctx context.Context, url string, worker int) *http.Request
}

// inBubble runs what make returns, in a bubble, under the conditions.
func inBubble(t *testing.T, cfg outflow.Config, c conditions, build func(c conditions) scenario) outcome {
	t.Helper()
	c = c.orDefault()
	var o outcome
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(c.phase)
		o = build(c).run(t, cfg, c)
	})
	t.Log(o)
	o.save(t)
	return o
}

func (s scenario) run(t *testing.T, cfg outflow.Config, c conditions) outcome {
	srv := s.upstream.Pipe(t)
	network := &network{base: srv.Transport, conditions: c, rng: rand.New(rand.NewPCG(c.seed, 0))}
	cfg.Base = network
	tr := newTransport(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	w := &watch{}
	start := time.Now()
	call := func(worker int) {
		began := time.Now()
		req := newRequest(ctx, t, http.MethodGet, srv.URL+"/", nil)
		if s.request != nil {
			req = s.request(ctx, srv.URL, worker)
		}
		status, _, err := do(tr, req)
		if ctx.Err() != nil { // the time is up
			w.cutOff(span{begin: began, end: time.Now()})
			return
		}
		w.saw(span{began, time.Now(), status}, err)
		if s.during > 0 && (err != nil || status != http.StatusOK) {
			// Whoever fails without taking any time would do so for ever at one instant.
			time.Sleep(tickLength)
		}
	}
	switch {
	case s.perSecond > 0:
		s.openLoop(call)
	case s.calls > 0:
		work := make(chan struct{}, s.calls)
		for range s.calls {
			work <- struct{}{}
		}
		close(work)
		s.closedLoop(c.workers, func() bool { _, more := <-work; return more }, call)
	default:
		// Cancelled, and not with a deadline, which the client would know and refuse by.
		time.AfterFunc(s.during, cancel)
		s.closedLoop(c.workers, func() bool { return ctx.Err() == nil }, call)
	}
	return s.outcome(c, start, w, network.attempts(), s.upstream.Arrivals())
}

func (s scenario) openLoop(call func(worker int)) {
	var wg sync.WaitGroup
	for i := range s.calls {
		if i > 0 {
			time.Sleep(time.Second / time.Duration(s.perSecond))
		}
		wg.Go(func() { call(i) })
	}
	wg.Wait()
}

func (s scenario) closedLoop(workers int, more func() bool, call func(worker int)) {
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for more() {
				call(worker)
			}
		})
	}
	wg.Wait()
}

// network is the way to an upstream and back, half of the latency each. It is the Base of the Transport,
// and notes what passes.
type network struct {
	base       http.RoundTripper
	conditions conditions

	mu     sync.Mutex
	rng    *rand.Rand
	passed []span
}

// A span is a call or an attempt, with the status that it ended with: 0 is an error.
type span struct {
	begin, end time.Time
	status     int
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	begin := time.Now()
	there, back := n.delays()
	time.Sleep(there) // the calls that are cut off at the end may as well arrive
	resp, err := n.base.RoundTrip(req)
	time.Sleep(back)
	s := span{begin: begin, end: time.Now()}
	if err == nil {
		s.status = resp.StatusCode
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.passed = append(n.passed, s)
	return resp, err
}

func (n *network) delays() (there, back time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one := func() time.Duration {
		return n.conditions.latency/2 + time.Duration(n.rng.Int64N(int64(n.conditions.jitter/2)+1))
	}
	return one(), one()
}

func (n *network) attempts() []span {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.passed
}

// watch collects calls as they end.
type watch struct {
	mu     sync.Mutex
	calls  []span
	cut    []span // whom the end of the time has cut off: they count for nothing, but had waited
	errors []error
}

func (w *watch) cutOff(s span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = append(w.cut, s)
}

func (w *watch) saw(s span, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, s)
	if err != nil {
		w.errors = append(w.errors, err)
	}
}
