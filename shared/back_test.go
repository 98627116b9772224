package shared_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// scriptsRun is how often Redis was asked for one of the scripts that lease.
func scriptsRun(t *testing.T, srv *redistest.Server) int {
	t.Helper()
	info, err := srv.Do("INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(fmt.Sprint(info))
	if m == nil {
		t.Fatal("Redis tells of no scripts")
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// sentScripts counts the scripts that a client is to run, each once however often it sends them.
type sentScripts struct{ n *atomic.Int64 }

func (s sentScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s sentScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.count(cmd)
		return next(ctx, cmd)
	}
}

func (s sentScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.count(cmds...)
		return next(ctx, cmds)
	}
}

func (s sentScripts) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if cmd.Name() == "evalsha" {
			s.n.Add(1)
		}
	}
}

// deaf is a connection that loses what Redis answers, but for that to its greeting, as long as that is set. Until its
// deadline the client waits.
type deaf struct {
	net.Conn
	on    *atomic.Bool
	greet atomic.Bool // the last that was sent is the greeting
}

func (c *deaf) Write(p []byte) (int, error) {
	c.greet.Store(bytes.Contains(p, []byte("hello")) || bytes.Contains(p, []byte("client")))
	return c.Conn.Write(p)
}

func (c *deaf) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for err == nil && c.on.Load() && !c.greet.Load() {
		n, err = c.Conn.Read(p)
	}
	return n, err
}

// Trap 37, first half: commands that have timed out aren't sent again when nobody waits for them any longer, whatever the
// client's options, since Redis counts each. When it can be heard again, and a probe has found that out, all goes on.
func TestRealRedisRunsNothingTwice(t *testing.T) {
	const n, rate = 4, 1000
	srv := redistest.Start(t)
	f := startFleet(t, 0, srv.Addr(), shared.Config{})
	var on atomic.Bool
	var sent atomic.Int64
	for range n {
		i := f.add(srv.Addr(), shared.Config{ExpectedInstances: n}, limit.PerSecond(rate))
		i.rdb.AddHook(sentScripts{&sent})
		o := i.rdb.Options()
		o.MaxRetries, o.ReadTimeout = 3, 200*time.Millisecond
		dial := o.Dialer
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &deaf{Conn: c, on: &on}, nil
		}
	}
	const from, to = 1200 * time.Millisecond, 2400 * time.Millisecond
	time.AfterFunc(from, func() { on.Store(true) })
	time.AfterFunc(to, func() { on.Store(false) })
	f.run(to+2*time.Second, 64, 0)
	outages := uint64(0)
	for _, i := range f.instances {
		if err := i.queue.Close(context.Background()); err != nil {
			t.Error(err)
		}
		_ = i.store.Close()
		outages += i.store.Stats().Outages
	}
	ran := scriptsRun(t, srv)
	all := f.departures()
	during, back := within(all, from, to), within(all, to+600*time.Millisecond, to+1800*time.Millisecond)
	t.Logf("%d outages; %d scripts sent, %d run; %d departures in the %v without answers, %d in as long from 600 ms after it; at most %d in 100 ms and %d in a second", outages, sent.Load(), ran, during, to-from, back, densest(all, 100*time.Millisecond), densest(all, time.Second))
	if outages == 0 {
		t.Error("there was no outage")
	}
	if ran > int(sent.Load()) {
		t.Errorf("Redis ran %d scripts for %d that were sent", ran, sent.Load())
	}
	if want := int(rate * (to - from) / time.Second); back < want*97/100 {
		t.Errorf("%d departures in %v with answers again, want %d", back, to-from, want)
	}
	if most, bound := densest(all, time.Second), 1+n+int((time.Second+lateness)*rate/time.Second); most > bound {
		t.Errorf("%d departures in a second, want at most %d", most, bound)
	}
}

// Trap 37, second half: those who wait for one bucket keep nobody from another: neither in the queue, nor at the store.
func TestRealRedisOneHotBucketParksNobody(t *testing.T) {
	fleettest.Timed(t)
	const rate = 500
	srv := redistest.Start(t)
	f := startFleet(t, 2, srv.Addr(), patient, limit.PerSecond(rate))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, i := range f.instances {
		hot, err := i.queue.AddRule("hot", limit.PerSecond(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := hot.Share(i.store, leakyqueue.Sharing{}); err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			wg.Go(func() {
				for {
					if _, err := i.queue.Depart(ctx, leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: hot}}}, nil); err != nil {
						return
					}
				}
			})
		}
		f.busy(ctx, &wg, i, 32, 0)
	}
	wg.Wait()
	n := within(f.departures(), time.Second, 3*time.Second)
	t.Logf("%d departures in 2 s beside 6,000 who wait for a bucket of 1/s", n)
	if n < 2*rate*97/100 {
		t.Errorf("%d departures in 2 s, want %d", n, 2*rate)
	}
}
