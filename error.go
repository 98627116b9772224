package outflow

import (
	"errors"

	"github.com/outflow-go/outflow/leakyqueue"
)

// An Error says why a request did not leave: with the bucket that held it, how long it was queued,
// and when it could have left. errors.AsType[*outflow.Error](err) finds it in what http.Client
// returns, and errors.Is finds its reason:
//
//   - [ErrQueueFull]: Queue.MaxWaiting requests wait already.
//   - [ErrDeadline]: its turn would have come after its context's deadline or Queue.MaxWait, or its
//     upstream asked for a pause beyond Queue.MaxPause. It is context.DeadlineExceeded as well where
//     the context was the bound.
//   - [ErrClosed]: the Transport is closed.
//   - [ErrStoreUnavailable]: the Store of its limits can't be reached, and is one that has nobody leave then.
//   - [ErrBreakerOpen]: its circuit breaker let nothing through when its turn came.
//   - context.Canceled, or what else ended its context in the queue.
type Error = leakyqueue.Error

// The reasons of an [Error].
var (
	ErrQueueFull = leakyqueue.ErrQueueFull
	ErrDeadline  = leakyqueue.ErrDeadline
	ErrClosed    = leakyqueue.ErrClosed

	ErrStoreUnavailable = leakyqueue.ErrStoreUnavailable

	// In addition to one of those: what is waited for comes of what the upstream has answered.
	ErrLimited    = leakyqueue.ErrLimited
	ErrOverloaded = leakyqueue.ErrOverloaded
)

func asError(err error) (*Error, bool) { return errors.AsType[*Error](err) }
