package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

// serviceTime is how long the local upstream takes for a call, and what is assumed of any other.
const serviceTime = 10 * time.Millisecond

// startUpstream starts a server that limits as Stripe does, and answers what the SDK understands.
//
// Its bursts are small: they allow for what a network and a busy machine do to a client's pace, and
// are of little use to a client that just sends.
func startUpstream() (*testserver.Server, error) {
	tooMany := testserver.Reply(http.StatusTooManyRequests,
		`{"error": {"type": "invalid_request_error", "code": "rate_limit", "message": "Request rate limit exceeded."}}`,
		"Content-Type", "application/json")

	answers := http.NewServeMux()
	answers.Handle("POST /v1/customers", created("customer", "cus"))
	answers.Handle("POST /v1/charges", created("charge", "ch"))
	answers.Handle("POST /v1/files", created("file", "file"))

	return testserver.New(
		testserver.GCRA(100, 40).RefuseWith(tooMany),
		testserver.GCRA(20, 5).On("POST /v1/files").RefuseWith(tooMany),
	).Answering(testserver.After(serviceTime, answers)).StartTCP()
}

// created answers with an object of Stripe's, and an id of its own.
func created(object, prefix string) http.Handler {
	var count atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id":     fmt.Sprintf("%s_%d", prefix, count.Add(1)),
			"object": object,
		})
	})
}
