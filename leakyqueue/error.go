package leakyqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// What a caller may decide on, with errors.Is. Each comes inside an [*Error], which has the numbers.
var (
	// ErrQueueFull: MaxWaiting requests wait for the same buckets already.
	ErrQueueFull = errors.New("queue full")

	// ErrDeadline: the turn would come after the context's deadline or after MaxWait, or a pause is
	// longer than MaxPause. Where the context's deadline was the bound, the error is
	// context.DeadlineExceeded too.
	ErrDeadline = errors.New("turn comes too late")

	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("closed")

	// ErrLimited: the upstream has refused this client lately, and that is what is waited for. It comes in
	// addition to one of the others.
	ErrLimited = errors.New("limited by the upstream")

	// ErrOverloaded: the upstream has said lately that it is unwell for everybody, and that is what is waited
	// for. It comes in addition to one of the others.
	ErrOverloaded = errors.New("upstream overloaded")

	// ErrStoreUnavailable: the limits are shared, what they are kept in can't be reached, and RefuseAll is what the
	// Pacer has the queue do then.
	ErrStoreUnavailable = errors.New("store of shared limits unavailable")

	// ErrInvalid: a Config or a Demand has a value out of range, which the text names.
	ErrInvalid = errors.New("invalid")
)

// An Error says why a request did not leave: it was refused, or its context ended in the queue.
type Error struct {
	// Bucket is the bucket that the request waited for or was refused by, as "rule" or "rule key".
	Bucket string

	// Reason is ErrQueueFull, ErrDeadline, ErrClosed or ErrStoreUnavailable; nil when the caller's context was cancelled.
	Reason error

	// Queued is how long the request had waited when it was told.
	Queued time.Duration

	// Earliest is when the request could have left, as far as that was known; zero: unknown.
	Earliest time.Time

	// Cause is context.Cause of the caller's context when that is what ended the wait, and
	// context.DeadlineExceeded when the turn would have come after the context's deadline.
	Cause error

	// Upstream is ErrLimited or ErrOverloaded if what holds the request is a pause that the upstream's answers
	// have brought about, or an outage; else nil.
	Upstream error

	ctxErr error // context.Canceled or DeadlineExceeded where Cause is another
}

// refusal is the Error of a request that b, if any, refused after it had waited for queued.
func (q *Queue) refusal(reason error, b *bucket, queued, earliest time.Duration) *Error {
	err := &Error{Reason: reason, Queued: queued}
	if b != nil {
		err.Bucket = b.key.String()
	}
	if earliest != never {
		err.Earliest = q.epoch.Add(earliest)
	}
	return err
}

// refusalLocked is refusal where the lock is held, which takes it to know what the upstream has to do with it.
func (q *Queue) refusalLocked(reason error, b *bucket, earliest, now time.Duration) *Error {
	err := q.refusal(reason, b, 0, earliest)
	if b != nil {
		err.Upstream = upstreams[b.because(now)]
	}
	return err
}

// refusedWaiter is the Error of a waiter that was refused.
func (q *Queue) refusedWaiter(w *waiter, queued time.Duration) *Error {
	reason := ErrDeadline
	switch w.why {
	case closed:
		reason = ErrClosed
	case crowdedOut:
		reason = ErrQueueFull
	case noStore:
		reason = ErrStoreUnavailable
	}
	err := q.refusal(reason, w.blamed(), queued, w.deadline)
	err.Upstream = upstreams[w.because]
	if w.why == pastDeadline {
		err.Cause = context.DeadlineExceeded
	}
	return err
}

// ended is the Error of a request whose context ended before it left.
func ended(ctx context.Context, b *bucket, queued time.Duration) *Error {
	err := &Error{Queued: queued, Cause: context.Cause(ctx), ctxErr: ctx.Err()}
	if b != nil {
		err.Bucket = b.key.String()
	}
	if err.ctxErr == context.DeadlineExceeded {
		err.Reason = ErrDeadline
	}
	return err
}

// Error says what held the request, for how long, and until when.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("outflow: ")
	if e.Reason != nil {
		b.WriteString(e.Reason.Error())
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "queued for %v", e.Queued.Round(time.Microsecond))
	if e.Bucket != "" {
		fmt.Fprintf(&b, " for %q", e.Bucket)
	}
	if e.Upstream != nil {
		fmt.Fprintf(&b, ", %v", e.Upstream)
	}
	if !e.Earliest.IsZero() {
		fmt.Fprintf(&b, ", earliest departure %s", e.Earliest.Format(time.RFC3339Nano))
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// Unwrap returns Reason, Cause and the context's error, for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Reason != nil {
		errs = append(errs, e.Reason)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	if e.Upstream != nil {
		errs = append(errs, e.Upstream)
	}
	if e.ctxErr != nil && e.ctxErr != e.Cause {
		errs = append(errs, e.ctxErr)
	}
	return errs
}

// Temporary is for net.Error, which asks for it.
func (e *Error) Temporary() bool { return e.Timeout() }

// Timeout reports whether a deadline was the reason, as net.Error has it.
func (e *Error) Timeout() bool {
	return e.Reason == ErrDeadline
}
