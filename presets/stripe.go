package presets

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// Stripe has Stripe's limits, by API key:
//
//   - "stripe": 100 requests a second in live mode;
//   - "stripe sandbox": 25 a second with a key of a sandbox, or of test mode (sk_test_, rk_test_);
//   - "stripe endpoint": 25 a second for each operation, such as GET /v1/customers/{id};
//   - "stripe payouts": 15 a second, and 30 at once, that make a payout;
//   - "stripe sandbox accounts": 5 a second that make an account for Connect in a sandbox;
//   - "stripe search": 20 a second for all searches together;
//   - "stripe file reads" and "stripe file uploads": 20 a second each.
//
// Stripe counts by account: with several keys of one account, give the rules the zero Key. Uploads go to
// files.stripe.com and aren't part of "stripe" here. Meter events, for which 1,000 a second are
// documented, are left out. There is a limit on concurrency, too, for which Stripe gives no figure, and there
// are limits for objects (1,000 updates an hour of a PaymentIntent, 10 invoices a minute of a
// Subscription), which are no matter of pace.
//
// Retries obey Stripe-Should-Retry, as Stripe's own SDKs do. A POST is only repeated with an
// Idempotency-Key, unless that header says so.
func Stripe() Preset {
	hosts := []string{"api.stripe.com", "files.stripe.com"}
	key := Credential("Authorization")
	return Preset{
		Source:  "https://docs.stripe.com/rate-limits",
		Checked: "2026-11-21",
		Hosts:   hosts,
		Rules: []outflow.Rule{
			{Name: "stripe", Match: "api.stripe.com/", When: stripeLive, Key: key, Limits: spaced(100, time.Second)},
			{Name: "stripe sandbox", Match: "api.stripe.com/", When: ofSandbox, Key: key, Limits: spaced(25, time.Second)},
			{Name: "stripe endpoint", Match: "api.stripe.com/v1/", When: notMeterEvents, Key: within(stripeOperation), Limits: spaced(25, time.Second)},
			{Name: "stripe payouts", Match: "POST api.stripe.com/v1/payouts", Key: key, Limits: append(spaced(15, time.Second), limit.Concurrent(30))},
			{Name: "stripe sandbox accounts", Match: "POST api.stripe.com/v1/accounts", When: ofSandbox, Key: key, Limits: spaced(5, time.Second)},
			{Name: "stripe search", Match: "GET api.stripe.com/v1/{resource}/search", Key: key, Limits: spaced(20, time.Second)},
			{Name: "stripe file reads", Match: "GET api.stripe.com/v1/", When: stripeFile, Key: key, Limits: spaced(20, time.Second)},
			{Name: "stripe file uploads", Match: "POST files.stripe.com/v1/files", Key: key, Limits: spaced(20, time.Second)},
		},
		Retry: retry(hosts, func(resp *http.Response) (again, decided bool) {
			switch resp.Header.Get("Stripe-Should-Retry") {
			case "true":
				return true, true
			case "false":
				return false, true
			}
			return false, false
		}),
	}
}

func stripeLive(req *http.Request) bool { return notMeterEvents(req) && !ofSandbox(req) }

// ofSandbox tells by the key, which is a bearer token or the user of Basic authentication.
func ofSandbox(req *http.Request) bool {
	key, _, basic := req.BasicAuth()
	if !basic {
		_, key, _ = strings.Cut(req.Header.Get("Authorization"), " ")
	}
	return strings.HasPrefix(key, "sk_test_") || strings.HasPrefix(key, "rk_test_")
}

func notMeterEvents(req *http.Request) bool { return req.URL.Path != "/v1/billing/meter_events" }

func stripeFile(req *http.Request) bool {
	return req.URL.Path == "/v1/files" || strings.HasPrefix(req.URL.Path, "/v1/files/")
}

// stripeNamespaces are the resources of which the next segment is a resource, too, and not an id.
var stripeNamespaces = []string{
	"apps", "billing", "billing_portal", "checkout", "climate", "entitlements", "financial_connections", "forwarding", "identity",
	"issuing", "radar", "reporting", "sigma", "tax", "terminal", "test_helpers", "treasury",
}

// stripeOperation names what Stripe counts as an endpoint. In its paths resources and ids take turns. What
// isn't an id and stands where one would ("search") is taken for one; the operation then shares the limit
// of another, which errs on the safe side.
func stripeOperation(req *http.Request) string {
	segments := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	id := false
	for i, s := range segments[1:] { // after v1
		if id {
			segments[i+1] = "{id}"
		}
		id = !id && !slices.Contains(stripeNamespaces, s)
	}
	return method(req) + " /" + strings.Join(segments, "/")
}

func method(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}
