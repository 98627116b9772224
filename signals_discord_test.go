package outflow_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/presets"
)

// discordPaths have as many workers each as there are for all, so that no resource lies idle because of
// another.
func discordPaths(t *testing.T, paths []string) func(ctx context.Context, url string, worker int) *http.Request {
	return func(ctx context.Context, _ string, worker int) *http.Request {
		return newRequest(ctx, t, http.MethodGet, "http://discord.com"+paths[worker%len(paths)], nil)
	}
}

// discordRoutes saturates the limits of routes: messages of eight channels, and of four guilds the roles and
// the members, which share a limit that only the name of its bucket tells of. The global limit isn't reached.
func discordRoutes(t *testing.T, cfg outflow.Config, c conditions) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		const channels, guilds = 8, 4
		var paths []string
		for i := range channels {
			paths = append(paths, fmt.Sprintf("/api/v10/channels/%d/messages", i))
		}
		for i := range guilds {
			paths = append(paths, fmt.Sprintf("/api/v10/guilds/%d/roles", i), fmt.Sprintf("/api/v10/guilds/%d/members", i))
		}
		windows := func(length time.Duration) int { return int(saturated / length) }
		return scenario{
			name: "Discord routes",
			upstream: testserver.Discord(50,
				testserver.DiscordRoute{
					Bucket: "messages", Limit: 5, Window: 5 * time.Second,
					Routes: []string{"GET /api/v10/channels/{channel}/messages"},
				},
				testserver.DiscordRoute{
					Bucket: "guilds", Limit: 4, Window: 3 * time.Second,
					Routes: []string{"GET /api/v10/guilds/{guild}/roles", "GET /api/v10/guilds/{guild}/members"},
				},
			),
			during:  saturated,
			quota:   channels*5*windows(5*time.Second) + guilds*4*windows(3*time.Second),
			request: discordPaths(t, paths),
		}
	})
}

// discordGlobal saturates the global limit by sixteen channels, whose own limits let three times as much pass.
func discordGlobal(t *testing.T, cfg outflow.Config, c conditions, name string) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		const global, channels = 50, 16
		var paths []string
		for i := range channels {
			paths = append(paths, fmt.Sprintf("/api/v10/channels/%d/messages", i))
		}
		return scenario{
			name: "Discord global " + name,
			upstream: testserver.Discord(global, testserver.DiscordRoute{
				Bucket: "messages", Limit: 10, Window: time.Second,
				Routes: []string{"GET /api/v10/channels/{channel}/messages"},
			}),
			during:  saturated,
			quota:   global * int(saturated/time.Second),
			request: discordPaths(t, paths),
		}
	})
}

// discordRules are a rule for each route and top-level resource, and no limits.
func discordRules() []outflow.Rule {
	return []outflow.Rule{
		{Match: "/api/v10/channels/{channel}/messages", Key: outflow.PathValue("channel")},
		{Match: "/api/v10/guilds/{guild}/roles", Key: outflow.PathValue("guild")},
		{Match: "/api/v10/guilds/{guild}/members", Key: outflow.PathValue("guild")},
	}
}

// discordDeclared is the one limit whose figure Discord documents; those of routes are learnt.
func discordDeclared() []outflow.Rule {
	global := outflow.Rule{Match: "/", Name: "global", Limits: []limit.Limit{limit.PerSecond(50)}}
	return append([]outflow.Rule{global}, discordRules()...)
}

func TestSignalsDiscordRoutes(t *testing.T) {
	for _, c := range everyday() {
		t.Run(c.String(), func(t *testing.T) {
			meetsVendor(t, c, func() outcome { return discordRoutes(t, outflow.Config{Rules: discordDeclared()}, c) })
			meetsVendor(t, c, func() outcome { return discordRoutes(t, presets.Config(presets.Discord()), c) })
		})
	}
}

func TestSignalsDiscordGlobal(t *testing.T) {
	for _, c := range everyday() {
		t.Run("declared "+c.String(), func(t *testing.T) {
			meetsVendor(t, c, func() outcome { return discordGlobal(t, outflow.Config{Rules: discordDeclared()}, c, "declared") })
		})
		// Sixteen buckets find the share of one limit that none of them has. That isn't what they are for, but
		// nothing fails that has tries enough. Five aren't: those who know their own limit to the millisecond begin each
		// second, and whoever was refused comes back after a whole number of seconds and a little, when it is used up again.
		t.Run("not declared "+c.String(), func(t *testing.T) {
			cfg := outflow.Config{Rules: discordRules(), Retry: outflow.Retry{MaxAttempts: 20}}
			o := discordGlobal(t, cfg, c, "not declared")
			atMost(t, "failed calls", o.Failed, 0)
			atLeast(t, "used of the quota", o.used(), 0.5)
		})
	}
}
