package outflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
)

const (
	openAIRequests = 500    // per minute
	openAITokens   = 30_000 // per minute
)

// openAI asks for completions of up to most tokens, at random. Which of its two limits holds depends on that.
func openAI(t *testing.T, cfg outflow.Config, c conditions, name string, most int, corrected bool) outcome {
	return inBubble(t, cfg, c, func(c conditions) scenario {
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(c.seed, 1))
		s := scenario{
			name: "OpenAI " + name,
			upstream: testserver.OpenAI(testserver.OpenAILimits{
				Requests: openAIRequests, Tokens: openAITokens, Corrected: corrected, Takes: 500 * time.Millisecond,
			}),
			during: saturated,
			// Full at the start, and refilled all the time.
			quota: openAITokens + openAITokens*int(saturated/time.Second)/60,
			request: func(ctx context.Context, url string, _ int) *http.Request {
				mu.Lock()
				max := 1 + rng.IntN(most)
				mu.Unlock()
				body := fmt.Sprintf(`{"model":"gpt-4o","max_completion_tokens":%d,"messages":[{"role":"user","content":"how are you?"}]}`, max)
				return newRequest(ctx, t, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
			},
		}
		return s
	})
}

// maxTokens is what a request for a completion may take.
func maxTokens(req *http.Request) int {
	body, err := req.GetBody()
	if err != nil {
		return 1
	}
	var asked struct {
		Max int `json:"max_completion_tokens"`
	}
	_ = json.NewDecoder(body).Decode(&asked)
	return max(1, asked.Max)
}

// totalTokens is what a completion has taken.
func totalTokens(resp *http.Response) (int, bool) {
	var answer struct {
		Usage *struct {
			Total int `json:"total_tokens"`
		}
	}
	err := json.NewDecoder(resp.Body).Decode(&answer)
	if err != nil || answer.Usage == nil {
		return 0, err == nil // a refusal takes none
	}
	return answer.Usage.Total, true
}

// openAIRules are what a client knows of OpenAI: what its requests cost, and, if declared, the limits.
func openAIRules(declared, settled bool) outflow.Config {
	requests := outflow.Rule{Match: "/", Name: "requests"}
	tokens := outflow.Rule{Match: "/", Name: "tokens", Unit: "tokens", Cost: maxTokens}
	if settled {
		tokens.Settle = totalTokens
	}
	if declared {
		requests.Limits = []limit.Limit{limit.Per(openAIRequests, time.Minute).WithBurst(openAIRequests)}
		tokens.Limits = []limit.Limit{limit.Per(openAITokens, time.Minute).WithBurst(openAITokens)}
	}
	return outflow.Config{Rules: []outflow.Rule{requests, tokens}}
}

func TestSignalsOpenAI(t *testing.T) {
	// A large one is no more than a hundredth of what there is: the last that didn't fit any more has to be
	// within what may be left.
	const large, small = 300, 40
	for _, tt := range []struct {
		name      string
		most      int
		declared  bool
		corrected bool
	}{
		{"tokens, by headers", large, false, true},
		{"tokens, by headers, never corrected", large, false, false},
		{"tokens, declared", large, true, true},
		{"requests, by headers", small, false, true},
		{"requests, declared", small, true, true},
	} {
		for _, c := range everyday() {
			t.Run(tt.name+" "+c.String(), func(t *testing.T) {
				share := 0.98
				if tt.corrected && tt.most == large {
					// What is given back with the answers comes when it is too late for some of it. OpenAI documents
					// what a request is charged with, and nothing of giving back.
					share = 0.93
				}
				meetsQuota(t, c, share, func() outcome {
					o := openAI(t, openAIRules(tt.declared, tt.corrected), c, tt.name, tt.most, tt.corrected)
					if tt.most == small {
						o.Cost, o.Quota = o.Admitted, openAIRequests+openAIRequests*int(saturated/time.Second)/60
					}
					o.save(t) // as it is judged
					return o
				})
			})
		}
	}
}
