// Package limit says when a request may leave: declared limits, and the arithmetic of their
// departures.
//
// A [Limit] is a plain value: declared, compared, printed and parsed. [Join] compiles several that
// hold jointly into a [Set], and a [State] is what one bucket under that Set remembers. A State is
// asked for the earliest departure and then charged for it; it never answers "no".
//
// # Time
//
// Every moment in the arithmetic is a [time.Duration] since an epoch that the caller chooses and
// keeps: read it with time.Since(epoch), which is monotonic, so a wall clock that jumps moves no
// departure. Nothing here reads a clock, starts a goroutine or takes a lock, so a State belongs to
// one goroutine at a time. Limit and Set are immutable and may be shared.
//
// # Rates
//
// A rate of n per d with burst b is kept as one number, the theoretical arrival time TAT of the
// generic cell rate algorithm (ATM Forum, Traffic Management Specification 4.1, 1999, §4.4.2), of
// which token bucket and leaky bucket as a meter are other descriptions. With T = d/n, a request of
// cost c may leave at
//
//	t = max(now, TAT − (b−c)·T)    and is charged by    TAT = max(TAT, t) + c·T
//
// A cost above the burst waits until the bucket is full and then leaves it in debt: it is late, but
// it never waits for ever. In any window W at most b + n·W/d units leave. Burst 1, the default,
// spaces departures evenly: the leaky bucket as a queue.
//
// T is kept in units of 2⁻⁶⁴ ns, rounded up, and a departure is rounded up to the next nanosecond:
// rounding never admits more than was declared, and the rate drifts by less than one part in 10¹⁰
// up to [MaxRate].
//
// # Concurrency
//
// [Concurrent] is a gate and not a time, so it takes no part in the arithmetic: [Set.Slots] tells
// the queue how many may be out at once.
package limit
