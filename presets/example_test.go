package presets_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/presets"
)

func Example() {
	p := presets.Stripe()
	transport, err := outflow.New(outflow.Config{Rules: p.Rules, Retry: p.Retry})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport} // for stripe.SetHTTPClient, say
	_ = client

	fmt.Println(p.Source, p.Checked)
	for _, r := range p.Rules {
		fmt.Println(r.Name, r.Limits)
	}
	// Output:
	// https://docs.stripe.com/rate-limits 2026-11-21
	// stripe [100/s 100/s sliding]
	// stripe sandbox [25/s 25/s sliding]
	// stripe endpoint [25/s 25/s sliding]
	// stripe payouts [15/s 15/s sliding concurrent 30]
	// stripe sandbox accounts [5/s 5/s sliding]
	// stripe search [20/s 20/s sliding]
	// stripe file reads [20/s 20/s sliding]
	// stripe file uploads [20/s 20/s sliding]
}

// Several vendors in one Transport, and what is known better about them.
func ExampleConfig() {
	github, twilio := presets.GitHub(), presets.Twilio()
	github.Rule("github rest").Limits = []limit.Limit{limit.FixedWindow(15_000, time.Hour)} // Enterprise Cloud
	twilio.Rule("twilio").Limits = []limit.Limit{limit.Concurrent(80), limit.PerSecond(30)}

	cfg := presets.Config(github.Without("github content"), twilio, presets.Slack(nil))
	cfg.Rules = append(cfg.Rules, outflow.Rule{Match: "api.example.com/", Limits: []limit.Limit{limit.PerSecond(5)}})
	cfg.Retry.MaxAttempts = 3
	_, err := outflow.New(cfg)
	fmt.Println(err)
	// Output: <nil>
}

// The tokens and requests that OpenAI's settings show for two kinds of models.
func ExampleOpenAI() {
	p := presets.OpenAI(
		presets.OpenAILimits{Model: "gpt-5-mini*", RequestsPerMinute: 5000, TokensPerMinute: 4_000_000},
		presets.OpenAILimits{RequestsPerMinute: 500, TokensPerMinute: 500_000}, // each of the others
	)
	p.Rule("openai requests gpt-5-mini*").Limits = []limit.Limit{limit.Per(5000, time.Minute).WithBurst(50)}
	for _, r := range p.Rules {
		fmt.Printf("%s: %v\n", r.Name, r.Limits)
	}
	// Output:
	// openai requests gpt-5-mini*: [5000/m burst 50]
	// openai tokens gpt-5-mini*: [4000000/m sliding]
	// openai requests: [500/m 500/m sliding]
	// openai tokens: [500000/m sliding]
}
