package outflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// begin sends the request that begins an operation.
func begin(t testing.TB, client *http.Client, url string) *http.Response {
	t.Helper()
	req := newRequest(t.Context(), t, "POST", url, strings.NewReader("work"))
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// accepted answers 202 with a Location and a Retry-After in seconds, or without one if that is "".
func accepted(location, retryAfter string) http.Handler {
	header := []string{"Location", location}
	if retryAfter != "" {
		header = append(header, "Retry-After", retryAfter)
	}
	return testserver.Reply(202, "accepted", header...)
}

// pollScript begins an operation at an upstream that answers by the script, and then with "ok", and polls
// it until the end. It returns the answer and its body, and the upstream.
func pollScript(t *testing.T, serve serveFunc, cfg outflow.PollConfig, steps ...http.Handler) (*http.Response, string, testserver.Arrivals, error) {
	t.Helper()
	up := testserver.New(testserver.Script(steps...))
	srv := serve(up)
	open := &openBodies{base: srv.Transport}
	client := &http.Client{Transport: open}
	resp, err := outflow.Poll(t.Context(), client, begin(t, client, srv.URL+"/v1/exports"), cfg)
	body := ""
	if err == nil {
		if n := open.n.Load(); n != 1 {
			t.Errorf("%d bodies open, want that of the last answer", n)
		}
		body = read(t, resp)
	} else if resp != nil {
		t.Errorf("an error and a response: %v, %v", err, resp)
	}
	if n := open.n.Load(); n != 0 {
		t.Errorf("%d bodies open at the end", n)
	}
	return resp, body, up.Arrivals(), err
}

// openBodies counts responses that aren't closed.
type openBodies struct {
	base http.RoundTripper
	n    atomic.Int64
}

func (o *openBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.base.RoundTrip(req)
	if err == nil {
		o.n.Add(1)
		resp.Body = &countedBody{ReadCloser: resp.Body, closed: func() { o.n.Add(-1) }}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	once   sync.Once
	closed func()
}

func (b *countedBody) Close() error {
	b.once.Do(b.closed)
	return b.ReadCloser.Close()
}

func TestPollFollowsTheOperation(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		resp, body, as, err := pollScript(t, serve, outflow.PollConfig{},
			accepted("../operations/7?key=a%20b", "2"), // relative to /v1/exports
			accepted("/operations/7", "3"),
			testserver.Reply(202, "", "Retry-After", "4"), // at the same place
			accepted("http://upstream.test/operations/7/last", "5"),
			testserver.Reply(200, "the result"),
		)
		if err != nil || resp.StatusCode != 200 || body != "the result" {
			t.Fatalf("%v, %q, %v", resp, body, err)
		}
		if got, want := as.Since(as[0].At), []time.Duration{0, 2 * time.Second, 5 * time.Second, 9 * time.Second, 14 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("at %v, want %v", got, want)
		}
		var paths []string
		for _, a := range as {
			paths = append(paths, a.Method+" "+a.Path)
		}
		if want := []string{"POST /v1/exports", "GET /operations/7", "GET /operations/7", "GET /operations/7", "GET /operations/7/last"}; !slices.Equal(paths, want) {
			t.Errorf("%q, want %q", paths, want)
		}
	})
}

func TestPollObeysRetryAfterInAllItsForms(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		value        func(now time.Time) string
		want         time.Duration
	}{
		{"seconds", "Retry-After", fixed("2"), 2 * time.Second},
		{"a fraction", "Retry-After", fixed("0.9"), 900 * time.Millisecond},
		{"IMF-fixdate", "Retry-After", date(http.TimeFormat, 3*time.Second), 3 * time.Second},
		{"milliseconds", "Retry-After-Ms", fixed("1500"), 1500 * time.Millisecond},
		{"below the floor", "Retry-After", fixed("0.001"), outflow.PollFloor},
		{"above the bound", "Retry-After", fixed("7201"), 2 * time.Hour},
		{"absurd", "Retry-After", fixed("99999999999999999999999"), 2 * time.Hour},
		{"none", "Retry-After", fixed(""), 7 * time.Second},
		{"zero", "Retry-After", fixed("0"), 7 * time.Second},
		{"past", "Retry-After", fixed("Wed, 21 Oct 1998 07:28:00 GMT"), 7 * time.Second},
		{"garbage", "Retry-After", fixed("soon"), 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				cfg := outflow.PollConfig{Every: 7 * time.Second, MaxEvery: 7 * time.Second, MaxRetryAfter: 2 * time.Hour}
				_, _, as, err := pollScript(t, serve, cfg,
					testserver.Reply(202, "", "Location", "/op", tt.header, tt.value(time.Now())))
				if err != nil || len(as) != 2 {
					t.Fatal(err, len(as))
				}
				if got := as.MinGap(); got != tt.want {
					t.Errorf("polled after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestPollBacksOffByItself(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		steps := testserver.Times(200, accepted("/op", ""))
		_, _, as, err := pollScript(t, serve, outflow.PollConfig{Every: time.Second, MaxEvery: 10 * time.Second}, steps...)
		if err != nil {
			t.Fatal(err)
		}
		longest, gaps := time.Duration(0), make(map[time.Duration]bool)
		for i := 1; i < len(as); i++ {
			gap := as[i].At.Sub(as[i-1].At)
			longest, gaps[gap] = max(longest, gap), true
			if i == 1 && gap > 2*time.Second {
				t.Errorf("first poll after %v", gap)
			}
		}
		if as.MinGap() < time.Second || longest > 10*time.Second || longest < 5*time.Second || len(gaps) < 100 {
			t.Errorf("%d gaps of %v to %v", len(gaps), as.MinGap(), longest)
		}
	})
}

func TestPollKnowsTheEnd(t *testing.T) {
	monitor := func(status int, body string) http.Handler { return testserver.Reply(status, body, "Retry-After", "1") }
	operation := testserver.Reply(202, "", "Operation-Location", "/monitor", "Location", "/result")
	for _, tt := range []struct {
		name  string
		steps []http.Handler
		want  string // the last status and body
		polls int
	}{
		{"done at once", []http.Handler{testserver.Reply(200, "done", "Location", "/x")}, "200 done", 0},
		{"created at once", []http.Handler{testserver.Reply(201, "made", "Location", "/x")}, "201 made", 0},
		{"refused at once", []http.Handler{testserver.Reply(400, "bad", "Operation-Location", "/x")}, "400 bad", 0},
		{"created", []http.Handler{accepted("/op", "1"), testserver.Reply(201, "made")}, "201 made", 1},
		{"no content", []http.Handler{accepted("/op", "1"), testserver.Reply(204, "")}, "204 ", 1},
		{"gone", []http.Handler{accepted("/op", "1"), testserver.Reply(410, "gone")}, "410 gone", 1},
		{"not found", []http.Handler{accepted("/op", "1"), testserver.Reply(404, "where?")}, "404 where?", 1},
		{"broken", []http.Handler{accepted("/op", "1"), testserver.Reply(500, "oops")}, "500 oops", 1},
		{"refused for now, with no Transport to try again", []http.Handler{accepted("/op", "1"), testserver.Reply(429, "", "Retry-After", "1")}, "429 ", 1},
		{"a resource with a status, which isn't the operation's", []http.Handler{accepted("/op", "1"), testserver.Reply(200, `{"status":"active"}`)}, `200 {"status":"active"}`, 1},
		{"status documents", []http.Handler{
			operation, monitor(200, `{"status":"NotStarted"}`), monitor(202, `{"status":"Running"}`),
			monitor(201, `{"status":"whatever"}`), monitor(200, `{"status":"Succeeded","id":7}`),
		}, `200 {"status":"Succeeded","id":7}`, 4},
		{"failed", []http.Handler{operation, monitor(200, `{"status":"failed"}`)}, `200 {"status":"failed"}`, 1},
		{"canceled", []http.Handler{operation, monitor(200, `{"status":"Canceled"}`)}, `200 {"status":"Canceled"}`, 1},
		{"cancelled", []http.Handler{operation, monitor(200, `{"status":"cancelled"}`)}, `200 {"status":"cancelled"}`, 1},
		{"succeeded with 202", []http.Handler{operation, monitor(202, `{"status":"Succeeded"}`)}, `202 {"status":"Succeeded"}`, 1},
		{"a monitor without a status", []http.Handler{operation, monitor(202, "{}"), monitor(200, "<done/>")}, "200 <done/>", 2},
		{"a monitor whose status is a number", []http.Handler{operation, monitor(202, `{"status":1}`), monitor(200, `{"status":2}`)}, `200 {"status":2}`, 2},
		{"a monitor after 201", []http.Handler{
			testserver.Reply(201, "{}", "Azure-AsyncOperation", "/monitor", "Operation-Location", "/result", "Location", "/result"),
			monitor(200, `{"status":"InProgress"}`), monitor(200, `{"status":"Succeeded"}`),
		}, `200 {"status":"Succeeded"}`, 2},
		{"a monitor that names the result", []http.Handler{
			operation, testserver.Reply(200, `{"status":"Running"}`, "Location", "/result"), monitor(200, `{"status":"Succeeded"}`),
		}, `200 {"status":"Succeeded"}`, 2},
		{"a monitor that names itself", []http.Handler{
			operation, testserver.Reply(200, `{"status":"Succeeded"}`, "Operation-Location", "/monitor"),
		}, `200 {"status":"Succeeded"}`, 1},
		{"a monitor that moves", []http.Handler{
			operation, testserver.Reply(200, `{"status":"Running"}`, "Operation-Location", "/monitor/2"), monitor(200, `{"status":"Succeeded"}`),
		}, `200 {"status":"Succeeded"}`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				resp, body, as, err := pollScript(t, serve, outflow.PollConfig{}, tt.steps...)
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(resp.StatusCode, " ", body); got != tt.want || len(as) != 1+tt.polls {
					t.Errorf("%q after %d polls, want %q after %d", got, len(as)-1, tt.want, tt.polls)
				}
				for _, a := range as {
					if a.Path == "/result" {
						t.Error("polled the result in place of the monitor")
					}
				}
			})
		})
	}
}

// A redirect to the result ends it, a monitor that has moved doesn't.
func TestPollLeavesRedirectsToTheClient(t *testing.T) {
	for _, tt := range []struct {
		code  int
		polls int
	}{{302, 1}, {303, 1}, {301, 2}, {307, 2}, {308, 2}} {
		t.Run(fmt.Sprint(tt.code), func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				_, body, as, err := pollScript(t, serve, outflow.PollConfig{},
					testserver.Reply(202, "", "Operation-Location", "/monitor"),
					testserver.Reply(tt.code, "", "Location", "/elsewhere"),
					testserver.Reply(200, `{"status":"active"}`),
					testserver.Reply(tt.code, "", "Location", "/elsewhere"),
					testserver.Reply(200, `{"status":"Succeeded"}`),
				)
				if err != nil {
					t.Fatal(err)
				}
				if len(as) != 1+2*tt.polls || (body == `{"status":"active"}`) != (tt.polls == 1) {
					t.Errorf("%s after %d requests", body, len(as))
				}
				if got := len(as.To("/monitor")); got != tt.polls { // not where the redirect led
					t.Errorf("%d polls of the monitor, want %d", got, tt.polls)
				}
			})
		})
	}
	t.Run("where they led is what a Location is relative to", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			_, _, as, err := pollScript(t, serve, outflow.PollConfig{},
				accepted("/op", "1"), testserver.Reply(307, "", "Location", "/elsewhere/op"), accepted("next", "1"))
			if err != nil || len(as.To("/elsewhere/next")) != 1 {
				t.Errorf("%v, %+v", err, as)
			}
		})
	})
	t.Run("not followed", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			srv := serve(testserver.New(testserver.Script(accepted("/op", "1"), testserver.Reply(303, "", "Location", "/result"))))
			client := srv.Client()
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			resp, err := outflow.Poll(t.Context(), client, begin(t, client, srv.URL), outflow.PollConfig{})
			if err != nil || resp.StatusCode != 303 {
				t.Fatal(resp, err)
			}
			read(t, resp)
		})
	})
}

func TestPollEndsWithItsContext(t *testing.T) {
	slow := accepted("/op", "600")
	t.Run("cancelled while it waits", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			srv := serve(testserver.New().Answering(slow))
			ctx, cancel := context.WithCancelCause(t.Context())
			resp := begin(t, srv.Client(), srv.URL)
			start, enough := time.Now(), errors.New("enough")
			time.AfterFunc(15*time.Minute, func() { cancel(enough) })
			resp, err := outflow.Poll(ctx, srv.Client(), resp, outflow.PollConfig{})
			failed, _ := errors.AsType[*outflow.PollError](err)
			if resp != nil || !errors.Is(err, enough) || !errors.Is(err, context.Canceled) || failed.Polls != 1 {
				t.Errorf("%v, %v", resp, err)
			}
			if took := time.Since(start); took != 15*time.Minute {
				t.Errorf("after %v", took)
			}
		})
	})
	t.Run("told at once that the next poll is too late", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			up := testserver.New().Answering(slow)
			srv := serve(up)
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			defer cancel()
			start := time.Now()
			_, err := outflow.Poll(ctx, srv.Client(), begin(t, srv.Client(), srv.URL), outflow.PollConfig{})
			failed, _ := errors.AsType[*outflow.PollError](err)
			if !errors.Is(err, outflow.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) || failed.Polls != 1 {
				t.Fatal(err)
			}
			if took := time.Since(start); took != 10*time.Minute {
				t.Errorf("after %v", took)
			}

			// It can be taken up again where it was.
			up.Answering(testserver.OK())
			again, err := srv.Client().Get(failed.URL.String())
			if err == nil {
				again, err = outflow.Poll(t.Context(), srv.Client(), again, outflow.PollConfig{})
			}
			if err != nil {
				t.Fatal(err)
			}
			read(t, again)
		})
	})
	t.Run("while a poll is out", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			srv := serve(testserver.New(testserver.Script(accepted("/op?secret=1", "1"))).Answering(testserver.Hang()))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := outflow.Poll(ctx, srv.Client(), begin(t, srv.Client(), srv.URL), outflow.PollConfig{})
			if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
		})
	})
	t.Run("while the first answer is read", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			srv := serve(testserver.New().Answering(testserver.Stall(202, "Location", "/op")))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			resp := begin(t, srv.Client(), srv.URL)
			_, err := outflow.Poll(ctx, srv.Client(), resp, outflow.PollConfig{
				Done: func(*http.Response, []byte) (bool, error) { return true, nil },
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	})
}

func TestPollEndsLoops(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		loop := testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next := "/a"
			if r.URL.Path == next {
				next = "/b"
			}
			w.Header().Set("Retry-After", "0.000001")
			w.Header().Set("Location", next)
			w.WriteHeader(202)
		}))
		srv := serve(loop)
		_, err := outflow.Poll(t.Context(), srv.Client(), begin(t, srv.Client(), srv.URL), outflow.PollConfig{MaxPolls: 5})
		failed, _ := errors.AsType[*outflow.PollError](err)
		if !errors.Is(err, outflow.ErrMaxPolls) || failed.Polls != 5 || len(loop.Arrivals()) != 6 {
			t.Errorf("%v after %d requests", err, len(loop.Arrivals()))
		}
		if got := loop.Arrivals().MinGap(); got < outflow.PollFloor {
			t.Errorf("polls %v apart", got)
		}
		loop.Reset()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = outflow.Poll(ctx, srv.Client(), begin(t, srv.Client(), srv.URL), outflow.PollConfig{})
		if !errors.Is(err, outflow.ErrDeadline) || len(loop.Arrivals()) > 601 {
			t.Errorf("%v after %d requests", err, len(loop.Arrivals()))
		}
	})
}

// Over a Transport: a poll needs the slot of the answer before it, keeps the rate, and its refusals are
// waited for like everybody's.
func TestPollKeepsTheTransportsLimits(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(
			testserver.GCRA(1, 1).RetryAfter("1"), testserver.Concurrency(1),
			testserver.Script(accepted("/op", "0.1"), testserver.Reply(429, "", "Retry-After", "30"), accepted("/op", "0.1"), testserver.Reply(503, "", "Retry-After", "20")),
		)
		srv := serve(up)
		open := &openBodies{base: srv.Transport}
		tr := newTransport(t, outflow.Config{
			Base: open, Limits: []limit.Limit{limit.PerSecond(1), limit.Concurrent(1)}, Queue: leakyqueue.Config{MaxWait: time.Hour},
		})
		client := &http.Client{Transport: tr}
		resp, err := outflow.Poll(t.Context(), client, begin(t, client, srv.URL), outflow.PollConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if body := read(t, resp); resp.StatusCode != 200 || body != "ok\n" {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
		as := up.Arrivals()
		if len(as) != 5 || as.MinGap() < time.Second || as[2].At.Sub(as[1].At) < 30*time.Second || as[4].At.Sub(as[3].At) < 20*time.Second {
			t.Errorf("%d requests at %v", len(as), as.Since(as[0].At))
		}
		if err := tr.Close(t.Context()); err != nil || open.n.Load() != 0 {
			t.Errorf("%d bodies open, %v", open.n.Load(), err)
		}
	})
}

// Google's operations: a GET of the operation, again and again, until {"done": true}.
func TestPollAsksDone(t *testing.T) {
	googleDone := func(_ *http.Response, body []byte) (bool, error) {
		return strings.Contains(string(body), `"done":true`), nil
	}
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		large := strings.Repeat("x", 3<<20)
		running := testserver.Reply(200, `{"name":"operations/7"}`, "Retry-After", "1")
		up := testserver.New(testserver.Script(running, running, testserver.Reply(200, `{"done":true}`+large)))
		srv := serve(up)
		open := &openBodies{base: srv.Transport}
		client := &http.Client{Transport: open}
		resp, err := client.Get(srv.URL + "/v1/operations/7")
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		resp, err = outflow.Poll(t.Context(), client, resp, outflow.PollConfig{Done: func(r *http.Response, body []byte) (bool, error) {
			if r.StatusCode != 200 || len(body) > 1<<20 {
				t.Errorf("asked about %d with %d bytes", r.StatusCode, len(body))
			}
			seen++
			return googleDone(r, body)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if body := read(t, resp); body != `{"done":true}`+large {
			t.Errorf("a body of %d bytes", len(body))
		}
		if seen != 3 || len(up.Arrivals().To("/v1/operations/7")) != 3 || open.n.Load() != 0 {
			t.Errorf("asked %d times, sent %d, %d bodies open", seen, len(up.Arrivals()), open.n.Load())
		}
	})
	t.Run("error", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			failed := errors.New("operation failed")
			_, _, as, err := pollScript(t, serve, outflow.PollConfig{Done: func(r *http.Response, _ []byte) (bool, error) {
				if r.StatusCode == 202 {
					return false, nil
				}
				return false, failed
			}}, accepted("/op", "1"))
			if !errors.Is(err, failed) || len(as) != 2 {
				t.Errorf("%v after %d requests", err, len(as))
			}
		})
	})
	t.Run("not asked about a refusal", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			never := func(*http.Response, []byte) (bool, error) { return false, nil }
			resp, _, as, err := pollScript(t, serve, outflow.PollConfig{Done: never}, accepted("/op", "1"), testserver.Reply(404, ""))
			if err != nil || resp.StatusCode != 404 || len(as) != 2 {
				t.Errorf("%v, %v after %d requests", resp, err, len(as))
			}
		})
	})
	t.Run("panic", func(t *testing.T) {
		overEachProtocol(t, func(t *testing.T, serve serveFunc) {
			srv := serve(testserver.New().Answering(accepted("/op", "1")))
			open := &openBodies{base: srv.Transport}
			client := &http.Client{Transport: open}
			defer func() {
				if recover() == nil || open.n.Load() != 0 {
					t.Errorf("%d bodies open", open.n.Load())
				}
			}()
			_, _ = outflow.Poll(t.Context(), client, begin(t, client, srv.URL), outflow.PollConfig{
				Done: func(*http.Response, []byte) (bool, error) { panic("in Done") },
			})
		})
	})
}

// A monitor's document that breaks off, and answers that break off before.
func TestPollTellsOfBrokenAnswers(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		for _, broken := range []http.Handler{testserver.CutBody(`{"status":`), testserver.Cut()} {
			_, _, as, err := pollScript(t, serve, outflow.PollConfig{}, testserver.Reply(202, "", "Operation-Location", "/monitor"), broken,
				broken, broken) // net/http itself tries an idempotent request again on a connection that was used before
			failed, ok := errors.AsType[*outflow.PollError](err)
			if !ok || failed.Polls != 1 || failed.URL.Path != "/monitor" {
				t.Errorf("%v after %d requests", err, len(as))
			}
			if _, double := errors.AsType[*url.Error](err); double {
				t.Errorf("tells the URL twice: %v", err)
			}
		}
	})
}

func TestPollTellsWhatIsWrongWithItsArguments(t *testing.T) {
	for _, tt := range []struct {
		cfg  outflow.PollConfig
		want string
	}{
		{outflow.PollConfig{Every: time.Millisecond}, "outflow: PollConfig.Every is 1ms, want 100ms or more"},
		{outflow.PollConfig{Every: -1}, "PollConfig.Every is -1ns"},
		{outflow.PollConfig{Every: time.Minute, MaxEvery: time.Second}, "PollConfig.MaxEvery is 1s, want Every, 1m0s"},
		{outflow.PollConfig{MaxEvery: -1}, "PollConfig.MaxEvery is -1ns"},
		{outflow.PollConfig{MaxRetryAfter: time.Millisecond}, "PollConfig.MaxRetryAfter is 1ms, want 100ms or more"},
		{outflow.PollConfig{MaxPolls: -1}, "PollConfig.MaxPolls is -1"},
	} {
		closed := false
		resp := &http.Response{StatusCode: 200, Request: newRequest(t.Context(), t, "GET", "http://api.test/", nil)}
		resp.Body = &countedBody{ReadCloser: http.NoBody, closed: func() { closed = true }}
		if _, err := outflow.Poll(t.Context(), nil, resp, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) || !closed {
			t.Errorf("%+v: %v, closed: %v, want %q", tt.cfg, err, closed, tt.want)
		}
	}
	for _, resp := range []*http.Response{nil, {StatusCode: 200}, {StatusCode: 200, Request: new(http.Request)}} {
		if _, err := outflow.Poll(t.Context(), nil, resp, outflow.PollConfig{}); err == nil {
			t.Errorf("%+v: no error", resp)
		}
	}
	// A large Every needs no MaxEvery.
	resp := &http.Response{StatusCode: 200, Request: newRequest(t.Context(), t, "GET", "http://api.test/", nil)}
	if got, err := outflow.Poll(t.Context(), nil, resp, outflow.PollConfig{Every: time.Hour}); err != nil || got != resp {
		t.Errorf("%v, %v", got, err)
	}
}
