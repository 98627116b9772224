package outflow_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

// That requests' bodies are sent as they are, and again only if they can be had again: trap 9 of
// research/peers-features.md.

// sink answers 200 once it has thrown away what was sent, and notes how much that was.
type sink struct{ bytes int64 }

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for buf := make([]byte, 1<<20); ; {
		n, err := r.Body.Read(buf)
		s.bytes += int64(n)
		if err != nil {
			return
		}
	}
}

// Trap 9: an upload goes through, however large; to keep a copy for a retry would take its size.
func TestUploadsAreNotBuffered(t *testing.T) {
	const most = 8 << 20
	size := 1 << 30
	if raceDetector() {
		size = 1 << 26 // it looks at each byte that is copied
	}
	synctest.Test(t, func(t *testing.T) {
		thrown := new(sink)
		srv := testserver.New().Answering(thrown).Pipe(t)
		tr := newTransport(t, outflow.Config{
			Base:   srv.Transport,
			Limits: []limit.Limit{limit.PerSecond(1), limit.Concurrent(1)},
			Retry:  outflow.Retry{AttemptTimeout: time.Hour},
		})
		r, w := io.Pipe()
		go func() {
			chunk := make([]byte, 1<<20)
			for range size / len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
			w.Close()
		}()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		req := newRequest(t.Context(), t, "PUT", srv.URL+"/upload", r)
		req.ContentLength = int64(size) // chunks would only take longer
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		runtime.ReadMemStats(&after)
		// All that was allocated, not only what is still in use: a buffer that was freed counts.
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%d MiB took %d MiB of memory", size>>20, took>>20)
		}
		if thrown.bytes != int64(size) {
			t.Errorf("%d bytes arrived, want %d", thrown.bytes, size)
		}
	})
}

func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Trap 9: what can't be had again isn't sent again, neither the rest of it nor nothing.
func TestWithoutGetBodyNothingIsRetried(t *testing.T) {
	for _, c := range []struct {
		name string
		step http.Handler
		want func(ended) bool
	}{
		{"unwell", testserver.Reply(503, "unwell", "Retry-After", "1"), answered(503)},
		{"limited", testserver.Reply(429, "slower", "Retry-After", "1"), answered(429)},
		{"cut off", testserver.Cut(), failedSomehow},
	} {
		t.Run(c.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				up := testserver.New(testserver.Script(c.step))
				srv := serve(up)
				for _, check := range []func(context.Context, *http.Response, error) (bool, error){
					nil, func(context.Context, *http.Response, error) (bool, error) { return true, nil },
				} {
					up.Reset()
					tr := newTransport(t, outflow.Config{Base: srv.Transport, Retry: outflow.Retry{CheckRetry: check, MaxAttempts: 2}})
					var bodies sentBodies
					req := bodies.request(t.Context(), t, "amount=1")
					req.GetBody = nil
					e := roundTrip(tr, req)
					if !c.want(e) {
						t.Errorf("ended with %+v", e)
					}
					if e.resp != nil {
						read(t, e.resp)
					}
					synctest.Wait()
					bodies.closedOnce(t, 1)
					if as := up.Arrivals(); len(as) != 1 {
						t.Errorf("sent %d times, want once", len(as))
					}
				}
			})
		})
	}
}

// A request without a body needs no GetBody, whichever way it says so.
func TestRequestsWithoutBodyAreRetried(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		for _, body := range []io.ReadCloser{nil, http.NoBody} {
			up := testserver.New(testserver.Script(testserver.Reply(503, "unwell")))
			tr := newTransport(t, outflow.Config{Base: serve(up).Transport})
			req := newRequest(t.Context(), t, "DELETE", "http://api.test/v1/charges/1", nil)
			req.Body = body
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if read(t, resp); resp.StatusCode != 200 || len(up.Arrivals()) != 2 {
				t.Errorf("body %v: %s after %d attempts", body, resp.Status, len(up.Arrivals()))
			}
		}
	})
}

// Trap 9: each attempt has the whole body, also after one that got only half of it.
func TestSpentBodyIsNotSentAgain(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		content := strings.Repeat("0123456789abcdef", 1<<14)
		var mu sync.Mutex
		var got []string
		srv := serve(testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			attempt := len(got)
			got = append(got, "")
			mu.Unlock()
			if attempt == 0 { // half of it is read
				_, _ = io.CopyN(io.Discard, r.Body, int64(len(content)/2))
				panic(http.ErrAbortHandler)
			}
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			got[attempt] = string(body)
			mu.Unlock()
			if attempt < 3 {
				w.WriteHeader(503)
			}
		})))
		tr := newTransport(t, outflow.Config{Base: srv.Transport})
		var bodies sentBodies
		e := roundTrip(tr, bodies.request(t.Context(), t, content))
		if !answered(200)(e) {
			t.Fatalf("ended with %+v", e)
		}
		read(t, e.resp)
		synctest.Wait()
		bodies.closedOnce(t, 4)
		for i, body := range got[1:] {
			if body != content {
				t.Errorf("attempt %d brought %d bytes, want %d", i+2, len(body), len(content))
			}
		}
	})
}
