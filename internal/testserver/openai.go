package testserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// OpenAILimits are what an [OpenAI] enforces.
type OpenAILimits struct {
	Requests int // per minute
	Tokens   int // per minute

	// Corrected gives back, when an answer is known, the tokens that its request was charged with and that it
	// hasn't used. OpenAI documents what a request is charged with, and not whether that is corrected.
	Corrected bool

	// Takes is how long an answer takes.
	Takes time.Duration
}

// OpenAI is OpenAI's chat completions API: requests and tokens at once, for each Authorization. Source:
// https://developers.openai.com/api/docs/guides/rate-limits (its table of headers as of June 2026) and
// https://help.openai.com/en/articles/5955604, read in November 2026.
//
// What is documented: the headers and their form; 429; that a request counts as the larger of its
// max_tokens and of what its characters come to (here 4 make a token); and that refused requests count, which
// is taken to be so for the limit of requests, not for that of tokens.
//
// That both limits are refilled all the time, up to a minute's worth, follows from the numbers in refusals:
// "Limit 200000, Used 162960, Requested 42288. Please try again in 1.574s"
// (https://github.com/openai/codex/issues/88) is (162960+42288-200000)/200000 of a minute; and from a reset of
// 12ms after one of 5,000 requests (https://community.openai.com/t/1268905). The body of a refusal is as
// there. Retry-After and Retry-After-Ms are what OpenAI's own client libraries read:
// openai/openai-go, internal/requestconfig.
//
// A call's answer uses half of the tokens that it may, rounded up, and says so in its body.
func OpenAI(l OpenAILimits) *Upstream {
	caller := HeaderValue("Authorization")
	tokens := openAIBucket("tokens", "tokens per min (TPM)", l.Tokens).By(caller).
		Cost(func(r *http.Request) int { return completionOf(r).charged() })
	u := New(
		openAIBucket("requests", "requests per min (RPM)", l.Requests).By(caller).ChargingAll(),
		tokens,
	)
	u.look = withCompletion
	return u.Answering(After(l.Takes, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := completionOf(r)
		if l.Corrected {
			tokens.Settle(r, c.prompt+c.used())
		}
		jsonReply(http.StatusOK, map[string]any{
			"object": "chat.completion",
			"choices": []any{map[string]any{
				"index": 0, "finish_reason": "stop",
				"message": map[string]any{"role": "assistant", "content": "ok"},
			}},
			"usage": map[string]int{
				"prompt_tokens": c.prompt, "completion_tokens": c.used(), "total_tokens": c.prompt + c.used(),
			},
		}).ServeHTTP(w, r)
	})))
}

// openAIBucket is a limit per minute that is refilled all the time.
func openAIBucket(name, unit string, n int) *Policy {
	return GCRA(float64(n)/60, n).
		Advertise(func(h http.Header, q Quota) {
			h.Set("X-RateLimit-Limit-"+name, strconv.FormatInt(q.Limit, 10))
			h.Set("X-RateLimit-Remaining-"+name, strconv.FormatInt(q.Remaining, 10))
			h.Set("X-RateLimit-Reset-"+name, ceilMilliseconds(q.Reset).String())
		}).
		RefuseWithFunc(func(refusal Refusal) http.Handler {
			wait, q := ceilMilliseconds(refusal.Wait), refusal.Quota
			body := jsonReply(http.StatusTooManyRequests, map[string]any{"error": map[string]any{
				"message": fmt.Sprintf("Rate limit reached for gpt-4o in organization org-1 on %s: Limit %d, Used %d, Requested %d. "+
					"Please try again in %v. Visit https://platform.openai.com/account/rate-limits to learn more.",
					unit, q.Limit, q.Limit-q.Remaining, refusal.Cost, wait),
				"type": name, "param": nil, "code": "rate_limit_exceeded",
			}})
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if wait > 0 { // what is larger than the limit never fits
					w.Header().Set("Retry-After", DeltaSeconds(wait))
					w.Header().Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds(), 10))
				}
				body.ServeHTTP(w, r)
			})
		})
}

func ceilMilliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// A completion is what a request for one costs.
type completion struct {
	prompt int // tokens
	most   int // tokens that the answer may have
}

// charged is what counts before the answer is known.
func (c completion) charged() int { return max(c.prompt, c.most) }

// used is how many tokens the answer has.
func (c completion) used() int { return (c.most + 1) / 2 }

type completionKey struct{}

func completionOf(r *http.Request) completion {
	c, _ := r.Context().Value(completionKey{}).(completion)
	return c
}

// withCompletion reads the request's body, which has to be known before the request is judged, and puts it
// back.
func withCompletion(r *http.Request) *http.Request {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return r // the client has gone away
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	var asked struct {
		MaxTokens           int `json:"max_tokens"` // the older name
		MaxCompletionTokens int `json:"max_completion_tokens"`
		Messages            []struct{ Content string }
	}
	_ = json.Unmarshal(text, &asked) // what isn't understood costs nothing
	c := completion{most: max(0, asked.MaxTokens, asked.MaxCompletionTokens)}
	for _, m := range asked.Messages {
		c.prompt += (len(m.Content) + 3) / 4
	}
	return r.WithContext(context.WithValue(r.Context(), completionKey{}, c))
}
