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
//  1. A refusal because of a limit (429, and 403, 418 or 420 where the header or the body tells)
//     pauses its host until the time that the upstream gave, or else by backoff: nobody else is sent
//     meanwhile. So does 503 or 529 with a Retry-After.
//  2. The host's limit is then found and kept: see # Learning. The first requests to a host leave a few
//     at a time.
//  3. Where an upstream says what is left of a quota, no more leave than that.
//  4. Up to 10,000 requests wait for a host; one more fails with [ErrQueueFull].
//  5. Nobody waits for a pause of more than 5 minutes: that fails with [ErrDeadline] at once, and who
//     got the answer gets it back.
//  6. Requests that fail are sent again, up to 4 times, if that can do no harm: see [Retry].
//
// Limits that are declared have requests wait before the upstream has to refuse any.
//
// # Learning
//
// What an upstream answers teaches its bucket, as long as [Config].Learn lets it. Refusals because of a limit tell
// how fast requests may leave, or how many may be in flight: [limit.Learner] has the law. Three answers in a
// row that say that the upstream is unwell (502, 503, 504, 529) are an outage: then only a probe leaves now and
// then, and those who wait follow, a little at a time, when one is answered well. Those who wait longer than
// Queue.MaxPause for its end are refused with [ErrOverloaded].
//
// An upstream's count (RateLimit-Remaining and its kin) bounds what leaves: [limit.Quota] has the rules, and
// [Config].Spread how the rest of a quota is used. It is believed only of a 2xx, and only of the credential
// that the bucket's count is of. Nothing that is learnt ever makes a declared limit larger.
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
