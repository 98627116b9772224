package testserver_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

// eachServer runs a test once for each way of serving; those without sockets in a bubble, where the
// end of the test also proves that no goroutine is left.
func eachServer(t *testing.T, test func(t *testing.T, start func(*testserver.Upstream) *testserver.Server)) {
	for name, start := range map[string]func(*testserver.Upstream, testserver.TB) *testserver.Server{
		"Pipe":      (*testserver.Upstream).Pipe,
		"PipeHTTP2": (*testserver.Upstream).PipeHTTP2,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(t, func(up *testserver.Upstream) *testserver.Server { return start(up, t) })
			})
		})
	}
	for name, start := range map[string]func(*testserver.Upstream, testserver.TB) *testserver.Server{
		"TCP": (*testserver.Upstream).TCP,
		"TLS": (*testserver.Upstream).TLS,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(up *testserver.Upstream) *testserver.Server { return start(up, t) })
		})
	}
}

// post sends a body, and returns the response's body, or the error of sending or reading.
func post(t *testing.T, s *testserver.Server, url, body string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

func TestServersAnswerWhateverTheHost(t *testing.T) {
	eachServer(t, func(t *testing.T, start func(*testserver.Upstream) *testserver.Server) {
		up := testserver.New(testserver.Stamp("X-Stamp", "yes")).Answering(testserver.Echo())
		s := start(up)
		elsewhere := strings.SplitAfter(s.URL, "://")[0] + "api.stripe.com"
		for _, url := range []string{s.URL, elsewhere} {
			resp, body, err := post(t, s, url+"/v1/charges", "amount=1")
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 200 || body != "amount=1" || resp.Header.Get("X-Stamp") != "yes" {
				t.Errorf("%s: %s %q %v", url, resp.Status, body, resp.Header)
			}
		}
		if last := up.Arrivals()[1]; last.Host != "api.stripe.com" || last.BodyRead != 8 || last.Status != 200 {
			t.Errorf("recorded: %+v", last)
		}
	})
}

func TestServersSpeakTheirProtocol(t *testing.T) {
	eachServer(t, func(t *testing.T, start func(*testserver.Upstream) *testserver.Server) {
		s := start(testserver.New())
		resp, _, err := post(t, s, s.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if strings.HasSuffix(t.Name(), "HTTP2") || strings.HasSuffix(t.Name(), "TLS") {
			want = 2
		}
		if resp.ProtoMajor != want {
			t.Errorf("spoke %s, want HTTP/%d", resp.Proto, want)
		}
	})
}

func TestConnectionsAreReusedAndCounted(t *testing.T) {
	eachServer(t, func(t *testing.T, start func(*testserver.Upstream) *testserver.Server) {
		s := start(testserver.New())
		for range 10 {
			if _, _, err := post(t, s, s.URL, ""); err != nil {
				t.Fatal(err)
			}
		}
		if s.Opened() != 1 {
			t.Errorf("%d connections for 10 requests in a row", s.Opened())
		}
	})
}

func TestAnswersThatBreakOff(t *testing.T) {
	eachServer(t, func(t *testing.T, start func(*testserver.Upstream) *testserver.Server) {
		up := testserver.New(testserver.Script(testserver.Cut(), testserver.CutBody("half")))
		s := start(up)
		if resp, _, err := post(t, s, s.URL, "charge me"); err == nil {
			t.Errorf("Cut: answered %s", resp.Status)
		}
		resp, body, err := post(t, s, s.URL, "")
		if err == nil || resp == nil || body != "half" {
			t.Errorf("CutBody: %v, body %q, error %v", resp, body, err)
		}
		if _, _, err := post(t, s, s.URL, ""); err != nil {
			t.Errorf("after the script: %v", err)
		}
		s.Close() // so that the handlers have ended, and their record is complete
		if as := up.Arrivals(); as[0].Status != 0 || as[0].BodyRead != 9 || as[1].Status != 200 {
			t.Errorf("recorded: %+v", as)
		}
	})
}

func TestAnswersThatNeverEnd(t *testing.T) {
	for name, answer := range map[string]http.Handler{
		"Trickle": testserver.Trickle(-1, "drop ", ms),
		"Stall":   testserver.Stall(429, "Retry-After", "1"),
		"Hang":    testserver.Hang(),
		"After":   testserver.After(time.Hour, testserver.OK()),
	} {
		t.Run(name, func(t *testing.T) {
			eachServer(t, func(t *testing.T, start func(*testserver.Upstream) *testserver.Server) {
				up := testserver.New(testserver.Concurrency(1)).Answering(answer)
				s := start(up)
				impatient := s.Client()
				impatient.Timeout = 20 * ms
				for len(up.Arrivals()) == 0 { // on a busy machine to connect takes as long
					resp, err := impatient.Get(s.URL)
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						resp.Body.Close()
					}
					if err == nil {
						t.Fatal("it ended")
					}
				}
				// The handler notices that the client has gone, without being told to close.
				eventually(t, func() bool { return !up.Arrivals()[0].Done.IsZero() })
			})
		})
	}
}

// eventually waits for what happens on the other side of a connection: in a bubble it takes no time.
func eventually(t *testing.T, happened func() bool) {
	t.Helper()
	for range 5000 {
		if happened() {
			return
		}
		time.Sleep(ms)
	}
	t.Error("it didn't happen within 5 s")
}

func TestTrickleTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testserver.New().Answering(testserver.Trickle(3, "drop ", time.Minute)).Pipe(t)
		start := time.Now()
		_, body, err := post(t, s, s.URL, "")
		if err != nil || body != "drop drop drop " {
			t.Errorf("%q, %v", body, err)
		}
		if took := time.Since(start); took != 3*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestEchoSendsWhileItReads(t *testing.T) {
	eachServer(t, func(t *testing.T, start func(*testserver.Upstream) *testserver.Server) {
		s := start(testserver.New().Answering(testserver.Echo()))
		sent, send := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, sent)
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(send, "first")
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got := make([]byte, 5)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "first" {
			t.Errorf("before the end of the request: %q, %v", got, err)
		}
		send.Close()
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Errorf("after it: %q, %v", rest, err)
		}
	})
}

func TestCloseEndsWhatIsInFlight(t *testing.T) {
	eachServer(t, func(t *testing.T, start func(*testserver.Upstream) *testserver.Server) {
		before := runtime.NumGoroutine()
		up := testserver.New().Answering(testserver.Hang())
		s := start(up)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, _, err := post(t, s, s.URL, ""); err == nil {
					t.Error("answered")
				}
			})
		}
		eventually(t, func() bool { return len(up.Arrivals()) == 8 })
		s.Close()
		s.Close()
		wg.Wait()
		for _, a := range up.Arrivals() {
			if a.Done.IsZero() {
				t.Error("Close returned before a handler did")
			}
		}
		// The end of a bubble shows it there, and the runtime may start goroutines of its own meanwhile.
		if inBubble := time.Now().Year() == 2000; !inBubble {
			eventually(t, func() bool { return runtime.NumGoroutine() <= before })
		}
	})
}

// An even client over a real stack meets its limit exactly, in virtual time: nothing is lost on the way.
func TestPaceIsExactInABubble(t *testing.T) {
	for name, start := range map[string]func(*testserver.Upstream, testserver.TB) *testserver.Server{
		"HTTP/1.1": (*testserver.Upstream).Pipe,
		"HTTP/2":   (*testserver.Upstream).PipeHTTP2,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := testserver.New(testserver.GCRA(10, 1), testserver.Concurrency(3)).
					Answering(testserver.After(250*ms, testserver.OK()))
				s := start(up, t)
				var wg sync.WaitGroup
				for i := range 50 {
					time.Sleep(100 * ms)
					wg.Go(func() {
						if resp, _, err := post(t, s, s.URL, ""); err != nil || resp.StatusCode != 200 {
							t.Errorf("request %d: %v, %v", i, resp, err)
						}
					})
				}
				wg.Wait()
				as := up.Arrivals()
				if as.MaxInWindow(time.Second) != 10 || as.MinGap() != 100*ms || as.Utilisation(10, 1) != 1 || as.MaxInFlight() != 3 {
					t.Errorf("at most %d a second, at least %v apart, %v used, %d in flight",
						as.MaxInWindow(time.Second), as.MinGap(), as.Utilisation(10, 1), as.MaxInFlight())
				}
			})
		})
	}
}
