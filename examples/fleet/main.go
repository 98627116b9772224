// Command fleet makes 400 requests from four processes that share one limit of 100 a second through
// Redis:
//
//	go run ./fleet             # the fleet keeps the limit, to which of its workers it ever falls
//	go run ./fleet -without    # each worker keeps the whole limit for itself, and the fleet has it four times
//	go run ./fleet -workers 16 -redis localhost:6379
//
// It starts itself once for each worker, and an upstream that enforces the limit. Redis is one within the
// program, unless -redis names another. A worker may be killed while it runs: the others go on, and have
// its part of the limit.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/outflow-go/outflow/examples/internal/workload"
	"github.com/outflow-go/outflow/limit"
)

const (
	perSecond = 100

	// The small burst keeps the rate up on a busy machine: what couldn't be sent for a fifth of a second
	// is sent right after.
	burst = 20

	// serviceTime is how long the upstream takes for a request.
	serviceTime = 10 * time.Millisecond
)

// What the upstream allows the fleet, and so what the fleet keeps to.
var fleetLimit = limit.PerSecond(perSecond).WithBurst(burst)

// options are the flags.
type options struct {
	workload.Options        // of which Workers are processes
	redis            string // address; "": a Redis within the program
}

func main() {
	if isWorker() {
		workerMain()
		return
	}
	o := options{Options: workload.Options{Out: os.Stdout}}
	flag.IntVar(&o.Requests, "requests", 400, "requests to make, by all workers together")
	flag.IntVar(&o.Workers, "workers", 4, "processes that make them")
	flag.BoolVar(&o.Without, "without", false, "send the same work without outflow: each worker has a limiter of its own")
	flag.StringVar(&o.redis, "redis", "", "address of a Redis, such as localhost:6379 (default: one within the program)")
	flag.Parse()
	if err := o.Check(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		flag.Usage()
		os.Exit(2)
	}
	workload.Conclude(o.run)
}
