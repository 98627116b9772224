package workload

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

func TestIdeal(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		n       int
		service time.Duration
		limits  []limit.Limit
		want    time.Duration
	}{
		{"nothing to do", 0, time.Second, nil, 0},
		{"no limit", 100, 10 * ms, nil, 10 * ms},
		{"rate", 300, 10 * ms, []limit.Limit{limit.PerSecond(100)}, 3 * time.Second},
		{"rate with a burst", 300, 0, []limit.Limit{limit.PerSecond(100).WithBurst(50)}, 2500 * ms},
		{"all in the burst", 50, 10 * ms, []limit.Limit{limit.PerSecond(100).WithBurst(50)}, 10 * ms},
		{"concurrency", 10, time.Second, []limit.Limit{limit.Concurrent(5)}, 2 * time.Second},
		{"concurrency, last round not full", 11, time.Second, []limit.Limit{limit.Concurrent(5)}, 3 * time.Second},
		{"the slower rate holds", 101, 0, []limit.Limit{limit.PerSecond(100), limit.PerSecond(20)}, 5 * time.Second},
		{"rate spaces the first round, concurrency the rest", 30, 500 * ms,
			[]limit.Limit{limit.PerSecond(20), limit.Concurrent(5)}, 3200 * ms},
	} {
		if got := Ideal(tt.n, tt.service, tt.limits...); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRunShowsALineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		failure := errors.New("refused")
		calls := make([]Call, 10)
		for i := range calls {
			calls[i] = func(context.Context) error {
				time.Sleep(700 * time.Millisecond)
				if i == 3 {
					return failure
				}
				return nil
			}
		}
		got := Run(t.Context(), calls, Options{Workers: 4, Out: &out})
		want := Result{OK: 9, Failed: 1, Elapsed: 2100 * time.Millisecond, FirstError: failure}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if want := " 1s  4 of 10 done, 1 failed\n 2s  8 of 10 done, 1 failed\n"; out.String() != want {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
	})
}

func TestRunMakesNoCallAfterItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var made sync.Map
		calls := make([]Call, 5)
		for i := range calls {
			calls[i] = func(context.Context) error {
				made.Store(i, true)
				time.Sleep(time.Second)
				return nil
			}
		}
		got := Run(ctx, calls, Options{Workers: 1, Out: new(strings.Builder)})
		if got.OK != 2 || got.Failed != 3 || !errors.Is(got.FirstError, context.DeadlineExceeded) {
			t.Errorf("%+v", got)
		}
		if _, late := made.Load(2); late {
			t.Error("a call was made after the end")
		}
	})
}

func TestWireCountsAndRedirects(t *testing.T) {
	up := testserver.New(testserver.Script(nil, testserver.Reply(http.StatusTooManyRequests, "")))
	server := up.TCP(t)
	wire := NewWire(1)
	defer wire.CloseIdleConnections()
	if err := wire.RedirectTo(server.URL); err != nil {
		t.Fatal(err)
	}

	client := &http.Client{Transport: wire}
	for range 3 {
		resp, err := client.Get("https://api.twilio.com/2010-04-01/Accounts.json")
		if err != nil {
			t.Fatal(err)
		}
		if resp.Request.URL.Host != "api.twilio.com" {
			t.Errorf("the client's own request was changed to %s", resp.Request.URL)
		}
		resp.Body.Close()
	}
	if n, throttled := wire.Attempts.Load(), wire.Throttled.Load(); n != 3 || throttled != 1 {
		t.Errorf("%d attempts, %d throttled", n, throttled)
	}
	if got := up.Arrivals()[0]; "http://"+got.Host != server.URL || got.Path != "/2010-04-01/Accounts.json" {
		t.Errorf("arrived: %+v", got)
	}
}

func TestReport(t *testing.T) {
	r := Report{
		Requests: 300, OK: 298, Failed: 2, Attempts: 301, Throttled: 3,
		Elapsed: 3012 * time.Millisecond, Ideal: 3 * time.Second,
	}
	if got, want := r.String(), "outflow: requests=300 ok=298 failed=2 attempts=301 throttled=3 elapsed=3.01s ideal=3.00s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Without = true
	if got := r.String(); !strings.HasPrefix(got, "without outflow: requests=300 ") {
		t.Errorf("%q", got)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	good := Options{Requests: 1, Workers: 1}
	if err := good.Check(nil); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		"-requests is 0":          func(o *Options) { o.Requests = 0 },
		"-workers is -1":          func(o *Options) { o.Workers = -1 },
		`-base-url is "localhost`: func(o *Options) { o.BaseURL = "localhost:8080" },
		`-base-url is "http://"`:  func(o *Options) { o.BaseURL = "http://" },
	} {
		o := good
		change(&o)
		if err := o.Check(nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
	if err := good.Check([]string{"fast"}); err == nil {
		t.Error("an argument was ignored")
	}
}
