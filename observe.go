package outflow

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/headers"
	"github.com/outflow-go/outflow/leakyqueue"
)

// What is added to a pause that the upstream asked for, at random, so that a fleet that was told the
// same doesn't come back as one. It never makes a pause longer than MaxPause of one that isn't.
const (
	pauseJitter    = 20 // a twentieth of the pause
	maxPauseJitter = time.Second
)

// heard is what an answer said, and what was made of it.
type heard struct {
	signal headers.Signal
	paused bool // its bucket is, so a retry needs no delay of its own
}

// observe pauses the bucket of a request whose answer says that it, or everybody, is to wait. That
// is the last of its keys: the narrowest, if wide rules come first. Of a pool it is the member that the
// request left with.
func (t *Transport) observe(keys []leakyqueue.Key, held *held, resp *http.Response, tries *tries) heard {
	if resp == nil || resp.StatusCode < http.StatusBadRequest {
		return heard{}
	}
	now := time.Now()
	h := heard{signal: headers.ParseHeader(resp.StatusCode, resp.Header, now)}
	switch h.signal.Cause {
	case headers.None:
		return h
	case headers.Limited:
		t.counts.limited.Add(1)
	case headers.Overloaded:
		t.counts.overloaded.Add(1)
	}
	if d := t.retry.pause(h.signal, tries.n); d > 0 {
		k := keys[len(keys)-1]
		if member := held.ticketOrNil().Member(k.Rule); member != "" {
			k.Value = member
		}
		t.queue.Pause(now.Add(d), k)
		h.paused = true
	}
	return h
}

// pause is for how long an answer pauses its bucket: as long as the upstream asked for, else until
// an exhausted quota is renewed, else, if it is us who are limited, as long as backoff says. An
// upstream that is unwell and gives no hint pauses nobody: that one request backs off.
func (r *retrier) pause(s headers.Signal, attempt int) time.Duration {
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
	if s.Cause == headers.Limited {
		return r.pausing.Delay(attempt, 0)
	}
	return 0
}
