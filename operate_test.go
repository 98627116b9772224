package outflow_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

// Limits and pauses are changed by name while requests are under way.
func TestOperate(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		srv := serve(testserver.New())
		tr := newTransport(t, outflow.Config{Base: srv.Transport, Rules: []outflow.Rule{
			{Match: "/a", Name: "A", Limits: []limit.Limit{limit.PerSecond(1)}},
			{Match: "/b/{id}", Key: outflow.PathValue("id"), Limits: []limit.Limit{limit.PerSecond(1)}},
		}})
		took := func(path string) time.Duration {
			t.Helper()
			start := time.Now()
			if status, _, err := get(t.Context(), tr, srv.URL+path); err != nil || status != 200 {
				t.Error(path, status, err)
			}
			return time.Since(start)
		}
		want := func(path string, want time.Duration) {
			t.Helper()
			if d := took(path); d != want {
				t.Errorf("%s took %v, want %v", path, d, want)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		took("/a")
		must(tr.SetLimits("A", limit.PerSecond(10)))
		want("/a", 100*time.Millisecond)

		host := strings.TrimPrefix(srv.URL, "http://")
		host = strings.TrimPrefix(host, "https://")
		took("/b/1")
		must(tr.Pause("/b/{id}", "1", time.Now().Add(time.Minute)))
		want("/b/2", 0)
		want("/b/1", time.Minute)
		must(tr.Pause("/b/{id}", "1", time.Now().Add(time.Minute)))
		time.AfterFunc(10*time.Second, func() { must(tr.Resume("/b/{id}", "1")) })
		want("/b/1", 10*time.Second)

		took("/c")
		must(tr.SetLimits("", limit.PerSecond(1), limit.Concurrent(1)))
		took("/c")
		want("/c", time.Second)
		must(tr.Pause("", host, time.Now().Add(5*time.Second)))
		want("/c", 5*time.Second)
		synctest.Wait()
	})
	tr := newTransport(t, outflow.Config{})
	for name, err := range map[string]error{
		"SetLimits": tr.SetLimits("nobody"), "Pause": tr.Pause("nobody", "", time.Now()), "Resume": tr.Resume("nobody", ""),
	} {
		if err == nil || !strings.Contains(err.Error(), name+`: no rule is named "nobody"`) {
			t.Error(err)
		}
	}
	if err := tr.SetLimits("", limit.Per(-1, time.Second)); !errors.Is(err, limit.ErrInvalid) {
		t.Error(err)
	}
}
