package presets_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/presets"
)

func rulesCost(t *testing.T, p presets.Preset, rule string, req *http.Request) int {
	t.Helper()
	return p.Rule(rule).Cost(req)
}

func TestCosts(t *testing.T) {
	github, shopify := presets.GitHub(), presets.Shopify(presets.ShopifyStandard)
	openai := presets.OpenAI(presets.OpenAILimits{TokensPerMinute: 100_000})
	anthropic := presets.Anthropic(presets.AnthropicLimits{InputTokensPerMinute: 30_000, OutputTokensPerMinute: 8000})
	text := strings.Repeat("words of text ", 400) // 5,600 bytes
	image := base64.StdEncoding.EncodeToString(make([]byte, 3<<20))
	completions, messages := "https://api.openai.com/v1/chat/completions", "https://api.anthropic.com/v1/messages"
	graphql := "https://api.github.com/graphql"
	streamed := newRequest(t, "POST", completions, text)
	streamed.GetBody = nil
	unknown := newRequest(t, "POST", completions, text)
	unknown.GetBody, unknown.ContentLength = nil, -1
	tests := []struct {
		name   string
		preset presets.Preset
		rule   string
		req    *http.Request
		want   int
	}{
		{"GitHub: GET", github, "github points", newRequest(t, "GET", "https://api.github.com/user", ""), 1},
		{"GitHub: PATCH", github, "github points", newRequest(t, "PATCH", "https://api.github.com/user", "{}"), 5},
		{"GitHub: a query", github, "github graphql points", newRequest(t, "POST", graphql, `{"query":"query { viewer { login } }"}`), 1},
		{"GitHub: a mutation", github, "github graphql points", newRequest(t, "POST", graphql, `{"variables":{"query":"no"},"query":"\n mutation($i:ID!) { x }"}`), 5},
		{"GitHub: a long mutation", github, "github graphql points", newRequest(t, "POST", graphql, `{"query":"mutation { `+strings.Repeat(`\n`, 5000)+`}"}`), 5},
		{"Shopify", shopify, "shopify graphql", newRequest(t, "POST", "https://a.myshopify.com/admin/api/2026-07/graphql.json", "{}"), 100},
		{"OpenAI: with a bound", openai, "openai tokens", newRequest(t, "POST", completions, fmt.Sprintf(`{"max_completion_tokens":500,"messages":"%s"}`, text)), 1411},
		{"OpenAI: several answers", openai, "openai tokens", newRequest(t, "POST", completions, `{"max_tokens":500,"n":3}`), 1500},
		{"OpenAI: without a bound", openai, "openai tokens", newRequest(t, "POST", completions, `{}`), 1 + 1000},
		{"OpenAI: an embedding", openai, "openai tokens", newRequest(t, "POST", "https://api.openai.com/v1/embeddings", fmt.Sprintf(`{"input":"%s"}`, text)), 1403},
		{"OpenAI: an image", openai, "openai tokens", newRequest(t, "POST", completions, fmt.Sprintf(`{"image":"%s","max_tokens":10}`, image)), 7 + 1500},
		{"OpenAI: more than a window holds", openai, "openai tokens", newRequest(t, "POST", completions, `{"max_tokens":5000000}`), 100_000},
		{"OpenAI: a body that can't be looked at", openai, "openai tokens", streamed, 1400 + 1000},
		{"OpenAI: a body of no known length", openai, "openai tokens", unknown, 1000 + 1000},
		{"OpenAI: no JSON", openai, "openai tokens", newRequest(t, "POST", completions, `}}{"max_tokens":[`), 5 + 1000},
		{"Anthropic: input", anthropic, "anthropic input tokens", newRequest(t, "POST", messages, fmt.Sprintf(`{"max_tokens":1024,"system":"%s"}`, text)), 1408},
		{"Anthropic: output", anthropic, "anthropic output tokens", newRequest(t, "POST", messages, `{"system":"\"max_tokens\":1","x":{"max_tokens":2},"max_tokens": 512 }`), 512},
		{"Anthropic: output with a high bound", anthropic, "anthropic output tokens", newRequest(t, "POST", messages, `{"max_tokens":64000}`), 1000},
		{"Anthropic: output without a bound", anthropic, "anthropic output tokens", newRequest(t, "POST", messages, `{}`), 1000},
	}
	for _, test := range tests {
		if got := rulesCost(t, test.preset, test.rule, test.req); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

const (
	openAIStream = `data: {"id":"1","choices":[{"delta":{"content":"Hi"}}],"usage":null}

data: {"id":"1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}

data: [DONE]
`
	responsesStream = `event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"Hi"}

event: response.completed
data: {"type":"response.completed","response":{"usage":{"input_tokens":37,"output_tokens":11,"total_tokens":48}}}
`
	anthropicStart = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":4000,"output_tokens":1}}}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello"}}
`
	anthropicEnd = `
event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}
`
)

// What an answer says that it took is what counts in the end.
func TestSettlements(t *testing.T) {
	openai := presets.OpenAI(presets.OpenAILimits{TokensPerMinute: 100_000})
	anthropic := presets.Anthropic(presets.AnthropicLimits{InputTokensPerMinute: 30_000, OutputTokensPerMinute: 8000})
	shopify := presets.Shopify(presets.ShopifyStandard)
	const stream = "text/event-stream; charset=utf-8"
	tests := []struct {
		name        string
		rule        *outflow.Rule
		status      int
		contentType string
		body        string
		want        int
		ok          bool
	}{
		{"OpenAI", openai.Rule("openai tokens"), 200, "application/json", `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`, 21, true},
		{"OpenAI: less than was reserved", openai.Rule("openai tokens"), 200, "application/json", `{"usage":{"total_tokens":5}}`, 16, true},
		{"OpenAI: a stream", openai.Rule("openai tokens"), 200, stream, openAIStream, 21, true},
		{"OpenAI: a stream of responses", openai.Rule("openai tokens"), 200, stream, responsesStream, 48, true},
		{"OpenAI: a stream without usage", openai.Rule("openai tokens"), 200, stream, "data: {\"usage\":null}\n\ndata: [DONE]\n", 0, false},
		{"OpenAI: refused", openai.Rule("openai tokens"), 429, "application/json", `{"error":{}}`, 0, false},
		{"OpenAI: cut off", openai.Rule("openai tokens"), 200, "application/json", `{"choices":[`, 0, false},
		{"Anthropic: input", anthropic.Rule("anthropic input tokens"), 200, "application/json", `{"usage":{"input_tokens":2095,"cache_read_input_tokens":7,"output_tokens":503}}`, 2095, true},
		{"Anthropic: output", anthropic.Rule("anthropic output tokens"), 200, "application/json", `{"usage":{"input_tokens":2095,"output_tokens":503}}`, 503, true},
		{"Anthropic: a stream's input", anthropic.Rule("anthropic input tokens"), 200, stream, anthropicStart + anthropicEnd, 125, true},
		{"Anthropic: a stream's output", anthropic.Rule("anthropic output tokens"), 200, stream, anthropicStart + anthropicEnd, 15, true},
		{"Anthropic: the input of a stream that broke off", anthropic.Rule("anthropic input tokens"), 200, stream, anthropicStart, 125, true},
		{"Anthropic: the output of a stream that broke off", anthropic.Rule("anthropic output tokens"), 200, stream, anthropicStart, 0, false},
		{"Shopify", shopify.Rule("shopify graphql"), 200, "application/json", `{"data":{},"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":46}}}`, 46, true},
		{"Shopify: throttled", shopify.Rule("shopify graphql"), 200, "application/json", `{"errors":[{}],"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":null}}}`, 0, true},
		{"Shopify: no cost", shopify.Rule("shopify graphql"), 200, "application/json", `{"data":{}}`, 0, false},
	}
	for _, test := range tests {
		resp := &http.Response{StatusCode: test.status, Header: http.Header{"Content-Type": {test.contentType}}, Body: io.NopCloser(strings.NewReader(test.body)),
			Request: newRequest(t, "POST", "https://api.openai.com/v1/responses", `{"max_output_tokens":16}`)}
		got, ok := test.rule.Settle(resp)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s: %d, %v, want %d, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}

// Whatever a body is, looking at it ends, finds what encoding/json finds, and has a cost that can leave.
func FuzzBody(f *testing.F) {
	for _, s := range []string{anOrder, `{"model":"a\"b","max_tokens":12}`, `{"a":{"model":"no"},"model" : "yes" , "x":[1,{"model":2}]}`, `{`, `"`, `[{"model":"x"}]`, `{"model":"é"}`, "{\"model\":1,\"model\":\"b\"}"} {
		f.Add(s)
	}
	p := presets.OpenAI(presets.OpenAILimits{TokensPerMinute: 100_000, RequestsPerMinute: 60})
	f.Fuzz(func(t *testing.T, text string) {
		req := newRequest(t, "POST", "https://api.openai.com/v1/responses", text)
		if cost := p.Rule("openai tokens").Cost(req); cost < 1 || cost > 100_000 {
			t.Errorf("cost %d", cost)
		}
		var m map[string]json.RawMessage
		if len(text) > 1000 || json.Unmarshal([]byte(text), &m) != nil || strings.Count(text, "odel") != 1 || strings.Contains(text, `\`) {
			return
		}
		var model string
		if json.Unmarshal(m["model"], &model) != nil {
			return
		}
		found := presets.OpenAI(presets.OpenAILimits{Model: "?*", RequestsPerMinute: 1}).Rules[0].When(req)
		if want := model != "" && !strings.Contains(model, "/"); found != want && !strings.Contains(model, "/") {
			t.Errorf("%q: found %v, want %v", text, found, want)
		}
	})
}

func BenchmarkBody(b *testing.B) {
	text := `{"messages":[{"content":"` + strings.Repeat("words of text ", 7000) + `"}],"model":"gpt-5","max_completion_tokens":1000}`
	req := newRequest(b, "POST", "https://api.openai.com/v1/responses", text)
	p := presets.OpenAI(presets.OpenAILimits{TokensPerMinute: 1 << 20})
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		p.Rules[0].Cost(req)
	}
}
