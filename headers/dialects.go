package headers

import "time"

// The tables of this file are the dialects that say "rate limit" in the names of their fields: a vendor is
// a row. The others are in vendors.go, and those that speak in the body only in phrases.go. Names are in
// lower case.

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
	{"x-retry-after-ms", time.Millisecond},
	{"x-retry-after-seconds", 0},
	{"x-ratelimit-retry-after-ms", time.Millisecond},
	{"ratelimit-retry-after", 0},
}

// verdicts say what a status means.
var verdicts = map[int]verdict{
	400: {Limited, ifSaid},    // AWS, Linear
	401: {Limited, ifSaid},    // MailHops
	403: {Limited, ifRefused}, // GitHub; by itself a matter of permissions
	418: {Limited, ifWaits},   // Binance
	420: {Limited, ifWaits},   // Trakt, Mailgun
	429: {Limited, always},
	503: {Overloaded, always},
	529: {Overloaded, always}, // Anthropic, Notion
}

type verdict struct {
	cause Cause
	when  condition
}

// condition is what else a response has to say for its status to be a verdict.
type condition uint8

const (
	always    condition = iota
	ifWaits             // a wait, in prose too, or that nothing is left of a quota, or that it is for a limit
	ifRefused           // the same, but not in prose
	ifSaid              // that it is for a limit: in a table of reasons, codes or phrases
)

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
	"zendesk-":   {generation: custom},
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

	used     // a count of what was used
	fraction // how much was used, of 1
	rate     // a limit per second
	scope    // whose limit it is
	global   // whether it is everybody's
	bucket   // the server's name of the bucket
	kind     // what sort of limit it is
	reason   // why the request was refused
	pairs    // Zendesk: total=10; remaining=9; resets=2

	ratios        // Shopify: 32/40, Salesforce: api-usage=25/5000
	counts        // Azure: name;139,other;699
	limitsByTime  // Riot: 20:1,100:120, each with its window in seconds
	usedByTime    // Riot: what was used of those
	blocks        // Sentry: 60:error;transaction:organization, each with its seconds
	percentages   // Facebook: JSON
	policiesNamed // Auth0: per_hour;q=100;r=50;t=3600
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
	shared    bool   // a reset of all quotas that have none

	unit    string // what is counted
	window  time.Duration
	refusal bool // it tells something only beside a 429
	naming  bool // a label that goes before the dimension
	listed  bool // it tells nothing without [Dialect.Windows]
}

// words are the known ones. But for those alone, a dimension may stand at either end:
// X-RateLimit-Remaining-Tokens and X-RateLimit-Tokens-Remaining.
var words = map[string]word{
	"limit":          {part: limit},
	"max":            {part: limit}, // Trello
	"requests-quota": {part: limit, alone: true},
	"remaining":      {part: remaining},
	"requests-left":  {part: remaining, alone: true}, // BigCommerce
	"used":           {part: used},                   // GitHub
	"usage":          {part: used},                   // Strava
	"observed":       {part: used},                   // GitLab
	"utilization":    {part: fraction},               // Anthropic

	"reset-after":     {part: reset, clock: inSeconds, better: 3}, // Discord
	"reset-ms":        {part: reset, clock: inMillis, better: 2},
	"time-reset-ms":   {part: reset, clock: inMillis, better: 2, alone: true}, // BigCommerce
	"reset":           {part: reset, better: 1},
	"reset-timestamp": {part: reset, clock: asInstant},
	"resettime":       {part: reset, alone: true, shared: true}, // GitLab, Yelp
	"reset-time":      {part: reset, alone: true},
	"timeremaining":   {part: reset, clock: inSeconds, alone: true}, // GitHub Models

	"period":                {part: window, alone: true}, // Datadog, Ensembl
	"window":                {part: window, alone: true},
	"interval":              {part: window},                  // Crossref
	"interval-ms":           {part: window, clock: inMillis}, // Trello
	"interval-milliseconds": {part: window, clock: inMillis},
	"time-window-ms":        {part: window, clock: inMillis, alone: true}, // BigCommerce

	"resource": {part: label, alone: true, better: 5},  // GitHub
	"name":     {part: label, alone: true, better: 4},  // GitLab, Datadog
	"bucket":   {part: bucket, alone: true, better: 3}, // Discord
	"scope":    {part: scope, alone: true, better: 2},  // Discord; Buildkite, as a name
	"category": {part: label, alone: true, better: 2},  // Zoom
	"reason":   {part: label, alone: true, better: 1},  // Atlassian
	"type":     {part: kind, alone: true, better: 1},   // GitHub Models, Riot, Zoom
	"global":   {part: global, alone: true},            // Discord

	"policy": {part: policy, alone: true},

	"concurrentlimit":     {part: limit, alone: true, dimension: "concurrent"}, // Sentry
	"concurrentremaining": {part: remaining, alone: true, dimension: "concurrent"},

	"daily":              {part: limit, alone: true, dimension: "daily"}, // HubSpot
	"secondly":           {part: limit, alone: true, dimension: "secondly"},
	"dailylimit":         {part: limit, alone: true, dimension: "daily"}, // Yelp
	"resourcedailylimit": {part: limit, alone: true, dimension: "resource-daily"},
	"resourceremaining":  {part: remaining, alone: true, dimension: "resource-daily"},

	"burst-capacity": {part: limit, window: time.Second}, // Spring Cloud Gateway
}

// dimensions are those that say what is counted or over which window; a dimension that isn't here
// counts requests. A name that is a duration ("10s") is a window too.
var dimensions = map[string]dimension{
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
	"minutely":      {window: time.Minute},
	"hourly":        {window: time.Hour},
	"weekly":        {window: 7 * day},
	"monthly":       {window: 30 * day},
	"images":        {unit: "images"}, // OpenAI
}

type dimension struct {
	unit   string
	window time.Duration
}

// units translates the names of IETF units, drafts 08 to 11, into ours.
var units = map[string]string{
	"":                    "requests",
	"content-bytes":       "bytes",
	"concurrent-requests": "concurrency",
}
