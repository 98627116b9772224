package outflow_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/presets"
)

// saturated is for how long the vendors' limits are saturated.
const saturated = 30 * time.Second

// meetsVendor fails the test unless nothing failed, the quota was used, and hardly anything was refused that left after
// it was known that something had been: in the median of some runs, since who comes first is random.
func meetsVendor(t *testing.T, c conditions, run func() outcome) {
	t.Helper()
	meetsQuota(t, c, 0.98, run)
}

func meetsQuota(t *testing.T, c conditions, share float64, run func() outcome) {
	t.Helper()
	meetsShare(t, c, share, 0.01, run)
}

func meetsShare(t *testing.T, c conditions, share, refused float64, run func() outcome) {
	t.Helper()
	if !c.near() {
		refused, share = max(refused, 0.02), share-0.13
	}
	var used, again []float64
	for range when(c.near(), 5, 1) {
		o := run()
		atMost(t, "failed calls", o.Failed, 0)
		used, again = append(used, o.used()), append(again, o.refusedAgain())
	}
	slices.Sort(used)
	slices.Sort(again)
	atMost(t, "refused after the first, as a share", again[len(again)/2], refused)
	atLeast(t, "used of the quota", used[len(used)/2], share)
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
				meetsVendor(t, c, func() outcome { return gitHub(t, outflow.Config{}, c, name, limits) })
				// Who declares what GitHub documents isn't refused at all.
				o := gitHub(t, presets.Config(presets.GitHub()), c, name+", preset", limits)
				atMost(t, "failed calls", o.Failed, 0)
				atMost(t, "refused", o.refused(), 0)
				atLeast(t, "used of the quota", o.used(), 0.98)
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

// Of a hundred requests three may be refused before the leak is known: the target, 0.98 and 0.01, is met in most runs
// and not in all.
func TestSignalsShopify(t *testing.T) {
	for _, c := range everyday() {
		t.Run(c.String(), func(t *testing.T) {
			meetsShare(t, c, 0.95, 0.04, func() outcome { return shopify(t, outflow.Config{}, c) })
		})
	}
}
