package outflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// fleetStart is the README's, too.
func fleetStart(limits []limit.Limit) (*http.Client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: "redis:6379"}) // or Sentinel, or Cluster; Redis 6.2 or later, or Valkey
	store, err := shared.New(rdb, shared.Config{})
	if err != nil {
		return nil, err
	}
	transport, err := outflow.New(outflow.Config{Limits: limits, Store: store})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport}, nil
}

// quickStart is the README's; TestReadmeQuickStartCompiles compares the two.
func quickStart() error {
	transport, err := outflow.New(outflow.Config{
		Limits: []limit.Limit{limit.PerSecond(25), limit.Concurrent(10)},
	})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport}
	resp, err := client.Get("https://api.example.com/v1/things")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// readmeRules are the README's, too.
var readmeRules = outflow.Config{
	Rules: []outflow.Rule{
		{Match: "api.stripe.com/", Limits: []limit.Limit{limit.PerSecond(100)}},
		{Match: "POST api.stripe.com/v1/files", Limits: []limit.Limit{limit.PerSecond(20)}},
		{Match: "api.twilio.com/2010-04-01/Accounts/{sid}/", Key: outflow.PathValue("sid"),
			Limits: []limit.Limit{limit.PerSecond(10), limit.Concurrent(50)}},
	},
}

// An upstream that refuses once: the caller never sees it.
func ExampleTransport() {
	refused := false
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refused {
			refused = true
			w.Header().Set("Retry-After", "0.05")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer upstream.Close()

	transport, err := outflow.New(outflow.Config{
		Limits: []limit.Limit{limit.PerSecond(100)},
		Queue:  leakyqueue.Config{MaxWaiting: 1000, MaxWait: time.Minute},
		Retry:  outflow.Retry{MaxAttempts: 3},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer transport.Close(context.Background())

	var trace outflow.Trace
	ctx := outflow.WithTrace(context.Background(), &trace)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, upstream.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, trace.Attempts, trace.Queued > 40*time.Millisecond)
	// Output: 200 2 true
}

// An export that takes a while: the upstream says where to ask and when.
func ExamplePoll() {
	polls := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.Header().Set("Location", "/operations/7")
			w.Header().Set("Retry-After", "0.1")
			w.WriteHeader(http.StatusAccepted)
		case polls < 2:
			polls++
			w.Header().Set("Retry-After", "0.1")
			w.WriteHeader(http.StatusAccepted)
		default:
			fmt.Fprint(w, "the export")
		}
	}))
	defer upstream.Close()

	transport, err := outflow.New(outflow.Config{Limits: []limit.Limit{limit.PerSecond(100)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	resp, err := client.Post(upstream.URL+"/exports", "text/plain", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err = outflow.Poll(context.Background(), client, resp, outflow.PollConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body), err)
	// Output: 200 the export <nil>
}

// An upstream with rules of its own for when an operation is over: Google's operations are resources
// that get a "done", and an "error" if they failed.
func ExamplePoll_done() {
	polls := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		polls++
		fmt.Fprintf(w, `{"name": "operations/7", "done": %v}`, polls == 3)
	}))
	defer upstream.Close()

	client := upstream.Client()
	resp, err := client.Get(upstream.URL + "/v1/operations/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err = outflow.Poll(context.Background(), client, resp, outflow.PollConfig{
		Every:    outflow.PollFloor,
		MaxEvery: outflow.PollFloor,
		Done: func(_ *http.Response, body []byte) (bool, error) {
			var operation struct{ Done bool }
			err := json.Unmarshal(body, &operation)
			return operation.Done, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, polls)
	// Output: 200 3
}

// What is wrong with a configuration is said when the Transport is made.
func ExampleNew_invalid() {
	_, err := outflow.New(outflow.Config{
		Rules: []outflow.Rule{{Match: "api.example.com/{account}/", Key: outflow.PathValue("acount")}},
	})
	fmt.Println(err)
	// Output: outflow: Config.Rules[0].Key: PathValue("acount"): no such wildcard in Match "api.example.com/{account}/"
}

// A request that can't leave in time is told when it could have.
func ExampleError() {
	transport, err := outflow.New(outflow.Config{
		Rules: []outflow.Rule{{Name: "reports", Match: "/reports", Limits: []limit.Limit{limit.Per(1, time.Hour)}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for range 2 {
		var resp *http.Response
		if resp, err = client.Get(upstream.URL + "/reports"); err == nil {
			resp.Body.Close()
		}
	}
	told, _ := errors.AsType[*outflow.Error](err)
	fmt.Println(errors.Is(err, outflow.ErrDeadline), told.Bucket, time.Until(told.Earliest) > 59*time.Minute)
	// Output: true reports true
}

// For upstreams whose accounts have limits of their own, anything of the request can be the key.
func ExampleKeyFunc() {
	tenant := outflow.KeyFunc(func(r *http.Request) string { return r.Header.Get("X-Tenant") })
	_, err := outflow.New(outflow.Config{
		Rules: []outflow.Rule{{Match: "/", Key: tenant, Limits: []limit.Limit{limit.PerSecond(5)}}},
	})
	fmt.Println(err)
	// Output: <nil>
}
