package outflow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// monitorOf returns the URL of a status monitor that a header names; "" if it names none.
func monitorOf(h http.Header) string {
	if at := h.Get("Azure-AsyncOperation"); at != "" {
		return at
	}
	return h.Get("Operation-Location")
}

// follow finds where the next poll goes.
func (p *polling) follow() error {
	base := p.first.URL
	if p.resp.Request != nil && p.resp.Request.URL != nil {
		base = p.resp.Request.URL // a redirect may have led elsewhere
	}
	named := monitorOf(p.resp.Header)
	if named != "" {
		p.monitor = true
	} else if !p.monitor {
		named = p.resp.Header.Get("Location")
	}
	switch {
	case named != "":
	case p.at != nil:
		return nil
	case p.first.Method == http.MethodGet || p.first.Method == "":
		p.at = base
		return nil
	default:
		return fmt.Errorf("the answer, %d, has no Location, Operation-Location or Azure-AsyncOperation to poll", p.resp.StatusCode)
	}
	at, err := base.Parse(named)
	if err != nil {
		return fmt.Errorf("where to poll: %.200q isn't a URL", named)
	}
	switch {
	case at.Scheme != "https" && at.Scheme != "http" || at.Host == "":
		return fmt.Errorf("where to poll: %.200q isn't an http or https URL", named)
	case at.Scheme == "http" && (base.Scheme == "https" || p.first.URL.Scheme == "https"):
		return fmt.Errorf("where to poll: %.200q leads from https to http", withoutQuery(at))
	}
	p.at = at
	return nil
}

// poll sends one poll.
func (p *polling) poll(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.at.String(), nil)
	if err != nil {
		return err
	}
	// Once it has gone elsewhere, nobody there is to make us send the header somewhere at home either.
	p.carry = p.carry && sameOrigin(p.first.URL, req.URL)
	if p.carry {
		req.Host = p.first.Host
		req.Header = pollHeader(p.first.Header, p.client.Jar != nil)
	}
	p.polls++
	p.resp, err = p.client.Do(req)
	if err != nil {
		return err
	}
	if p.resp.Request == nil {
		p.resp.Request = req
	}
	if p.resp.Request.URL == nil {
		return errors.New("the answer is to a request without a URL")
	}
	p.carry = p.carry && sameOrigin(p.first.URL, p.resp.Request.URL)
	return nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && hostOf(a) == hostOf(b) }

// pollHeader is what of the first request's header goes with a poll on the same host.
func pollHeader(first http.Header, jar bool) http.Header {
	h := make(http.Header, len(first))
	for name, values := range first {
		if canonical := http.CanonicalHeaderKey(name); !ofFirstOnly(canonical) && !(jar && canonical == "Cookie") {
			h[name] = append([]string(nil), values...)
		}
	}
	return h
}

// ofFirstOnly reports whether a field is about the request that it came with: its body, what it asked
// to be done and on which condition, or its connection.
func ofFirstOnly(name string) bool {
	switch name {
	case "Idempotency-Key", "X-Idempotency-Key", "Prefer", "Expect", "Range",
		"X-Http-Method", "X-Http-Method-Override", "X-Method-Override",
		"Digest", "Repr-Digest",
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "If-")
}
