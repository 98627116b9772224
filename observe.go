package outflow

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/headers"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// What is added to a pause that the upstream asked for, at random, so that a fleet that was told the
// same doesn't come back as one. It never makes a pause longer than MaxPause of one that isn't.
const (
	pauseJitter    = 40 // a fortieth of the pause
	maxPauseJitter = time.Second
)

// Learn says what a Transport makes of what upstreams answer.
type Learn uint8

const (
	// LearnLimits: refusals tell what the upstream allows, so that the next ones needn't be refused, and what it
	// says is left of a quota bounds what leaves. See limit.Learner and limit.Quota.
	LearnLimits Learn = iota
	// LearnQuotas: a refusal pauses its bucket, and teaches nothing beyond that.
	LearnQuotas
	// LearnNothing: neither is learnt.
	LearnNothing
)

func (cfg *Config) checkLearning() error {
	if cfg.Learn > LearnNothing {
		return fmt.Errorf("Learn is %d, want 0 to %d", cfg.Learn, LearnNothing)
	}
	if cfg.Spread > limit.SpreadNone {
		return fmt.Errorf("Spread is %d, want 0 to %d", cfg.Spread, limit.SpreadNone)
	}
	return nil
}

func (cfg *Config) learn(r *leakyqueue.Rule, unit string) {
	if cfg.Learn != LearnNothing {
		r.Learn(leakyqueue.Learning{Unit: unit, Spread: cfg.Spread, CountsOnly: cfg.Learn == LearnQuotas})
	}
}

// heard is what an answer said, and what was made of it.
type heard struct {
	signal headers.Signal
	leakyqueue.Heard
}

// observe has the buckets of a request hear what its answer says. What it says of a limit is about the last of its keys:
// the narrowest, if wide rules come first. Of a pool it is the member that the request left with.
func (t *Transport) observe(req *http.Request, keys []leakyqueue.Key, held *held, resp *http.Response, left leakyqueue.Departure, tries *tries) heard {
	if !held.ticketOrNil().Tracked() && (resp == nil || resp.StatusCode == http.StatusOK && len(resp.Header) == 0) {
		return heard{}
	}
	return t.hear(req, keys, held, resp, left, tries)
}

func (t *Transport) hear(req *http.Request, keys []leakyqueue.Key, held *held, resp *http.Response, left leakyqueue.Departure, tries *tries) heard {
	var h heard
	answer := leakyqueue.Answer{Verdict: leakyqueue.Unanswered, Key: -1}
	if resp != nil {
		h.signal = listen(resp, time.Now())
		answer = t.answerOf(req, keys, resp.StatusCode, &h.signal, tries)
	}
	switch {
	case held != nil:
		h.Heard = held.ticket.Answered(answer)
		held.light = !h.Holds
	case answer.Verdict == leakyqueue.Limited || answer.Verdict == leakyqueue.Overloaded || len(answer.Quotas) > 0:
		h.Heard, _ = t.queue.Observe(left, answer, keys...)
	}
	return h
}

// answerOf translates a signal for the queue.
func (t *Transport) answerOf(req *http.Request, keys []leakyqueue.Key, status int, s *headers.Signal, tries *tries) leakyqueue.Answer {
	a := leakyqueue.Answer{Verdict: verdictOf(status, s.Cause), Key: -1, Concurrency: s.Concurrency}
	switch s.Cause {
	case headers.Limited:
		t.counts.limited.Add(1)
		a.Pause, a.Otherwise = t.retry.asked(s), t.retry.pausing.Delay(tries.n, 0)
	case headers.Overloaded:
		t.counts.overloaded.Add(1)
		a.Pause = t.retry.asked(s)
	}
	if s.Scope == headers.ScopeGlobal {
		a.Key = 0 // the widest
	}
	if a.Verdict == leakyqueue.Unanswered {
		return a
	}
	a.Bucket = t.identify(req, keys[len(keys)-1], s)
	if len(s.Quotas) > 0 && a.Verdict == leakyqueue.Accepted { // of a refusal Pause has it
		a.Quotas, a.Credential = quotasOf(s), credentialOf(req)
	}
	return a
}

// verdictOf says what a status means for those who wait. Only an answer of the upstream itself to a request that it knows
// whose it is says anything about what that client is allowed.
func verdictOf(status int, cause headers.Cause) leakyqueue.Verdict {
	switch {
	case cause == headers.Limited:
		return leakyqueue.Limited
	case cause == headers.Overloaded, status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return leakyqueue.Overloaded
	case status >= 200 && status < 300:
		return leakyqueue.Accepted
	default:
		return leakyqueue.Unanswered
	}
}

func quotasOf(s *headers.Signal) []leakyqueue.Quota {
	quotas := make([]leakyqueue.Quota, len(s.Quotas))
	for i, q := range s.Quotas {
		quotas[i] = leakyqueue.Quota{Name: q.Name, Partition: q.Partition, Unit: q.Unit, Limit: q.Limit, Remaining: q.Remaining, Reset: q.Reset, Window: q.Window}
	}
	return quotas
}

var credentialSeed = maphash.MakeSeed()

// credentialOf tells apart for whom an upstream counts.
func credentialOf(req *http.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(credentialSeed)
	for _, name := range credentials {
		for _, value := range req.Header[name] {
			h.WriteString(name)
			h.WriteString(value)
		}
	}
	return h.Sum64()
}

// credentials are the headers in which APIs want them.
var credentials = [...]string{"Authorization", "X-Api-Key", "Api-Key", "Private-Token", "X-Shopify-Access-Token"}

// asked is for how long an upstream asked not to be asked again: as long as it says, else until an exhausted quota is
// renewed; 0: it gave no hint.
func (r *retrier) asked(s *headers.Signal) time.Duration {
	d := s.RetryAfter
	if d <= 0 {
		for _, q := range s.Quotas {
			if q.Remaining == 0 {
				d = max(d, q.Reset)
			}
		}
	}
	switch {
	case d > r.maxPause:
		return d
	case d > 0:
		d += rand.N(min(d/pauseJitter, maxPauseJitter) + 1)
		return min(max(d, backoff.Floor), r.maxPause)
	}
	return 0
}
