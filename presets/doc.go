// Package presets has the limits that vendors document, as rules for an [outflow.Transport]: for Stripe,
// Twilio, GitHub, Shopify, Slack, OpenAI, Anthropic and Discord.
//
// A [Preset] is plain data. Each call makes a new one, which is its caller's to change:
//
//	stripe := presets.Stripe()
//	stripe.Rule("stripe").Limits = []limit.Limit{limit.PerSecond(300)} // raised by their support
//	transport, err := outflow.New(outflow.Config{Rules: stripe.Rules, Retry: stripe.Retry})
//
// Several go into one Transport by [Config], to which more can be added:
//
//	cfg := presets.Config(presets.GitHub(), presets.Slack(nil))
//	cfg.Rules = append(cfg.Rules, mine...)
//
// # What a preset states
//
// What the vendor documents, at the page and on the day that it names; where a vendor gives no figure, the
// function's comment says so, and whose figure it is. Vendors change their limits, raise them for some
// accounts and lower them for others: a preset is where to start, what the upstream says in its answers
// counts, and it only ever lowers what is declared.
//
// "N per minute" is taken literally. No minute anywhere has more than N, so that none of the vendor's has,
// whenever theirs begin. (A token bucket of N that fills at N a minute lets almost 2N through in one.) Where a
// vendor says or hints that shorter times are looked at, too, departures are spaced evenly as well:
// limit.Per and limit.SlidingWindow jointly. Only where a vendor documents a bucket with a size do that many
// leave at once.
//
// # Keys
//
// A bucket is what the vendor counts by: an account, a shop, a token. Where that is a credential, the key
// is the first 64 bits of its SHA-256, as [Credential] makes it; so nothing in errors and statistics is
// secret, and two processes agree on it. Who has several credentials that the vendor counts together gives
// the rule the zero Key.
//
// # Retries
//
// Vendors whose rules differ from outflow's own have a Retry.CheckRetry, for requests to their hosts. SDKs
// that retry by themselves should be told not to: their tries would multiply with the Transport's, and they
// wait outside the queue.
package presets
