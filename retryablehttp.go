package outflow

import (
	"context"
	"net/http"

	"github.com/hashicorp/go-retryablehttp"
)

// RetryableClient returns a client of github.com/hashicorp/go-retryablehttp that sends through t, for
// code that has one. It leaves the retries to t: one call of it is one RoundTrip, and responses come
// back as they are. A CheckRetry and a PrepareRetry of one's own go into [Retry]. As ever,
// go-retryablehttp reads request bodies into memory.
func (t *Transport) RetryableClient() *retryablehttp.Client {
	return &retryablehttp.Client{
		// Only RoundTrip: go-retryablehttp closes a client's idle connections when a call fails.
		HTTPClient:   &http.Client{Transport: roundTripper{t}},
		CheckRetry:   func(context.Context, *http.Response, error) (bool, error) { return false, nil },
		Backoff:      retryablehttp.DefaultBackoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}

type roundTripper struct{ http.RoundTripper }
