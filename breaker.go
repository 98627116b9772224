package outflow

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// ErrBreakerOpen: a circuit breaker let nothing through when the request's turn came. The Error's Cause is
// the breaker's own error.
var ErrBreakerOpen = errors.New("circuit breaker open")

// A Breaker is a circuit breaker: after failures it lets nothing through for a while, then a few to see
// whether the upstream is well again. The two-step breaker of github.com/sony/gobreaker/v2 is one as it
// is, and package github.com/outflow-go/outflow/breaker makes them. It must be safe for concurrent use.
//
// A request has one breaker: that of the last rule that matches it and has any, or else of its host. It is
// asked when the request's turn has come, before each attempt. If it refuses, the turn and the slots are
// given back, nothing is sent or repeated, and the caller gets [ErrBreakerOpen]; so a queue in front of
// an open breaker empties at once. Those who come during a pause wait for its end before they are told.
//
// Done is called exactly once for each attempt that was let through, when its response's header is there
// or it has failed. It gets nil for a response below 500: who is refused because of a limit has met an
// upstream that is well. It gets a [StatusError] for a 5xx, and Base's error for an attempt that failed.
// When the caller gave up, that is context.Canceled, which says nothing about the upstream: a breaker that
// can leave such an error out of its count should (in gobreaker, Settings.IsExcluded).
//
// A breaker that was not used for ten minutes is forgotten.
type Breaker interface {
	Allow() (done func(error), err error)
}

// A StatusError is what a Breaker is told of a response that is a failure of its upstream's.
type StatusError struct{ StatusCode int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
}

// breakerIdle is after how long without use a breaker is forgotten. It is long compared with the time for
// which a breaker stays open, so that one that is open isn't replaced by one that isn't.
const breakerIdle = 10 * time.Minute

// breakers are those of one rule, or of the hosts, by key. Memory is bounded by the keys used in the last
// breakerIdle, and twice that where few come.
type breakers struct {
	maker func(key string) Breaker

	mu    sync.Mutex // guards the fields below
	byKey map[string]*breakerEntry
	swept time.Time
}

type breakerEntry struct {
	Breaker
	used time.Time
}

func newBreakers(maker func(string) Breaker) *breakers {
	if maker == nil {
		return nil
	}
	return &breakers{maker: maker, byKey: map[string]*breakerEntry{}, swept: time.Now()}
}

// of returns the key's breaker, which may be nil: the maker has none for it.
func (b *breakers) of(key string) Breaker {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.swept) >= breakerIdle {
		for k, e := range b.byKey {
			if now.Sub(e.used) >= breakerIdle {
				delete(b.byKey, k)
			}
		}
		b.swept = now
	}
	e := b.byKey[key]
	if e == nil {
		e = &breakerEntry{Breaker: b.maker(key)}
		b.byKey[key] = e
	}
	e.used = now
	return e.Breaker
}

// breakerFor returns the breaker that a request has, and the name of its bucket; nil: none.
func (t *Transport) breakerFor(req *http.Request, keys []leakyqueue.Key, held *held) (Breaker, string) {
	for i := len(t.rules) - 1; i >= 0; i-- {
		r := &t.rules[i]
		if r.breakers == nil {
			continue
		}
		for _, k := range keys {
			if k.Rule != r.rule {
				continue
			}
			if member := held.ticketOrNil().Member(k.Rule); member != "" {
				k.Value = member
			}
			return r.breakers.of(k.Value), k.String()
		}
	}
	if t.breakers == nil {
		return nil, ""
	}
	host := leakyqueue.Key{Rule: t.hosts, Value: hostOf(req.URL)}
	return t.breakers.of(host.Value), host.String()
}

// send is attempt, if the request's breaker, should it have one, lets it through.
func (t *Transport) send(req, out *http.Request, keys []leakyqueue.Key, held *held, tries *tries, left leakyqueue.Departure) (*http.Response, error) {
	if !t.breaks {
		return t.attempt(req, out, keys, held, tries)
	}
	asked := false
	defer func() {
		if !asked { // the maker or Allow panicked
			closeBody(out)
		}
	}()
	breaker, bucket := t.breakerFor(req, keys, held)
	if breaker == nil {
		asked = true
		return t.attempt(req, out, keys, held, tries)
	}
	done, refusal := breaker.Allow()
	if refusal != nil {
		_ = held.ticket.Settle(0) // it hasn't left after all; the slots go with the rest of what is held
		if trace := optionsOf(req.Context()).trace; trace != nil {
			trace.Attempts--
		}
		return nil, &Error{Bucket: bucket, Reason: ErrBreakerOpen, Queued: left.Queued, Cause: refusal}
	}
	asked = true

	outcome := errors.New("outflow: the attempt panicked")
	defer func() { done(outcome) }()
	resp, err := t.attempt(req, out, keys, held, tries)
	switch {
	case req.Context().Err() != nil && err != nil:
		outcome = fmt.Errorf("%w: %w", req.Context().Err(), err)
	case err != nil:
		outcome = err
	case resp.StatusCode >= http.StatusInternalServerError:
		outcome = &StatusError{resp.StatusCode}
	default:
		outcome = nil
	}
	return resp, err
}
