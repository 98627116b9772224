// Package outflow makes an http.Client keep the pace of somebody else's API.
//
// A [Transport] stands between the client and the network. Requests wait in it for their departure,
// under the limits of their host and of every [Rule] that matches them, and what the upstream
// answers is heard by all who wait.
//
// # Default behavior
//
// Without configuration a Transport differs from http.DefaultTransport in this:
//
//  1. A refusal because of a limit (429, and 403, 418 or 420 where headers tell) pauses its host
//     until the time that the upstream gave, or else by backoff: nobody else is sent meanwhile. So
//     does 503 or 529 with a Retry-After.
//  2. Up to 10,000 requests wait for a host; one more fails with [ErrQueueFull].
//  3. Nobody waits for a pause of more than 5 minutes: that fails with [ErrDeadline] at once, and who
//     got the answer gets it back.
//  4. Requests that fail are sent again, up to 4 times, if that can do no harm: see [Retry].
//
// Limits that are declared have requests wait before the upstream has to refuse any.
//
// # Ordering
//
// Requests that wait for the same buckets leave in the order of their RoundTrip calls; a retry keeps
// its place. [WithPriority] and [WithFlow] have some go before others, or take turns with them; lines
// that meet in one bucket share it fairly. Package leakyqueue says more.
//
// # Cancellation
//
// A request whose context ends in the queue returns at once, and its turn goes to the next. One whose
// deadline comes before its turn is told so before it has waited. Both errors are an [*Error].
//
// # Failure modes
//
// Transports share nothing, and keep nothing on disk. Where an upstream lies about its limits, waits
// are bounded by Queue.MaxPause and attempts by Retry.MaxAttempts.
package outflow
