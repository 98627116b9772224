// Command twilio sends 140 messages with Twilio's own SDK from 64 workers for three accounts, each of
// which has a rate and a concurrency of its own:
//
//	go run ./twilio            # with outflow: not one call fails
//	go run ./twilio -without   # the same work, the same SDK, no outflow
//
// By default it talks to a local upstream that enforces the limits; -base-url names another.
package main

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"time"

	"github.com/twilio/twilio-go"
	"github.com/twilio/twilio-go/client"
	api "github.com/twilio/twilio-go/rest/api/v2010"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/examples/internal/workload"
	"github.com/outflow-go/outflow/limit"
)

// What each account is allowed: both hold. The small burst keeps the rate up on a busy machine: what
// couldn't be sent for a tenth of a second is sent right after.
var accountLimits = []limit.Limit{limit.PerSecond(20).WithBurst(3), limit.Concurrent(5)}

func main() { workload.Main(140, run) }

func run(ctx context.Context, o workload.Options) (workload.Report, error) {
	if o.BaseURL == "" {
		server, err := startUpstream()
		if err != nil {
			return workload.Report{}, err
		}
		defer server.Close()
		o.BaseURL = server.URL
	}

	// The SDK always sends to api.twilio.com. The wire takes it elsewhere, below outflow, whose rules
	// therefore are what they would be in production.
	wire := workload.NewWire(o.Workers)
	defer wire.CloseIdleConnections()
	if err := wire.RedirectTo(o.BaseURL); err != nil {
		return workload.Report{}, err
	}
	httpClient := &http.Client{Transport: wire}

	// This is all there is to outflow: a Transport between the client and the wire.
	if !o.Without {
		transport, err := outflow.New(outflow.Config{
			Base: wire,
			Rules: []outflow.Rule{{
				// Each account that shows up in a path gets a bucket with these limits.
				Match:  "api.twilio.com/2010-04-01/Accounts/{sid}/",
				Key:    outflow.PathValue("sid"),
				Limits: accountLimits,
			}},
		})
		if err != nil {
			return workload.Report{}, err
		}
		defer transport.Close(ctx)
		httpClient.Transport = transport
	}

	calls, perAccount := messages(newClient(httpClient), o.Requests)
	result := workload.Run(ctx, calls, o)

	// The accounts don't share anything, so the one that takes longest decides.
	var ideal time.Duration
	for account, n := range perAccount {
		ideal = max(ideal, workload.Ideal(n, serviceTime(account), accountLimits...))
	}
	return workload.NewReport(o, result, wire, ideal), nil
}

// newClient is the SDK as anybody would set it up, but for the HTTP client: one without a timeout,
// because the SDK's own of ten seconds would also count the time in outflow's queue.
func newClient(httpClient *http.Client) *twilio.RestClient {
	sid := cmp.Or(os.Getenv("TWILIO_ACCOUNT_SID"), parentAccount)
	base := &client.Client{
		Credentials: client.NewCredentials(sid, cmp.Or(os.Getenv("TWILIO_AUTH_TOKEN"), "token")),
		HTTPClient:  httpClient,
	}
	base.SetAccountSid(sid)
	return twilio.NewRestClientWithParams(twilio.ClientParams{Client: base})
}

// messages are n messages, and how many of them each account sends: six of seven the two brisk ones,
// which their rate holds back, and one of seven the slow one, which its concurrency does.
func messages(client *twilio.RestClient, n int) (calls []workload.Call, perAccount map[string]int) {
	turns := []string{
		briskAccount, otherBriskAccount, briskAccount, otherBriskAccount, briskAccount, otherBriskAccount,
		slowAccount,
	}
	perAccount = make(map[string]int)
	for i := range n {
		account := turns[i%len(turns)]
		perAccount[account]++
		calls = append(calls, func(context.Context) error { return send(client, account) })
	}
	return calls, perAccount
}

// send has no use for a context: the SDK takes none.
func send(client *twilio.RestClient, account string) error {
	params := &api.CreateMessageParams{}
	params.SetPathAccountSid(account)
	params.SetFrom("+15005550006")
	params.SetTo("+15005550009")
	params.SetBody("Your parcel is on its way.")
	_, err := client.Api.CreateMessage(params)
	return err
}
