package outflow_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
)

// What http.Client and its callers rely on stays as it is without outflow: traps 1 and 3 of
// research/peers-features.md.

// serveFunc serves an upstream to the test that it was made for.
type serveFunc func(*testserver.Upstream) *testserver.Server

// overEachProtocol runs a test over the real net/http stack once with HTTP/1.1 and once with HTTP/2,
// in virtual time; the end of the bubble also proves that no goroutine is left.
func overEachProtocol(t *testing.T, test func(t *testing.T, serve serveFunc)) {
	t.Helper()
	t.Run("HTTP1", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, func(up *testserver.Upstream) *testserver.Server { return up.Pipe(t) })
		})
	})
	t.Run("HTTP2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, func(up *testserver.Upstream) *testserver.Server { return up.PipeHTTP2(t) })
		})
	})
}

// baseFunc is a Base in a function.
type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newRequest(ctx context.Context, t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// read returns a response's body, which it closes.
func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("reading the body: %v", err)
	}
	return string(body)
}

// Trap 1: a Transport that follows redirects by itself hides them from the client's CheckRedirect, from
// its cookie jar, and from its care for credentials.
func TestRedirectsStayTheClients(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		type seen struct{ host, method, auth, cookie, body string }
		var mu sync.Mutex
		var requests []seen
		up := testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			requests = append(requests, seen{r.Host, r.Method, r.Header.Get("Authorization"), r.Header.Get("Cookie"), string(body)})
			mu.Unlock()
			switch r.URL.Path {
			case "/start":
				w.Header().Set("Set-Cookie", "session=1")
				http.Redirect(w, r, "http://other.test/end", http.StatusFound)
			case "/again":
				http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
			default:
				io.WriteString(w, "arrived")
			}
		}))
		srv := serve(up)
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{AttemptTimeout: time.Minute}})

		// RoundTrip gives a redirect back like any other response.
		resp, err := tr.RoundTrip(newRequest(t.Context(), t, "GET", "http://api.test/start", nil))
		if err != nil {
			t.Fatal(err)
		}
		if body := read(t, resp); resp.StatusCode != 302 || resp.Header.Get("Location") != "http://other.test/end" || !strings.Contains(body, "Found") {
			t.Errorf("RoundTrip answered %s to %q: %q", resp.Status, resp.Header.Get("Location"), body)
		}
		if len(requests) != 1 {
			t.Errorf("RoundTrip sent %v", requests)
		}

		// The client follows it, asks its hook, and keeps the first host's secrets there.
		requests = nil
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		var via []string
		client := &http.Client{Transport: tr, Jar: jar, CheckRedirect: func(_ *http.Request, before []*http.Request) error {
			via = append(via, before[len(before)-1].URL.Host)
			return nil
		}}
		for range 2 { // the second time with the cookie
			req := newRequest(t.Context(), t, "GET", "http://api.test/start", nil)
			req.Header.Set("Authorization", "secret")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if body := read(t, resp); body != "arrived" || resp.Request.URL.Host != "other.test" {
				t.Errorf("%q from %v", body, resp.Request.URL)
			}
		}
		if !slices.Equal(via, []string{"api.test", "api.test"}) {
			t.Errorf("CheckRedirect was called for %v", via)
		}
		if want := []seen{
			{"api.test", "GET", "secret", "", ""}, {"other.test", "GET", "", "", ""},
			{"api.test", "GET", "secret", "session=1", ""}, {"other.test", "GET", "", "", ""},
		}; !slices.Equal(requests, want) {
			t.Errorf("the upstream saw %+v, want %+v", requests, want)
		}

		// A 307 repeats the method and the body, and that is for the client to do.
		requests = nil
		resp, err = client.Post("http://api.test/again", "text/plain", strings.NewReader("amount=1"))
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if want := []seen{
			{"api.test", "POST", "", "session=1", "amount=1"}, {"api.test", "POST", "", "session=1", "amount=1"},
		}; !slices.Equal(requests, want) {
			t.Errorf("the upstream saw %+v, want %+v", requests, want)
		}

		// So is the end of the chase.
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp, err = client.Get("http://api.test/start")
		if err != nil {
			t.Fatal(err)
		}
		if body := read(t, resp); resp.StatusCode != 302 || !strings.Contains(body, "Found") {
			t.Errorf("ErrUseLastResponse: %s %q", resp.Status, body)
		}
	})
}

// image is all of a request that a caller could see change.
type image struct {
	method, host, proto, uri string
	url                      url.URL
	header, trailer          http.Header
	body                     io.ReadCloser
	length                   int64
	encoding                 []string
	closes, getsBody         bool
	ctx                      context.Context
}

func imageOf(req *http.Request) image {
	return image{
		method: req.Method, host: req.Host, proto: req.Proto, uri: req.RequestURI,
		url:    *req.URL,
		header: req.Header.Clone(), trailer: req.Trailer.Clone(),
		body: req.Body, length: req.ContentLength, encoding: slices.Clone(req.TransferEncoding),
		closes: req.Close, getsBody: req.GetBody != nil, ctx: req.Context(),
	}
}

// Trap 3: what is changed between attempts, races the one that still sends, and surprises the caller.
// Run with -race.
func TestCallersRequestIsNotModified(t *testing.T) {
	// It answers before it has read the body, most of which is still to be sent then.
	hasty := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = http.NewResponseController(w).Flush()
		io.CopyN(io.Discard, r.Body, 100<<10)
	})
	sign := func(req *http.Request) error {
		req.Header.Set("X-Signature", "new")
		req.Header.Del("Authorization")
		req.URL.RawQuery = "attempt=again"
		req.Host = "signed.test"
		req.Method = "PATCH"
		return nil
	}
	for _, c := range []struct {
		name     string
		steps    []http.Handler
		retry    outflow.Retry
		attempts int
	}{
		{name: "sent once", attempts: 1},
		{name: "with a timeout for each attempt", retry: outflow.Retry{AttemptTimeout: time.Minute}, attempts: 1},
		{name: "retried", steps: testserver.Times(2, testserver.Reply(503, "unwell")), attempts: 3},
		{name: "retried after a cut", steps: testserver.Times(2, testserver.Cut()), attempts: 3},
		{
			name:  "retried with PrepareRetry and a timeout",
			steps: testserver.Times(2, testserver.Reply(429, "slower", "Retry-After", "1")),
			retry: outflow.Retry{PrepareRetry: sign, AttemptTimeout: time.Minute}, attempts: 3,
		},
		{
			name:  "answered while it is still being sent",
			steps: testserver.Times(2, hasty),
			retry: outflow.Retry{PrepareRetry: sign}, attempts: 3,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := testserver.New(testserver.Script(c.steps...))
				srv := serve(up)
				tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: c.retry})

				type keyType struct{}
				ctx := context.WithValue(t.Context(), keyType{}, "the caller's")
				req := newRequest(ctx, t, "PUT", "http://api.test/v1/things?a=b", strings.NewReader(strings.Repeat("x", 4<<20)))
				req.Header.Set("Authorization", "secret")
				req.Header["X-List"] = []string{"a", "b"}
				req.Host = "virtual.test"
				before := imageOf(req)

				// Who watches from another goroutine makes -race see a write that is undone later, too.
				watching, stop := context.WithCancel(t.Context())
				var watcher sync.WaitGroup
				watcher.Go(func() {
					for watching.Err() == nil {
						if now := imageOf(req); !reflect.DeepEqual(before, now) {
							t.Errorf("in flight: %+v, was %+v", now, before)
							return
						}
						time.Sleep(time.Millisecond)
					}
				})
				resp, err := tr.RoundTrip(req)
				stop()
				watcher.Wait()
				if err != nil {
					t.Fatal(err)
				}
				if after := imageOf(req); !reflect.DeepEqual(before, after) {
					t.Errorf("after: %+v, was %+v", after, before)
				}
				if resp.StatusCode != 200 || len(up.Arrivals()) != c.attempts {
					t.Errorf("%s after %d attempts, want 200 after %d", resp.Status, len(up.Arrivals()), c.attempts)
				}
				if resp.Request != req {
					t.Error("the response is for another request than the caller's")
				}
				// The request is the caller's again now; -race sees who still uses it.
				read(t, resp)
				req.Header.Set("X-Reused", "yes")
				req.URL.Path, req.Method, req.Body = "/elsewhere", "GET", nil
				clear(req.Header)
			})
		})
	}
}

// A repeated request is the same request: what was set on it arrives each time.
func TestRetriesCarryWhatTheRequestCarried(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		type seen struct {
			method, host, uri string
			header            http.Header
			length            int64
			body              string
			trailer           http.Header
		}
		var mu sync.Mutex
		var requests []seen
		srv := serve(testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, seen{r.Method, r.Host, r.RequestURI, r.Header.Clone(), r.ContentLength, string(body), r.Trailer})
			if len(requests) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})))
		tr := newTransport(t, outflow.Config{Base: srv.Transport})
		for _, trailer := range []http.Header{nil, {"X-Sum": {"42"}}} {
			requests = nil
			req := newRequest(t.Context(), t, "PUT", "http://api.test/a%2Fb?q=1", strings.NewReader("the body"))
			req.Host = "virtual.test"
			req.Header = http.Header{"Authorization": {"secret"}, "X-List": {"a", "b"}, "Accept-Encoding": {"identity"}}
			if req.Trailer = trailer; trailer != nil {
				req.ContentLength = -1 // HTTP/1.1 has trailers after chunks only
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			if len(requests) != 3 {
				t.Fatalf("%d attempts, want 3", len(requests))
			}
			first := requests[0]
			if first.method != "PUT" || first.host != "virtual.test" || first.uri != "/a%2Fb?q=1" || first.body != "the body" ||
				first.header.Get("Authorization") != "secret" || !maps.EqualFunc(first.trailer, trailer, slices.Equal) {
				t.Errorf("first attempt: %+v", first)
			}
			for _, again := range requests[1:] {
				if !reflect.DeepEqual(again, first) {
					t.Errorf("again as %+v, was %+v", again, first)
				}
			}
		}
	})
}
