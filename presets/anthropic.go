package presets

import (
	"net/http"
	"time"

	"github.com/outflow-go/outflow"
)

// AnthropicLimits are those of an organization, or a workspace, for some models: the Claude Console tells
// them.
type AnthropicLimits struct {
	// Model is the models that share these limits, as a pattern of path.Match: "claude-opus-4*", say. "":
	// every model that no limits before these are for, and each of them has them by itself.
	Model string

	RequestsPerMinute     int // 0: not limited here
	InputTokensPerMinute  int // 0: not limited here
	OutputTokensPerMinute int // 0: not limited here
}

// Anthropic has the limits of api.anthropic.com/v1/messages. For each of the given limits, by API key, it
// has the rules
//
//   - "anthropic requests", or "anthropic requests MODEL" of one with a Model, evenly spaced: Anthropic
//     documents that 60 a minute may be enforced as one a second;
//   - "anthropic input tokens", likewise, without what was read from the cache, which most models don't
//     count;
//   - "anthropic output tokens", likewise.
//
// The figures depend on the model and the organization's tier. Batches and the counting of tokens have
// limits of their own, which aren't here.
//
// A request counts with an estimate until it has been answered: a token of input for every four bytes of the
// body, 1,500 for an image in it, and 1,000 of output, or its max_tokens if that is less. (Output counts as
// it is produced, whatever max_tokens is, and to keep room for all of that would waste most of it; where
// answers are longer, Rule.Cost should say so.) Then it counts with the answer's usage, whether that is
// streamed or not. The estimate stands if an answer failed, and for the output of one that is longer than a
// MiB or whose stream wasn't read to its end.
//
// A body that has no GetBody can't be looked at: it is of no model, and counts by its length.
//
// Like Anthropic's SDKs, it repeats what was answered with 408, 409, 429 or a 5xx, which 529, "overloaded", is
// one of, whatever the method, unless X-Should-Retry says otherwise.
func Anthropic(limits ...AnthropicLimits) Preset {
	p := Preset{
		Source:  "https://platform.claude.com/docs/en/api/rate-limits",
		Checked: "2026-11-21",
		Hosts:   []string{"api.anthropic.com"},
	}
	p.Retry = retry(p.Hosts, retryModel)
	var patterns []string
	for _, l := range limits {
		m := models{pattern: l.Model, before: patterns, headers: []string{"X-Api-Key", "Authorization"}}
		patterns = append(patterns, l.Model)
		rule := outflow.Rule{Match: "POST api.anthropic.com/v1/messages", When: m.match, Key: outflow.KeyFunc(m.key)}
		if n := l.RequestsPerMinute; n > 0 {
			r := rule
			r.Name, r.Limits = m.name("anthropic requests"), spaced(n, time.Minute)
			p.Rules = append(p.Rules, r)
		}
		if n := l.InputTokensPerMinute; n > 0 {
			r := rule
			r.Name, r.Unit, r.Limits = m.name("anthropic input tokens"), "input-tokens", quota(n, time.Minute)
			r.Cost = func(req *http.Request) int { return atMost(n, read(req).tokens) }
			r.Settle = func(resp *http.Response) (int, bool) {
				u, ok := usageOf(resp)
				return u.input, ok && u.input > 0
			}
			p.Rules = append(p.Rules, r)
		}
		if n := l.OutputTokensPerMinute; n > 0 {
			r := rule
			r.Name, r.Unit, r.Limits = m.name("anthropic output tokens"), "output-tokens", quota(n, time.Minute)
			r.Cost = func(req *http.Request) int {
				if output := read(req, "max_tokens").number("max_tokens"); output > 0 {
					return atMost(n, min(output, anAnswer))
				}
				return atMost(n, anAnswer)
			}
			r.Settle = func(resp *http.Response) (int, bool) {
				u, ok := usageOf(resp)
				return u.output, ok && u.output > 0
			}
			p.Rules = append(p.Rules, r)
		}
	}
	return p
}
