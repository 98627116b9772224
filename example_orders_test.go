package outflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// A language model's API counts requests and tokens. How many tokens a request takes is known when it has
// been answered; until then it counts with what it asks for at most.
func ExampleRule_settle() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"text": "hello", "usage": {"total_tokens": 120}}`)
	}))
	defer upstream.Close()

	transport, err := outflow.New(outflow.Config{Rules: []outflow.Rule{
		{Match: "/v1/", Name: "requests", Limits: []limit.Limit{limit.FixedWindow(500, time.Minute)}},
		{
			Match:  "/v1/",
			Name:   "tokens",
			Limits: []limit.Limit{limit.SlidingWindow(10_000, time.Minute)},
			Cost:   func(*http.Request) int { return 4000 }, // its max_tokens
			Settle: func(resp *http.Response) (int, bool) {
				var answer struct {
					Usage struct {
						TotalTokens int `json:"total_tokens"`
					}
				}
				err := json.NewDecoder(resp.Body).Decode(&answer)
				return answer.Usage.TotalTokens, err == nil
			},
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	start := time.Now()
	for range 10 { // 40,000 tokens are asked for, 1,200 taken
		resp, err := client.Post(upstream.URL+"/v1/chat", "application/json", strings.NewReader("{}"))
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	fmt.Println(time.Since(start) < 10*time.Second)
	// Output: true
}

// Interactive requests go before batch work, and tenants take turns.
func ExampleWithPriority() {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	transport, err := outflow.New(outflow.Config{Limits: []limit.Limit{limit.PerSecond(100)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := outflow.WithPriority(context.Background(), leakyqueue.High)
	ctx = outflow.WithFlow(ctx, "tenant-7")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, upstream.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 404
}

// Of a tight limit, try out first whether it would hold anybody.
func ExampleRule_shadow() {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	transport, err := outflow.New(outflow.Config{Rules: []outflow.Rule{
		{Match: "/", Name: "trial", Limits: []limit.Limit{limit.Per(2, time.Hour).WithBurst(2)}, Shadow: true},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 5 {
		resp, err := (&http.Client{Transport: transport}).Get(upstream.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	for _, b := range transport.Stats().Buckets {
		if b.Rule == "trial" {
			fmt.Printf("%d of %d would have been held\n", b.Counts.Late, b.Counts.Departed)
		}
	}
	// Output: 3 of 5 would have been held
}

// A limit found out at run time takes the place of the one that was declared.
func ExampleTransport_SetLimits() {
	transport, err := outflow.New(outflow.Config{Rules: []outflow.Rule{
		{Match: "api.example.com/", Limits: []limit.Limit{limit.PerSecond(5)}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(transport.SetLimits("api.example.com/", limit.PerSecond(50), limit.Concurrent(10)))
	fmt.Println(transport.SetLimits("api.example.com/", limit.PerSecond(0)))
	// Output:
	// <nil>
	// outflow: SetLimits: leakyqueue: rule "api.example.com/": limits[0]: invalid limit: rate of 0 per 1s: n is 0, want a finite number above 0
}
