// Command stripe makes 300 calls with Stripe's own SDK from 64 workers, as fast as Stripe's limits
// allow and no faster:
//
//	go run ./stripe            # with outflow: not one call fails
//	go run ./stripe -without   # the same work, the same SDK, no outflow
//
// By default it talks to a local upstream that enforces the limits; -base-url names another, such as
// a stripe-mock.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/examples/internal/workload"
	"github.com/outflow-go/outflow/limit"
)

// What Stripe allows an account, and so what we keep to. An upload counts in both: it is a file, and it
// is a call of the API like any other.
//
// The small burst keeps the rate up on a busy machine: what couldn't be sent for a fifth of a second
// is sent right after.
var (
	apiLimit   = limit.PerSecond(100).WithBurst(20)
	filesLimit = limit.PerSecond(20)
)

func main() { workload.Main(300, run) }

func run(ctx context.Context, o workload.Options) (workload.Report, error) {
	if o.BaseURL == "" {
		server, err := startUpstream()
		if err != nil {
			return workload.Report{}, err
		}
		defer server.Close()
		o.BaseURL = server.URL
	}

	// The wire counts what is really sent. Everything else about it is plain net/http.
	wire := workload.NewWire(o.Workers)
	defer wire.CloseIdleConnections()
	httpClient := &http.Client{Transport: wire}

	// This is all there is to outflow: a Transport between the client and the wire.
	if !o.Without {
		transport, err := outflow.New(outflow.Config{
			Base: wire,
			Rules: []outflow.Rule{
				// Every rule that matches a request applies to it. Neither names a host, because
				// with -base-url it may be any; without it the SDK would use api.stripe.com, and
				// files.stripe.com for uploads.
				{Name: "api", Match: "/v1/", Limits: []limit.Limit{apiLimit}},
				{Name: "files", Match: "POST /v1/files", Limits: []limit.Limit{filesLimit}},
			},
		})
		if err != nil {
			return workload.Report{}, err
		}
		defer transport.Close(ctx)
		httpClient.Transport = transport
	}

	calls, files := mixedCalls(newClient(o.BaseURL, httpClient), o.Requests)
	result := workload.Run(ctx, calls, o)

	// Nobody can be done before the slower of the two limits has let everything through.
	ideal := max(
		workload.Ideal(len(calls), serviceTime, apiLimit),
		workload.Ideal(files, serviceTime, filesLimit),
	)
	return workload.NewReport(o, result, wire, ideal), nil
}

// newClient is the SDK as anybody would set it up.
func newClient(baseURL string, httpClient *http.Client) *stripe.Client {
	return stripe.NewClient(
		cmp.Or(os.Getenv("STRIPE_API_KEY"), "sk_test_123"),
		stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
			URL:        stripe.String(baseURL),
			HTTPClient: httpClient,
			// Retrying is outflow's job: it knows when the next one may leave. Retries of the SDK would
			// come on top, each of them a new request to outflow.
			MaxNetworkRetries: stripe.Int64(0),
			// Failures are reported at the end, not one by one.
			LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		})),
	)
}

// mixedCalls are n calls of three kinds, and how many of them upload a file: one in eight.
func mixedCalls(client *stripe.Client, n int) (calls []workload.Call, files int) {
	for i := range n {
		switch {
		case i%8 == 7:
			files++
			calls = append(calls, func(ctx context.Context) error { return upload(ctx, client, i) })
		case i%2 == 0:
			calls = append(calls, func(ctx context.Context) error { return createCustomer(ctx, client, i) })
		default:
			calls = append(calls, func(ctx context.Context) error { return createCharge(ctx, client, i) })
		}
	}
	return calls, files
}

func createCustomer(ctx context.Context, client *stripe.Client, i int) error {
	_, err := client.V1Customers.Create(ctx, &stripe.CustomerCreateParams{
		Name: stripe.String(fmt.Sprintf("Customer %d", i)),
	})
	return err
}

func createCharge(ctx context.Context, client *stripe.Client, i int) error {
	params := &stripe.ChargeCreateParams{
		Amount:   new(int64(100 + i)),
		Currency: stripe.String(string(stripe.CurrencyEUR)),
	}
	if err := params.SetSource("tok_visa"); err != nil {
		return err
	}
	_, err := client.V1Charges.Create(ctx, params)
	return err
}

func upload(ctx context.Context, client *stripe.Client, i int) error {
	_, err := client.V1Files.Create(ctx, &stripe.FileCreateParams{
		Purpose:    stripe.String(string(stripe.FilePurposeDisputeEvidence)),
		Filename:   stripe.String(fmt.Sprintf("receipt-%d.txt", i)),
		FileReader: strings.NewReader("Paid in full.\n"),
	})
	return err
}
