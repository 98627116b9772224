package outflow_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

func bearer(req *http.Request, member string) { req.Header.Set("Authorization", "Bearer "+member) }

// Each credential's limit is kept at the upstream, and all of them are used.
func TestAPoolUsesEachCredentialToItsLimit(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.GCRA(10, 1).By(testserver.HeaderValue("Authorization")))
		tr := newTransport(t, outflow.Config{
			Base:  serve(up).Transport,
			Rules: []outflow.Rule{{Match: "/", Pool: []string{"a", "b", "c"}, Use: bearer, Limits: []limit.Limit{limit.PerSecond(10)}}},
		})
		start := time.Now()
		var wg sync.WaitGroup
		for range 303 {
			wg.Go(func() {
				req := newRequest(t.Context(), t, "GET", "http://up.test/", nil)
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				read(t, resp)
				if resp.StatusCode != http.StatusOK || len(req.Header) != 0 || resp.Request != req {
					t.Errorf("status %d, the request's headers are %v", resp.StatusCode, req.Header)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("300 more requests at 3 times 10/s took %v", took)
		}
		if n := tr.Stats().Limited; n != 0 {
			t.Errorf("%d were refused", n)
		}
	})
}

// A refusal pauses the credential that was used; the retry leaves with another at once.
func TestARefusalPausesOneCredential(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		var mu sync.Mutex
		var used []string
		up := testserver.New().Answering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			used = append(used, r.Header.Get("Authorization")+r.Header.Get("Prepared"))
			if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer a") {
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}))
		prepare := func(req *http.Request) error {
			req.Header.Set("Prepared", "; again "+req.Header.Get("Authorization"))
			return nil
		}
		tr := newTransport(t, outflow.Config{
			Base:  serve(up).Transport,
			Retry: outflow.Retry{PrepareRetry: prepare},
			Rules: []outflow.Rule{{Match: "/", Name: "keys", Pool: []string{"a", "b"}, Use: bearer, Limits: []limit.Limit{limit.PerSecond(10), limit.Concurrent(1)}}},
		})
		start := time.Now()
		for range 3 {
			if status, _, err := get(t.Context(), tr, "http://up.test/"); status != http.StatusOK || err != nil {
				t.Fatal(status, err)
			}
		}
		if took := time.Since(start); took != 200*time.Millisecond {
			t.Errorf("3 requests with b alone took %v", took)
		}
		want := "[Bearer a Bearer b; again Bearer b Bearer b Bearer b]"
		if got := fmt.Sprint(used); got != want {
			t.Errorf("used %s, want %s", got, want)
		}
		for _, b := range tr.Stats().Buckets {
			if paused := b.Paused > 0; paused != (b.Key == "a") || b.InFlight != 0 {
				t.Errorf("at the end: %+v", b)
			}
		}
	})
}

// A body, a settlement, a timeout and wider limits go together with a pool.
func TestAPoolJointlyWithOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New().Answering(testserver.Echo())
		tr := newTransport(t, outflow.Config{
			Base:   up.Pipe(t).Transport,
			Limits: []limit.Limit{limit.PerSecond(1)},
			Retry:  outflow.Retry{AttemptTimeout: time.Minute},
			Rules: []outflow.Rule{{Match: "/", Pool: []string{"a", "b"}, Use: bearer, Limits: []limit.Limit{limit.PerSecond(10)},
				Settle: func(*http.Response) (int, bool) { return 50, true }}},
		})
		start := time.Now()
		for range 3 {
			req := newRequest(t.Context(), t, "POST", "http://up.test/", strings.NewReader("work"))
			status, body, err := do(tr, req)
			if status != http.StatusOK || !strings.Contains(body, "work") || err != nil {
				t.Fatal(status, body, err)
			}
		}
		// The first two cost 5 s each, of a and of b.
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestAPoolHasBothOrNeither(t *testing.T) {
	for _, tt := range []struct {
		rule outflow.Rule
		want string
	}{
		{outflow.Rule{Use: bearer}, "Config.Rules[0].Use is set"},
		{outflow.Rule{Pool: []string{"a"}}, "Config.Rules[0].Use is nil"},
		{outflow.Rule{Pool: []string{}, Use: bearer}, "Config.Rules[0].Pool: "},
		{outflow.Rule{Pool: []string{"a", "a"}, Use: bearer}, `members[1] is "a"`},
		{outflow.Rule{Pool: []string{"a"}, Use: bearer, Key: outflow.Host()}, "Config.Rules[0].Key is set"},
		{outflow.Rule{Pool: []string{"a"}, Use: bearer, Shadow: true}, "Config.Rules[0].Shadow is true"},
		{outflow.Rule{Pool: []string{"a"}, Use: bearer, Limits: []limit.Limit{limit.PerSecond(0)}}, "Config.Rules[0].Limits: "},
	} {
		tt.rule.Match = "/"
		if _, err := outflow.New(outflow.Config{Rules: []outflow.Rule{tt.rule}}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("want %q: %v", tt.want, err)
		}
	}
}

// Use that panics leaves nothing behind.
func TestUsePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, outflow.Config{Base: stub{}, Rules: []outflow.Rule{{
			Match: "/", Pool: []string{"a"}, Limits: []limit.Limit{limit.Concurrent(1)},
			Use: func(*http.Request, string) { panic("no such key") },
		}}})
		func() {
			defer func() { _ = recover() }()
			_, _, _ = get(context.Background(), tr, "http://up.test/")
		}()
		for _, b := range tr.Stats().Buckets {
			if b.InFlight != 0 {
				t.Errorf("%+v", b)
			}
		}
	})
}
