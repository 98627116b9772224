package workload

import (
	"net/http"
	"net/url"
	"sync/atomic"
)

// A Wire is the RoundTripper next to the network. It counts what goes over it: attempts, not calls.
type Wire struct {
	Attempts  atomic.Int64
	Throttled atomic.Int64 // answers with 429

	base http.RoundTripper
	to   *url.URL // nil: where the request says
}

// NewWire returns a Wire for the given number of workers.
func NewWire(workers int) *Wire {
	base := http.DefaultTransport.(*http.Transport).Clone()
	// The default keeps two idle connections to a host: with more workers, most requests would open
	// a connection and throw it away.
	base.MaxIdleConns = workers
	base.MaxIdleConnsPerHost = workers
	return &Wire{base: base}
}

// RedirectTo sends every request to another host, for an SDK that can't be told its base URL. The
// layers above still see the host that the SDK meant.
func (w *Wire) RedirectTo(baseURL string) error {
	u, err := url.Parse(baseURL)
	if err != nil {
		return err
	}
	w.to = u
	return nil
}

// RoundTrip counts and sends the request.
func (w *Wire) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req
	if w.to != nil {
		out = redirected(req, w.to)
	}
	w.Attempts.Add(1)
	resp, err := w.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	resp.Request = req // as the layers above know it
	if resp.StatusCode == http.StatusTooManyRequests {
		w.Throttled.Add(1)
	}
	return resp, nil
}

// CloseIdleConnections closes the connections that no request uses.
func (w *Wire) CloseIdleConnections() {
	if base, ok := w.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// redirected returns a copy: a RoundTripper doesn't change the request that it was given.
func redirected(req *http.Request, to *url.URL) *http.Request {
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = to.Scheme, to.Host, to.Host
	return out
}
