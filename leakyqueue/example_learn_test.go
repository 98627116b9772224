package leakyqueue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// A message broker has said how much it takes, and how much of that is left.
func ExampleTicket_Answered() {
	q, err := leakyqueue.New(leakyqueue.Config{})
	if err != nil {
		panic(err)
	}
	broker, err := q.AddRule("broker")
	if err != nil {
		panic(err)
	}
	broker.Learn(leakyqueue.Learning{})

	key := leakyqueue.Key{Rule: broker}
	ticket, err := q.Acquire(context.Background(), leakyqueue.Demand{Keys: []leakyqueue.Key{key}})
	if err != nil {
		panic(err)
	}
	ticket.Answered(leakyqueue.Answer{Quotas: []leakyqueue.Quota{
		{Unit: "requests", Limit: 100, Remaining: 0, Reset: time.Minute},
	}})
	ticket.Done()

	next, err := q.Earliest(leakyqueue.Demand{Keys: []leakyqueue.Key{key}})
	if err != nil {
		panic(err)
	}
	fmt.Println("the next may leave in", time.Until(next).Round(time.Second))
	// Output: the next may leave in 1m0s
}
