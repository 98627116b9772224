package outflow

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// A Rule says which requests share which bucket, and the bucket's limits.
type Rule struct {
	// Match is a pattern as of http.ServeMux: "[METHOD ][HOST]/[PATH]", with wildcards. Examples:
	// "/" is every request, "api.stripe.com/" everything at a host, and
	// "POST api.stripe.com/v1/files" one method and path. The host is that of the request's URL,
	// in any letter case and whatever its port.
	Match string

	// Key tells the rule's buckets apart. The zero Key: all requests that match share one.
	Key Key

	// Limits hold jointly for each bucket. Without any the rule only has buckets of its own, which
	// an upstream's refusal pauses.
	Limits []limit.Limit

	// Cost is how much of the rule's rates and windows a request takes, from 1 to leakyqueue.MaxCost: an
	// estimate of its tokens, say. It must neither modify the request nor read its body, and it is called
	// by several goroutines at once. A request with a cost out of range, or above what the smallest
	// window holds, fails with leakyqueue.ErrInvalid. Nil: what WithCost says, or 1.
	Cost func(*http.Request) int

	// Settle tells what an attempt really cost, 0 or more, once its response's body has ended: read to its
	// end, or closed. The difference to Cost is then charged or given back, as leakyqueue.Ticket.Settle
	// says. Not ok: it stays as it was. Of the response, which is a copy, the Body is what the caller has
	// read of it, up to 1 MiB, so that a JSON body's usage can be seen without being taken away; it needn't
	// be closed. It is called for every response, also for those that are then retried. Nil: Cost is final.
	Settle func(*http.Response) (cost int, ok bool)

	// Shadow has the rule hold nobody. Stats tell how many of those who left it would have held, and for
	// how long: Late, Held and Full of the bucket's Counts. No refusal pauses it.
	Shadow bool

	// Name is the rule's name in errors and statistics. Defaults to Match.
	Name string
}

// A Key says which of a rule's buckets a request belongs to.
type Key struct {
	kind     keyKind
	wildcard string
	fn       func(*http.Request) string
}

type keyKind uint8

const (
	oneBucket keyKind = iota
	pathValueKey
	hostKey
	funcKey
)

// PathValue is the text that a wildcard of Rule.Match stands for: with Match "/accounts/{id}/",
// PathValue("id") gives every account a bucket.
func PathValue(wildcard string) Key { return Key{kind: pathValueKey, wildcard: wildcard} }

// Host is the request's host, as Config.Limits has it.
func Host() Key { return Key{kind: hostKey} }

// KeyFunc is what f returns. It must not modify the request, and it is called by several goroutines
// at once. Its results stay in memory and show in errors and statistics: a secret should be hashed.
func KeyFunc(f func(*http.Request) string) Key { return Key{kind: funcKey, fn: f} }

// compiledRule is a Rule as RoundTrip needs it.
type compiledRule struct {
	pattern  pattern
	rule     *leakyqueue.Rule
	key      Key
	wildcard int // the index of the key's wildcard in the pattern
	cost     func(*http.Request) int
	settle   func(*http.Response) (int, bool)
	shadow   bool
}

func (r Rule) compile(q *leakyqueue.Queue) (compiledRule, error) {
	p, err := parsePattern(r.Match)
	if err != nil {
		return compiledRule{}, fmt.Errorf("Match: %w", err)
	}
	c := compiledRule{pattern: p, key: r.Key, cost: r.Cost, settle: r.Settle, shadow: r.Shadow}
	switch r.Key.kind {
	case pathValueKey:
		if c.wildcard = p.wildcard(r.Key.wildcard); c.wildcard < 0 {
			return compiledRule{}, fmt.Errorf("Key: PathValue(%q): no such wildcard in Match %q", r.Key.wildcard, r.Match)
		}
	case funcKey:
		if r.Key.fn == nil {
			return compiledRule{}, errors.New("Key: KeyFunc(nil): want a function")
		}
	}
	name := r.Name
	if name == "" {
		name = r.Match
	}
	if c.rule, err = q.AddRule(name, r.Limits...); err != nil {
		return compiledRule{}, fmt.Errorf("Limits: %w", err)
	}
	return c, nil
}

// appendKeys appends the buckets that hold req to keys, the widest first; there is at least one. Those of
// rules in shadow mode are apart.
func (t *Transport) appendKeys(keys []leakyqueue.Key, req *http.Request) (_, shadow []leakyqueue.Key) {
	if t.hostsHold.Load() {
		keys = append(keys, leakyqueue.Key{Rule: t.hosts, Value: hostOf(req.URL)})
	}
	for i := range t.rules {
		r := &t.rules[i]
		value, ok := r.pattern.match(req, r.wildcard)
		if !ok {
			continue
		}
		switch r.key.kind {
		case oneBucket:
			value = ""
		case hostKey:
			value = hostOf(req.URL)
		case funcKey:
			value = r.key.fn(req)
		}
		k := leakyqueue.Key{Rule: r.rule, Value: value}
		if r.cost != nil {
			if k.Cost = r.cost(req); k.Cost == 0 {
				k.Cost = -1 // 0 is not to be taken for the default
			}
		}
		if r.shadow {
			shadow = append(shadow, k)
		} else {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		keys = append(keys, leakyqueue.Key{Rule: t.hosts, Value: hostOf(req.URL)})
	}
	return keys, shadow
}

// hostOf is the URL's host in lower case, with its port unless that is the scheme's own. For a host
// that is written so already it costs nothing.
func hostOf(u *url.URL) string {
	host := u.Host
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return strings.ToLower(host)
}
