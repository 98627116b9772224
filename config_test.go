package outflow_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// Trap 30: a background goroutine without a stop. No test of the package leaves one.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limits makes a Config whose only fault, if any, is in its limits.
func limits(l ...limit.Limit) outflow.Config { return outflow.Config{Limits: l} }

// match makes a Config whose only fault, if any, is in the pattern of its second rule.
func match(pattern string) outflow.Config {
	return outflow.Config{Rules: []outflow.Rule{{Match: "/"}, {Match: pattern}}}
}

func TestNewNamesTheFieldAndTheValue(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name string
		cfg  outflow.Config
		want []string // in the error's text, the field first
	}{
		{"zero rate", limits(limit.PerSecond(0)), []string{"Config.Limits", "limits[0]", "n is 0"}},
		{"negative rate", limits(limit.PerSecond(1), limit.PerSecond(-2.5)), []string{"Config.Limits", "limits[1]", "n is -2.5"}},
		{"NaN rate", limits(limit.PerSecond(nan)), []string{"Config.Limits", "NaN"}},
		{"infinite rate", limits(limit.PerSecond(inf)), []string{"Config.Limits", "+Inf"}},
		{"negative infinite rate", limits(limit.PerSecond(-inf)), []string{"Config.Limits", "-Inf"}},
		{"rate too high", limits(limit.PerSecond(2e9)), []string{"Config.Limits", "2e+09"}},
		{"rate too low", limits(limit.Per(1, math.MaxInt64)), []string{"Config.Limits", "2562047h47m16.854775807s"}},
		{"zero period", limits(limit.Per(1, 0)), []string{"Config.Limits", "d is 0s"}},
		{"negative period", limits(limit.Per(1, -time.Second)), []string{"Config.Limits", "d is -1s"}},
		{"zero burst", limits(limit.PerSecond(1).WithBurst(0)), []string{"Config.Limits", "burst is 0"}},
		{"negative burst", limits(limit.PerSecond(1).WithBurst(-3)), []string{"Config.Limits", "burst is -3"}},
		{"huge burst", limits(limit.PerSecond(1).WithBurst(math.MaxInt)), []string{"Config.Limits", fmt.Sprint("burst is ", math.MaxInt)}},
		{"no slot", limits(limit.Concurrent(0)), []string{"Config.Limits", "concurrent 0"}},
		{"negative slots", limits(limit.Concurrent(-1)), []string{"Config.Limits", "concurrent -1"}},
		{"zero Limit", limits(limit.Limit{}), []string{"Config.Limits", "zero Limit"}},

		{"limit of a rule", outflow.Config{Rules: []outflow.Rule{
			{Match: "/"}, {Match: "/x", Limits: []limit.Limit{limit.PerSecond(0)}},
		}}, []string{"Config.Rules[1].Limits", "/x", "n is 0"}},

		{"empty pattern", match(""), []string{"Config.Rules[1].Match", `""`}},
		{"pattern without a path", match("api.test"), []string{"Config.Rules[1].Match", "api.test"}},
		{"pattern with only a method", match("GET "), []string{"Config.Rules[1].Match", "GET "}},
		{"pattern with a bad method", match("G@T /"), []string{"Config.Rules[1].Match", "G@T"}},
		{"pattern with a port", match("api.test:8080/"), []string{"Config.Rules[1].Match", "api.test:8080", "8080"}},
		{"pattern with a wildcard host", match("{host}/"), []string{"Config.Rules[1].Match", "{host}"}},
		{"wildcard without an end", match("/{x"), []string{"Config.Rules[1].Match", "/{x"}},
		{"wildcard after text", match("/a{x}"), []string{"Config.Rules[1].Match", "/a{x}"}},
		{"wildcard before text", match("/{x}a"), []string{"Config.Rules[1].Match", "/{x}a"}},
		{"wildcard without a name", match("/{}"), []string{"Config.Rules[1].Match", "/{}"}},
		{"wildcard with a bad name", match("/{a-b}"), []string{"Config.Rules[1].Match", "a-b"}},
		{"wildcard twice", match("/{x}/{x}"), []string{"Config.Rules[1].Match", `"x"`}},
		{"{$} in the middle", match("/{$}/x"), []string{"Config.Rules[1].Match", "{$}"}},
		{"{x...} in the middle", match("/{x...}/y"), []string{"Config.Rules[1].Match", "..."}},
		{"unclean path", match("GET /a/../b"), []string{"Config.Rules[1].Match", "/a/../b"}},

		{"unknown wildcard", outflow.Config{Rules: []outflow.Rule{
			{Match: "/accounts/{id}/", Key: outflow.PathValue("sid")},
		}}, []string{"Config.Rules[0].Key", `PathValue("sid")`, "/accounts/{id}/"}},
		{"unnamed wildcard", outflow.Config{Rules: []outflow.Rule{
			{Match: "/accounts/", Key: outflow.PathValue("")},
		}}, []string{"Config.Rules[0].Key", `PathValue("")`}},
		{"{$} as a wildcard", outflow.Config{Rules: []outflow.Rule{
			{Match: "/accounts/{$}", Key: outflow.PathValue("$")},
		}}, []string{"Config.Rules[0].Key", `PathValue("$")`}},
		{"text of the pattern as a wildcard", outflow.Config{Rules: []outflow.Rule{
			{Match: "/accounts/{id}", Key: outflow.PathValue("accounts")},
		}}, []string{"Config.Rules[0].Key", `PathValue("accounts")`}},
		{"nil function", outflow.Config{Rules: []outflow.Rule{
			{Match: "/", Key: outflow.KeyFunc(nil)},
		}}, []string{"Config.Rules[0].Key", "KeyFunc(nil)"}},

		{"MaxWait", outflow.Config{Queue: leakyqueue.Config{MaxWait: -1}}, []string{"Config.Queue", "MaxWait is -1ns"}},
		{"MaxPause", outflow.Config{Queue: leakyqueue.Config{MaxPause: -time.Second}}, []string{"Config.Queue", "MaxPause is -1s"}},
		{"MaxHold", outflow.Config{Queue: leakyqueue.Config{MaxHold: -time.Hour}}, []string{"Config.Queue", "MaxHold is -1h0m0s"}},

		{"MaxAttempts", outflow.Config{Retry: outflow.Retry{MaxAttempts: -1}}, []string{"Config.Retry.MaxAttempts", "-1"}},
		{"AttemptTimeout", outflow.Config{Retry: outflow.Retry{AttemptTimeout: -time.Second}}, []string{"Config.Retry.AttemptTimeout", "-1s"}},
		{"Base", policy(backoff.Policy{Base: -time.Second}), []string{"Config.Retry.Backoff", "Base is -1s"}},
		{"Cap", policy(backoff.Policy{Cap: -time.Second}), []string{"Config.Retry.Backoff", "Cap is -1s"}},
		{"Base above Cap", policy(backoff.Policy{Base: time.Hour}), []string{"Config.Retry.Backoff", "Base is 1h0m0s", "Cap is 20s"}},
		{"Factor", policy(backoff.Policy{Factor: 0.5}), []string{"Config.Retry.Backoff", "Factor is 0.5"}},
		{"NaN factor", policy(backoff.Policy{Factor: nan}), []string{"Config.Retry.Backoff", "Factor is NaN"}},
		{"infinite factor", policy(backoff.Policy{Factor: inf}), []string{"Config.Retry.Backoff", "Factor is +Inf"}},
		{"Jitter", policy(backoff.Policy{Jitter: 9}), []string{"Config.Retry.Backoff", "Jitter is Jitter(9)"}},

		{"Ratio", budget(outflow.Budget{Ratio: nan}), []string{"Config.Retry.Budget.Ratio", "NaN"}},
		{"infinite Ratio", budget(outflow.Budget{Ratio: inf}), []string{"Config.Retry.Budget.Ratio", "+Inf"}},
		{"huge Ratio", budget(outflow.Budget{Ratio: 1e6}), []string{"Config.Retry.Budget.Ratio", "1e+06"}},
		{"Ratio too small to count", budget(outflow.Budget{Ratio: 1e-5}), []string{"Config.Retry.Budget.Ratio", "1e-05"}},
		{"MinPerSecond", budget(outflow.Budget{MinPerSecond: nan}), []string{"Config.Retry.Budget.MinPerSecond", "NaN"}},
		{"infinite MinPerSecond", budget(outflow.Budget{MinPerSecond: inf}), []string{"Config.Retry.Budget.MinPerSecond", "+Inf"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr, err := outflow.New(tt.cfg)
			if err == nil || tr != nil {
				t.Fatalf("New = %v, %v, want an error", tr, err)
			}
			for _, want := range append(tt.want, "outflow: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q doesn't have %q", err, want)
				}
			}
		})
	}
}

func policy(p backoff.Policy) outflow.Config {
	return outflow.Config{Retry: outflow.Retry{Backoff: p}}
}

func budget(b outflow.Budget) outflow.Config { return outflow.Config{Retry: outflow.Retry{Budget: b}} }

// What looks odd and isn't wrong.
func TestNewTakes(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  outflow.Config
	}{
		{"nothing", outflow.Config{}},
		{"one in two seconds", limits(limit.PerSecond(0.5))},
		{"the same limit twice", limits(limit.PerSecond(1), limit.PerSecond(1), limit.Concurrent(2), limit.Concurrent(1))},
		{"the same pattern twice", outflow.Config{Rules: []outflow.Rule{{Match: "/"}, {Match: "/", Key: outflow.Host()}}}},
		{"no bound on the queue, and no slack", outflow.Config{Queue: leakyqueue.Config{MaxWaiting: -1, Slack: -1}}},
		{"no budget", budget(outflow.Budget{Ratio: -1, MinPerSecond: -1})},
		{"negative infinities", budget(outflow.Budget{Ratio: math.Inf(-1), MinPerSecond: math.Inf(-1)})},
		{"an IPv6 host", match("[::1]/")},
		{"a method and a blank", match("POST \t api.test/v1/{id}/{rest...}")},
		{"no retries", outflow.Config{Retry: outflow.Retry{MaxAttempts: 1}}},
		{"a base of its own", outflow.Config{Base: &http.Transport{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := outflow.New(tt.cfg); err != nil {
				t.Error(err)
			}
		})
	}
}
