package leakyqueue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// A daily quota of which a tenth is kept for interactive requests: batch work gets it lent as the day goes
// by, and has used all of it in the end.
func ExampleDemand_headroom() {
	q, err := leakyqueue.New(leakyqueue.Config{}, limit.FixedWindow(1000, 24*time.Hour).WithHeadroom(0.1))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	batch := 0
	for {
		if at, err := q.Earliest(leakyqueue.Demand{Priority: leakyqueue.Low}); err != nil || time.Until(at) > time.Second {
			break
		}
		if _, err := q.Depart(ctx, leakyqueue.Demand{Priority: leakyqueue.Low}, nil); err != nil {
			fmt.Println(err)
			return
		}
		batch++
	}
	_, err = q.Depart(ctx, leakyqueue.Demand{Priority: leakyqueue.High}, nil)
	fmt.Println(batch, err)
	// Output: 900 <nil>
}

// A limit for all and one for each account hold jointly: neither is charged for a departure that the
// other delays, and the accounts share the first one fairly.
func ExampleQueue_AddRule() {
	q, err := leakyqueue.New(leakyqueue.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := q.AddRule("all", limit.PerSecond(1000))
	if err != nil {
		fmt.Println(err)
		return
	}
	accounts, err := q.AddRule("account", limit.PerSecond(100).WithBurst(5))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, account := range []string{"a", "b", "a"} {
		_, err := q.Depart(context.Background(), leakyqueue.Demand{
			Keys: []leakyqueue.Key{{Rule: all}, {Rule: accounts, Value: account}},
		}, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, b := range q.Stats() {
		fmt.Println(b.Rule, b.Key, b.Counts.Departed)
	}
	// Output:
	// account a 2
	// account b 1
	// all  3
}

// Flows take turns, as their weights have it; the name of a flow is whatever tells tenants apart.
func ExampleDemand_flows() {
	q, err := leakyqueue.New(leakyqueue.Config{Weights: map[string]int{"paying": 3}}, limit.PerSecond(100))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = q.Depart(context.Background(), leakyqueue.Demand{Flow: "paying"}, nil)
	fmt.Println(err)
	// Output: <nil>
}

// The true cost of a departure is told when it is known.
func ExampleTicket_Settle() {
	q, err := leakyqueue.New(leakyqueue.Config{}, limit.SlidingWindow(1000, time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	ticket, err := q.Acquire(context.Background(), leakyqueue.Demand{Cost: 800})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ticket.Settle(300))
	ticket.Done()
	at, err := q.Earliest(leakyqueue.Demand{Cost: 700})
	fmt.Println(time.Until(at) <= 0, err)
	// Output:
	// <nil>
	// true <nil>
}
