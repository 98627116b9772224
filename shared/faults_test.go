package shared_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/shared"
)

// What a fault may cost, as far as it is the same for many. All of it holds at 1,000/s with burst 1 and 16 instances.
const (
	instances = 16

	// A call has 150 ms. Whoever is down looks each 200 ms ± 20 % whether Redis is back, and is told to leave no
	// earlier than a horizon of 100 ms then, since others may still use what they leased.
	noticed  = 150 * time.Millisecond
	returned = 240*time.Millisecond + 100*time.Millisecond

	// Those who return first have the rate of all by the time that the last one's share comes to an end.
	mixed = 240
)

func client(addr string) func() redis.UniversalClient {
	return func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: addr}) }
}

// byMode runs a test in each mode.
func byMode(t *testing.T, test func(t *testing.T, mode shared.OnOutage)) {
	for _, mode := range []shared.OnOutage{shared.LocalShare, shared.FailOpen, shared.FailClosed} {
		t.Run(fleettest.Mode(mode), func(t *testing.T) { test(t, mode) })
	}
}

// lasts is how long an outage is: as long as it has to be in the default mode, and in the others only for the table.
func lasts(d time.Duration, mode shared.OnOutage) time.Duration {
	if mode == shared.LocalShare || fleettest.Full() {
		return d
	}
	return time.Second
}

// in is what an outage may cost in a mode, if it may cost that in the default one.
func in(mode shared.OnOutage, d time.Duration, b fleettest.Bounds) fleettest.Bounds {
	switch mode {
	case shared.FailOpen:
		b.Over, b.Used = -1, 0
	case shared.FailClosed:
		b.Refuses, b.Used = true, 0
		b.Stall = d + returned + noticed
	}
	return b
}

// A Redis that loses its memory under a fleet: who knew the bucket says so, and the rate goes on where what was leased
// before ends.
func TestRealRedisFlushed(t *testing.T) {
	srv := redistest.Start(t)
	f := fleettest.Start(t, fleettest.Config{Client: client(srv.Addr())})
	f.Run(4*time.Second, func() {
		f.Wait(time.Second)
		f.Begins()
		for n := range 4 {
			f.Wait(time.Second + time.Duration(n)*500*time.Millisecond)
			srv.Flush()
		}
		f.Ends()
	})
	leased := f.Leased()
	for len(leased) > 0 && leased[0] < 700*time.Millisecond { // what an instance knows of Redis' clock begins with one answer
		leased = leased[1:]
	}
	over := fleettest.Excess(leased, 1000)
	t.Logf("%.1f departures leased beyond the rate, at most", over)
	if over > 3 {
		t.Errorf("%.1f departures leased beyond the rate, want at most 3", over)
	}
	f.Check(fmt.Sprintf("FLUSHALL, 4 times (%.1f leased beyond the rate, of 3)", over), fleettest.Bounds{Over: 3, Stall: 200 * time.Millisecond, Recovery: 200 * time.Millisecond, Used: 0.85})
}

func TestRealRedisForgetsScripts(t *testing.T) {
	srv := redistest.Start(t)
	f := fleettest.Start(t, fleettest.Config{Client: client(srv.Addr())})
	f.Run(2500*time.Millisecond, func() {
		f.Wait(time.Second)
		f.Begins()
		if _, err := srv.Do("SCRIPT", "FLUSH"); err != nil {
			t.Fatal(err)
		}
		f.Ends()
	})
	f.Check("SCRIPT FLUSH", fleettest.Bounds{Stall: 50 * time.Millisecond, Recovery: 50 * time.Millisecond, Used: 0.97})
}

func TestRealRedisIsKilled(t *testing.T) {
	byMode(t, func(t *testing.T, mode shared.OnOutage) {
		gone := lasts(5*time.Second, mode)
		srv := redistest.Start(t)
		f := fleettest.Start(t, fleettest.Config{Client: client(srv.Addr()), Store: shared.Config{OnOutage: mode}})
		f.Run(gone+2*time.Second, func() {
			f.Wait(time.Second)
			f.Begins()
			srv.Kill()
			f.Wait(time.Second + gone)
			srv.Restart()
			f.Ends()
		})
		f.Check(fmt.Sprintf("killed for %v, restarted empty", gone), in(mode, gone, fleettest.Bounds{
			Over: instances + mixed, Stall: noticed + 100*time.Millisecond, Recovery: returned + noticed, Used: 0.9,
		}))
	})
}

func TestRealRedisIsStopped(t *testing.T) {
	byMode(t, func(t *testing.T, mode shared.OnOutage) {
		if mode != shared.LocalShare && !fleettest.Full() {
			return // it is as where Redis is killed, but that the end is noticed sooner
		}
		const gone = 3 * time.Second
		srv := redistest.Start(t)
		f := fleettest.Start(t, fleettest.Config{Client: client(srv.Addr()), Store: shared.Config{OnOutage: mode}})
		f.Run(gone+2*time.Second, func() {
			f.Wait(time.Second)
			f.Begins()
			srv.Stop()
			f.Wait(time.Second + gone)
			srv.Continue()
			f.Ends()
		})
		f.Check(fmt.Sprintf("SIGSTOP for %v", gone), in(mode, gone, fleettest.Bounds{
			Over: instances, Stall: noticed + 100*time.Millisecond, Recovery: returned, Used: 0.9,
		}))
	})
}

// A Redis that hangs costs a fleet the time until it is noticed, and nobody bursts when it is back.
func TestRealRedisHangs(t *testing.T) {
	srv := redistest.Start(t)
	f := fleettest.Start(t, fleettest.Config{Client: client(srv.Addr())})
	f.Run(6500*time.Millisecond, func() {
		f.Wait(2 * time.Second)
		f.Begins()
		srv.Stop()
		f.Wait(4 * time.Second)
		srv.Continue()
		f.Ends()
	})
	f.Check("hangs for 2 s", fleettest.Bounds{Over: instances, Stall: noticed + 50*time.Millisecond, Recovery: returned, Used: 0.97})
}

func TestRealRedisFailover(t *testing.T) {
	s := redistest.StartSentinel(t, 2)
	f := fleettest.Start(t, fleettest.Config{Client: func() redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: s.Addrs()})
	}})
	f.Run(6*time.Second, func() {
		f.Wait(time.Second)
		f.Begins()
		s.KillMaster()
		s.WaitFailover()
		f.Ends()
	})
	f.Check("Sentinel: the master killed", fleettest.Bounds{Over: instances + mixed, Stall: noticed + 100*time.Millisecond, Recovery: time.Second, Used: 0.9})
}

func TestRealRedisCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, 1)
	const key = "outflow:{-}:probe"
	start := func(prefix string) *fleettest.Fleet {
		return fleettest.Start(t, fleettest.Config{Store: shared.Config{Prefix: prefix}, Client: func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
		}})
	}
	f := start("outflow")
	f.Run(4*time.Second, func() {
		f.Wait(time.Second)
		to := c.Nodes()[0]
		if to == c.MasterOf(key) {
			to = c.Nodes()[1]
		}
		f.Begins()
		m := c.StartMove(key, to)
		f.Wait(1300 * time.Millisecond)
		m.Keys(1) // some of the keys are here now, and some there
		f.Wait(1600 * time.Millisecond)
		for m.Keys(100) > 0 {
		}
		f.Wait(1900 * time.Millisecond)
		for m.Keys(100) > 0 {
		}
		m.Finish()
		f.Ends()
	})
	r := f.Check("Cluster: a slot moved in 0.9 s", fleettest.Bounds{Over: instances + mixed, Stall: noticed + 100*time.Millisecond, Recovery: returned, Used: 0.9})
	// While some keys are here and some there Redis can't run the scripts, and each time that it would be taken to be back
	// would cost another deadline and horizon. A busy machine may see one more.
	if r.Outages > 2*instances {
		t.Errorf("%d outages, want one for each of %d instances", r.Outages, instances)
	}

	f = start("other")
	f.Run(7*time.Second, func() {
		f.Wait(time.Second)
		f.Begins()
		c.KillMasterOf(key)
		c.WaitOK()
		f.Ends()
	})
	f.Check("Cluster: the master killed", fleettest.Bounds{Over: instances + mixed, Stall: noticed + 100*time.Millisecond, Recovery: time.Second, Used: 0.9})
}

// The clock of a real server can't be stepped without that of all others: this is on a fake, whose clock doesn't go
// by itself once it is set. Back, the step takes nothing and gives nothing, but that what each instance knows of the clock
// begins anew, with one answer that may have come late by some milliseconds. Forward, what was leased before and what
// is leased then may coincide: that is a horizon of departures.
func TestClockOfRedisIsStepped(t *testing.T) {
	for _, tt := range []struct {
		name string
		step time.Duration
		over int
	}{{"back", -10 * time.Second, instances}, {"forward", 10 * time.Second, 100}} {
		t.Run(tt.name, func(t *testing.T) {
			m := miniredis.RunT(t)
			f := fleettest.Start(t, fleettest.Config{Client: client(m.Addr())})
			tick := func(off, until time.Duration) {
				for f.Elapsed() < until {
					m.SetTime(time.Now().Add(off))
					time.Sleep(500 * time.Microsecond)
				}
			}
			f.Run(3*time.Second, func() {
				tick(0, time.Second)
				f.Begins()
				f.Ends()
				tick(tt.step, 3*time.Second)
			})
			f.Check("clock 10 s "+tt.name, fleettest.Bounds{Over: tt.over, Stall: 200 * time.Millisecond, Recovery: 200 * time.Millisecond, Used: 0.9})
		})
	}
}

func TestRealRedisNeverReached(t *testing.T) {
	byMode(t, func(t *testing.T, mode shared.OnOutage) {
		srv := redistest.Start(t)
		srv.Kill()
		f := fleettest.Start(t, fleettest.Config{Client: client(srv.Addr()), Store: shared.Config{OnOutage: mode, ExpectedInstances: instances}})
		f.Run(2500*time.Millisecond, func() {
			f.Begins()
			f.Wait(1500 * time.Millisecond)
			srv.Restart()
			f.Ends()
		})
		b := in(mode, 1500*time.Millisecond, fleettest.Bounds{Over: instances + mixed, Stall: noticed, Recovery: returned + noticed, Used: 0.8})
		f.Check("not there at first, for 1.5 s", b)
	})
}

// An instance that joins has its share within a heartbeat, which each of the others has once a second.
func TestRealRedisLateJoiner(t *testing.T) {
	srv := redistest.Start(t)
	f := fleettest.Start(t, fleettest.Config{Client: client(srv.Addr()), Instances: instances - 1})
	f.Run(4*time.Second, func() {
		f.Wait(time.Second)
		f.Begins()
		f.Join()
		f.Ends()
	})
	f.Check("one of 16 joins late", fleettest.Bounds{Stall: 50 * time.Millisecond, Recovery: 50 * time.Millisecond, Used: 0.97})
	all := fleettest.Within(f.Departures(), 2*time.Second, 4*time.Second)
	if got := fleettest.Within(f.Of(instances-1), 2*time.Second, 4*time.Second); got < all/instances*85/100 || got > all/instances*115/100 {
		t.Errorf("%d of %d departures in 2 s are of the one, want a share of 1/%d", got, all, instances)
	}
}
