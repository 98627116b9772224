package presets

import (
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/outflow-go/outflow"
)

// OpenAILimits are those of an organization, or a project, for some models: the platform's settings tell
// them, under "Limits".
type OpenAILimits struct {
	// Model is the models that share these limits, as a pattern of path.Match: "gpt-5-mini*", say. "": every
	// model that no limits before these are for, and each of them has them by itself.
	Model string

	RequestsPerMinute int // 0: not limited here
	TokensPerMinute   int // input and output together; 0: not limited here
}

// OpenAI has the limits of api.openai.com for requests that name a model: chat completions, responses,
// completions and embeddings. For each of the given limits, by API key, it has the rules
//
//   - "openai requests", or "openai requests MODEL" of one with a Model, evenly spaced: OpenAI
//     documents that a minute's limit may be enforced in shorter steps;
//   - "openai tokens", or "openai tokens MODEL".
//
// OpenAI documents no figure for everybody: they depend on the model and the account's tier. Limits by day
// can be added, to Rule.Limits.
//
// A request counts with the larger of the most that it lets the model answer (max_completion_tokens and the
// like) and an estimate of its input: that is how OpenAI documents that it counts, and none of it is given
// back for a shorter answer. The estimate is a token for every four bytes of the body, and 1,500 for an
// image in it. If the request sets no bound, an answer of 1,000 tokens is reckoned with. Once it has been
// answered, it counts with the answer's usage if that is more, or if 1,000 was too much. The end of a stream
// has a usage if stream_options.include_usage asks for it; without it the estimate stands, and so it does for
// an answer that failed, or is longer than a MiB.
//
// A body that has no GetBody can't be looked at: it is of no model, and counts by its length.
//
// Like OpenAI's SDKs, it repeats what was answered with 408, 409, 429 or a 5xx, whatever the method, unless
// X-Should-Retry says otherwise: a repeated completion has no effect but its price.
func OpenAI(limits ...OpenAILimits) Preset {
	p := Preset{
		Source:  "https://developers.openai.com/api/docs/guides/rate-limits",
		Checked: "2026-11-21",
		Hosts:   []string{"api.openai.com"},
	}
	p.Retry = retry(p.Hosts, retryModel)
	var patterns []string
	for _, l := range limits {
		m := models{pattern: l.Model, before: patterns, headers: []string{"Authorization"}}
		patterns = append(patterns, l.Model)
		rule := outflow.Rule{
			Match: "POST api.openai.com/v1/",
			When:  func(req *http.Request) bool { return completes(req) && m.match(req) },
			Key:   outflow.KeyFunc(m.key),
		}
		if n := l.RequestsPerMinute; n > 0 {
			r := rule
			r.Name, r.Limits = m.name("openai requests"), spaced(n, time.Minute)
			p.Rules = append(p.Rules, r)
		}
		if n := l.TokensPerMinute; n > 0 {
			r := rule
			r.Name, r.Unit, r.Limits = m.name("openai tokens"), "tokens", quota(n, time.Minute)
			r.Cost = func(req *http.Request) int {
				reserved, bounded := openAITokens(req)
				if !bounded {
					reserved += anAnswer
				}
				return atMost(n, reserved)
			}
			r.Settle = func(resp *http.Response) (int, bool) {
				u, ok := usageOf(resp)
				if !ok || u.total == 0 {
					return 0, false
				}
				reserved := 1
				if resp.Request != nil { // not every Base sets it
					reserved, _ = openAITokens(resp.Request)
				}
				return max(atMost(n, reserved), u.total), true
			}
			p.Rules = append(p.Rules, r)
		}
	}
	return p
}

// completes reports whether the limits by model are for a request.
func completes(req *http.Request) bool {
	switch req.URL.Path {
	case "/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings":
		return true
	}
	return false
}

// anAnswer is how many tokens an answer is taken to have whose request sets no bound.
const anAnswer = 1000

// openAITokens is what a request is counted with when it comes, and whether it bounds its answer.
func openAITokens(req *http.Request) (tokens int, bounded bool) {
	b := read(req, "max_completion_tokens", "max_output_tokens", "max_tokens", "n")
	output := max(b.number("max_completion_tokens"), b.number("max_output_tokens"), b.number("max_tokens"))
	bounded = output > 0 || strings.HasSuffix(req.URL.Path, "/embeddings")
	return max(b.tokens, output*min(max(b.number("n"), 1), 127)), bounded
}

// atMost keeps an estimate within what a window holds. Should it really be more, the upstream will say so.
func atMost(window, cost int) int { return max(1, min(cost, window)) }

// models are those that share limits.
type models struct {
	pattern string
	before  []string // patterns that go before
	headers []string // of the credential
}

func (m models) name(rule string) string { return strings.TrimSpace(rule + " " + m.pattern) }

func (m models) match(req *http.Request) bool {
	if m.pattern == "" && len(m.before) == 0 {
		return true
	}
	model := modelOf(req)
	for _, p := range m.before {
		if p == "" || matches(p, model) {
			return false
		}
	}
	return m.pattern == "" || matches(m.pattern, model)
}

func matches(pattern, model string) bool {
	ok, err := path.Match(pattern, model)
	return ok || err != nil && pattern == model
}

func (m models) key(req *http.Request) string {
	key := credential(req, m.headers...)
	if m.pattern == "" {
		key += " " + modelOf(req)
	}
	return key
}

func modelOf(req *http.Request) string { return lookUp(req, "model") }

// retryModel is how the SDKs of both vendors decide.
func retryModel(resp *http.Response) (again, decided bool) {
	switch resp.Header.Get("X-Should-Retry") {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	switch status := resp.StatusCode; {
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= http.StatusInternalServerError:
		return true, true
	}
	return false, false
}
