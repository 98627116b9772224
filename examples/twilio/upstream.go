package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

// The accounts: a parent, which only signs in, and its three subaccounts, which send.
const (
	parentAccount     = "AC00000000000000000000000000000000"
	briskAccount      = "AC11111111111111111111111111111111"
	otherBriskAccount = "AC22222222222222222222222222222222"
	slowAccount       = "AC33333333333333333333333333333333"
)

// serviceTime is how long the local upstream takes for a message, and what is assumed of any other.
// With 5 at once, the slow account comes to 10 a second, whatever its rate allows.
func serviceTime(account string) time.Duration {
	if account == slowAccount {
		return 500 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// startUpstream starts a server that limits each account as Twilio does, and answers what the SDK
// understands.
//
// The burst of its rate is small: it allows for what a network and a busy machine do to a client's
// pace, and is of little use to a client that just sends.
func startUpstream() (*testserver.Server, error) {
	account := testserver.PathSegment(2) // of /2010-04-01/Accounts/{sid}/Messages.json
	tooMany := testserver.Reply(http.StatusTooManyRequests,
		`{"code": 20429, "status": 429, "message": "Too Many Requests", "more_info": "https://www.twilio.com/docs/errors/20429"}`,
		"Content-Type", "application/json")

	answers := http.NewServeMux()
	for _, sid := range []string{briskAccount, otherBriskAccount, slowAccount} {
		answers.Handle("POST /2010-04-01/Accounts/"+sid+"/Messages.json",
			testserver.After(serviceTime(sid), queued(sid)))
	}

	return testserver.New(
		testserver.GCRA(20, 8).By(account).RefuseWith(tooMany),
		testserver.Concurrency(5).By(account).RefuseWith(tooMany),
	).Answering(answers).StartTCP()
}

// queued answers with a message of the account that waits to be delivered.
func queued(account string) http.Handler {
	var count atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"sid":         fmt.Sprintf("SM%032x", count.Add(1)),
			"account_sid": account,
			"status":      "queued",
		})
	})
}
