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

	// When narrows Match to the requests for which it returns true: a pattern can say neither "every
	// shop of a domain" nor "all but these paths". It must neither modify the request nor read its body,
	// and it is called by several goroutines at once. Nil: all that match.
	When func(*http.Request) bool

	// Key tells the rule's buckets apart. The zero Key: all requests that match share one.
	Key Key

	// Pool is the names of several credentials, each of which has a bucket with the rule's Limits, and Use
	// puts one of them on a request: a request leaves with the one that lets it go first, and one that is
	// limited doesn't hold up the others. What an upstream refuses pauses the credential that it refused,
	// and the retry leaves with another at once, if one may. Pool and Use are set both, or neither; Key must
	// be the zero Key then, and Shadow false.
	//
	// It is for upstreams whose terms allow several credentials for one client: the installations of an app,
	// say, or subscriptions that were bought separately. Where a limit is meant for all of a client's
	// credentials together, a pool is a way around it, which tends to end with the client shut out.
	//
	// Names show in errors and statistics, so they aren't to be secrets: Use knows which secret a name
	// stands for. Each attempt, and each request of a long-running operation, may get another credential.
	Pool []string

	// Use puts the credential of the given name on an attempt that is leaving: it sets the Authorization
	// header, say. The request is a copy, whose headers and URL may be changed; a retry gets a new one,
	// before PrepareRetry. It is called by several goroutines at once, and shouldn't take long: the turn
	// has come. Where several rules with a Pool match, it is called in the order of the rules.
	Use func(req *http.Request, member string)

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

	// Unit is what Cost counts, in the words of headers.Quota: of what an upstream says is left, only what it counts in
	// this unit is this rule's. Defaults to "requests".
	Unit string

	// Identity tells apart what an upstream counts apart under one name: it says in X-RateLimit-Bucket, or in the
	// partition key of a RateLimit field, what a request was counted in. Keys of which it says the same, and for whose
	// requests Identity is the same, share a bucket from then on, across rules without Limits, too. Defaults to Key.
	Identity Key

	// Shadow has the rule hold nobody. Stats tell how many of those who left it would have held, and for
	// how long: Late, Held and Full of the bucket's Counts. No refusal pauses it.
	Shadow bool

	// Local has the rule's limits and pauses be this process's own, although there is a Config.Store. Those of a Pool, and
	// of a rule in shadow mode, always are.
	Local bool

	// Breaker makes the circuit breaker of one of the rule's buckets, or of one member of its Pool, when
	// that is first used: see [Breaker]. Shadow must be false then. Nil: none.
	Breaker func(key string) Breaker

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
	identity keyIn
	when     func(*http.Request) bool
	cost     func(*http.Request) int
	settle   func(*http.Response) (int, bool)
	shadow   bool
	local    bool
	use      func(*http.Request, string) // nil: it has no pool
	breakers *breakers                   // nil: it has none
}

func (r Rule) compile(q *leakyqueue.Queue) (compiledRule, error) {
	p, err := parsePattern(r.Match)
	if err != nil {
		return compiledRule{}, fmt.Errorf("Match: %w", err)
	}
	if r.Breaker != nil && r.Shadow {
		return compiledRule{}, errors.New("Shadow is true, want false with a Breaker, which refuses requests")
	}
	c := compiledRule{pattern: p, when: r.When, key: r.Key, cost: r.Cost, settle: r.Settle, shadow: r.Shadow, local: r.Local, breakers: newBreakers(r.Breaker)}
	if c.identity, err = r.Identity.in(p); err != nil {
		return compiledRule{}, fmt.Errorf("Identity: %w", err)
	}
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
	if r.Pool != nil || r.Use != nil {
		err := r.compilePool(q, name, &c)
		return c, err
	}
	if c.rule, err = q.AddRule(name, r.Limits...); err != nil {
		return compiledRule{}, fmt.Errorf("Limits: %w", err)
	}
	return c, nil
}

func (r Rule) compilePool(q *leakyqueue.Queue, name string, c *compiledRule) (err error) {
	switch {
	case r.Pool == nil:
		return errors.New("Use is set, but Pool isn't: want both or neither")
	case r.Use == nil:
		return fmt.Errorf("Use is nil, want a function that puts one of Pool, %q, on a request", r.Pool)
	case r.Key.kind != oneBucket:
		return errors.New("Key is set, want the zero Key with a Pool, whose members have a bucket each")
	case r.Shadow:
		return errors.New("Shadow is true, want false with a Pool, which has to choose")
	}
	c.use = r.Use
	c.rule, err = q.AddPool(name, r.Pool, r.Limits...)
	switch {
	case errors.Is(err, limit.ErrInvalid):
		return fmt.Errorf("Limits: %w", err)
	case err != nil:
		return fmt.Errorf("Pool: %w", err)
	}
	return nil
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
		if !ok || r.when != nil && !r.when(req) {
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
