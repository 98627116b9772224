// Package headers turns a response into a [Signal]: what it said about limits, in one struct
// whatever dialect it spoke. It is pure: no clock, no state, no goroutine, no error.
//
// [ParseHeader] reads the status and the header; [Parse] reads the beginning of a refusal's body too, and
// gives the body back. Both are deliberately generous in what they take, for
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
// then always towards waiting too long. Where a server's documentation tells, a [Dialect] does.
//
// Vendors with forms of their own are rows in the tables of this package: what is used of a limit, "32/40"
// (Shopify, Salesforce, https://shopify.dev/docs/api/usage/limits); limits with their windows, "20:1,100:120"
// (Riot, https://developer.riotgames.com/docs/portal); counts by name (Azure Resource Manager); what is
// blocked for how long (Sentry, https://develop.sentry.dev/sdk/expected-features/rate-limiting/); percentages
// in JSON (Facebook, https://developers.facebook.com/docs/graph-api/overview/rate-limiting/); a quota as
// JSON (Basecamp, Trakt); items with names (Auth0, Zendesk). Counts are whole, so a share of use (Anthropic's
// utilization, Microsoft Graph's throttle percentage) is told in percent, as 0 left only when nothing is, and
// a rate that isn't whole (Amazon's SP-API, 0.0167 a second) as one in so many seconds. Counters of use
// without a limit (Binance, Twilio) name their quota, with nothing known of it. X-RateLimit-Used and the like
// tell what remains only where no field does.
//
// Of fields with one value for each of several windows that the wire doesn't name (Strava: 600,30000), the
// smallest limit is told, and what remains is not, without a Dialect that has the windows. Not taken are names
// that only sound alike: X-Page-Limit is no rate limit.
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
// What the response says in so many words goes before its status, on those and on 400 and 401: a code in
// X-Amzn-ErrorType or in the body, Riot's X-Rate-Limit-Type. So a 429 whose reason is a lack of capacity
// (Google's MODEL_CAPACITY_EXHAUSTED, Riot's "service") is Overloaded, a 503 that means this client (S3's
// SlowDown, which is counted per prefix) is Limited, and a 429 that means a locked object (Stripe's
// lock_timeout, https://docs.stripe.com/rate-limits) is None. A 413 or a 402 is never a limit: a request
// that is too large or unpaid doesn't get better with time.
//
// [Signal.Concurrency] is set if a refusal is about how many requests are in flight: the limit is named so
// (Stripe, GitHub Models), it is the only one with nothing left, it comes from Kubernetes' priority and
// fairness, or the body says so (Twilio's 20429). Okta tells it by a limit of 0.
//
// # Bodies
//
// [LooksAtBody] says which bodies are read: those of refusals, and of a 200 only where an API is known to
// refuse with one. At most 4 KiB of JSON, XML or text are read, and no page in HTML, no stream and no
// encoded body. Taken are
//   - codes under keys like "code", "type", "reason" or "status", in any of their spellings, of which the
//     table has those of AWS (__type, <Code>), Google, the problem types of the IETF draft, Shopify,
//     Salesforce and others;
//   - waits: retry_after and its relatives, in seconds or milliseconds by their name (Discord, Telegram,
//     Matrix), Google's RetryInfo.retryDelay;
//   - in messages, phrases: "try again in 7m12s", "banned until 1768478460000", "secondary rate limit";
//   - Shopify's throttleStatus, as a quota named "graphql-cost".
//
// The header's wait goes before the body's, a field in JSON before prose. A time in prose alone, as in
// "suspended, try again in 24 hours", makes no 400, 401 or 403 a limit. In a 200 only a code in its known
// place counts, and the rest of the body then too. GitHub's secondary limit is told by no header, and the
// reset is that of another: if there is no Retry-After and something is left, its documentation says to wait
// at least a minute (https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api),
// and so RetryAfter is that.
//
// Not taken are gRPC and other binary bodies, what comes after the first 4 KiB (of a large GraphQL response,
// Shopify's cost is at the end), and refusals in prose of which the table has no phrase.
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
// ignored. A response that describes more than 64 quotas gets none. Of a body, 4 KiB are read in at most 16
// reads, and documents are followed 24 levels deep. Caps on how long to wait are the
// caller's business, not parsing's.
package headers
