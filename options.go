package outflow

import (
	"context"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

// options are what one request's context asks for.
type options struct {
	cost     int
	priority leakyqueue.Priority
	flow     string
	trace    *Trace
}

type optionsKey struct{}

func optionsOf(ctx context.Context) options {
	o, _ := ctx.Value(optionsKey{}).(*options)
	if o == nil {
		return options{}
	}
	return *o
}

// WithCost returns a context in which a request takes cost units of each rate that holds it instead
// of one, from 1 to leakyqueue.MaxCost. A cost above a rate's burst waits for a full bucket and
// leaves it in debt. A request with a cost out of range fails with leakyqueue.ErrInvalid.
func WithCost(ctx context.Context, cost int) context.Context {
	o := optionsOf(ctx)
	if o.cost = cost; cost == 0 {
		o.cost = -1 // 0 is not to be taken for the default
	}
	return context.WithValue(ctx, optionsKey{}, &o)
}

// WithPriority returns a context whose requests go before those of a lower priority, and after those of
// a higher one: see [leakyqueue.Priority]. A request with a priority out of range fails with
// leakyqueue.ErrInvalid.
func WithPriority(ctx context.Context, p leakyqueue.Priority) context.Context {
	o := optionsOf(ctx)
	o.priority = p
	return context.WithValue(ctx, optionsKey{}, &o)
}

// WithFlow returns a context whose requests take turns with those of other flows, so that a tenant with
// thousands waiting doesn't delay another's first by more than a round. Requests without a flow, or with
// "", are one flow for each set of buckets. Queue.Weights has some flows get more than others.
func WithFlow(ctx context.Context, flow string) context.Context {
	o := optionsOf(ctx)
	o.flow = flow
	return context.WithValue(ctx, optionsKey{}, &o)
}

// WithTrace returns a context whose request is recorded in trace. One trace is for one request; it
// may be read when RoundTrip has returned. With http.Client that is after each redirect; the trace
// then adds up all of them.
func WithTrace(ctx context.Context, trace *Trace) context.Context {
	o := optionsOf(ctx)
	o.trace = trace
	return context.WithValue(ctx, optionsKey{}, &o)
}

// A Trace tells what a request went through on its way out.
type Trace struct {
	Attempts int           // departures: 0 if it never left
	Queued   time.Duration // in the queue, all attempts together, delays before retries included
	Held     string        // the bucket that held back the last departure, as "rule" or "rule key"; "" if none did
}

// record adds one wait, which ended with a departure or an error. A nil Trace records nothing.
func (t *Trace) record(left leakyqueue.Departure, err error) {
	if t == nil {
		return
	}
	if err != nil {
		if e, ok := asError(err); ok {
			t.Queued += e.Queued
			t.Held = e.Bucket
		}
		return
	}
	t.Attempts++
	t.Queued += left.Queued
	t.Held = left.Held
}
