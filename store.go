package outflow

import (
	"fmt"
	"net"
	"strings"

	"github.com/outflow-go/outflow/leakyqueue"
)

// share has the Transport's buckets be one each with those of every other Transport whose Store is over the same data
// and whose rules have the same names.
//
// Buckets that may hold one request together have to be in one group, and a bucket always in the same: that of a host is
// in its host's, and so are those of rules whose pattern names it. One rule for any host is enough to have all of them
// in one.
func (t *Transport) share(cfg *Config) error {
	if cfg.Store == nil {
		return nil
	}
	group := hostOnly
	for _, c := range t.rules {
		if c.pattern.host == "" && !c.local && !c.shadow {
			group = func(string) string { return "" }
		}
	}
	if err := t.hosts.Share(cfg.Store, leakyqueue.Sharing{Group: group}); err != nil {
		return fmt.Errorf("Limits: %w", err)
	}
	for i, c := range t.rules {
		if c.local || c.shadow || c.use != nil {
			continue
		}
		host := c.pattern.host
		if err := c.rule.Share(cfg.Store, leakyqueue.Sharing{Group: func(string) string { return group(host) }}); err != nil {
			return fmt.Errorf("Rules[%d].Limits: %w", i, err)
		}
	}
	return nil
}

// hostOnly is a host without its port: a pattern's has none.
func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.Trim(host, "[]")
}
