package testserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// An Upstream enforces policies and records who came when. Make one with [New]; serve it with TCP,
// TLS, Pipe or PipeHTTP2, or as any other http.Handler. It is safe for concurrent use.
type Upstream struct {
	policies []*Policy
	answer   http.Handler
	look     func(*http.Request) *http.Request // before it is judged; nil: nothing to look for

	mu     sync.Mutex // guards the fields below, and the meters of all policies
	start  time.Time
	record *record
}

// New returns an upstream that enforces all the given policies and answers what they admit with
// [OK]. The policies belong to it from then on. Its time starts now.
func New(policies ...*Policy) *Upstream {
	for _, p := range policies {
		p.claim()
	}
	return &Upstream{policies: policies, answer: OK(), start: time.Now(), record: newRecord()}
}

// Answering sets what admitted requests are answered with, and returns the upstream. It is called
// before the upstream serves.
func (u *Upstream) Answering(h http.Handler) *Upstream {
	u.answer = h
	return u
}

// Reset forgets all arrivals and what the policies have counted, and starts the upstream's time anew:
// for a benchmark that has warmed up its connections.
func (u *Upstream) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range u.policies {
		p.resetLocked()
	}
	u.start = time.Now()
	u.record = newRecord()
}

// Arrivals returns a copy of what was recorded so far, in the order of arrival.
func (u *Upstream) Arrivals() Arrivals {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.record.copyLocked()
}

// ServeHTTP judges and records the request, and answers it.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.look != nil {
		r = u.look(r)
	}
	v := u.arrive(w.Header(), r)
	// Not after ServeHTTP but deferred: a handler may cut the connection by panicking.
	defer u.leave(v)
	body := &countingBody{ReadCloser: r.Body}
	v.body = body
	r.Body = body
	if v.estimated {
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	}
	out := &statusWriter{ResponseWriter: w, record: func(status int) { u.answered(v, status) }}
	v.answer.ServeHTTP(out, r)
	if !out.sent {
		// What net/http sends for a handler that has written nothing.
		out.WriteHeader(http.StatusOK)
	}
}

// A visit is one request from its arrival to the end of its handler.
type visit struct {
	upstream  *Upstream
	record    *record // where it is recorded: Reset may have replaced the upstream's
	index     int
	charged   []charge
	at        time.Duration // when: since the upstream's start
	estimated bool          // a policy with a cost is among those charged: see Settle
	answer    http.Handler
	body      *countingBody
}

// A charge is what a policy has to do with a request.
type charge struct {
	policy *Policy
	key    string
	meter  meter
	cost   int
}

// arrive judges the request and records it, in one step: the order of the record is the order of
// the decisions. Headers that the policies add go to h.
func (u *Upstream) arrive(h http.Header, r *http.Request) *visit {
	u.mu.Lock()
	defer u.mu.Unlock()

	at := time.Now()
	now := at.Sub(u.start)
	charges := u.chargesLocked(r)
	v := &visit{upstream: u, record: u.record, at: now}

	if refusedBy, ruling := judge(charges, now, r); refusedBy != nil {
		chargeRefused(charges, now)
		if refusedBy.policy.chargesAll {
			ruling = refusedBy.meter.judge(now, r, refusedBy.cost) // the wait is longer now
		}
		refusedBy.policy.hint(h, ruling.wait)
		v.answer = refusedBy.refusal(ruling, now)
	} else {
		for _, c := range charges {
			c.meter.charge(now, c.cost)
			v.estimated = v.estimated || c.priced()
		}
		v.charged = charges
		v.answer = u.answer
	}
	for _, c := range charges {
		c.policy.announce(h, c.meter.quota(now))
	}
	v.index = u.record.arriveLocked(newArrival(at, r, firstKey(charges), firstCost(charges)))
	return v
}

// chargesLocked returns what the request is charged to if it is admitted.
func (u *Upstream) chargesLocked(r *http.Request) []charge {
	charges := make([]charge, 0, len(u.policies))
	for _, p := range u.policies {
		if p.appliesTo(r) {
			key := p.key(r)
			charges = append(charges, charge{p, key, p.meterLocked(key, u.start), p.cost(r)})
		}
	}
	return charges
}

// judge returns the charge of the first policy that refuses, or nil.
func judge(charges []charge, now time.Duration, r *http.Request) (*charge, ruling) {
	for i := range charges {
		c := &charges[i]
		if v := c.meter.judge(now, r, c.cost); v.refused {
			return c, v
		}
	}
	return nil, ruling{}
}

// chargeRefused charges a refused request to the policies that want that.
func chargeRefused(charges []charge, now time.Duration) {
	for _, c := range charges {
		if c.policy.chargesAll {
			c.meter.charge(now, 1)
		}
	}
}

func firstKey(charges []charge) string {
	for _, c := range charges {
		if c.key != "" {
			return c.key
		}
	}
	return ""
}

// firstCost is of the first policy that was given one with Cost, else 1.
func firstCost(charges []charge) int {
	if i := slices.IndexFunc(charges, charge.priced); i >= 0 {
		return charges[i].cost
	}
	return 1
}

func (c charge) priced() bool { return c.policy.costOf != nil }

// answered records the status when the header is written, which is before the client can see it.
func (u *Upstream) answered(v *visit, status int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	v.record.arrivals[v.index].Status = status
}

// leave ends the visit: what it held is given back.
func (u *Upstream) leave(v *visit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range v.charged {
		c.meter.release()
	}
	v.record.leaveLocked(v.index, time.Now(), v.body.n)
}

// countingBody counts what the handler reads of the request's body.
type countingBody struct {
	io.ReadCloser
	n int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}

// statusWriter tells which status was sent.
type statusWriter struct {
	http.ResponseWriter
	record func(status int)
	sent   bool
}

func (w *statusWriter) WriteHeader(status int) {
	// Informational headers (1xx) come before the one that counts.
	if !w.sent && status >= 200 {
		w.sent = true
		w.record(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if !w.sent {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController calls to flush.
func (w *statusWriter) FlushError() error {
	if !w.sent {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController find the real writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
