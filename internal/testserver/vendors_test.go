package testserver_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

// A call is one request to a vendor, and all of what is expected of its answer.
type call struct {
	at     time.Duration // since the upstream's start
	target string        // method, space, path
	body   string
	times  int // 0: once
	want   int
	header string // as in step
	says   string // is in the body
}

func followCalls(t *testing.T, vendor func() *testserver.Upstream, calls []call) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := vendor()
		start := time.Now()
		for i, c := range calls {
			time.Sleep(c.at - time.Since(start))
			for range max(1, c.times) {
				status, header, body := c.send(up)
				if status != c.want || !strings.Contains(body, c.says) {
					t.Fatalf("call %d at %v: %d %s, want %d and %q", i, c.at, status, body, c.want, c.says)
				}
				for line := range strings.Lines(c.header) {
					name, want, _ := strings.Cut(line, ":")
					if got := strings.Join(header.Values(name), ", "); got != strings.TrimSpace(want) {
						t.Errorf("call %d at %v: %s: %q, want %q", i, c.at, name, got, strings.TrimSpace(want))
					}
				}
			}
		}
	})
}

func (c call) send(h http.Handler) (status int, header http.Header, body string) {
	method, path, _ := strings.Cut(c.target, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(c.body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header(), w.Body.String()
}

func TestGitHub(t *testing.T) {
	const get, post = "GET /user", "POST /repos/a/b/issues"
	for name, tt := range map[string]struct {
		limits testserver.GitHubLimits
		calls  []call
	}{
		"primary": {testserver.GitHubLimits{Primary: 2}, []call{
			// The hour begins with the first request. 946684800 is 2000-01-01 00:00:00 UTC.
			{at: time.Minute, target: get, want: 200, header: "X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 1\nX-RateLimit-Used: 1\nX-RateLimit-Reset: 946688460\nX-RateLimit-Resource: core"},
			{at: 2 * time.Minute, target: get, want: 200, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Used: 2\nX-RateLimit-Reset: 946688460"},
			{at: 3 * time.Minute, target: get, want: 403, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946688460\nRetry-After:", says: `"message":"API rate limit exceeded for user ID 1."`},
			{at: time.Hour + time.Minute, target: get, want: 200, header: "X-RateLimit-Remaining: 1"},
		}},
		"points": {testserver.GitHubLimits{}, []call{
			{target: get, times: 899, want: 200},
			{target: post, want: 403, header: "Retry-After:\nX-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 4101", says: `"message":"You have exceeded a secondary rate limit.`},
			{target: get, want: 200},
			{at: time.Minute - 1, target: get, want: 403},
			{at: time.Minute, target: post, times: 180, want: 200},
			{at: time.Minute, target: "HEAD /user", want: 403},
		}},
		"with a Retry-After and another status": {testserver.GitHubLimits{Points: 5, Status: 429, RetryAfter: "60"}, []call{
			{target: post, want: 200, header: "Retry-After:"},
			{target: get, want: 429, header: "Retry-After: 60\nX-RateLimit-Remaining: 4999", says: "secondary rate limit"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			followCalls(t, func() *testserver.Upstream { return testserver.GitHub(tt.limits) }, tt.calls)
		})
	}
}

func TestGitHubConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := testserver.GitHub(testserver.GitHubLimits{}).Answering(testserver.After(time.Second, testserver.OK()))
		for range 101 {
			go call{target: "GET /"}.send(up)
		}
		time.Sleep(2 * time.Second)
		if ok, refused := up.Arrivals().Count(200), up.Arrivals().Count(403); ok != 100 || refused != 1 {
			t.Errorf("of 101 at once %d were admitted and %d refused", ok, refused)
		}
	})
}

func TestShopify(t *testing.T) {
	const get = "GET /admin/api/2024-07/products.json"
	followCalls(t, func() *testserver.Upstream { return testserver.Shopify(40, 2) }, []call{
		{target: get, want: 200, header: "X-Shopify-Shop-Api-Call-Limit: 1/40\nRetry-After:"},
		{target: get, times: 38, want: 200},
		{target: get, want: 200, header: "X-Shopify-Shop-Api-Call-Limit: 40/40"},
		{target: get, want: 429, header: "X-Shopify-Shop-Api-Call-Limit: 40/40\nRetry-After: 2.0", says: `{"errors":"Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service."}`},
		{at: 500 * ms, target: get, want: 200, header: "X-Shopify-Shop-Api-Call-Limit: 40/40"},
		{at: 2500 * ms, target: get, want: 200, header: "X-Shopify-Shop-Api-Call-Limit: 37/40"},
		{at: 2500 * ms, target: "GET http://another.myshopify.com/", want: 200, header: "X-Shopify-Shop-Api-Call-Limit: 1/40"},
	})
}

func TestOpenAI(t *testing.T) {
	const chat = "POST /v1/chat/completions"
	ask := func(most int) string {
		return fmt.Sprintf(`{"model":"gpt-4o","max_tokens":%d,"messages":[{"role":"user","content":"how are you?"}]}`, most)
	}
	for name, tt := range map[string]struct {
		limits testserver.OpenAILimits
		calls  []call
	}{
		"tokens": {testserver.OpenAILimits{Requests: 500, Tokens: 30_000}, []call{
			{target: chat, body: ask(12_000), want: 200, says: `"usage":{"completion_tokens":6000,"prompt_tokens":3,"total_tokens":6003}`, header: "X-RateLimit-Limit-Requests: 500\nX-RateLimit-Remaining-Requests: 499\nX-RateLimit-Reset-Requests: 120ms\n" +
				"X-RateLimit-Limit-Tokens: 30000\nX-RateLimit-Remaining-Tokens: 18000\nX-RateLimit-Reset-Tokens: 24s\nRetry-After:"},
			{target: chat, body: ask(17_937), want: 200, header: "X-RateLimit-Remaining-Tokens: 63"},
			// The numbers of https://github.com/BuilderIO/micro-agent/issues/86.
			{target: chat, body: ask(385), want: 429, header: "Retry-After: 1\nRetry-After-Ms: 644\nX-RateLimit-Remaining-Tokens: 63\nX-RateLimit-Remaining-Requests: 497",
				says: `Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 644ms.`},
			{at: 643 * ms, target: chat, body: ask(385), want: 429, header: "Retry-After-Ms: 1"},
			{at: 644 * ms, target: chat, body: ask(385), want: 200},
			{at: time.Minute, target: chat, body: ask(30_001), want: 429, header: "Retry-After:\nRetry-After-Ms:", says: `"type":"tokens"`},
		}},
		"corrected": {testserver.OpenAILimits{Requests: 500, Tokens: 30_000, Corrected: true}, []call{
			{target: chat, body: ask(30_000), want: 200},
			{target: chat, body: ask(14_997), want: 200, header: "X-RateLimit-Remaining-Tokens: 0"},
			{target: chat, body: ask(14_997), want: 429},
		}},
		"requests, of which the refused ones count": {testserver.OpenAILimits{Requests: 3, Tokens: 30_000}, []call{
			{target: chat, want: 200, header: "X-RateLimit-Remaining-Requests: 2\nX-RateLimit-Reset-Requests: 20s"},
			{target: chat, times: 2, want: 200},
			{target: chat, want: 429, header: "Retry-After: 40\nX-RateLimit-Reset-Requests: 1m20s", says: `on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 40s.`},
			{at: 40*time.Second - 1, target: chat, want: 429, header: "Retry-After: 21"},
			{at: 40 * time.Second, target: chat, want: 429},
		}},
		"tokens by the prompt": {testserver.OpenAILimits{Requests: 500, Tokens: 100}, []call{
			{target: chat, body: fmt.Sprintf(`{"messages":[{"content":%q},{"content":%q}]}`, strings.Repeat("x", 397), ""), want: 200, header: "X-RateLimit-Remaining-Tokens: 0"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			followCalls(t, func() *testserver.Upstream { return testserver.OpenAI(tt.limits) }, tt.calls)
		})
	}
}

func TestDiscord(t *testing.T) {
	const messages, other, roles, members = "POST /api/v10/channels/1/messages", "POST /api/v10/channels/2/messages", "GET /api/v10/guilds/1/roles", "GET /api/v10/guilds/1/members"
	routes := []testserver.DiscordRoute{
		{Bucket: "abcd1234", Routes: []string{"POST /api/v10/channels/{channel}/messages"}, Limit: 5, Window: 5 * time.Second},
		{Bucket: "ef567890", Routes: []string{"GET /api/v10/guilds/{guild}/roles", "GET /api/v10/guilds/{guild}/members"}, Limit: 2, Window: 1500 * ms},
	}
	discord := func() *testserver.Upstream { return testserver.Discord(50, routes...) }
	followCalls(t, discord, []call{
		{at: 100 * ms, target: messages, want: 200, header: "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 4\nX-RateLimit-Reset: 946684805.100\nX-RateLimit-Reset-After: 5\nX-RateLimit-Bucket: abcd1234\nX-RateLimit-Scope:\nX-RateLimit-Global:"},
		{at: 100 * ms, target: messages, times: 4, want: 200},
		{at: 160 * ms, target: messages, want: 429, header: "Retry-After: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: 4.94\nX-RateLimit-Scope: user\nX-RateLimit-Global:\nX-RateLimit-Bucket: abcd1234",
			says: `{"global":false,"message":"You are being rate limited.","retry_after":4.94}`},
		{at: 160 * ms, target: other, want: 200, header: "X-RateLimit-Remaining: 4\nX-RateLimit-Bucket: abcd1234"},
		{at: 160 * ms, target: roles, want: 200, header: "X-RateLimit-Remaining: 1\nX-RateLimit-Bucket: ef567890"},
		{at: 160 * ms, target: members, want: 200, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Bucket: ef567890"},
		{at: 160 * ms, target: roles, want: 429, header: "Retry-After: 2\nX-RateLimit-Reset-After: 1.5"},
		{at: 5100 * ms, target: messages, want: 200, header: "X-RateLimit-Remaining: 4"},
		{at: 5200 * ms, target: "GET /api/v10/gateway", times: 49, want: 200, header: "X-RateLimit-Limit:"},
		{at: 5250 * ms, target: messages, want: 429, header: "Retry-After: 1\nX-RateLimit-Global: true\nX-RateLimit-Scope: global\nX-RateLimit-Bucket:\nX-RateLimit-Remaining:", says: `{"global":true,"message":"You are being rate limited.","retry_after":0.85}`},
		{at: 6100 * ms, target: messages, want: 200, header: "X-RateLimit-Remaining: 3"},
	})
}

// Webhooks count for each token.
func TestDiscordTopLevelResources(t *testing.T) {
	routes := testserver.DiscordRoute{Bucket: "x", Routes: []string{"/"}, Limit: 1, Window: time.Second}
	var calls []call
	for _, path := range []string{"/webhooks/1/a", "/webhooks/1/b", "/channels/1/messages/2", "/channels/2/messages/2", "/users/1", "/webhooks/2", "/channels"} {
		calls = append(calls, call{target: "GET /api/v10" + path, want: 200})
	}
	calls = append(calls,
		call{target: "GET /api/v10/webhooks/1/a/messages", want: 429}, call{target: "GET /api/v10/channels/1", want: 429},
		call{target: "GET /api/v10/users/2", want: 429})
	followCalls(t, func() *testserver.Upstream { return testserver.Discord(50, routes) }, calls)
}

// Refused requests are charged as 1 by what charges all.
func TestChargingAllFollowsTheDefinition(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			burst := 1 + rng.IntN(5)
			const interval = 10 * ms
			up := testserver.New(
				testserver.GCRA(100, burst).ChargingAll(),
				testserver.SlidingLog(3, 5*interval).Cost(headerCost),
			)
			var all, admitted []admission
			for i := range 200 {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(interval) * 2))
				now := time.Now()
				cost := rng.IntN(3)
				want := 429
				if admitsGCRA(all, now, 1, interval, burst) && sum(admitted, now.Add(1-5*interval), now.Add(1))+cost <= 3 {
					want = 200
					admitted = append(admitted, admission{now, cost})
				}
				all = append(all, admission{now, 1})
				if got := sendCost(up, cost); got != want {
					t.Fatalf("seed %d, request %d: %d, want %d", seed, i, got, want)
				}
			}
		})
	}
}

// The vendors over random histories, by what their documentation comes to and nothing else.
func TestVendorsFollowTheirDefinition(t *testing.T) {
	type asked struct {
		at            time.Time
		method, path  string
		tokens        int
		refusedBefore []admission // all before it, each as 1
	}
	type history map[string][]admission // what has been admitted of each kind

	for name, tt := range map[string]struct {
		vendor func() *testserver.Upstream
		gap    time.Duration // between requests, on average
		// fits returns what a request counts as, in which keys of the history, and whether it is within the limits.
		fits func(h history, a asked) (keys map[string]int, ok bool)
	}{
		"GitHub": {
			func() *testserver.Upstream {
				return testserver.GitHub(testserver.GitHubLimits{Primary: 300, Points: 20})
			}, time.Second,
			func(h history, a asked) (map[string]int, bool) {
				points := 5
				if a.method == "GET" {
					points = 1
				}
				return map[string]int{"points": points, "requests": 1},
					usedFromFirst(h["points"], a.at, time.Minute)+points <= 20 && usedFromFirst(h["requests"], a.at, time.Hour) < 300
			},
		},
		"Shopify": {
			func() *testserver.Upstream { return testserver.Shopify(4, 2) }, 300 * ms,
			func(h history, a asked) (map[string]int, bool) {
				return map[string]int{"all": 1}, admitsGCRA(h["all"], a.at, 1, 500*ms, 4)
			},
		},
		"OpenAI": {
			func() *testserver.Upstream {
				return testserver.OpenAI(testserver.OpenAILimits{Requests: 60, Tokens: 600})
			}, time.Second,
			func(h history, a asked) (map[string]int, bool) {
				return map[string]int{"tokens": a.tokens},
					admitsGCRA(a.refusedBefore, a.at, 1, time.Second, 60) && admitsGCRA(h["tokens"], a.at, a.tokens, 100*ms, 600)
			},
		},
		"Discord": {
			func() *testserver.Upstream {
				return testserver.Discord(5,
					testserver.DiscordRoute{Bucket: "a", Routes: []string{"GET /channels/{id}/messages", "POST /channels/{id}/messages"}, Limit: 3, Window: 2 * time.Second},
					testserver.DiscordRoute{Bucket: "b", Routes: []string{"/channels/{id}/pins"}, Limit: 2, Window: time.Second},
				)
			}, 150 * ms,
			func(h history, a asked) (map[string]int, bool) {
				// Methods share a bucket, resources don't.
				limit, window := 3, 2*time.Second
				if strings.HasSuffix(a.path, "pins") {
					limit, window = 2, time.Second
				}
				return map[string]int{"global": 1, a.path: 1},
					usedFromFirst(h["global"], a.at, time.Second) < 5 && usedFromFirst(h[a.path], a.at, window) < limit
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				synctest.Test(t, func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 6))
					up := tt.vendor()
					h := make(history)
					var all []admission
					statuses := make(map[bool]int)
					for i := range 400 {
						time.Sleep(time.Duration(rng.ExpFloat64() * float64(tt.gap)))
						a := asked{
							at: time.Now(), method: []string{"GET", "POST"}[rng.IntN(2)], tokens: 1 + rng.IntN(40), refusedBefore: slices.Clip(all),
							path: []string{"/channels/1/messages", "/channels/2/messages", "/channels/1/pins"}[rng.IntN(3)],
						}
						keys, want := tt.fits(h, a)
						c := call{target: a.method + " " + a.path, body: fmt.Sprintf(`{"max_completion_tokens":%d}`, a.tokens)}
						status, _, body := c.send(up)
						if (status == 200) != want {
							t.Fatalf("seed %d, request %d, %+v: %d %s", seed, i, a, status, body)
						}
						if want {
							for key, cost := range keys {
								h[key] = append(h[key], admission{a.at, cost})
							}
						}
						all = append(all, admission{a.at, 1})
						statuses[want]++
					}
					if statuses[true] < 20 || statuses[false] < 20 {
						t.Errorf("seed %d: %v: nothing is learnt from that", seed, statuses)
					}
				})
			}
		})
	}
}
