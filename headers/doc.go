// Package headers turns a response into a [Signal]: what it said about limits, in one struct
// whatever dialect it spoke. It is pure: no clock, no state, no goroutine, no error.
//
// [ParseHeader] reads the status and the header. It is deliberately generous in what it takes, for
// most of what servers send is in no specification, and strict in what it concludes: a field that
// can't be read is as good as absent, never zero, because a wait of zero hammers the server.
//
// # Waits
//
// Retry-After (RFC 9110 §10.2.3) is a number of seconds or an HTTP-date in any of the three forms
// of §5.6.7. Beyond that are taken, because servers send them: fractions ("2.0"), quotes, Go
// durations ("1m30s", "12000ms"), RFC 3339 times, Unix times in s, ms, µs or ns if they are between
// a day ago and 366 days ahead, and dates with the zone UTC or +0100, a one-digit day, any letter
// case, the second 60 or the wrong weekday. Not taken are signs, exponents, hex, NaN, units in words
// and dates without a zone. What is too large saturates at [MaxRetryAfter]; what is past, 0 or
// malformed is no hint. Of several values the longest counts. Fields with a finer unit go before
// Retry-After, and the X- variants after it; one that holds no usable hint leaves the word to the next.
//
// # Quotas
//
// The IETF draft "RateLimit header fields for HTTP" (draft-ietf-httpapi-ratelimit-headers) is read in
// all its generations: RateLimit-Limit, -Remaining and -Reset with policies inside the limit (to 05)
// or in RateLimit-Policy (06), the dictionary RateLimit (07) and the lists RateLimit and
// RateLimit-Policy (08 on). The latter are structured fields (RFC 9651); where one is malformed as a
// whole, its well-formed members are kept. X-RateLimit-*, X-Rate-Limit-* and the vendors' own names
// are read by the same words, with a dimension ("tokens", "minute") at either end.
//
// A number in a reset field doesn't tell its unit, and neither does the field's name: GitLab sends a
// Unix time in RateLimit-Reset, Reddit seconds in X-RateLimit-Reset. So the number tells: up to 31
// days it is seconds; between the years 2000 and 2100 it is a Unix time in s, ms, µs or ns; anything
// else is unknown. Milliseconds until the reset (KuCoin) can't be told from seconds: the error is
// then always towards waiting too long.
//
// A limit is reported once, also when several generations describe it: the best of them is believed
// (list, dictionary, trio, X-) and the others fill its gaps. One name is one limit; without a name,
// two that give different limits are two. Of two values of one field, the tighter counts. A quota on
// which all is unknown means that the response named one, or gave a number that can't be right. One
// of nothing but zeros, from servers that don't fill their headers in, is told as it came.
//
// # Time
//
// Absolute times are taken relative to the response's Date, so that clock skew does no harm, and
// relative to now only without a usable Date.
//
// # Cause
//
// 429 (RFC 6585 §4) is [Limited]. 503 and 529 are [Overloaded]. 403, 418 and 420 are Limited only beside a
// wait or a quota with nothing left. Anything else is [None]: a quota with nothing left on a 200 is
// advice for the next request, not a refusal of this one.
//
// # Names
//
// Field names are matched in any letter case, so a map that net/http didn't make is read as well;
// two spellings of a name are two lines of one field. Nothing depends on the order of the map.
//
// # Bounds
//
// The cost is linear in the size of the header. Names are read up to 128 bytes, counts and structured
// fields up to 16 KiB, the latter with up to 64 members, dates up to 128 bytes; anything longer is
// ignored. A response that describes more than 64 quotas gets none. Caps on how long to wait are the
// caller's business, not parsing's.
package headers
