package testserver

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A DiscordRoute is a limit of a [Discord] on some routes.
type DiscordRoute struct {
	Bucket string        // the hash that names it
	Routes []string      // http.ServeMux patterns; all of them count together
	Limit  int           // requests
	Window time.Duration // in which they may be made
}

// Discord is Discord's HTTP API: a limit of global requests a second for each bot, documented as 50, and those
// of routes, each counted for every top-level resource (channel, guild, webhook) by itself. What has no route
// here has only the global limit. Source: https://docs.discord.com/developers/topics/rate-limits, as of
// discord/discord-api-docs@291ee19, read in November 2026.
//
// What is documented: the global limit; that routes may share one, which X-RateLimit-Bucket names, and that
// this name doesn't have the top-level resource in it; the headers, with and without decimals, and which come
// with a 429 only; its JSON body, with retry_after in seconds with decimals, while Retry-After is in whole
// ones. That a global 429 has no headers of its route is as in the documentation's example.
//
// What isn't documented is how the limits count. Here their windows begin with the first request after the
// ones before. The numbers of routes are secret and change, so there are none here.
func Discord(global int, routes ...DiscordRoute) *Upstream {
	bot := HeaderValue("Authorization")
	policies := []*Policy{
		Window(global, time.Second).FromFirst().By(bot).RetryAfterFunc(DeltaSeconds).
			RefuseWithFunc(func(refusal Refusal) http.Handler { return discordRefusal(refusal.Wait, true) }),
	}
	for _, route := range routes {
		policies = append(policies, Window(route.Limit, route.Window).FromFirst().On(route.Routes...).
			By(func(r *http.Request) string { return bot(r) + " " + topLevelResource(r.URL.Path) }).
			RetryAfterFunc(DeltaSeconds).
			Advertise(func(h http.Header, q Quota) {
				triple(h, "X-RateLimit", q, 0)
				at := time.Now().Add(ceilMilliseconds(q.Reset)).UnixMilli()
				h.Set("X-RateLimit-Reset", fmt.Sprintf("%d.%03d", at/1000, at%1000))
				h.Set("X-RateLimit-Reset-After", strconv.FormatFloat(decimalSeconds(q.Reset), 'f', -1, 64))
				h.Set("X-RateLimit-Bucket", route.Bucket)
			}).
			RefuseWithFunc(func(refusal Refusal) http.Handler { return discordRefusal(refusal.Wait, false) }))
	}
	return New(policies...).Answering(Reply(http.StatusOK, `{"id":"1"}`, "Content-Type", "application/json"))
}

func discordRefusal(wait time.Duration, global bool) http.Handler {
	body := jsonReply(http.StatusTooManyRequests, map[string]any{
		"message":     "You are being rate limited.",
		"retry_after": decimalSeconds(wait),
		"global":      global,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-RateLimit-Scope", "user")
		if global {
			for _, name := range []string{"Limit", "Remaining", "Reset", "Reset-After", "Bucket"} {
				h.Del("X-RateLimit-" + name)
			}
			h.Set("X-RateLimit-Global", "true")
			h.Set("X-RateLimit-Scope", "global")
		}
		body.ServeHTTP(w, r)
	})
}

// decimalSeconds has three decimals at the most: Duration.Seconds turns 4.94 into 4.9399999999999995.
func decimalSeconds(d time.Duration) float64 {
	return float64(ceilMilliseconds(d).Milliseconds()) / 1000
}

// topLevelResource is what of a path limits are counted for: "channels/1" of
// "/api/v10/channels/1/messages/2"; of a webhook its token, too.
func topLevelResource(path string) string {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, s := range segments {
		length := 0
		switch s {
		case "channels", "guilds":
			length = 2
		case "webhooks":
			length = 3
		default:
			continue
		}
		return strings.Join(segments[i:min(i+length, len(segments))], "/")
	}
	return ""
}
