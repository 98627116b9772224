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
// Windows that begin by the clock, by a key or by the calendar need to know what the wall clock showed
// at the epoch: [Set.NewState] is told. If the wall clock is set later, they stay where they were.
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
// # Windows
//
// With a window of n per d the k-th departure waits for the (k−n)-th to drop out:
//
//   - [SlidingWindow], an exact log: when that is d ago;
//   - [SlidingCounter]: when the estimate from two counters allows it;
//   - [FixedWindow] whose phase is known: when the window in which it left is over;
//   - [FixedWindow] whose phase isn't known: as for the log, in which what left within d/16 counts as
//     having left last. So whenever the upstream's windows begin, none of them has more than n.
//
// A plain fixed window lets up to 2n leave around the boundary between two, and is for upstreams that
// count so. Each takes O(1) memory, but for the exact log, and work that doesn't grow with n, or with its
// logarithm. The answer for a request behind many others is a closed form, too.
//
// Requests take time on their way, and not all the same. So windows have a guard of d/100, at most 50 ms:
// in logs what left counts for a guard longer than d; nothing leaves in the last guard before a known
// boundary (also a counter's), or in the first guard after one of a fixed window. Then an upstream of the
// same kind refuses nothing, as long as no request takes longer than another by more than a guard, and
// our clock is ahead of its by no more than the fastest request takes (fixed windows: and a guard more).
// It takes work that saturates a window at most 1 % longer.
//
// # What isn't declared
//
// A [Learner] finds the limit of an upstream from what it refuses, a [Gradient] how many requests it does at
// once from its latency, and a [Quota] keeps what a server says is left. They are arithmetic like State, and
// hold back in addition to it.
//
// # Concurrency
//
// [Concurrent] is a gate and not a time, so it takes no part in the arithmetic: [Set.Slots] tells
// the queue how many may be out at once.
//
// # What is learnt
//
// Of [AdaptiveRate] and [AdaptiveConcurrency] only bounds are declared, and a [Set] holds nobody by them.
// Their control laws are arithmetic like the rest, for the queue to feed with what the upstream answers:
// [Gradient] is that of a concurrency.
package limit
