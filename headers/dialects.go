package headers

import "time"

// The tables of this file are the dialects: a vendor is a row. Names are in lower case.

// hints are the fields that ask for a wait, best first: the first of them that holds a usable wait
// counts. With a unit, a field holds just a number of those; else it is read as Retry-After is.
// Beta-Retry-After (Atlassian) isn't enforced and so isn't here.
var hints = [...]struct {
	name string
	unit time.Duration
}{
	{"retry-after-ms", time.Millisecond},      // OpenAI
	{"x-ms-retry-after-ms", time.Millisecond}, // Azure
	{"retry-after", 0},                        // RFC 9110 §10.2.3
	{"x-retry-after", 0},                      // better-auth, SAP
	{"x-ratelimit-retry-after", 0},            // Help Scout
	{"x-rate-limit-retry-after", 0},
	{"x-rate-limit-retry-after-seconds", 0}, // OpenSky, Bucket4j
	{"x-ratelimit-retry-after-seconds", 0},
	{"x-retry-in", 0}, // Traefik
}

// verdicts say what a status means. Where onlyIfRefused, it is a verdict only beside a wait or a
// quota of which nothing is left.
var verdicts = map[int]struct {
	cause         Cause
	onlyIfRefused bool
}{
	403: {Limited, true}, // GitHub; by itself a matter of permissions
	418: {Limited, true}, // Binance
	420: {Limited, true}, // Trakt, Mailgun
	429: {Limited, false},
	503: {Overloaded, false},
	529: {Overloaded, false}, // Anthropic, Notion
}

// generation orders the fields that describe one limit, best first: what an earlier one says of a
// limit, a later one doesn't change.
type generation uint8

const (
	list       generation = iota // IETF draft 08 on: RateLimit: "default";r=50;t=30
	dictionary                   // IETF draft 07: RateLimit: limit=100, remaining=50, reset=30
	trio                         // IETF drafts to 06: RateLimit-Limit, -Remaining, -Reset
	custom                       // X-RateLimit-* and the vendors' own
)

// family is what stands before "ratelimit" or "rate-limit" in the name of a field.
type family struct {
	generation generation
	bare       part // what the field holds that has no word after that
}

// families are the known prefixes. An unknown one names the quota: X-Contentful-RateLimit-Reset is
// the reset of "contentful".
var families = map[string]family{
	"":           {generation: trio, bare: state},   // IETF
	"beta-":      {generation: trio, bare: state},   // Atlassian
	"x-":         {generation: custom, bare: limit}, // nearly everybody; bare: Zendesk
	"anthropic-": {generation: custom},
	"x-ms-":      {generation: custom}, // Azure
	"fastly-":    {generation: custom},
	"gw-":        {generation: custom}, // KuCoin
	"x-sentry-":  {generation: custom},
}

// part is what a field tells about a quota.
type part uint8

const (
	nothing   part = iota
	limit          // a count, or the policies of IETF drafts to 05
	remaining      // a count
	reset          // when it is renewed
	window         // how long it is
	label          // its name
	policy         // IETF RateLimit-Policy
	state          // IETF RateLimit
)

// word is what stands after "ratelimit" in the name of a field.
type word struct {
	part  part
	clock clock // of a reset, and of a window in milliseconds
	// better is the weight of this word among those for the same part of the same quota.
	better uint8
	// alone: it takes no dimension. X-RateLimit-Name names the quota, X-RateLimit-User-Name a user.
	alone     bool
	dimension string // which it has in itself
}

// words are the known ones. But for those alone, a dimension may stand at either end:
// X-RateLimit-Remaining-Tokens and X-RateLimit-Tokens-Remaining.
var words = map[string]word{
	"limit":          {part: limit},
	"max":            {part: limit}, // Trello
	"requests-quota": {part: limit, alone: true},
	"remaining":      {part: remaining},
	"requests-left":  {part: remaining, alone: true}, // BigCommerce

	"reset-after":     {part: reset, clock: inSeconds, better: 3}, // Discord
	"reset-ms":        {part: reset, clock: inMillis, better: 2},
	"time-reset-ms":   {part: reset, clock: inMillis, better: 2, alone: true}, // BigCommerce
	"reset":           {part: reset, better: 1},
	"reset-timestamp": {part: reset, clock: asInstant},
	"resettime":       {part: reset, alone: true}, // GitLab, Yelp
	"reset-time":      {part: reset, alone: true},

	"period":                {part: window, alone: true}, // Datadog, Ensembl
	"window":                {part: window, alone: true},
	"interval":              {part: window},                  // Crossref
	"interval-ms":           {part: window, clock: inMillis}, // Trello
	"interval-milliseconds": {part: window, clock: inMillis},
	"time-window-ms":        {part: window, clock: inMillis, alone: true}, // BigCommerce

	"resource": {part: label, alone: true, better: 5}, // GitHub
	"name":     {part: label, alone: true, better: 4}, // GitLab, Datadog
	"bucket":   {part: label, alone: true, better: 3}, // Discord
	"category": {part: label, alone: true, better: 2}, // Zoom
	"reason":   {part: label, alone: true, better: 1}, // Atlassian

	"policy": {part: policy, alone: true},

	"concurrentlimit":     {part: limit, alone: true, dimension: "concurrent"}, // Sentry
	"concurrentremaining": {part: remaining, alone: true, dimension: "concurrent"},
}

// dimensions are those that say what is counted or over which window; a dimension that isn't here
// counts requests. A name that is a duration ("10s") is a window too.
var dimensions = map[string]struct {
	unit   string
	window time.Duration
}{
	"requests":      {unit: "requests"},
	"tokens":        {unit: "tokens"},
	"input-tokens":  {unit: "input-tokens"},
	"output-tokens": {unit: "output-tokens"},
	"complexity":    {unit: "cost"}, // Linear
	"concurrent":    {unit: "concurrency"},
	"second":        {window: time.Second},
	"secondly":      {window: time.Second},
	"minute":        {window: time.Minute},
	"hour":          {window: time.Hour},
	"day":           {window: day},
	"daily":         {window: day},
	"week":          {window: 7 * day},
	"month":         {window: 30 * day},
}

// units translates the names of IETF units, drafts 08 to 11, into ours.
var units = map[string]string{
	"":                    "requests",
	"content-bytes":       "bytes",
	"concurrent-requests": "concurrency",
}
