// Package backoff says how long to wait before a retry: exponential delays with jitter, as plain
// values and as the BackOff of github.com/cenkalti/backoff/v4.
//
// A [Policy] is declared, compared and shared; its zero value is usable. [Policy.Delay] is a function
// of the attempt and the delay before it, so that a retry keeps no more than two numbers.
// [Policy.New] is the same as a cenkalti BackOff, for that package's Retry, WithContext,
// WithMaxRetries and Ticker.
//
// # Jitter
//
// Clients that failed together retry together, unless chance spreads them. The three ways here are
// those of Marc Brooker's "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015). With
// d = min(Cap, Base·Factor^(attempt−1)), each draws uniformly, both ends included, from
//
//	Full          [Floor, d]                               spreads most; the default
//	Equal         [max(d/2, Floor), d]                     never less than half
//	Decorrelated  [Base, min(Cap, Factor·max(prev, Base))] grows from the delay drawn before
//	None          [d, d]                                   for a client that is alone
//
// Two things differ from the article. Its full jitter starts at 0, where a retry would leave at once:
// here no delay is below [Floor]. Its decorrelated jitter draws first and clamps afterwards, so that
// near the cap two draws in three are the cap itself and the clients march in step again: here the
// range is clamped and the draw is spread over what is left of it.
//
// # Bounds
//
// Jitter takes away from the cap and never adds to it: a delay lies within [Floor, Cap], for every
// attempt up to the largest int and every prev, and is never 0 or negative. A retry loop can therefore
// not spin, and no sum overflows. It holds even for a Policy that [Policy.Validate] refuses, but only
// that much is then defined (a Cap below Floor counts as Floor).
//
// # What of cenkalti/backoff serves
//
// Its interface does, and everything that takes one. Its ExponentialBackOff doesn't, as the source of
// delays: its jitter is a share added or taken away around the interval, after the cap, so a delay
// can exceed MaxInterval and, with a share of 1, be 0; there is no decorrelated kind; and it is an
// object for each request that counts calls and reads a clock, where a retry here knows its attempt
// already. Without jitter the two agree, delay by delay, and a test holds them to it.
//
// Its Stop is an end, not a delay. Nothing here returns it: a Policy has no opinion on when to give
// up. Wrap what New returns to set one, as in WithMaxRetries(b, 4), and hand Stop on when another
// BackOff returns it. Given as prev, Stop means what every prev ≤ 0 does: there was none.
//
// # Concurrency
//
// A Policy may be used by many goroutines at once; its methods share no state but the generator of
// math/rand/v2, which takes no lock. A BackOff that New returned remembers, so each request needs one
// of its own. Where a factory is asked for, give it one that calls New each time.
package backoff
