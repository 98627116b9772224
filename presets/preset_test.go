package presets_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/presets"
)

func all() map[string]presets.Preset {
	return map[string]presets.Preset{
		"stripe":       presets.Stripe(),
		"twilio":       presets.Twilio(),
		"github":       presets.GitHub(),
		"shopify":      presets.Shopify(presets.ShopifyStandard),
		"shopify plus": presets.Shopify(presets.ShopifyPlus),
		"slack":        presets.Slack(nil),
		"openai": presets.OpenAI(
			presets.OpenAILimits{Model: "gpt-5-mini*", RequestsPerMinute: 5000, TokensPerMinute: 4_000_000},
			presets.OpenAILimits{RequestsPerMinute: 500, TokensPerMinute: 500_000}),
		"anthropic": presets.Anthropic(
			presets.AnthropicLimits{Model: "claude-opus-4*", RequestsPerMinute: 50, InputTokensPerMinute: 30_000, OutputTokensPerMinute: 8000},
			presets.AnthropicLimits{RequestsPerMinute: 1000, InputTokensPerMinute: 450_000, OutputTokensPerMinute: 90_000}),
		"discord": presets.Discord(),
	}
}

// Each preset is complete, compiles, and is its caller's own.
func TestPresets(t *testing.T) {
	for name, p := range all() {
		if len(p.Rules) == 0 || !strings.HasPrefix(p.Source, "https://") {
			t.Errorf("%s: source %q, %d rules", name, p.Source, len(p.Rules))
		}
		if _, err := time.Parse(time.DateOnly, p.Checked); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		vendor, _, _ := strings.Cut(name, " ")
		for _, r := range p.Rules {
			if !strings.HasPrefix(r.Name, vendor) {
				t.Errorf("%s: rule %q", name, r.Name)
			}
		}
		if _, err := outflow.New(outflow.Config{Rules: p.Rules, Retry: p.Retry}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		rule := p.Rule(p.Rules[0].Name)
		rule.Limits = []limit.Limit{limit.Concurrent(1)}
		if text := fmt.Sprint(all()[name].Rules[0].Limits); text == "[concurrent 1]" {
			t.Errorf("%s: the next call returns what was changed in an earlier one's", name)
		}
	}
}

func TestRuleNamesAreDistinct(t *testing.T) {
	everything := all()
	delete(everything, "shopify plus")
	var names []string
	for _, p := range everything {
		for _, r := range p.Rules {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	if compact := slices.Compact(slices.Clone(names)); len(compact) != len(names) {
		t.Errorf("%q", names)
	}
}

func TestATypoInARulesNamePanics(t *testing.T) {
	want := `presets: no rule "twillio", there are ["twilio"]`
	for _, f := range []func(){func() { presets.Twilio().Rule("twillio") }, func() { presets.Twilio().Without("twillio") }} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got  %v\nwant %v", got, want)
				}
			}()
			f()
		}()
	}
}

func TestWithout(t *testing.T) {
	p := presets.GitHub()
	if got := p.Without("github content", "github"); len(got.Rules) != len(p.Rules)-2 || got.Rules[0].Name != "github code search" {
		t.Errorf("%d rules of %d", len(got.Rules), len(p.Rules))
	}
	if p.Rules[0].Name != "github content" {
		t.Error("the preset itself was changed")
	}
}

// Each preset decides about the retries of its own hosts, also when there are several.
func TestRetries(t *testing.T) {
	everything := presets.Config(presets.Stripe(), presets.OpenAI(), presets.Twilio(), presets.Anthropic())
	tests := []struct {
		preset   presets.Preset
		url      string
		status   int
		header   []string
		attempts int
	}{
		{presets.Stripe(), "https://api.stripe.com/v1/charges", 500, nil, 1},
		{presets.Stripe(), "https://api.stripe.com/v1/charges", 503, nil, 1},
		{presets.Stripe(), "https://api.stripe.com/v1/charges", 500, []string{"Stripe-Should-Retry", "true"}, 2},
		{presets.Stripe(), "https://api.stripe.com/v1/charges", 429, nil, 2},
		{presets.Stripe(), "https://api.stripe.com/v1/charges", 429, []string{"Stripe-Should-Retry", "false"}, 1},
		{presets.Stripe(), "https://api.example.com/", 429, []string{"Stripe-Should-Retry", "false"}, 2},
		{presets.OpenAI(), "https://api.openai.com/v1/responses", 500, nil, 2},
		{presets.OpenAI(), "https://api.openai.com/v1/responses", 409, nil, 2},
		{presets.OpenAI(), "https://api.openai.com/v1/responses", 400, nil, 1},
		{presets.OpenAI(), "https://api.openai.com/v1/responses", 500, []string{"X-Should-Retry", "false"}, 1},
		{presets.OpenAI(), "https://api.example.com/", 500, nil, 1},
		{presets.Anthropic(), "https://api.anthropic.com/v1/messages", 529, nil, 2},
		{presets.Twilio(), "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json", 503, nil, 1},
		{presets.Twilio(), "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json", 429, nil, 2},
	}
	for _, test := range tests {
		for name, cfg := range map[string]outflow.Config{"alone": {Rules: test.preset.Rules, Retry: test.preset.Retry}, "with others": everything} {
			synctest.Test(t, func(t *testing.T) {
				up := testserver.New().Answering(testserver.Reply(test.status, "", test.header...))
				cfg.Base = plain(up.Pipe(t))
				cfg.Retry.MaxAttempts = 2
				send(t, newTransport(t, cfg), newRequest(t, "POST", test.url, "{}"))
				if got := len(up.Arrivals()); got != test.attempts {
					t.Errorf("%s, %s: %d %q: %d attempts, want %d", test.url, name, test.status, test.header, got, test.attempts)
				}
			})
		}
	}
}

func TestConfigTakesWhatIsSet(t *testing.T) {
	a, b := presets.Twilio(), presets.Discord()
	if cfg := presets.Config(a, b); cfg.Retry.CheckRetry != nil || cfg.Retry.PrepareRetry != nil || len(cfg.Rules) != 3 {
		t.Errorf("%+v", cfg)
	}
	prepared := 0
	b.Retry = outflow.Retry{MaxAttempts: 3, AttemptTimeout: time.Minute, PrepareRetry: func(*http.Request) error { prepared++; return nil }}
	a.Retry.AttemptTimeout = time.Hour
	cfg := presets.Config(a, b)
	if cfg.Retry.MaxAttempts != 3 || cfg.Retry.AttemptTimeout != time.Hour {
		t.Errorf("%+v", cfg.Retry)
	}
	_ = cfg.Retry.PrepareRetry(newRequest(t, "GET", "https://api.twilio.com/", ""))
	_ = cfg.Retry.PrepareRetry(newRequest(t, "GET", "https://discord.com/", ""))
	if prepared != 1 {
		t.Errorf("prepared %d times", prepared)
	}
}

// plain has requests for https go to an upstream that has no TLS.
func plain(srv *testserver.Server) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		again := req.Clone(req.Context())
		again.URL.Scheme = "http"
		return srv.Transport.RoundTrip(again)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newTransport(t testing.TB, cfg outflow.Config) *outflow.Transport {
	t.Helper()
	tr, err := outflow.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// newRequest makes a request with headers as names and values in turn.
func newRequest(t testing.TB, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body, req.GetBody = nil, nil
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}
