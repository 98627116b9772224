package breaker_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/breaker"
)

func ExampleNew() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer upstream.Close()

	transport, err := outflow.New(outflow.Config{
		Breaker: breaker.New(gobreaker.Settings{
			Timeout:     30 * time.Second,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for range 4 {
		resp, err := client.Get(upstream.URL)
		if errors.Is(err, outflow.ErrBreakerOpen) {
			fmt.Println("use what is cached")
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 500 Internal Server Error
	// 500 Internal Server Error
	// 500 Internal Server Error
	// use what is cached
}
