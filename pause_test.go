package outflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// refuseOnce is an upstream that answers the first request so, and the others with 200.
func refuseOnce(status int, namesAndValues ...string) *testserver.Upstream {
	return testserver.New(testserver.Script(testserver.Reply(status, "refused", namesAndValues...)))
}

// Trap 18: an HTTP-date isn't understood, or a fraction is cut off, and the retry leaves at once
// (failsafehttp, disgo). Trap 15: jitter is only added to what the server asked for.
func TestRetryAfterIsObeyedInAllItsForms(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		value        func(now time.Time) string
		want         time.Duration
	}{
		{"seconds", "Retry-After", fixed("2"), 2 * time.Second},
		{"a fraction", "Retry-After", fixed("0.9"), 900 * time.Millisecond},
		{"a fraction above one", "Retry-After", fixed("1.75"), 1750 * time.Millisecond},
		{"IMF-fixdate", "Retry-After", date(http.TimeFormat, 3*time.Second), 3 * time.Second},
		{"RFC 850 date", "Retry-After", date("Monday, 02-Jan-06 15:04:05 GMT", 3*time.Second), 3 * time.Second},
		{"asctime date", "Retry-After", date(time.ANSIC, 3*time.Second), 3 * time.Second},
		{"Unix time", "Retry-After", func(now time.Time) string { return strconv.FormatInt(now.Unix()+3, 10) }, 3 * time.Second},
		{"milliseconds", "Retry-After-Ms", fixed("1500"), 1500 * time.Millisecond},
	} {
		for _, status := range []int{429, 503} {
			t.Run(fmt.Sprint(tt.name, " ", status), func(t *testing.T) {
				overEachProtocol(t, func(t *testing.T, serve serveFunc) {
					up := refuseOnce(status, tt.header, tt.value(time.Now()))
					srv := serve(up)
					tr := newTransport(t, outflow.Config{Base: srv.Transport})
					if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
						t.Fatal(status, err)
					}
					if gap := up.Arrivals().MinGap(); gap < tt.want || gap > tt.want+tt.want/20 {
						t.Errorf("sent again after %v, want %v and at most a twentieth more", gap, tt.want)
					}
				})
			})
		}
	}
}

func fixed(s string) func(time.Time) string { return func(time.Time) string { return s } }

func date(layout string, d time.Duration) func(time.Time) string {
	return func(now time.Time) string { return now.Add(d).UTC().Format(layout) }
}

// Trap 28, as far as one process can show it: a clock that is wrong, here the server's, moves no pause.
func TestRetryAfterIsReadByTheServersClock(t *testing.T) {
	for _, serversNow := range []time.Time{
		time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC), // the bubble's clock, but for a second
		time.Date(2090, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		for _, tt := range []struct {
			name   string
			header []string
			want   time.Duration
		}{
			{"delta", []string{"Retry-After", "7"}, 7 * time.Second},
			{"date", []string{"Retry-After", serversNow.Add(7 * time.Second).Format(http.TimeFormat)}, 7 * time.Second},
			{"reset", []string{
				"X-RateLimit-Remaining", "0",
				"X-RateLimit-Reset", strconv.FormatInt(serversNow.Add(7*time.Second).Unix(), 10),
			}, 7 * time.Second},
		} {
			t.Run(fmt.Sprint(serversNow.Year(), " ", tt.name), func(t *testing.T) {
				overEachProtocol(t, func(t *testing.T, serve serveFunc) {
					up := refuseOnce(429, append(tt.header, "Date", serversNow.Format(http.TimeFormat))...)
					srv := serve(up)
					tr := newTransport(t, outflow.Config{Base: srv.Transport})
					if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
						t.Fatal(status, err)
					}
					if gap := up.Arrivals().MinGap(); gap < tt.want || gap > tt.want+tt.want/20 {
						t.Errorf("sent again after %v, want %v and at most a twentieth more", gap, tt.want)
					}
				})
			})
		}
	}
}

// Trap 16: a wait that overflows fires at once, or parks its caller for centuries. Whatever the
// status, nobody is sent again sooner than Floor allows, nor is anybody kept beyond MaxPause.
func TestAbsurdRetryAfterNeitherFiresAtOnceNorParks(t *testing.T) {
	const maxPause = time.Minute
	for _, status := range []int{403, 429, 500, 502, 503, 504, 529} {
		for _, value := range []string{
			"86400", "9223372036", "9223372037", "18446744073", "9223372036854775807", "18446744073709551616",
			strings.Repeat("9", 400), "1e30", "Fri, 31 Dec 9999 23:59:59 GMT", "292y", "2562047h",
			"946771200",  // tomorrow, as a Unix time in the bubble
			"4102444799", // the end of the century
		} {
			t.Run(fmt.Sprintf("%d %.20s", status, value), func(t *testing.T) {
				overEachProtocol(t, func(t *testing.T, serve serveFunc) {
					up := testserver.New().Answering(testserver.Reply(status, "refused", "Retry-After", value))
					srv := serve(up)
					time.Sleep(time.Second) // with less on the clock some sums don't overflow yet
					for range 20 {          // jitter may decide whether one does
						tr := newTransport(t, outflow.Config{
							Base:  srv.Transport,
							Queue: leakyqueue.Config{MaxPause: maxPause},
							Retry: outflow.Retry{MaxAttempts: 2, CheckRetry: onStatus(status)},
						})
						time.Sleep(time.Second)
						up.Reset()
						start := time.Now()
						ctx, cancel := context.WithCancel(t.Context()) // not a deadline, which would be known
						giveUp := time.AfterFunc(2*maxPause, cancel)
						got, body, err := get(ctx, tr, srv.URL)
						giveUp.Stop()
						cancel()
						if err != nil || got != status || body != "refused" {
							t.Fatal(got, body, err)
						}
						if d := time.Since(start); d > maxPause+time.Second {
							t.Fatalf("came back after %v", d)
						}
						if at := up.Arrivals(); len(at) > 1 && at.MinGap() < backoff.Floor {
							t.Fatalf("sent again after %v", at.MinGap())
						}
					}
				})
			})
		}
	}
}

func onStatus(status int) retryablehttp.CheckRetry {
	return func(_ context.Context, resp *http.Response, err error) (bool, error) {
		return err != nil || resp.StatusCode == status, err
	}
}

// Trap 15: the check against MaxPause is on what the server said. Jitter on top of it, of the one's
// making, refuses nobody; a wait just above it isn't waited for.
func TestMaxPauseIsComparedWithWhatTheServerSaid(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		for _, tt := range []struct {
			said string
			want int
		}{{"59", 200}, {"60", 200}, {"60.001", 429}, {"61", 429}} {
			up := refuseOnce(429, "Retry-After", tt.said)
			srv := serve(up)
			for range 50 {
				up.Reset()
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Queue: leakyqueue.Config{MaxPause: time.Minute}})
				start := time.Now()
				status, _, err := get(t.Context(), tr, srv.URL)
				if err != nil || status != tt.want {
					t.Fatalf("Retry-After %s, MaxPause 1m: %d after %v, %v, want %d", tt.said, status, time.Since(start), err, tt.want)
				}
			}
		}
	})
}

// Trap 15: jitter never takes from Retry-After, and adds no more than a twentieth and a second; our
// own delays never exceed their cap.
func TestJitterStaysWithinItsBounds(t *testing.T) {
	for _, tt := range []struct {
		name     string
		status   int
		header   []string
		policy   backoff.Policy
		min, max time.Duration
	}{
		{"on a short wait", 429, []string{"Retry-After", "2"}, backoff.Policy{}, 2 * time.Second, 2100 * time.Millisecond},
		{"on a long wait", 503, []string{"Retry-After", "200"}, backoff.Policy{}, 200 * time.Second, 201 * time.Second},
		{"on our pause", 429, nil, backoff.Policy{Base: time.Second, Cap: time.Second}, 500 * time.Millisecond, time.Second},
		{"on our delay", 503, nil, backoff.Policy{Base: time.Second, Cap: time.Second}, backoff.Floor, time.Second},
		{"none", 502, nil, backoff.Policy{Base: time.Second, Jitter: backoff.None}, time.Second, time.Second},
		{"decorrelated", 504, nil, backoff.Policy{Base: time.Second, Cap: 2 * time.Second, Jitter: backoff.Decorrelated}, time.Second, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := refuseOnce(tt.status, tt.header...)
				srv := serve(up)
				seen := make(map[time.Duration]bool)
				for range 100 {
					up.Reset()
					tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{Backoff: tt.policy}})
					if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
						t.Fatal(status, err)
					}
					gap := up.Arrivals().MinGap()
					if gap < tt.min || gap > tt.max {
						t.Fatalf("sent again after %v, want %v to %v", gap, tt.min, tt.max)
					}
					seen[gap] = true
				}
				if jitters := len(seen) > 1; jitters == (tt.min == tt.max) {
					t.Errorf("%d different gaps", len(seen))
				}
			})
		})
	}
}

// Trap 17: a hint of nothing switches the backoff off and the loop runs hot (kubevuln: 25,216
// requests in 2 s).
func TestHintsOfNothingMeanOurOwnBackoff(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header []string
		most   int // attempts in a second
	}{
		{"none", nil, 21},
		{"empty", []string{"Retry-After", ""}, 21},
		{"zero", []string{"Retry-After", "0"}, 21},
		{"fractional zero", []string{"Retry-After", "0.000"}, 21},
		{"negative", []string{"Retry-After", "-1"}, 21},
		{"very negative", []string{"Retry-After", "-9223372036854775808"}, 21},
		{"a past date", []string{"Retry-After", "Wed, 21 Oct 1998 07:28:00 GMT"}, 21},
		{"now", []string{"Retry-After", "Sat, 01 Jan 2000 00:00:00 GMT"}, 21},
		{"garbage", []string{"Retry-After", "soon"}, 21},
		{"not a number", []string{"Retry-After", "NaN"}, 21},
		{"exponent", []string{"Retry-After", "1e-9"}, 21},
		{"a reset that is past", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684000"}, 21},
		{"a reset of zero", []string{"RateLimit", `"default";r=0;t=0`}, 21},
		// These do say something, but next to nothing: no more than Floor allows.
		{"a nanosecond", []string{"Retry-After", "0.000000001"}, 1001},
		{"a microsecond", []string{"Retry-After", "0.000001"}, 1001},
		{"a microsecond, in milliseconds", []string{"Retry-After-Ms", "0.001"}, 1001},
		{"a reset next to now", []string{"RateLimit-Remaining", "0", "RateLimit-Reset", "0.000001"}, 1001},
	} {
		for _, status := range []int{429, 503, 502} {
			t.Run(fmt.Sprint(tt.name, " ", status), func(t *testing.T) {
				overEachProtocol(t, func(t *testing.T, serve serveFunc) {
					up := testserver.New().Answering(testserver.Reply(status, "", tt.header...))
					srv := serve(up)
					tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{
						MaxAttempts: 5000,
						Backoff:     backoff.Policy{Base: 100 * time.Millisecond, Cap: 100 * time.Millisecond, Jitter: backoff.Equal},
						Budget:      outflow.Budget{Ratio: -1},
					}})
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if got, _, err := get(ctx, tr, srv.URL); err != nil || got != status {
						t.Fatal(got, err)
					}
					if n := len(up.Arrivals()); n < 2 || n > tt.most {
						t.Errorf("%d attempts in a second, want 2 to %d", n, tt.most)
					}
				})
			})
		}
	}
}

// Trap 22: a limit that means "stop" must not hang its callers.
func TestOverlongPauseRefusesOthersUntilMaxPause(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.Script(testserver.After(time.Second,
			testserver.Reply(429, "come tomorrow", "Retry-After", "86400", "X-Told", "yes"))))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{
			Base:   srv.Transport,
			Limits: []limit.Limit{limit.Concurrent(1)},
			Queue:  leakyqueue.Config{MaxPause: time.Minute},
		})
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", srv.URL, nil)
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != 429 || resp.Header.Get("X-Told") != "yes" {
				t.Errorf("the one who was told has %v, %v", resp, err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "come tomorrow" {
				t.Errorf("body %q, %v", body, err)
			}
		})
		synctest.Wait()
		refused := func(who string, after time.Duration) {
			_, _, err := get(t.Context(), tr, srv.URL)
			e, ok := errors.AsType[*outflow.Error](err)
			if !ok || !errors.Is(err, outflow.ErrDeadline) || e.Earliest.Sub(start) < 24*time.Hour {
				t.Errorf("%s: %v, want ErrDeadline and tomorrow", who, err)
			}
			if d := time.Since(start); d != after {
				t.Errorf("%s was told after %v, want %v", who, d, after)
			}
		}
		for range 5 {
			wg.Go(func() { refused("one who waited", time.Second) })
		}
		wg.Wait()
		refused("a newcomer", time.Second)
		time.Sleep(time.Minute - 1)
		refused("a late newcomer", time.Minute+time.Second-1)
		time.Sleep(time.Nanosecond)
		for range 3 { // all of them, and not only the one who needn't wait, though at a modest pace
			wg.Go(func() {
				if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 || time.Since(start) > time.Minute+4*time.Second {
					t.Errorf("after MaxPause: %d, %v, after %v", status, err, time.Since(start))
				}
			})
		}
		wg.Wait()
		if n := len(up.Arrivals()); n != 4 {
			t.Errorf("%d arrivals, want 4", n)
		}
	})
}

// The largest durations are how programs write "no bound".
func TestBoundsOfTheLargestDurationBoundNothing(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		time.Sleep(time.Second)
		up := refuseOnce(429, "Retry-After", "3600")
		srv := serve(up)
		tr := newTransport(t, outflow.Config{
			Base:   srv.Transport,
			Limits: []limit.Limit{limit.PerSecond(1), limit.Concurrent(1)},
			Queue:  leakyqueue.Config{MaxWait: math.MaxInt64, MaxPause: math.MaxInt64, MaxHold: math.MaxInt64, Slack: math.MaxInt64},
		})
		time.Sleep(time.Second)
		if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
			t.Fatal(status, err)
		}
		if gap := up.Arrivals().MinGap(); gap < time.Hour {
			t.Errorf("sent again after %v", gap)
		}
		if stats := tr.Stats().Buckets[0]; stats.Counts.HoldsExpired > 0 {
			t.Errorf("%+v", stats)
		}
	})
}

// Trap 23: what was queued already slips through the pause. Neither those who wait for the rate, nor
// for a slot, nor a retry that backs off leave before its end; and who was refused goes first.
func TestNobodyInTheQueueSlipsThroughAPause(t *testing.T) {
	for name, serve := range map[string]func(*testserver.Upstream, testserver.TB) *testserver.Server{
		"HTTP/1.1": (*testserver.Upstream).Pipe, "HTTP/2": (*testserver.Upstream).PipeHTTP2,
	} {
		for _, l := range []limit.Limit{limit.PerSecond(10), limit.Concurrent(1)} {
			t.Run(fmt.Sprint(name, " ", l), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const answerTime = 50 * time.Millisecond
					up := testserver.New(testserver.Script(
						nil,
						testserver.After(answerTime, testserver.Reply(502, "")),
						testserver.After(answerTime, testserver.Reply(429, "", "Retry-After", "5")),
					)).Answering(testserver.After(answerTime, testserver.OK()))
					srv := serve(up, t)
					tr := newTransport(t, outflow.Config{
						Base: srv.Transport, Limits: []limit.Limit{l},
						Retry: outflow.Retry{Backoff: backoff.Policy{Base: time.Second, Jitter: backoff.None}},
					})
					sendLabelled(t, tr, srv.URL, 20)
					at := up.Arrivals()
					if len(at) != 22 || at.Count(200) != 20 {
						t.Fatalf("%d arrivals, %v", len(at), at.ByStatus())
					}
					if gap := at[3].At.Sub(at[2].At); gap < 5*time.Second+answerTime || gap > 5250*time.Millisecond+answerTime {
						t.Errorf("the next came %v after the refused one, want 5s and at most a twentieth more after its answer", gap)
					}
					// 1 was told to come back, 2 was refused, both during 3's first wait.
					if got := at.Labels()[:6]; fmt.Sprint(got) != "[0 1 2 1 2 3]" {
						t.Errorf("order %v, want 0 1 2 1 2 3", got)
					}
				})
			})
		}
	}
}

// sendLabelled sends n requests, the first of them first, and returns when all are answered with 200.
func sendLabelled(t *testing.T, rt http.RoundTripper, url string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set(testserver.LabelHeader, strconv.Itoa(i))
			if status, _, err := do(rt, req); err != nil || status != 200 {
				t.Error(i, status, err)
			}
		})
		synctest.Wait() // it is in the queue, or out
	}
	wg.Wait()
}

// Trap 23: of two pauses each takes the one it heard of (discordgo, disgo), or a shorter hint
// shortens a pause that runs (buzz).
func TestOfTwoPausesTheLaterCounts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		first  http.Handler
		second http.Handler
		until  time.Duration
	}{
		{"a longer one follows", refusal("2"), testserver.After(time.Second, refusal("10")), 11 * time.Second},
		{"a shorter one follows", refusal("10"), testserver.After(time.Second, refusal("2")), 10 * time.Second},
		{"one that would end sooner follows late", refusal("10"), testserver.After(9*time.Second, refusal("0.5")), 10 * time.Second},
		{"one without a hint follows", refusal("10"), testserver.After(time.Second, testserver.Reply(429, "")), 10 * time.Second},
		{"an overload follows", refusal("2"), testserver.After(time.Second, testserver.Reply(503, "", "Retry-After", "10")), 11 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := testserver.New(testserver.Script(
					testserver.After(time.Nanosecond, tt.first), // when both have arrived
					tt.second,
				))
				srv := serve(up)
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{MaxAttempts: 1}})
				start := time.Now()
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() { _, _, _ = get(t.Context(), tr, srv.URL) })
				}
				wg.Wait()
				if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
					t.Fatal(status, err)
				}
				if d := up.Arrivals().Since(start)[2]; d < tt.until || d > tt.until+tt.until/20 {
					t.Errorf("the next arrived after %v, want %v and at most a twentieth more", d, tt.until)
				}
			})
		})
	}
}

func refusal(retryAfter string) http.Handler {
	return testserver.Reply(429, "", "Retry-After", retryAfter)
}

// Trap 23: which answers hold others back. A global 429 without the usual headers does (disgo has
// no pause then); an upstream that only fails doesn't.
func TestWhichAnswersPauseOthers(t *testing.T) {
	const some = -1 // our own backoff: half of Base, or more
	for _, tt := range []struct {
		status int
		header []string
		want   time.Duration
	}{
		{429, nil, some},
		{429, []string{"Retry-After", "3"}, 3 * time.Second},
		{429, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "4"}, 4 * time.Second},
		{429, []string{"Retry-After", "3", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "40"}, 3 * time.Second},
		// Of several quotas the exhausted ones count, and of those the last to be renewed.
		{429, []string{"RateLimit", `"a";r=0;t=3, "b";r=0;t=5, "c";r=0;t=4, "d";r=9;t=60`}, 5 * time.Second},
		{403, []string{"Retry-After", "3"}, 3 * time.Second},
		{503, []string{"Retry-After", "3"}, 3 * time.Second},
		{529, []string{"Retry-After", "3"}, 3 * time.Second},
		{503, nil, 0},
		{403, nil, 0},
		{500, nil, 0},
		{502, nil, 0},
		{502, []string{"Retry-After", "3"}, 0},
		{404, []string{"Retry-After", "3"}, 0},
		{200, []string{"Retry-After", "3"}, 0},
		{200, []string{"X-RateLimit-Remaining", "5", "X-RateLimit-Reset", "4"}, 0},
	} {
		t.Run(fmt.Sprint(tt.status, tt.header), func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := refuseOnce(tt.status, tt.header...)
				srv := serve(up)
				tr := newTransport(t, outflow.Config{
					Base:  srv.Transport,
					Rules: []outflow.Rule{{Match: "/{account}", Key: outflow.PathValue("account")}},
					Retry: outflow.Retry{MaxAttempts: 1, Backoff: backoff.Policy{Base: time.Second}},
				})
				if status, _, err := get(t.Context(), tr, srv.URL+"/a"); err != nil || status != tt.status {
					t.Fatal(status, err)
				}
				start := time.Now()
				for _, path := range []string{"/b", "/a"} { // another bucket never waits
					if status, _, err := get(t.Context(), tr, srv.URL+path); err != nil || status != 200 {
						t.Fatal(status, err)
					}
				}
				lo, hi := tt.want, tt.want+tt.want/20
				if tt.want == some {
					lo, hi = time.Second/2, time.Second
				}
				if d := up.Arrivals().Since(start); d[1] != 0 || d[2] < lo || d[2] > hi {
					t.Errorf("others left after %v and %v, want 0s and %v to %v", d[1], d[2], lo, hi)
				}
			})
		})
	}
}

// Where several rules match, a refusal pauses the last of them: the others' requests go on.
func TestARefusalPausesTheNarrowestBucket(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := refuseOnce(429, "Retry-After", "3")
		srv := serve(up)
		tr := newTransport(t, outflow.Config{
			Base:   srv.Transport,
			Limits: []limit.Limit{limit.PerSecond(1e6)},
			Rules:  []outflow.Rule{{Match: "/"}, {Match: "/files/"}},
			Retry:  outflow.Retry{MaxAttempts: 1},
		})
		if status, _, err := get(t.Context(), tr, srv.URL+"/files/"); err != nil || status != 429 {
			t.Fatal(status, err)
		}
		time.Sleep(time.Millisecond) // the rate
		start := time.Now()
		for _, path := range []string{"/other", "/files/"} {
			if status, _, err := get(t.Context(), tr, srv.URL+path); err != nil || status != 200 {
				t.Fatal(status, err)
			}
		}
		if d := up.Arrivals().Since(start); d[1] != 0 || d[2] < 2*time.Second {
			t.Errorf("others left after %v, files after %v, want 0s and 3s", d[1], d[2])
		}
	})
}

// Refusals without a hint pause for longer each time, as Backoff has it; and they are counted.
func TestOurOwnPausesGrow(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New().Answering(testserver.Reply(429, ""))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{
			MaxAttempts: 4, Backoff: backoff.Policy{Base: time.Second, Cap: time.Minute},
		}})
		if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 429 {
			t.Fatal(status, err)
		}
		at := up.Arrivals()
		for i, most := 1, time.Second; i < len(at); i, most = i+1, 2*most {
			if gap := at[i].At.Sub(at[i-1].At); gap < most/2 || gap > most {
				t.Errorf("attempt %d came %v after the one before, want %v to %v", i+1, gap, most/2, most)
			}
		}
		if s := tr.Stats(); len(at) != 4 || s.Limited != 4 || s.Overloaded != 0 {
			t.Errorf("%d attempts, %d counted as limited, %d as overloaded", len(at), s.Limited, s.Overloaded)
		}
	})
}

// Trap 24: the herd at the end of a pause. What was saved up as burst meanwhile is not to be used.
func TestNoHerdAfterAPause(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		const answerTime = 90 * time.Millisecond // in which others leave
		up := testserver.New(testserver.ScriptFunc(func(i int, _ *http.Request) http.Handler {
			if 100 <= i && i < 105 {
				return testserver.After(answerTime, refusal("3"))
			}
			return nil
		}))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Limits: []limit.Limit{
			limit.PerSecond(50).WithBurst(25), limit.Per(3000, time.Minute).WithBurst(100), limit.Concurrent(64),
		}})
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 4 {
					if status, _, err := get(t.Context(), tr, srv.URL); err != nil || status != 200 {
						t.Error(status, err)
					}
				}
			})
		}
		wg.Wait()
		at := up.Arrivals()
		if at.Count(429) != 5 || at.Count(200) != 64*4 {
			t.Fatal(at.ByStatus())
		}
		refused := at[100].At.Add(answerTime)
		afterwards := at.Where(func(a testserver.Arrival) bool { return a.At.After(refused) })
		// Each of the five refusals makes the pause longer, the last one 80ms after the first.
		if d := afterwards[0].At.Sub(refused); d < 3080*time.Millisecond || d > 3230*time.Millisecond {
			t.Errorf("the pause ended after %v", d)
		}
		if gap := afterwards.MinGap(); gap < 20*time.Millisecond {
			t.Errorf("two came %v apart after the pause, want 20ms", gap)
		}
		if u := afterwards.Utilisation(50, 1); u < 0.975 { // a little less than the rate that was refused
			t.Errorf("only %.3f of the rate was used after the pause", u)
		}
	})
}
