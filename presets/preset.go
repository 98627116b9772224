package presets

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// A Preset is what is known about an upstream. All of it may be changed before use.
type Preset struct {
	// Source is the vendor's page that documents the limits.
	Source string

	// Checked is the day on which Rules were last compared with Source, or a copy of it, as in "2026-11-21".
	Checked string

	// Hosts are those that Retry is for.
	Hosts []string

	// Rules are the limits, in an order for outflow.Config.Rules. Their names begin with the vendor's, so
	// that those of several presets are distinct.
	Rules []outflow.Rule

	// Retry has what differs from outflow's own rules for retries, and is the zero Retry if nothing does.
	// A CheckRetry that comes with a preset leaves requests to other hosts to outflow.DefaultCheckRetry.
	Retry outflow.Retry
}

// Rule returns the rule of that name, to be changed. It panics if there is none, since a typo would
// otherwise leave a limit as it was.
func (p Preset) Rule(name string) *outflow.Rule {
	i := slices.IndexFunc(p.Rules, func(r outflow.Rule) bool { return r.Name == name })
	if i < 0 {
		var names []string
		for _, r := range p.Rules {
			names = append(names, r.Name)
		}
		panic(fmt.Sprintf("presets: no rule %q, there are %q", name, names))
	}
	return &p.Rules[i]
}

// Without returns the preset without the named rules. It panics if one isn't there, as Rule does.
func (p Preset) Without(names ...string) Preset {
	for _, name := range names {
		p.Rule(name)
	}
	p.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r outflow.Rule) bool { return slices.Contains(names, r.Name) })
	return p
}

// Config returns a Config with the rules of all the presets, in which each one's CheckRetry and
// PrepareRetry decide about requests to its own hosts. The other fields of Retry hold for all hosts, and are
// those of the first preset that has them set. The result is the caller's to change.
func Config(presets ...Preset) outflow.Config {
	var cfg outflow.Config
	checks, prepares := false, false
	for _, p := range presets {
		cfg.Rules = append(cfg.Rules, p.Rules...)
		checks = checks || p.Retry.CheckRetry != nil
		prepares = prepares || p.Retry.PrepareRetry != nil
		first(&cfg.Retry.MaxAttempts, p.Retry.MaxAttempts)
		first(&cfg.Retry.Backoff, p.Retry.Backoff)
		first(&cfg.Retry.AttemptTimeout, p.Retry.AttemptTimeout)
		first(&cfg.Retry.Budget, p.Retry.Budget)
		if cfg.Retry.NewBackOff == nil {
			cfg.Retry.NewBackOff = p.Retry.NewBackOff
		}
	}
	of := func(req *http.Request) outflow.Retry {
		for _, p := range presets {
			if toHost(req, p.Hosts) {
				return p.Retry
			}
		}
		return outflow.Retry{}
	}
	if checks {
		cfg.Retry.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			if check := of(outflow.RequestFrom(ctx)).CheckRetry; check != nil {
				return check(ctx, resp, err)
			}
			return outflow.DefaultCheckRetry(ctx, resp, err)
		}
	}
	if prepares {
		cfg.Retry.PrepareRetry = func(req *http.Request) error {
			if prepare := of(req).PrepareRetry; prepare != nil {
				return prepare(req)
			}
			return nil
		}
	}
	return cfg
}

func first[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

func toHost(req *http.Request, hosts []string) bool {
	return req != nil && slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, req.URL.Hostname()) })
}

// retry has check decide about answers from the hosts, as far as it does (decided), and outflow about all
// else.
func retry(hosts []string, check func(*http.Response) (again, decided bool)) outflow.Retry {
	return outflow.Retry{CheckRetry: func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if err == nil && toHost(outflow.RequestFrom(ctx), hosts) {
			if again, decided := check(resp); decided {
				return again, nil
			}
		}
		return outflow.DefaultCheckRetry(ctx, resp, err)
	}}
}

// spaced is n per d where shorter times may be looked at, too: evenly spaced, and none of the spans has more
// than n, however late timers and other requests are.
func spaced(n int, d time.Duration) []limit.Limit {
	return []limit.Limit{limit.Per(float64(n), d), limit.SlidingWindow(n, d)}
}

// quota is n per d where that may come at any pace.
func quota(n int, d time.Duration) []limit.Limit { return []limit.Limit{limit.SlidingWindow(n, d)} }
