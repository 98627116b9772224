package presets_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/presets"
)

// ok is a Base that answers at once.
func ok(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

func send(t testing.TB, tr *outflow.Transport, req *http.Request) {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	resp.Body.Close()
}

// buckets returns those that a request goes through, as "rule" or "rule key".
func buckets(t testing.TB, rules []outflow.Rule, req *http.Request) []string {
	t.Helper()
	tr := newTransport(t, outflow.Config{Base: roundTripper(ok), Rules: rules})
	send(t, tr, req)
	var names []string
	for _, b := range tr.Stats().Buckets {
		names = append(names, strings.TrimSpace(b.Rule+" "+b.Key))
	}
	return names
}

const anOrder = `{"model": "gpt-5-mini-2025-08-07", "messages": [{"model": "no"}]}`

// The rules match what the vendors document, and nothing else.
func TestRulesMatchTheVendorsURLs(t *testing.T) {
	everything := presets.Config(presets.Stripe(), presets.Twilio(), presets.GitHub(), presets.Shopify(presets.ShopifyStandard),
		presets.Slack(nil), all()["openai"], all()["anthropic"], presets.Discord()).Rules
	const none = "host "
	tests := []struct {
		method, url, body string
		want              []string // in the order of names
	}{
		{"GET", "https://api.stripe.com/v1/customers/cus_9s6XKzkNRiz8i3", "", []string{"stripe", "stripe endpoint  GET /v1/customers/{id}"}},
		{"POST", "https://api.stripe.com/v1/payment_intents/pi_1/confirm", "", []string{"stripe", "stripe endpoint  POST /v1/payment_intents/{id}/confirm"}},
		{"GET", "https://api.stripe.com/v1/checkout/sessions/cs_1/line_items", "", []string{"stripe", "stripe endpoint  GET /v1/checkout/sessions/{id}/line_items"}},
		{"GET", "https://api.stripe.com/v1/charges/search?query=x", "", []string{"stripe", "stripe endpoint  GET /v1/charges/{id}", "stripe search"}},
		{"GET", "https://api.stripe.com/v1/files", "", []string{"stripe", "stripe endpoint  GET /v1/files", "stripe file reads"}},
		{"GET", "https://api.stripe.com/v1/files/file_1", "", []string{"stripe", "stripe endpoint  GET /v1/files/{id}", "stripe file reads"}},
		{"POST", "https://api.stripe.com/v1/payouts", "", []string{"stripe", "stripe endpoint  POST /v1/payouts", "stripe payouts"}},
		{"POST", "https://api.stripe.com/v1/accounts", "", []string{"stripe", "stripe endpoint  POST /v1/accounts"}},
		{"POST", "https://files.stripe.com/v1/files", "", []string{"stripe file uploads"}},
		{"POST", "https://api.stripe.com/v2/core/events", "", []string{"stripe"}},
		{"POST", "https://api.stripe.com/v1/billing/meter_events", "", []string{none + "api.stripe.com"}},
		{"GET", "https://dashboard.stripe.com/v1/customers", "", []string{none + "dashboard.stripe.com"}},

		{"POST", "https://api.twilio.com/2010-04-01/Accounts/AC0/Messages.json", "", []string{"twilio AC0"}},
		{"GET", "https://api.twilio.com/2010-04-01/Accounts.json", "", []string{none + "api.twilio.com"}},
		{"GET", "https://verify.twilio.com/v2/Services", "", []string{none + "verify.twilio.com"}},

		{"GET", "https://api.github.com/repos/golang/go/issues", "", []string{"github", "github points", "github rest"}},
		{"POST", "https://api.github.com/repos/golang/go/issues", "{}", []string{"github", "github content", "github points", "github rest"}},
		{"POST", "https://api.github.com/repos/golang/go/issues/1/comments", "{}", []string{"github", "github content", "github points", "github rest"}},
		{"POST", "https://api.github.com/repos/golang/go/issues/1/labels", "{}", []string{"github", "github points", "github rest"}},
		{"GET", "https://api.github.com/search/issues?q=x", "", []string{"github", "github points", "github search"}},
		{"GET", "https://api.github.com/search/code?q=x", "", []string{"github", "github code search", "github points"}},
		{"GET", "https://api.github.com/rate_limit", "", []string{"github", "github points"}},
		{"POST", "https://api.github.com/graphql", "{}", []string{"github", "github graphql", "github graphql points"}},
		{"GET", "https://github.com/golang/go", "", []string{none + "github.com"}},

		{"GET", "https://a-shop.myshopify.com/admin/api/2026-07/products.json", "", []string{"shopify rest a-shop.myshopify.com"}},
		{"POST", "https://A-Shop.myshopify.com/admin/api/2026-07/graphql.json", "{}", []string{"shopify graphql a-shop.myshopify.com"}},
		{"POST", "https://a-shop.myshopify.com/api/2026-07/graphql.json", "{}", []string{none + "a-shop.myshopify.com"}},
		{"GET", "https://example.com/admin/api/2026-07/products.json", "", []string{none + "example.com"}},

		{"POST", "https://slack.com/api/chat.postMessage", `{"channel": "C1", "text": "hi"}`, []string{"slack post  chat.postMessage C1"}},
		{"GET", "https://slack.com/api/conversations.history?channel=C1", "", []string{"slack tier 3  conversations.history"}},
		{"GET", "https://slack.com/api/conversations.list", "", []string{"slack tier 2  conversations.list"}},
		{"GET", "https://slack.com/api/something.new", "", []string{"slack tier 2  something.new"}},
		{"GET", "https://slack.com/api/users.info", "", []string{"slack tier 4  users.info"}},
		{"POST", "https://slack.com/api/auth.test", "", []string{"slack hundreds  auth.test"}},
		{"POST", "https://slack.com/api/apps.connections.open", "", []string{"slack tier 1  apps.connections.open"}},
		{"GET", "https://slack.com/help", "", []string{none + "slack.com"}},

		{"POST", "https://api.openai.com/v1/chat/completions", anOrder, []string{"openai requests gpt-5-mini*", "openai tokens gpt-5-mini*"}},
		{"POST", "https://api.openai.com/v1/responses", `{"input":"a, b","model":"gpt-5"}`, []string{"openai requests  gpt-5", "openai tokens  gpt-5"}},
		{"GET", "https://api.openai.com/v1/models", "", []string{none + "api.openai.com"}},
		{"POST", "https://api.openai.com/v1/files", "x", []string{none + "api.openai.com"}},

		{"POST", "https://api.anthropic.com/v1/messages", `{"model":"claude-opus-4-6"}`,
			[]string{"anthropic input tokens claude-opus-4*", "anthropic output tokens claude-opus-4*", "anthropic requests claude-opus-4*"}},
		{"POST", "https://api.anthropic.com/v1/messages", `{"model":"claude-sonnet-4-6"}`,
			[]string{"anthropic input tokens  claude-sonnet-4-6", "anthropic output tokens  claude-sonnet-4-6", "anthropic requests  claude-sonnet-4-6"}},
		{"POST", "https://api.anthropic.com/v1/messages/count_tokens", `{"model":"claude-opus-4-6"}`, []string{none + "api.anthropic.com"}},

		{"POST", "https://discord.com/api/v10/channels/41/messages", "{}", []string{"discord", "discord route  POST /channels/41/messages"}},
		{"DELETE", "https://discord.com/api/channels/41/messages/77", "", []string{"discord", "discord route  DELETE /channels/41/messages/{id}"}},
		{"PUT", "https://discord.com/api/v10/channels/41/messages/77/reactions/%F0%9F%94%A5/@me", "", []string{"discord", "discord route  PUT /channels/41/messages/{id}/reactions/…"}},
		{"GET", "https://discord.com/api/v10/users/@me/guilds", "", []string{"discord", "discord route  GET /users/@me/guilds"}},
		{"GET", "https://discord.com/api/v10/guilds/5/members/6", "", []string{"discord", "discord route  GET /guilds/5/members/{id}"}},
		{"POST", "https://discord.com/api/v10/interactions/9/secret-token/callback", "{}", []string{"discord route  POST /interactions/{id}/{token}/callback"}},
		{"POST", "https://discord.com/api/v10", "{}", []string{"discord", "discord route  POST /"}},
		{"POST", "https://discord.com/api/v10/", "{}", []string{"discord", "discord route  POST /"}},
		{"GET", "https://discord.com/channels/1/2", "", []string{none + "discord.com"}},
	}
	for _, test := range tests {
		got := buckets(t, everything, newRequest(t, test.method, test.url, test.body))
		if !slices.Equal(got, test.want) {
			t.Errorf("%s %s %s\ngot  %q\nwant %q", test.method, test.url, test.body, got, test.want)
		}
	}
}

// Requests that are counted apart have keys of their own, and no key has a secret in it.
func TestKeys(t *testing.T) {
	const a, b = "sk_live_51AAAAsecretA", "sk_live_51BBBBsecretB"
	bearer := func(s string) []string { return []string{"Authorization", "Bearer " + s} }
	tests := []struct {
		name      string
		preset    presets.Preset
		one, two  *http.Request
		different bool
	}{
		{"Stripe: two keys", presets.Stripe(), newRequest(t, "GET", "https://api.stripe.com/v1/charges", "", bearer(a)...),
			newRequest(t, "GET", "https://api.stripe.com/v1/charges", "", bearer(b)...), true},
		{"Stripe: live and not", presets.Stripe().Without("stripe endpoint"), newRequest(t, "GET", "https://api.stripe.com/v1/charges", "", bearer("sk_test_secret")...),
			newRequest(t, "GET", "https://api.stripe.com/v1/charges", "", bearer(a)...), true},
		{"Stripe: two customers", presets.Stripe(), newRequest(t, "GET", "https://api.stripe.com/v1/customers/cus_1", "", bearer(a)...),
			newRequest(t, "GET", "https://api.stripe.com/v1/customers/cus_2", "", bearer(a)...), false},
		{"Twilio: two accounts", presets.Twilio(), newRequest(t, "GET", "https://api.twilio.com/2010-04-01/Accounts/AC1/Calls.json", "", "Authorization", "Basic "+a),
			newRequest(t, "GET", "https://api.twilio.com/2010-04-01/Accounts/AC2/Calls.json", "", "Authorization", "Basic "+a), true},
		{"Twilio: two keys of an account", presets.Twilio(), newRequest(t, "GET", "https://api.twilio.com/2010-04-01/Accounts/AC1/Calls.json", "", "Authorization", "Basic "+a),
			newRequest(t, "GET", "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json", "", "Authorization", "Basic "+b), false},
		{"GitHub: two tokens", presets.GitHub(), newRequest(t, "GET", "https://api.github.com/user", "", bearer(a)...),
			newRequest(t, "GET", "https://api.github.com/user", "", bearer(b)...), true},
		{"GitHub: one token", presets.GitHub(), newRequest(t, "GET", "https://api.github.com/user", "", bearer(a)...),
			newRequest(t, "GET", "https://api.github.com/repos/golang/go", "", bearer(a)...), false},
		{"Shopify: two shops", presets.Shopify(0), newRequest(t, "GET", "https://a.myshopify.com/admin/api/2026-07/shop.json", "", "X-Shopify-Access-Token", a),
			newRequest(t, "GET", "https://b.myshopify.com/admin/api/2026-07/shop.json", "", "X-Shopify-Access-Token", a), true},
		{"Slack: two methods", presets.Slack(nil), newRequest(t, "GET", "https://slack.com/api/users.list", "", bearer(a)...),
			newRequest(t, "GET", "https://slack.com/api/team.accessLogs", "", bearer(a)...), true},
		{"Slack: two workspaces", presets.Slack(nil), newRequest(t, "GET", "https://slack.com/api/users.list", "", bearer(a)...),
			newRequest(t, "GET", "https://slack.com/api/users.list", "", bearer(b)...), true},
		{"Slack: two channels", presets.Slack(nil), newRequest(t, "POST", "https://slack.com/api/chat.postMessage", `{"channel":"C1"}`, bearer(a)...),
			newRequest(t, "POST", "https://slack.com/api/chat.postMessage", "channel=C2", "Content-Type", "application/x-www-form-urlencoded", "Authorization", "Bearer "+a), true},
		{"Slack: one channel, in two forms", presets.Slack(nil), newRequest(t, "POST", "https://slack.com/api/chat.postMessage", `{"text":"x","channel":"C1"}`, bearer(a)...),
			newRequest(t, "POST", "https://slack.com/api/chat.postMessage", "channel=C1&text=y", "Content-Type", "application/x-www-form-urlencoded; charset=utf-8", "Authorization", "Bearer "+a), false},
		{"Slack: two webhooks", presets.Slack(nil), newRequest(t, "POST", "https://hooks.slack.com/services/T/B/"+a, "{}"),
			newRequest(t, "POST", "https://hooks.slack.com/services/T/B/"+b, "{}"), true},
		{"OpenAI: two models by themselves", all()["openai"], newRequest(t, "POST", "https://api.openai.com/v1/responses", `{"model":"x"}`, bearer(a)...),
			newRequest(t, "POST", "https://api.openai.com/v1/responses", `{"model":"y"}`, bearer(a)...), true},
		{"OpenAI: two models that share limits", all()["openai"], newRequest(t, "POST", "https://api.openai.com/v1/responses", `{"model":"gpt-5-mini"}`, bearer(a)...),
			newRequest(t, "POST", "https://api.openai.com/v1/responses", anOrder, bearer(a)...), false},
		{"Anthropic: two keys", all()["anthropic"], newRequest(t, "POST", "https://api.anthropic.com/v1/messages", `{"model":"x"}`, "X-Api-Key", a),
			newRequest(t, "POST", "https://api.anthropic.com/v1/messages", `{"model":"x"}`, "X-Api-Key", b), true},
		{"Discord: two channels", presets.Discord().Without("discord"), newRequest(t, "POST", "https://discord.com/api/v10/channels/1/messages", "{}", "Authorization", "Bot "+a),
			newRequest(t, "POST", "https://discord.com/api/v10/channels/2/messages", "{}", "Authorization", "Bot "+a), true},
		{"Discord: two messages of a channel", presets.Discord(), newRequest(t, "PATCH", "https://discord.com/api/v10/channels/1/messages/7", "{}", "Authorization", "Bot "+a),
			newRequest(t, "PATCH", "https://discord.com/api/v10/channels/1/messages/8", "{}", "Authorization", "Bot "+a), false},
		{"Discord: two webhooks", presets.Discord(), newRequest(t, "POST", "https://discord.com/api/v10/webhooks/1/"+a, "{}"),
			newRequest(t, "POST", "https://discord.com/api/v10/webhooks/1/"+b, "{}"), true},
		{"Discord: two interactions", presets.Discord(), newRequest(t, "POST", "https://discord.com/api/v10/interactions/1/"+a+"/callback", "{}"),
			newRequest(t, "POST", "https://discord.com/api/v10/interactions/2/"+b+"/callback", "{}"), false},
	}
	for _, test := range tests {
		one, two := buckets(t, test.preset.Rules, test.one), buckets(t, test.preset.Rules, test.two)
		if got := !slices.Equal(one, two); got != test.different {
			t.Errorf("%s: %q and %q", test.name, one, two)
		}
		for _, name := range append(one, two...) {
			if strings.Contains(name, "secret") || strings.Contains(name, "sk_live") || strings.Contains(name, "host ") {
				t.Errorf("%s: %q", test.name, name)
			}
		}
	}
}

// Which of Stripe's limits holds is told by the key.
func TestStripesModes(t *testing.T) {
	for authorization, want := range map[string]string{
		"Bearer sk_live_x": "stripe", "Bearer sk_test_x": "stripe sandbox", "Bearer rk_test_x": "stripe sandbox",
		"Basic c2tfdGVzdF94Og==": "stripe sandbox", "Basic c2tfbGl2ZV94Og==": "stripe", "": "stripe",
	} {
		tr := newTransport(t, outflow.Config{Base: roundTripper(ok), Rules: presets.Stripe().Rules})
		send(t, tr, newRequest(t, "GET", "https://api.stripe.com/v2/core/events", "", "Authorization", authorization))
		if got := tr.Stats().Buckets; len(got) != 1 || got[0].Rule != want {
			t.Errorf("%q: %v", authorization, got)
		}
	}
}

// Methods can be given other tiers than they have.
func TestSlackTiersCanBeOverridden(t *testing.T) {
	p := presets.Slack(map[string]presets.SlackTier{"conversations.history": presets.SlackTier1, "something.new": presets.SlackTier4})
	for method, want := range map[string]string{"conversations.history": "slack tier 1", "something.new": "slack tier 4", "conversations.info": "slack tier 3"} {
		got := buckets(t, p.Rules, newRequest(t, "GET", "https://slack.com/api/"+method, ""))
		if len(got) != 1 || !strings.HasPrefix(got[0], want+" ") {
			t.Errorf("%s: %q", method, got)
		}
	}
	if got := buckets(t, presets.Slack(nil).Rules, newRequest(t, "GET", "https://slack.com/api/conversations.history", "")); got[0] != "slack tier 3  conversations.history" {
		t.Errorf("an override holds for others: %q", got)
	}
}

// What a preset looks at of a body is still there to be sent.
func TestBodiesAreSentWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			defer req.Body.Close()
			text, err := io.ReadAll(req.Body)
			got = append(got, string(text))
			resp, _ := ok(req)
			return resp, err
		})
		tr := newTransport(t, outflow.Config{Base: base, Rules: all()["openai"].Rules})
		send(t, tr, newRequest(t, "POST", "https://api.openai.com/v1/responses", anOrder))
		streamed := newRequest(t, "POST", "https://api.openai.com/v1/responses", anOrder)
		streamed.GetBody = nil // as of a pipe
		send(t, tr, streamed)
		if fmt.Sprint(got) != fmt.Sprint([]string{anOrder, anOrder}) {
			t.Errorf("%q", got)
		}
	})
}
