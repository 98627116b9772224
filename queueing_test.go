package outflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// Trap 25: who was cancelled in the queue is charged all the same (x/time/rate: 200 of them at 10/s
// block the next for 19.8 s), or the order of cancelling confuses the queue.
func TestTheNextLeavesAtOnceAfterTenThousandWereCancelled(t *testing.T) {
	const n = 10_000
	inOrder := make([]int, n)
	for i := range inOrder {
		inOrder[i] = i
	}
	reversed := make([]int, n)
	for i := range reversed {
		reversed[i] = n - 1 - i
	}
	for name, order := range map[string][]int{
		"as they came": inOrder, "in reverse": reversed, "at random": rand.New(rand.NewPCG(1, 2)).Perm(n),
	} {
		t.Run(name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := testserver.New()
				srv := serve(up)
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{limit.PerSecond(10)}})
				if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
					t.Fatal(status, err)
				}
				cancels := make([]context.CancelFunc, n)
				var wg sync.WaitGroup
				for i := range cancels {
					var ctx context.Context
					ctx, cancels[i] = context.WithCancel(t.Context())
					req, _ := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
					wg.Go(func() {
						if _, err := tr.RoundTrip(req); !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				for k, i := range order {
					cancels[i]()
					if k%100 == 0 {
						synctest.Wait() // now and then a batch has gone before the next one goes
					}
				}
				wg.Wait()
				if b := tr.Stats().Buckets[0]; b.Waiting != 0 || b.Counts.Cancelled != n {
					t.Errorf("%+v", b)
				}
				start := time.Now()
				if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
					t.Fatal(status, err)
				}
				if d := time.Since(start); d != 100*time.Millisecond {
					t.Errorf("the next left after %v, want 100ms", d)
				}
			})
		})
	}
}

// Trap 26: a cost above the limit waits for ever, or light requests starve it.
func TestACostAboveTheBurstIsLateButNotNever(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New()
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{
			limit.PerSecond(10).WithBurst(3), limit.PerSecond(100).WithBurst(50),
		}})
		start := time.Now()
		var wg sync.WaitGroup
		for i, cost := range []int{1, 1, 1, 5, 1, 1, 2} {
			if i == 5 {
				time.Sleep(200 * time.Millisecond) // there is enough for a light one now
			}
			wg.Go(func() {
				path := fmt.Sprintf("/%d-costs-%d", i, cost)
				if status, _, err := get(outflow.WithCost(t.Context(), cost), tr, srv.URL+path); err != nil || status != 200 {
					t.Error(status, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		var got []string
		at := up.Arrivals()
		for i, d := range at.Since(start) {
			got = append(got, at[i].Path+" "+d.String())
		}
		want := []string{
			"/0-costs-1 0s", "/1-costs-1 0s", "/2-costs-1 0s",
			"/3-costs-5 300ms", // when the bucket is full again; it leaves it in debt, by 2
			"/4-costs-1 600ms", "/5-costs-1 700ms", "/6-costs-2 900ms",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("departures\n%v, want\n%v", got, want)
		}
	})
}

// Trap 25, where the turn of the cancelled one is not the next one's: that one has less to wait for.
func TestTheNextIsSoonerThanTheHeavyOneThatWasCancelled(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New()
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{limit.PerSecond(10).WithBurst(10)}})
		sendAtOnce(t, tr, srv.URL, 10)
		start := time.Now()
		heavy, cancel := context.WithCancel(outflow.WithCost(t.Context(), 10))
		var both sync.WaitGroup
		both.Go(func() {
			if _, _, err := get(heavy, tr, srv.URL); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		both.Go(func() {
			if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 || time.Since(start) != 500*time.Millisecond {
				t.Errorf("%d, %v after %v, want 200 as soon as the heavy one gave up", status, err, time.Since(start))
			}
		})
		time.Sleep(500 * time.Millisecond)
		cancel()
		both.Wait()
	})
}

func TestACostOutOfRangeIsRefused(t *testing.T) {
	tr := newTransport(t, outflow.Config{})
	for _, cost := range []int{0, -1, leakyqueue.MaxCost + 1, math.MinInt} {
		body := &closeRecorder{Reader: strings.NewReader("x")}
		req, _ := http.NewRequestWithContext(outflow.WithCost(t.Context(), cost), "POST", "http://nobody.invalid", body)
		if _, err := tr.RoundTrip(req); !errors.Is(err, leakyqueue.ErrInvalid) || body.closed != 1 {
			t.Errorf("cost %d: %v, body closed %d times", cost, err, body.closed)
		}
		if at := tr.Earliest(req); !at.IsZero() {
			t.Errorf("cost %d: Earliest = %v, want never", cost, at)
		}
	}
}

type closeRecorder struct {
	io.Reader
	closed int
}

func (c *closeRecorder) Close() error {
	c.closed++
	return nil
}

// Trap 27: a deficit and then idle time give a burst above the cap (failsafe-go: 219 of 10), or
// fractions are lost on the way (redis_rate: 49 % of the rate).
func TestDebtsAndFractionsNeitherAddUpNorGetLost(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New()
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{limit.PerSecond(200).WithBurst(10)}})
		if status, _, err := get(outflow.WithCost(t.Context(), 500), tr, srv.URL); err != nil || status != 200 {
			t.Fatal(status, err)
		}
		time.Sleep(time.Second) // still in debt
		up.Reset()
		sendAtOnce(t, tr, srv.URL, 20)
		if n := up.Arrivals().MaxInWindow(5 * time.Millisecond); n != 1 {
			t.Errorf("%d left at once out of a debt, want 1", n)
		}
		time.Sleep(time.Hour)
		up.Reset()
		sendAtOnce(t, tr, srv.URL, 100)
		if at := up.Arrivals(); at.MaxInWindow(5*time.Millisecond) != 10 || at.Utilisation(200, 10) < 0.999 {
			t.Errorf("%d left at once after idle time, want 10; %.3f of the rate", at.MaxInWindow(5*time.Millisecond), at.Utilisation(200, 10))
		}
	})
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New()
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{limit.Per(10, 3*time.Second)}})
		start := time.Now()
		sendAtOnce(t, tr, srv.URL, 1001) // 0.3 s apart, which no float64 of seconds is
		if d := time.Since(start); d != 300*time.Second {
			t.Errorf("1001 requests at 10 in 3s took %v, want 5m", d)
		}
	})
}

// sendAtOnce sends n requests and returns when all are answered with 200.
func sendAtOnce(t *testing.T, rt http.RoundTripper, url string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if status, _, err := get(t.Context(), rt, url); err != nil || status != 200 {
				t.Error(status, err)
			}
		})
	}
	wg.Wait()
}

// Trap 29: the queue eats http.Client.Timeout, and the error blames the upstream.
func TestClientTimeoutInTheQueueSaysSo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limit   limit.Limit
		before  int
		refusal http.Handler  // what the first of those before it is answered with
		told    time.Duration // when ours is
		queued  string
		known   bool // the error keeps ErrDeadline: http.Client has not timed out itself
	}{
		{"its turn can't come in time", limit.Per(1, 10*time.Second), 1, nil, 0, "queued for 0s", true},
		{"its turn behind others can't come in time", limit.Per(1, 3*time.Second), 2, nil, 0, "queued for 0s", true},
		{"a pause begins", limit.Concurrent(1), 1, testserver.After(time.Second, refusal("10")), time.Second, "queued for 1s", true},
		{"no slot comes back", limit.Concurrent(1), 1, testserver.After(time.Minute, testserver.OK()), 5 * time.Second, "queued for 5s", false},
	} {
		for protocol, serve := range pipes {
			t.Run(protocol+" "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := testserver.New(testserver.Script(tt.refusal))
					srv := serve(up, t)
					tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{tt.limit}})
					var others sync.WaitGroup
					for range tt.before {
						others.Go(func() { _, _, _ = get(t.Context(), tr, srv.URL) })
						synctest.Wait()
					}

					start := time.Now()
					_, err := (&http.Client{Transport: tr, Timeout: 5 * time.Second}).Get(srv.URL)
					if d := time.Since(start); d != tt.told {
						t.Errorf("told after %v, want %v", d, tt.told)
					}
					if err == nil || !strings.Contains(err.Error(), tt.queued) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v, want DeadlineExceeded and %q", err, tt.queued)
					}
					if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
						t.Errorf("%v isn't a timeout", err)
					}
					if e, ok := errors.AsType[*outflow.Error](err); tt.known && (!ok || !errors.Is(err, outflow.ErrDeadline) || e.Earliest.Before(start.Add(5*time.Second))) {
						t.Errorf("%v, want ErrDeadline and when the turn would have come", err)
					}
					others.Wait()
				})
			})
		}
	}
}

// Several rules hold jointly: neither limit is exceeded, and who waits for the narrow one doesn't
// keep the wide one idle.
func TestJointRulesDontSlowOthersDown(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(
			testserver.GCRA(100, 2),
			testserver.GCRA(20, 2).On("POST /v1/files"),
		)
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Rules: []outflow.Rule{
			{Match: "api.test/", Limits: []limit.Limit{limit.PerSecond(100)}},
			{Match: "POST api.test/v1/files", Limits: []limit.Limit{limit.PerSecond(20)}},
		}})
		start := time.Now()
		var wg sync.WaitGroup
		send := func(method, path string, n int) {
			for range n {
				wg.Go(func() {
					req, _ := http.NewRequestWithContext(t.Context(), method, "http://api.test"+path, nil)
					if status, _, err := do(tr, req); err != nil || status != 200 {
						t.Error(status, err)
					}
				})
			}
		}
		send("POST", "/v1/files", 40) // these came first, and are 2 s of files
		synctest.Wait()
		send("GET", "/v1/files", 80)
		send("POST", "/v1/charges", 80)
		wg.Wait()

		all := up.Arrivals()
		files := all.Where(func(a testserver.Arrival) bool { return a.Method == "POST" && a.Path == "/v1/files" })
		others := all.Where(func(a testserver.Arrival) bool { return a.Method == "GET" || a.Path != "/v1/files" })
		if len(all) != 200 || all.Count(429) != 0 {
			t.Errorf("%v", all.ByStatus())
		}
		if d := time.Since(start); d > 2000*time.Millisecond {
			t.Errorf("all took %v, want 1.99s: as long as 200 take at 100/s", d)
		}
		if d := others[len(others)-1].At.Sub(start); d > 2000*time.Millisecond || others.Utilisation(80, 1) < 0.99 {
			t.Errorf("the others took %v, %.3f of their share", d, others.Utilisation(80, 1))
		}
		if n := files.MaxInWindow(time.Second); n > 21 || files.Utilisation(20, 1) < 0.99 {
			t.Errorf("%d files in a second, %.3f of their limit", n, files.Utilisation(20, 1))
		}
		if n := all.MaxInWindow(time.Second); n > 101 {
			t.Errorf("%d in a second, want 100", n)
		}
	})
}

// A rule keyed by a wildcard: every account has its own rate and its own slots.
func TestEveryAccountHasItsOwnRateAndSlots(t *testing.T) {
	for protocol, serve := range pipes {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := testserver.New(
					testserver.GCRA(10, 2).By(testserver.PathSegment(1)),
					testserver.Concurrency(3).By(testserver.PathSegment(1)),
				).Answering(testserver.After(250*time.Millisecond, testserver.OK()))
				srv := serve(up, t)
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Rules: []outflow.Rule{{
					Match: "api.test/Accounts/{sid}/", Key: outflow.PathValue("sid"),
					Limits: []limit.Limit{limit.PerSecond(10), limit.Concurrent(3)},
				}}})
				start := time.Now()
				var wg sync.WaitGroup
				for _, account := range []string{"AC1", "AC2", "AC3", "AC4"} {
					for range 20 {
						wg.Go(func() {
							if status, _, err := get(t.Context(), tr, "http://api.test/Accounts/"+account+"/Calls.json"); err != nil || status != 200 {
								t.Error(status, err)
							}
						})
					}
				}
				wg.Wait()
				if d := time.Since(start); d != 1900*time.Millisecond+250*time.Millisecond {
					t.Errorf("took %v, want 2.15s as one account alone", d)
				}
				byKey := up.Arrivals().ByKey()
				for account, at := range byKey {
					if len(at) != 20 || at.Count(200) != 20 || at.MinGap() < 100*time.Millisecond || at.MaxInFlight() > 3 {
						t.Errorf("%s: %v, gaps of %v, %d at once", account, at.ByStatus(), at.MinGap(), at.MaxInFlight())
					}
				}
				if len(byKey) != 4 {
					t.Errorf("%d accounts", len(byKey))
				}
			})
		})
	}
}

func TestTraceTellsWhatHeldARequest(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.ScriptFunc(func(i int, r *http.Request) http.Handler {
			switch {
			case i == 1:
				return testserver.Reply(503, "")
			case r.URL.Path == "/moved":
				return testserver.Reply(302, "", "Location", "/here")
			}
			return nil
		}))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport,
			Limits: []limit.Limit{limit.PerSecond(1)},
			Rules:  []outflow.Rule{{Match: "/{$}", Name: "root", Limits: []limit.Limit{limit.Per(1, 3*time.Second)}}},
		})
		for _, tt := range []struct {
			path    string
			timeout time.Duration
			want    outflow.Trace
		}{
			{"/a", time.Hour, outflow.Trace{Attempts: 1}},
			{"/b", time.Hour, outflow.Trace{Attempts: 2, Queued: 2 * time.Second, Held: "host upstream.test"}},
			{"/", time.Hour, outflow.Trace{Attempts: 1, Queued: time.Second, Held: "host upstream.test"}},
			{"/", time.Hour, outflow.Trace{Attempts: 1, Queued: 3 * time.Second, Held: "root"}},
			{"/", time.Second, outflow.Trace{Held: "root"}},
			{"/moved", time.Hour, outflow.Trace{Attempts: 2, Queued: 2 * time.Second, Held: "host upstream.test"}},
		} {
			var got outflow.Trace
			ctx, cancel := context.WithTimeout(outflow.WithTrace(t.Context(), &got), tt.timeout)
			_, _, _ = get(ctx, tr, srv.URL+tt.path)
			cancel()
			if got != tt.want {
				t.Errorf("%s: %+v, want %+v", tt.path, got, tt.want)
			}
		}
	})
}

func TestEarliestIsWhenTheRequestThenLeaves(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.Script(nil, nil, nil, nil, refusal("7")))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{MaxAttempts: 1},
			Limits: []limit.Limit{limit.PerSecond(2).WithBurst(2), limit.Per(1, 900*time.Millisecond)}})
		for i := range 10 {
			req, _ := http.NewRequestWithContext(outflow.WithCost(t.Context(), 1+i%3), "GET", srv.URL, nil)
			want := tr.Earliest(req)
			if again := tr.Earliest(req); !again.Equal(want) {
				t.Fatalf("Earliest = %v, and then %v: it takes something", want, again)
			}
			if _, _, err := do(tr, req); err != nil {
				t.Fatal(err)
			}
			at := up.Arrivals()
			if got := at[len(at)-1].At; !got.Equal(want) {
				t.Errorf("request %d left at %v, Earliest was %v", i, got, want)
			}
		}
	})
}

// However a URL writes its host, it is the same host, with the scheme's own port or without.
func TestHostsAreTheSameHoweverWritten(t *testing.T) {
	for _, hosts := range [][2]string{
		{"http://api.test/", "http://API.Test:80/"}, {"https://api.test/", "https://Api.test:443/"},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTransport(t, outflow.Config{Base: stub{}, Limits: []limit.Limit{limit.PerSecond(1)}})
			if _, _, err := get(t.Context(), tr, hosts[0]); err != nil {
				t.Fatal(err)
			}
			if d := time.Until(tr.Earliest(newRequest(t.Context(), t, "GET", hosts[1], nil))); d != time.Second {
				t.Errorf("after one to %s one to %s may leave in %v, want 1s", hosts[0], hosts[1], d)
			}
		})
	}
}

// Trap 30: the clean-up drops a bucket in use (disgo), or nothing cleans up at all.
func TestIdleBucketsAreDroppedAndThoseInUseAreNot(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.ScriptFunc(func(_ int, r *http.Request) http.Handler {
			switch r.URL.Path {
			case "/slow/":
				return testserver.After(10*time.Minute, testserver.OK())
			case "/limited/":
				return refusal("600")
			}
			return nil
		}))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{
			Base:  srv.Transport,
			Queue: leakyqueue.Config{MaxPause: time.Hour},
			Retry: outflow.Retry{MaxAttempts: 1},
			Rules: []outflow.Rule{{
				Match: "/{key}/", Key: outflow.PathValue("key"),
				Limits: []limit.Limit{limit.PerSecond(10), limit.Concurrent(1)},
			}},
		})
		start := time.Now()
		var slow sync.WaitGroup
		for range 2 { // one in its slot, and one that waits for it
			slow.Go(func() {
				if status, _, err := get(t.Context(), tr, srv.URL+"/slow/"); err != nil || status != 200 {
					t.Error(status, err)
				}
			})
		}
		if status, _, err := get(t.Context(), tr, srv.URL+"/limited/"); err != nil || status != 429 {
			t.Fatal(status, err)
		}
		for i := range 3000 {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprint(srv.URL, "/", i, "/"), nil)
			if i%3 == 0 {
				tr.Earliest(req) // makes no bucket that stays, either
			} else if _, _, err := do(tr, req); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(tr.Stats().Buckets); n < 2002 {
			t.Errorf("%d buckets just after use, want 2002 or more", n)
		}
		time.Sleep(3 * time.Minute)
		var left []string
		for _, b := range tr.Stats().Buckets {
			left = append(left, b.Key)
		}
		if fmt.Sprint(left) != "[limited slow]" {
			t.Errorf("%d buckets after idle time, %.100v, want those in use: limited, slow", len(left), left)
		}
		if status, _, err := get(t.Context(), tr, srv.URL+"/limited/"); err != nil || status != 429 {
			t.Fatal(status, err)
		}
		if d := time.Since(start); d < 10*time.Minute {
			t.Errorf("the pause was forgotten after %v", d)
		}
		slow.Wait()
		if d := time.Since(start); d != 20*time.Minute {
			t.Errorf("the two slow ones took %v, want 20m: one after the other", d)
		}
		time.Sleep(2 * time.Hour)
		if n := len(tr.Stats().Buckets); n != 0 {
			t.Errorf("%d buckets when all is over", n)
		}
	})
}

// Keys that only Earliest has asked for are forgotten, though nobody ever leaves.
func TestEarliestAloneLeavesNoBucketsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, outflow.Config{Limits: []limit.Limit{limit.PerSecond(1)}})
		for i := range 100 {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://host%d.test", i), nil)
			tr.Earliest(req)
		}
		time.Sleep(time.Hour)
		if n := len(tr.Stats().Buckets); n != 0 {
			t.Errorf("%d buckets that nobody used", n)
		}
	})
}

// Trap 31: Close with exactly as many callers as slots hangs (octokit.js), or loses who waits.
func TestCloseDrains(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limits  []limit.Limit
		callers int
		script  []http.Handler
		drained time.Duration
	}{
		{"nobody", []limit.Limit{limit.Concurrent(1)}, 0, nil, 0},
		{"as many as there are slots", []limit.Limit{limit.Concurrent(10)}, 10, nil, time.Second},
		{"one more", []limit.Limit{limit.Concurrent(10)}, 11, nil, 2 * time.Second},
		{"those who wait for the rate", []limit.Limit{limit.PerSecond(1), limit.Concurrent(10)}, 5, nil, 5 * time.Second},
		{"one that is to come again", []limit.Limit{limit.Concurrent(1)}, 1,
			[]http.Handler{testserver.After(time.Second, testserver.Reply(503, "", "Retry-After", "0.4"))}, 2400 * time.Millisecond},
		{"one that is to come again, whose answer was empty", []limit.Limit{limit.Concurrent(1)}, 1,
			[]http.Handler{testserver.After(time.Second, testserver.Reply(502, "", "Retry-After", "0.4"))}, 2400 * time.Millisecond},
		{"one whose connection was cut", []limit.Limit{limit.Concurrent(1)}, 1,
			[]http.Handler{testserver.After(time.Second, testserver.Cut())}, 2200 * time.Millisecond},
	} {
		for protocol, serve := range pipes {
			t.Run(protocol+" "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := testserver.New(testserver.Script(tt.script...)).
						Answering(testserver.After(time.Second, testserver.OK()))
					srv := serve(up, t)
					tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: tt.limits, Retry: outflow.Retry{
						Backoff: policy200ms,
					}})
					var callers sync.WaitGroup
					for range tt.callers {
						callers.Go(func() {
							if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
								t.Error(status, err)
							}
						})
					}
					synctest.Wait()
					start := time.Now()
					var closers sync.WaitGroup
					for range 2 {
						closers.Go(func() {
							if err := tr.Close(t.Context()); err != nil {
								t.Error(err)
							}
							if d := time.Since(start); d < tt.drained || d > tt.drained+tt.drained/20 {
								t.Errorf("drained after %v, want %v", d, tt.drained)
							}
						})
					}
					synctest.Wait()
					refusedBecauseClosed(t, tr, srv.URL)
					closers.Wait()
					callers.Wait()
					refusedBecauseClosed(t, tr, srv.URL)
				})
			})
		}
	}
}

var policy200ms = backoff.Policy{Base: 200 * time.Millisecond, Jitter: backoff.None}

func refusedBecauseClosed(t *testing.T, tr *outflow.Transport, url string) {
	t.Helper()
	body := &closeRecorder{Reader: strings.NewReader("x")}
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, body)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := tr.RoundTrip(req); !errors.Is(err, outflow.ErrClosed) || body.closed != 1 || time.Since(start) != 0 {
		t.Errorf("%v after %v, body closed %d times, want ErrClosed at once", err, time.Since(start), body.closed)
	}
}

// Trap 31: a request inside another's slot must not keep the drain from ending.
func TestCloseRefusesARequestNestedInASlot(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New()
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{limit.Concurrent(1)}})
		outer, err := (&http.Client{Transport: tr}).Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		var closing sync.WaitGroup
		closing.Go(func() {
			if err := tr.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		refusedBecauseClosed(t, tr, srv.URL) // its slot is the outer one's
		start := time.Now()
		outer.Body.Close()
		closing.Wait()
		if time.Since(start) != 0 {
			t.Errorf("the drain took %v more", time.Since(start))
		}
	})
}

func TestCloseRefusesThoseWhoWaitWhenItsContextEnds(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New().Answering(testserver.After(time.Minute, testserver.OK()))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{limit.Concurrent(1)}})
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() { // not cut off
			if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
				t.Error(status, err)
			}
		})
		synctest.Wait()
		for range 5 {
			all.Go(func() {
				body := &closeRecorder{Reader: strings.NewReader("x")}
				req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL, body)
				if _, err := tr.RoundTrip(req); !errors.Is(err, outflow.ErrClosed) || body.closed != 1 {
					t.Errorf("%v, body closed %d times, want ErrClosed", err, body.closed)
				}
				if d := time.Since(start); d != time.Second {
					t.Errorf("refused after %v, want 1s", d)
				}
			})
		}
		synctest.Wait()
		impatient := errors.New("the process has to end")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, impatient)
		defer cancel()
		if err := tr.Close(ctx); !errors.Is(err, impatient) || time.Since(start) != time.Second {
			t.Errorf("Close = %v after %v, want the context's cause after 1s", err, time.Since(start))
		}
		refusedBecauseClosed(t, tr, srv.URL)
		all.Wait()
		if err := tr.Close(t.Context()); err != nil || len(up.Arrivals()) != 1 {
			t.Errorf("Close again = %v; %d arrivals", err, len(up.Arrivals()))
		}
	})
}
