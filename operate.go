package outflow

import (
	"fmt"
	"slices"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// What can be changed while a Transport is in use. Rules are named as in errors and Stats: by Rule.Name, or
// Rule.Match without one, and Config.Limits are "". Where several rules have one name, the first is meant.

// SetLimits has other limits hold from now on: for the rule of that Name, or of that Match if it has no
// name, or for each host in place of Config.Limits, if the name is "". What has left already counts, and
// those who wait leave at the new pace: see leakyqueue.Rule.SetLimits. Requests that leave without a slot
// while the first concurrency is added don't count in it.
//
// The error names the limit that is wrong and its value, or the rule that there isn't; nothing has changed
// then.
func (t *Transport) SetLimits(rule string, limits ...limit.Limit) error {
	r, err := t.ruleNamed(rule)
	if err != nil {
		return fmt.Errorf("outflow: SetLimits: %w", err)
	}
	if err := r.SetLimits(limits...); err != nil {
		return fmt.Errorf("outflow: SetLimits: %w", err)
	}
	if rule == "" {
		t.hostsHold.Store(len(limits) > 0)
	}
	return nil
}

// Pause has nobody leave from one bucket of a rule before until, as if the upstream had asked for it: the
// rule is named as for SetLimits, and the key is its bucket's in Stats: a host for the rule "". See
// leakyqueue.Queue.Pause. The error names the rule that there isn't.
func (t *Transport) Pause(rule, key string, until time.Time) error {
	r, err := t.ruleNamed(rule)
	if err != nil {
		return fmt.Errorf("outflow: Pause: %w", err)
	}
	return t.queue.Pause(until, leakyqueue.Key{Rule: r, Value: key})
}

// Resume ends the pause of a bucket, whoever asked for it: see leakyqueue.Queue.Resume. The arguments and
// the error are as for Pause.
func (t *Transport) Resume(rule, key string) error {
	r, err := t.ruleNamed(rule)
	if err != nil {
		return fmt.Errorf("outflow: Resume: %w", err)
	}
	return t.queue.Resume(leakyqueue.Key{Rule: r, Value: key})
}

func (t *Transport) ruleNamed(name string) (*leakyqueue.Rule, error) {
	if name == "" {
		return t.hosts, nil
	}
	i := slices.IndexFunc(t.rules, func(c compiledRule) bool { return c.rule.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("no rule is named %q", name)
	}
	return t.rules[i].rule, nil
}
