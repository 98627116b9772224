package outflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/outflow-go/outflow/backoff"
	"github.com/outflow-go/outflow/headers"
)

// PollFloor is the shortest time between an answer and the next poll, whatever the upstream says.
const PollFloor = 100 * time.Millisecond

const (
	defaultPollEvery     = time.Second
	defaultPollMaxEvery  = 30 * time.Second
	defaultMaxRetryAfter = time.Hour

	// maxPollBody is how much of an answer Done is shown.
	maxPollBody = 1 << 20
)

// ErrMaxPolls is the reason of a [PollError] after PollConfig.MaxPolls polls.
var ErrMaxPolls = errors.New("still not done")

// PollConfig says how [Poll] polls. The zero PollConfig is usable.
type PollConfig struct {
	// Every is the least time between an answer that doesn't say when to come again and the next
	// poll. At least PollFloor. Defaults to 1 s.
	Every time.Duration

	// MaxEvery is the most that time grows to. While answers don't say, each wait is drawn between
	// Every and twice the one before. At least Every. Defaults to 30 s, or to Every if that is more.
	MaxEvery time.Duration

	// MaxRetryAfter bounds how long an answer can put off the next poll; one that asks for more is
	// polled after MaxRetryAfter. At least PollFloor. Defaults to 1 h.
	MaxRetryAfter time.Duration

	// MaxPolls bounds the number of polls. Zero: as many as the context has time for. It can't be
	// negative.
	MaxPolls int

	// Done decides whether an answer with a 2xx status is the last, in place of Poll's own rules; the
	// first, which was Poll's argument, is asked about as well. Body is the answer's, up to 1 MiB of
	// it. Done doesn't read resp.Body and keeps neither argument. An error ends the polling.
	Done func(resp *http.Response, body []byte) (bool, error)
}

// Poll waits for the end of a long-running operation that resp, the answer to the request that began it,
// tells of, and returns the last answer. Polls are sent by client (nil: http.DefaultClient): over a
// [Transport] they keep its limits, and it sees to refusals and retries.
//
//	resp, err := client.Post("https://api.example.com/v1/exports", "application/json", body)
//	if err != nil {
//		return err
//	}
//	resp, err = outflow.Poll(ctx, client, resp, outflow.PollConfig{})
//
// # When it is over
//
// An answer of any other status than 2xx is the last: a response is no error, here as in http.Client. So is
// one of 2xx, except that there is more to come
//
//   - after a 202 (RFC 9110 §15.3.3);
//   - after a first answer that names a status monitor in Azure-AsyncOperation or Operation-Location;
//   - after a status monitor's document with a "status" other than Succeeded, Failed, Canceled or Cancelled,
//     in any letter case. A document with one of those is the last answer even with 202. Without one, the
//     HTTP status decides.
//
// These are the rules of Azure's guidelines
// (https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations and
// https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md). The last answer may tell of a
// failure; and where the document of a monitor only points to the result, it is for the caller to get.
// [PollConfig.Done] has other rules, for instance for Google's {"done": true}.
//
// # Where it polls
//
// With GET, at the URL of Azure-AsyncOperation, Operation-Location or Location, in this order; relative ones
// are resolved against the URL of the answer. Every answer may name another URL, but no Location takes the
// place of a monitor. After an answer that names none, the same URL is polled again; for a first answer to a GET,
// that is its own: so it works for resources that are their own monitor. Any other first answer without a
// URL is an error.
// Redirects are followed by client, as ever; what a 302 or 303 leads to is the result, not a monitor.
//
// The first request's header goes with every poll, but for the fields that describe that request (Content-*,
// If-*, Idempotency-Key and the like), and but for Cookie if client has a Jar; as long as all answers and
// polls are of the first's scheme, host and port. Once they aren't, no field of it is sent to anybody. From
// https it doesn't go to http. What the client's Transport adds by itself is the Transport's business.
//
// # When it polls
//
// When the answer says, in any form of Retry-After that package headers knows, but no sooner than
// [PollFloor] and no later than MaxRetryAfter. Answers that don't say are polled after Every, then more and
// more seldom, up to MaxEvery.
//
// # Ownership and errors
//
// Poll takes resp over: its body is closed, unless resp is itself the last answer. The body need not be
// unread, except for Done. The body of the last answer is whole, and for the caller to close.
//
// With an error there is no response. It is a [*PollError], unless PollConfig or resp is unusable; its reason
// is that of client; or the context's, when that has ended; or [ErrDeadline], at once, when the next poll would
// come after the context's deadline; or [ErrMaxPolls]; or what Done returned.
//
// Poll may be called from several goroutines at once.
func Poll(ctx context.Context, client *http.Client, resp *http.Response, cfg PollConfig) (*http.Response, error) {
	p := polling{client: client, resp: resp}
	defer p.close()
	if resp == nil || resp.Request == nil || resp.Request.URL == nil {
		return nil, errors.New("outflow: Poll wants a response with its Request")
	}
	p.first = resp.Request
	p.carry = true
	if p.client == nil {
		p.client = http.DefaultClient
	}
	var err error
	if p.cfg, err = cfg.withDefaults(); err != nil {
		return nil, fmt.Errorf("outflow: PollConfig.%w", err)
	}
	for {
		over, err := p.over(ctx)
		if err != nil {
			return nil, p.failed(err)
		}
		if over {
			last := p.resp
			p.resp = nil
			return last, nil
		}
		if err := p.follow(); err != nil {
			return nil, p.failed(err)
		}
		if err := p.wait(ctx); err != nil {
			return nil, p.failed(err)
		}
		if err := p.poll(ctx); err != nil {
			return nil, p.failed(err)
		}
	}
}

func (c PollConfig) withDefaults() (PollConfig, error) {
	if c.Every == 0 {
		c.Every = defaultPollEvery
	}
	if c.MaxEvery == 0 {
		c.MaxEvery = max(c.Every, defaultPollMaxEvery)
	}
	if c.MaxRetryAfter == 0 {
		c.MaxRetryAfter = defaultMaxRetryAfter
	}
	switch {
	case c.Every < PollFloor:
		return c, fmt.Errorf("Every is %v, want %v or more, or 0 for %v", c.Every, PollFloor, defaultPollEvery)
	case c.MaxEvery < c.Every:
		return c, fmt.Errorf("MaxEvery is %v, want Every, %v, or more, or 0", c.MaxEvery, c.Every)
	case c.MaxRetryAfter < PollFloor:
		return c, fmt.Errorf("MaxRetryAfter is %v, want %v or more, or 0 for %v", c.MaxRetryAfter, PollFloor, defaultMaxRetryAfter)
	case c.MaxPolls < 0:
		return c, fmt.Errorf("MaxPolls is %d, want 1 or more, or 0 for any number", c.MaxPolls)
	}
	return c, nil
}

// A PollError says why Poll gave up on an operation, which may well go on. It can be followed further from
// where it was: with a GET of URL, and Poll with the answer to that.
type PollError struct {
	URL   *url.URL // where the next poll would have gone, or the failed one went; nil if that isn't known
	Polls int      // how many were sent
	Err   error    // why
}

// Error doesn't show the query of URL, where some upstreams have secrets.
func (e *PollError) Error() string {
	where := ""
	if e.URL != nil {
		where = " of " + withoutQuery(e.URL)
	}
	return fmt.Sprintf("outflow: after %d polls%s: %v", e.Polls, where, e.Err)
}

func withoutQuery(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// Unwrap returns Err.
func (e *PollError) Unwrap() error { return e.Err }

// polling is one call of Poll.
type polling struct {
	client *http.Client
	cfg    PollConfig
	first  *http.Request  // what began the operation
	resp   *http.Response // the latest answer; nil when it isn't ours to close any more

	carry   bool     // first's header may go with the next poll
	at      *url.URL // where to poll; nil before the first poll
	monitor bool     // that is a status monitor
	polls   int
	own     time.Duration // the latest wait that was not the upstream's
	timer   *time.Timer   // the one that all waits use; nil before the first
}

func (p *polling) close() {
	if p.timer != nil {
		p.timer.Stop()
	}
	discard(p.resp)
}

func (p *polling) failed(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok && e == err {
		err = e.Err // PollError says where
	}
	return &PollError{URL: p.at, Polls: p.polls, Err: err}
}

// over reports whether the latest answer is the last.
func (p *polling) over(ctx context.Context) (bool, error) {
	switch {
	case p.resp.StatusCode < 200 || p.resp.StatusCode > 299:
		return true, nil
	case p.cfg.Done != nil:
		body, err := peek(ctx, p.resp)
		if err != nil {
			return false, err
		}
		return p.cfg.Done(p.resp, body)
	case p.polls == 0 && monitorOf(p.resp.Header) != "":
		return false, nil
	case p.monitor && !seenElsewhere(p.resp):
		body, err := peek(ctx, p.resp)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(statusOf(body)) {
		case "succeeded", "failed", "canceled", "cancelled":
			return true, nil
		case "":
		default:
			return false, nil
		}
	}
	return p.resp.StatusCode != http.StatusAccepted, nil
}

// statusOf returns the status in a monitor's document; "" if it hasn't one.
func statusOf(body []byte) string {
	var document struct{ Status string }
	if json.Unmarshal(body, &document) != nil {
		return ""
	}
	return document.Status
}

// seenElsewhere reports whether the client was sent on to what the operation has made. What has merely
// moved (301, 307, 308) is still the same.
func seenElsewhere(resp *http.Response) bool {
	if resp.Request == nil || resp.Request.Response == nil {
		return false
	}
	code := resp.Request.Response.StatusCode
	return code == http.StatusFound || code == http.StatusSeeOther
}

// peek returns the beginning of a response's body, which stays whole. The first answer's has a context of
// its own, so it is ours that must end the reading.
func peek(ctx context.Context, resp *http.Response) ([]byte, error) {
	if resp.Body == nil {
		return nil, nil
	}
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() })
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPollBody))
	if !stop() {
		return nil, contextError(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	return body, nil
}

// wait waits until the next poll is due. It first gives up the answer, whose slots the poll may need.
func (p *polling) wait(ctx context.Context) error {
	d := headers.ParseHeader(p.resp.StatusCode, p.resp.Header, time.Now()).RetryAfter
	if d <= 0 {
		// Decorrelated is the jitter that never draws below its base.
		growing := backoff.Policy{Base: p.cfg.Every, Cap: p.cfg.MaxEvery, Factor: 2, Jitter: backoff.Decorrelated}
		p.own = growing.Delay(p.polls+1, p.own)
		d = p.own
	} else {
		d = max(min(d, p.cfg.MaxRetryAfter), PollFloor)
	}
	resp := p.resp
	p.resp = nil
	discard(resp)

	if p.cfg.MaxPolls > 0 && p.polls >= p.cfg.MaxPolls {
		return ErrMaxPolls
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return fmt.Errorf("%w: the next poll is due in %v: %w", ErrDeadline, d, context.DeadlineExceeded)
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// contextError is why ctx has ended: its error, and its cause if that is another.
func contextError(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
