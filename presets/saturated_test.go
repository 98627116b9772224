package presets_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/presets"
)

func points(name string) func(*http.Request) int {
	return func(r *http.Request) int {
		n, _ := strconv.Atoi(r.Header.Get(name))
		return max(n, 1)
	}
}

// More work than fits, at an upstream that enforces what is documented in the strictest way, is never
// refused, and uses what is allowed.
func TestSaturatedRuns(t *testing.T) {
	auth := []string{"Authorization", "Bearer x"}
	order := `{"model":"m","max_tokens":600,"content":"` + fmt.Sprintf("%01600d", 0) + `"}` // 400 of input, 600 of output
	usage := `{"usage":{"input_tokens":300,"output_tokens":200,"total_tokens":500}}`
	tests := []struct {
		name     string
		preset   presets.Preset
		policies []*testserver.Policy
		answer   http.Handler
		request  func(i int) *http.Request
		n        int
		atMost   time.Duration
	}{
		{
			name: "Stripe", preset: presets.Stripe(),
			policies: []*testserver.Policy{testserver.SlidingLog(100, time.Second), testserver.SlidingLog(25, time.Second).By(testserver.PathSegment(1)), testserver.GCRA(100, 2)},
			request: func(i int) *http.Request {
				return newRequest(t, "GET", fmt.Sprintf("https://api.stripe.com/v1/resource%d", i%5), "", auth...)
			},
			n: 2000, atMost: 20400 * time.Millisecond,
		},
		{
			name: "Stripe's files", preset: presets.Stripe(),
			policies: []*testserver.Policy{testserver.SlidingLog(20, time.Second).On("GET /v1/files"), testserver.SlidingLog(20, time.Second).On("GET /v1/files/")},
			request: func(i int) *http.Request {
				return newRequest(t, "GET", "https://api.stripe.com/v1/files"+[]string{"", "/file_1"}[i%2], "", auth...)
			},
			n: 200, atMost: 10200 * time.Millisecond,
		},
		{
			name: "Stripe's payouts", preset: presets.Stripe(),
			policies: []*testserver.Policy{testserver.SlidingLog(15, time.Second), testserver.Concurrency(30)},
			answer:   testserver.After(4*time.Second, testserver.OK()),
			request: func(i int) *http.Request {
				return newRequest(t, "POST", "https://api.stripe.com/v1/payouts", "x", auth...)
			},
			n: 300, atMost: 42 * time.Second,
		},
		{
			name: "Stripe's sandbox", preset: presets.Stripe(),
			policies: []*testserver.Policy{testserver.SlidingLog(25, time.Second)},
			request: func(i int) *http.Request {
				return newRequest(t, "POST", fmt.Sprintf("https://api.stripe.com/v1/resource%d", i%5), "", "Authorization", "Bearer sk_test_x")
			},
			n: 250, atMost: 10200 * time.Millisecond,
		},
		{
			name: "Twilio", preset: presets.Twilio(),
			policies: []*testserver.Policy{testserver.Concurrency(50).By(testserver.PathSegment(2))},
			answer:   testserver.After(time.Second, testserver.OK()),
			request: func(i int) *http.Request {
				return newRequest(t, "POST", fmt.Sprintf("https://api.twilio.com/2010-04-01/Accounts/AC%d/Messages.json", i%2), "x", auth...)
			},
			n: 500, atMost: 5100 * time.Millisecond,
		},
		{
			name: "GitHub", preset: presets.GitHub(),
			policies: []*testserver.Policy{
				testserver.SlidingLog(900, time.Minute).Cost(points("Points")), testserver.SlidingLog(80, time.Minute).On("POST /repos/o/r/issues"),
				testserver.Window(5000, time.Hour), testserver.Concurrency(100),
			},
			request: func(i int) *http.Request {
				if i%10 == 0 {
					return newRequest(t, "POST", "https://api.github.com/repos/o/r/issues", "{}", append(auth, "Points", "5")...)
				}
				return newRequest(t, "GET", "https://api.github.com/repos/o/r", "", append(auth, "Points", "1")...)
			},
			n: 2500, atMost: 3*time.Minute + 3*time.Second, // 3,500 points
		},
		{
			name: "GitHub's hour", preset: presets.GitHub(),
			policies: []*testserver.Policy{testserver.Window(5000, time.Hour).Aligned(17 * time.Minute)},
			request:  func(i int) *http.Request { return newRequest(t, "GET", "https://api.github.com/user", "", auth...) },
			n:        7000, atMost: time.Hour + 6*time.Minute,
		},
		{
			name: "Shopify", preset: presets.Shopify(presets.ShopifyStandard),
			policies: []*testserver.Policy{testserver.GCRA(2, 40)},
			request: func(i int) *http.Request {
				return newRequest(t, "GET", "https://a.myshopify.com/admin/api/2026-07/products.json", "")
			},
			n: 158, atMost: time.Minute,
		},
		{
			name: "Slack", preset: presets.Slack(nil),
			policies: []*testserver.Policy{testserver.SlidingLog(50, time.Minute).By(testserver.PathSegment(1))},
			request: func(i int) *http.Request {
				return newRequest(t, "GET", "https://slack.com/api/"+[]string{"team.info", "bots.info"}[i%2], "", auth...)
			},
			n: 300, atMost: 2*time.Minute + time.Second,
		},
		{
			name: "Slack's messages", preset: presets.Slack(nil),
			policies: []*testserver.Policy{testserver.GCRA(1, 1).By(testserver.HeaderValue("Channel"))},
			request: func(i int) *http.Request {
				channel := fmt.Sprint("C", i%3)
				return newRequest(t, "POST", "https://slack.com/api/chat.postMessage", `{"channel":"`+channel+`"}`, append(auth, "Channel", channel)...)
			},
			n: 90, atMost: 29 * time.Second,
		},
		{
			name: "Discord", preset: presets.Discord(),
			policies: []*testserver.Policy{testserver.SlidingLog(50, time.Second)},
			request: func(i int) *http.Request {
				return newRequest(t, "GET", fmt.Sprintf("https://discord.com/api/v10/channels/%d", i), "", auth...)
			},
			n: 500, atMost: 10200 * time.Millisecond,
		},
		{
			name: "OpenAI", preset: presets.OpenAI(presets.OpenAILimits{RequestsPerMinute: 120, TokensPerMinute: 30_000}),
			policies: []*testserver.Policy{testserver.GCRA(2, 1), testserver.SlidingLog(120, time.Minute), testserver.SlidingLog(30_000, time.Minute).Cost(points("Tokens"))},
			answer:   testserver.Reply(200, usage, "Content-Type", "application/json"),
			request: func(i int) *http.Request {
				return newRequest(t, "POST", "https://api.openai.com/v1/responses", order, append(auth, "Tokens", "600")...)
			},
			n: 200, atMost: 4*time.Minute + 5*time.Second, // 120,000 tokens
		},
		{
			name: "Anthropic", preset: presets.Anthropic(presets.AnthropicLimits{RequestsPerMinute: 50, InputTokensPerMinute: 30_000, OutputTokensPerMinute: 8000}),
			policies: []*testserver.Policy{
				testserver.SlidingLog(50, time.Minute), testserver.SlidingLog(30_000, time.Minute).Cost(points("Input")),
				testserver.SlidingLog(8000, time.Minute).Cost(points("Output")),
			},
			answer: testserver.Reply(200, usage, "Content-Type", "application/json"),
			request: func(i int) *http.Request {
				return newRequest(t, "POST", "https://api.anthropic.com/v1/messages", order, append(auth, "Input", "300", "Output", "200")...)
			},
			n: 160, atMost: 4*time.Minute + 10*time.Second, // 32,000 tokens of output, with room for the estimate of one more
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := testserver.New(test.policies...)
				if test.answer != nil {
					up.Answering(test.answer)
				}
				tr := newTransport(t, outflow.Config{Base: plain(up.Pipe(t)), Rules: test.preset.Rules, Retry: test.preset.Retry})
				start := time.Now()
				var wg sync.WaitGroup
				work := make(chan *http.Request)
				for range 400 {
					wg.Go(func() {
						for req := range work {
							resp, err := tr.RoundTrip(req)
							if err != nil {
								t.Error(err)
								continue
							}
							_, _ = io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
					})
				}
				for i := range test.n {
					work <- test.request(i)
				}
				close(work)
				wg.Wait()
				if took := time.Since(start); took > test.atMost {
					t.Errorf("took %v, want %v", took, test.atMost)
				}
				if refused := up.Arrivals().Count(http.StatusTooManyRequests); refused > 0 {
					t.Errorf("%d of %d were refused", refused, len(up.Arrivals()))
				}
			})
		})
	}
}
