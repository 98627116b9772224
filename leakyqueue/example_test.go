package leakyqueue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

func ExampleQueue_Wait() {
	q, err := leakyqueue.New(leakyqueue.Config{}, limit.PerSecond(50))
	if err != nil {
		fmt.Println(err)
		return
	}
	start := time.Now()
	for range 3 {
		if err := q.Wait(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(time.Since(start) >= 40*time.Millisecond)
	// Output: true
}

// A caller that can't wait so long is told at once, and when it could have left.
func ExampleError() {
	q, err := leakyqueue.New(leakyqueue.Config{}, limit.Per(1, time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		err = q.Wait(ctx)
	}
	told, _ := errors.AsType[*leakyqueue.Error](err)
	fmt.Println(errors.Is(err, leakyqueue.ErrDeadline), time.Until(told.Earliest) > 59*time.Minute)
	// Output: true true
}

// Two limits on the same request: ten at once in all, and two for each tenant.
func ExampleQueue_Acquire() {
	q, err := leakyqueue.New(leakyqueue.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := q.AddRule("all", limit.Concurrent(10))
	if err != nil {
		fmt.Println(err)
		return
	}
	tenants, err := q.AddRule("tenant", limit.Concurrent(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	ticket, err := q.Acquire(context.Background(), leakyqueue.Demand{
		Keys: []leakyqueue.Key{{Rule: all}, {Rule: tenants, Value: "tenant-7"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range q.Stats() {
		fmt.Println(b.Rule, b.Key, b.InFlight)
	}
	ticket.Done()
	// Output:
	// all  1
	// tenant tenant-7 1
}
