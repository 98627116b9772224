package outflow_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// hostile is a Base that answers with whatever it was given until it is well again.
type hostile struct {
	status int
	header http.Header
	well   bool
	at     []time.Time
}

func (h *hostile) RoundTrip(req *http.Request) (*http.Response, error) {
	h.at = append(h.at, time.Now())
	resp := &http.Response{
		StatusCode: h.status, Header: h.header.Clone(), Request: req,
		ContentLength: -1, Body: io.NopCloser(strings.NewReader("body")),
	}
	if h.well {
		resp.StatusCode, resp.Header = 200, nil
	}
	return resp, nil
}

// FuzzHostileUpstream answers with a random status and random headers: RoundTrip doesn't panic, hang,
// send more often than it may, or at once, and neither it nor anybody after it waits for longer than
// MaxPause.
func FuzzHostileUpstream(f *testing.F) {
	for _, retryAfter := range []string{
		"", "1", "0", "-1", "60", "61", "0.0000001", "1e30", "9223372036", "9223372037", "18446744073",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 2000 00:00:09 GMT", "946684811", "soon",
	} {
		for _, status := range []int{200, 403, 429, 503} {
			f.Add(status, retryAfter, "", "", "", false)
		}
		f.Add(500, retryAfter, "", "", "", true)
	}
	f.Add(429, "", `"a";r=0;t=9999999999999999999, "b";r=0;t=3`, "0", "9223372036854775807", false)
	f.Add(429, "5", `"a";q=10;w=1`, "-5", "946684860", false)
	f.Add(503, "", "limit=1, remaining=0, reset=60.5", "99999999999999999999", "-1", true)
	f.Add(-1, "\x00", "\xff", " ", "NaN", true)

	f.Fuzz(func(t *testing.T, status int, retryAfter, rateLimit, remaining, reset string, always bool) {
		synctest.Test(t, func(t *testing.T) {
			const (
				maxAttempts = 4
				maxPause    = time.Minute
			)
			base := &hostile{status: status, header: http.Header{
				"Retry-After": {retryAfter}, "Ratelimit": {rateLimit}, "Ratelimit-Policy": {rateLimit},
				"X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}, "X-Ratelimit-Limit": {remaining},
				"Retry-After-Ms": {remaining}, "X-Ratelimit-Reset-After": {reset}, "Date": {reset, retryAfter},
			}}
			cfg := outflow.Config{
				Base:   base,
				Limits: []limit.Limit{limit.PerSecond(1000), limit.Concurrent(2)},
				Queue:  leakyqueue.Config{MaxPause: maxPause},
				Retry: outflow.Retry{
					MaxAttempts: maxAttempts, Budget: outflow.Budget{Ratio: -1},
					Backoff: backoff.Policy{Base: time.Second, Cap: 2 * time.Second},
				},
			}
			if always {
				cfg.Retry.CheckRetry = func(_ context.Context, resp *http.Response, err error) (bool, error) {
					return err != nil || resp.StatusCode != 200, nil
				}
			}
			tr := newTransport(t, cfg)
			time.Sleep(time.Second) // sums overflow the sooner

			// It doesn't hang: the bubble would be at a deadlock, and the sleeps are long ones.
			giveUp, cancel := context.WithCancel(t.Context())
			defer cancel()
			timer := time.AfterFunc(maxAttempts*2*maxPause, cancel)
			defer timer.Stop()
			req, _ := http.NewRequestWithContext(giveUp, "GET", "http://hostile.test/", nil)
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != status {
				t.Fatalf("%v, %v, want the answer", resp, err)
			}
			resp.Body.Close()
			if len(base.at) > maxAttempts {
				t.Fatalf("%d attempts, want at most %d", len(base.at), maxAttempts)
			}
			for i := 1; i < len(base.at); i++ {
				if gap := base.at[i].Sub(base.at[i-1]); gap < backoff.Floor || gap > maxPause {
					t.Fatalf("attempt %d came %v after the one before, want %v to %v", i+1, gap, backoff.Floor, maxPause)
				}
			}

			// Nor does it park those who come later, whatever it said at last.
			base.well = true
			start := time.Now()
			if _, _, err := get(giveUp, tr, "http://hostile.test/"); err != nil {
				if !errors.Is(err, outflow.ErrDeadline) || time.Since(start) != 0 {
					t.Fatalf("refused after %v: %v", time.Since(start), err)
				}
				time.Sleep(maxPause)
				start = time.Now()
				if _, _, err := get(giveUp, tr, "http://hostile.test/"); err != nil || time.Since(start) > time.Millisecond {
					t.Fatalf("MaxPause after the refusal: %v, after %v", err, time.Since(start))
				}
			}
			if d := time.Since(start); d > maxPause {
				t.Fatalf("a newcomer waited for %v", d)
			}
			if b := tr.Stats().Buckets[0]; b.Waiting != 0 || b.InFlight != 0 {
				t.Fatalf("left behind: %+v", b)
			}
		})
	})
}
