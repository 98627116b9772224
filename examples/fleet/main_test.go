package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outflow-go/outflow/examples/internal/workload"
	"github.com/outflow-go/outflow/internal/redistest"
)

// TestMain has the test binary be a worker, when a fleet starts it as one.
func TestMain(m *testing.M) {
	if isWorker() {
		workerMain()
		return
	}
	os.Exit(m.Run())
}

func TestNotOneRequestFails(t *testing.T) {
	t.Run("miniredis", func(t *testing.T) { testNotOneRequestFails(t, "") })
	t.Run("redis-server", func(t *testing.T) { testNotOneRequestFails(t, redistest.Start(t).Addr()) })
}

func testNotOneRequestFails(t *testing.T, redis string) {
	f := startQuietly(t, options{Options: workload.Options{Requests: 100, Workers: 2}, redis: redis})
	report := f.work()
	if report.OK != 100 || report.Failed != 0 || report.Attempts != 100 || report.Throttled != 0 {
		t.Errorf("%v; %v", report, report.FirstError)
	}
	// Neither faster than the limit allows nor far from it; how near is a matter for a quiet machine.
	if least, most := report.Ideal*95/100, report.Ideal+time.Second; report.Elapsed < least || report.Elapsed > most {
		t.Errorf("%v, want from %v to %v", report, least, most)
	}
	line := regexp.MustCompile(`^outflow: requests=100 ok=100 failed=0 attempts=100 throttled=0 elapsed=\d+\.\d\ds ideal=0\.81s$`)
	if !line.MatchString(report.String()) {
		t.Errorf("the line is %q", report)
	}
	for _, p := range f.workers {
		if s, _ := p.status(); s.OK != 50 || s.Sent != 50 || s.Waiting != 0 {
			t.Errorf("worker %d says %+v", p.number, s)
		}
	}
}

// Each worker alone would be within the limit.
func TestWithoutOutflowRequestsFail(t *testing.T) {
	report := startQuietly(t, options{Options: workload.Options{Requests: 200, Workers: 4, Without: true}}).work()
	if report.Failed == 0 || report.Throttled != int64(report.Failed) || report.OK+report.Failed != 200 || report.Attempts != 200 {
		t.Error(report)
	}
	if err := report.FirstError; err == nil || !strings.Contains(err.Error(), "429 Too Many Requests") {
		t.Errorf("the error is %v", err)
	}
	alone := startQuietly(t, options{Options: workload.Options{Requests: 50, Workers: 1, Without: true}}).work()
	if alone.OK != 50 {
		t.Errorf("one worker: %v; %v", alone, alone.FirstError)
	}
}

func TestKilledWorkerLeavesTheOthersTheLimit(t *testing.T) {
	f := startQuietly(t, options{Options: workload.Options{Requests: 200, Workers: 2}})
	victim, other := f.workers[0], f.workers[1]
	go func() {
		for s, _ := victim.status(); s.OK < 10; s, _ = victim.status() {
			time.Sleep(time.Millisecond)
		}
		_ = victim.cmd.Process.Kill()
	}()
	report := f.work()
	killed, _ := victim.status()
	if s, _ := other.status(); s.OK != 100 {
		t.Errorf("the other worker says %+v", s)
	}
	if killed.OK < 10 || killed.OK == 100 || report.OK != 100+killed.OK || report.Failed != 100-killed.OK {
		t.Errorf("%v, of which %d by who was killed", report, killed.OK)
	}
	if err := report.FirstError; err == nil || err.Error() != "worker 1: signal: killed" {
		t.Errorf("the error is %v", err)
	}
}

// A worker hears of its parent's end by that of its standard input.
func TestWorkerEndsWithItsParent(t *testing.T) {
	up := newUpstream()
	redis, err := findRedis(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer redis.close()
	in, parent := io.Pipe()
	said, out := io.Pipe()
	ended := make(chan error)
	go func() { ended <- work(in, out) }()

	heard := json.NewDecoder(said)
	var s status
	if err := heard.Decode(&s); err != nil || s != (status{}) {
		t.Fatalf("it says %+v, %v", s, err)
	}
	j := job{Requests: 1000, URL: up.TCP(t).URL, Redis: redis.address, Prefix: redis.prefix, Fleet: 1}
	if err := json.NewEncoder(parent).Encode(j); err != nil {
		t.Fatal(err)
	}
	go func() {
		for done := 0; done < 10; {
			var s status
			_ = heard.Decode(&s)
			done = s.OK
		}
		parent.Close()
		_, _ = io.Copy(io.Discard, said)
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it goes on")
	}
}

// Ctrl-C may come while the workers start.
func TestFleetThatCannotStartLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := options{Options: workload.Options{Requests: 10, Workers: 2, Out: io.Discard}}
	if _, err := o.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	o.redis = "localhost:1"
	if _, err := o.run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), `-redis is "localhost:1": `) {
		t.Errorf("without a Redis: %v", err)
	}
}

func TestReportCountsWhatNobodySaidAsFailed(t *testing.T) {
	start := time.Now()
	f := &fleet{upstream: newUpstream()}
	f.Requests = 300
	f.workers = []*process{
		{number: 1, share: 100, last: status{OK: 100}, heard: start.Add(3 * time.Second)},
		{number: 2, share: 100, last: status{OK: 60}, heard: start.Add(time.Second), err: io.ErrUnexpectedEOF},
		{number: 3, share: 100, err: io.EOF},
	}
	r := f.report(start)
	if r.OK != 160 || r.Failed != 140 || r.Elapsed != 3*time.Second || r.Ideal != 2810*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r.FirstError == nil || r.FirstError.Error() != "worker 2: unexpected EOF" {
		t.Errorf("the error is %v", r.FirstError)
	}
}

func TestShares(t *testing.T) {
	for _, tt := range []struct {
		requests, workers int
		want              []int
	}{
		{400, 4, []int{100, 100, 100, 100}},
		{10, 4, []int{3, 3, 2, 2}},
		{1, 3, []int{1, 0, 0}},
	} {
		if got := shares(tt.requests, tt.workers); !slices.Equal(got, tt.want) {
			t.Errorf("%d requests of %d workers: %v, want %v", tt.requests, tt.workers, got, tt.want)
		}
	}
}

func startQuietly(t *testing.T, o options) *fleet {
	t.Helper()
	o.Out = io.Discard
	f, err := o.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}
