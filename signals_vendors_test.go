package outflow_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/presets"
)

// saturated is for how long the vendors' limits are saturated.
const saturated = 30 * time.Second

// meetsVendor fails the test unless nothing failed, the quota was used, and hardly anything was refused that left after
// it was known that something had been.
func meetsVendor(t *testing.T, o outcome, c conditions) {
	t.Helper()
	again, used := 0.01, 0.98
	if !c.near() {
		again, used = 0.02, 0.85
	}
	atMost(t, "failed calls", o.Failed, 0)
	atMost(t, "refused after the first, as a share", o.refusedAgain(), again)
	atLeast(t, "used of the quota", o.used(), used)
}

// gitHub runs into the 900 points a minute of GitHub's secondary limit, which no header tells of: the first
// minute's are all that there are in 30 s.
func gitHub(t *testing.T, cfg outflow.Config, c conditions, name string, limits testserver.GitHubLimits) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		return scenario{
			name:     "GitHub secondary limit " + name,
			upstream: testserver.GitHub(limits),
			during:   saturated,
			quota:    900,
			request: func(ctx context.Context, _ string, _ int) *http.Request {
				return newRequest(ctx, t, http.MethodGet, "http://api.github.com/repos/outflow-go/outflow", nil)
			},
		}
	})
}

func TestSignalsGitHub(t *testing.T) {
	for name, limits := range map[string]testserver.GitHubLimits{
		"403":                  {},
		"403 with Retry-After": {RetryAfter: "60"},
		"429":                  {Status: 429},
		"429 with Retry-After": {Status: 429, RetryAfter: "60"},
	} {
		for _, c := range everyday() {
			t.Run(name+" "+c.String(), func(t *testing.T) {
				meetsVendor(t, gitHub(t, outflow.Config{}, c, name, limits), c)
				// Who declares what GitHub documents isn't refused at all.
				o := gitHub(t, presets.Config(presets.GitHub()), c, name+", preset", limits)
				meetsVendor(t, o, c)
				atMost(t, "refused", o.refused(), 0)
			})
		}
	}
}

// shopify is the standard plan's bucket of 40 that leaks 2 a second. A client learns of it by the header of
// each answer, which has the bucket in it and not how fast it leaks.
func shopify(t *testing.T, cfg outflow.Config, c conditions) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		return scenario{
			name:     "Shopify 40 at 2 per s",
			upstream: testserver.Shopify(40, 2),
			during:   saturated,
			quota:    40 + 2*int(saturated/time.Second),
		}
	})
}

func TestSignalsShopify(t *testing.T) {
	for _, c := range everyday() {
		t.Run(c.String(), func(t *testing.T) { meetsVendor(t, shopify(t, outflow.Config{}, c), c) })
	}
}
