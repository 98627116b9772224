package outflow_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// Two installations of an app, each of which the upstream allows 5,000 requests an hour. A request goes
// with the one that may leave first, and who calls knows nothing of tokens.
func ExampleRule_pool() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Authorization"))
	}))
	defer upstream.Close()

	tokens := map[string]string{"berlin": "s3cr3t", "tokyo": "h1dd3n"} // from a vault, say
	transport, err := outflow.New(outflow.Config{
		Rules: []outflow.Rule{{
			Match:  "/",
			Pool:   []string{"berlin", "tokyo"}, // shown in errors and statistics
			Use:    func(req *http.Request, member string) { req.Header.Set("Authorization", "Bearer "+tokens[member]) },
			Limits: []limit.Limit{limit.Per(5000, time.Hour)},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for range 2 {
		resp, err := client.Get(upstream.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	// Output:
	// Bearer s3cr3t
	// Bearer h1dd3n
}
