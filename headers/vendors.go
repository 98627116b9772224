package headers

import "time"

// ownFields are those of vendors whose names follow no pattern, and of patterns whose values don't.
var ownFields = map[string]word{
	"x-shopify-shop-api-call-limit": {part: ratios, dimension: "shop-api-call"},
	"sforce-limit-info":             {part: ratios}, // Salesforce

	"stripe-rate-limited-reason":        {part: label, better: 1},
	"x-kubernetes-pf-flowschema-uid":    {part: label, unit: "concurrency", refusal: true}, // on every answer
	"x-amzn-errortype":                  {part: reason},
	"x-amzn-ratelimit-limit":            {part: rate},                                  // Amazon SP-API
	"x-ms-ratelimit-remaining-resource": {part: counts},                                // Azure Resource Manager
	"x-ms-throttle-limit-percentage":    {part: fraction, dimension: "throttle-limit"}, // Microsoft Graph

	"twilio-concurrent-requests":  {part: used, dimension: "concurrent-requests", unit: "concurrency"},
	"x-concurrency-limit":         {part: limit, dimension: "concurrency", unit: "concurrency"},       // Crossref
	"concurrency-limit-limit":     {part: limit, dimension: "concurrency-limit", unit: "concurrency"}, // Zuora
	"concurrency-limit-remaining": {part: remaining, dimension: "concurrency-limit", unit: "concurrency"},
	"concurrency-limit-type":      {part: label, dimension: "concurrency-limit", unit: "concurrency", naming: true},

	"x-trial-endpoint-call-limit":       {part: limit, dimension: "trial-endpoint-call"}, // Cohere
	"x-trial-endpoint-call-remaining":   {part: remaining, dimension: "trial-endpoint-call"},
	"x-endpoint-monthly-call-limit":     {part: limit, dimension: "endpoint-monthly-call", window: 30 * day},
	"x-endpoint-monthly-call-remaining": {part: remaining, dimension: "endpoint-monthly-call", window: 30 * day},

	"ratelimitbysize-limit":              {part: limit, dimension: "tokens"}, // Mistral
	"ratelimitbysize-remaining":          {part: remaining, dimension: "tokens"},
	"ratelimitbysize-reset":              {part: reset, dimension: "tokens"},
	"x-ratelimitbysize-limit-minute":     {part: limit, dimension: "tokens-minute"},
	"x-ratelimitbysize-remaining-minute": {part: remaining, dimension: "tokens-minute"},
	"x-ratelimitbysize-limit-month":      {part: limit, dimension: "tokens-month"},
	"x-ratelimitbysize-remaining-month":  {part: remaining, dimension: "tokens-month"},
	"x-tokenlimit-limit":                 {part: limit, dimension: "tokens"}, // Together
	"x-tokenlimit-remaining":             {part: remaining, dimension: "tokens"},
	"x-tokenlimit-reset":                 {part: reset, dimension: "tokens"},

	"x-app-rate-limit":          {part: limitsByTime, dimension: "app"}, // Riot
	"x-app-rate-limit-count":    {part: usedByTime, dimension: "app"},
	"x-method-rate-limit":       {part: limitsByTime, dimension: "method"},
	"x-method-rate-limit-count": {part: usedByTime, dimension: "method"},

	"x-app-usage":               {part: percentages, dimension: "app"}, // Facebook
	"x-page-usage":              {part: percentages, dimension: "page"},
	"x-ad-account-usage":        {part: percentages, dimension: "ad-account"},
	"x-business-use-case-usage": {part: percentages},

	"x-sentry-rate-limits": {part: blocks},

	"x-quota-client-limit":           {part: policiesNamed, dimension: "client"}, // Auth0
	"x-quota-organization-limit":     {part: policiesNamed, dimension: "organization"},
	"auth0-client-quota-limit":       {part: policiesNamed, dimension: "client"},
	"auth0-organization-quota-limit": {part: policiesNamed, dimension: "organization"},

	"x-hubspot-ratelimit-max":                   {part: limit, dimension: "interval"},
	"x-hubspot-ratelimit-remaining":             {part: remaining, dimension: "interval"},
	"x-hubspot-ratelimit-interval-milliseconds": {part: window, clock: inMillis, dimension: "interval"},
	"x-hubspot-ratelimit-daily":                 {part: limit, dimension: "daily"},
	"x-hubspot-ratelimit-daily-remaining":       {part: remaining, dimension: "daily"},
	"x-hubspot-ratelimit-secondly":              {part: limit, dimension: "secondly"},
	"x-hubspot-ratelimit-secondly-remaining":    {part: remaining, dimension: "secondly"},

	"x-readratelimit-limit": {part: limit, dimension: "read", listed: true}, // Strava
	"x-readratelimit-usage": {part: used, dimension: "read", listed: true},

	"x-daylimit-limit":        {part: limit, dimension: "day"}, // Xero
	"x-daylimit-remaining":    {part: remaining, dimension: "day"},
	"x-minlimit-limit":        {part: limit, dimension: "minute"},
	"x-minlimit-remaining":    {part: remaining, dimension: "minute"},
	"x-appminlimit-limit":     {part: limit, dimension: "app-minute"},
	"x-appminlimit-remaining": {part: remaining, dimension: "app-minute"},

	"x-limit-per-second":      {part: limit, dimension: "second"}, // Etsy
	"x-remaining-this-second": {part: remaining, dimension: "second"},
	"x-limit-per-day":         {part: limit, dimension: "day"},
	"x-remaining-today":       {part: remaining, dimension: "day"},

	"x-bapi-limit":                 {part: limit, dimension: "bapi"}, // Bybit
	"x-bapi-limit-status":          {part: remaining, dimension: "bapi"},
	"x-bapi-limit-reset-timestamp": {part: reset, clock: asInstant, dimension: "bapi"},

	"x-app-limit-24hour-limit":      {part: limit, dimension: "app-24hour"}, // X
	"x-app-limit-24hour-remaining":  {part: remaining, dimension: "app-24hour"},
	"x-app-limit-24hour-reset":      {part: reset, dimension: "app-24hour"},
	"x-user-limit-24hour-limit":     {part: limit, dimension: "user-24hour"},
	"x-user-limit-24hour-remaining": {part: remaining, dimension: "user-24hour"},
	"x-user-limit-24hour-reset":     {part: reset, dimension: "user-24hour"},
}

// prefixes are those of fields whose names end in a window: X-MBX-Used-Weight-1m.
var prefixes = [...]struct {
	prefix string
	name   string // of the quota, before the window
	word   word
}{
	{"x-mbx-used-weight-", "used-weight-", word{part: used, unit: "weight"}}, // Binance
	{"x-mbx-order-count-", "order-count-", word{part: used, unit: "orders"}},
	{"x-sapi-used-ip-weight-", "used-ip-weight-", word{part: used, unit: "weight"}},
	{"x-sapi-used-uid-weight-", "used-uid-weight-", word{part: used, unit: "weight"}},
}

// kinds are the values of X-RateLimit-Type that mean more than a name, folded.
var kinds = map[string]struct {
	window time.Duration
	cause  Cause // which goes before the status's; then the value is no name
}{
	"qps":        {window: time.Second}, // Zoom
	"dailylimit": {window: day},
	"service":    {cause: Overloaded}, // Riot: the backend has no capacity
}

// percents are the keys that hold percentages of use, in Facebook's JSON.
var percents = map[string]bool{
	"call_count": true, "total_cputime": true, "total_time": true,
	"acc_id_util_pct": true, "app_id_util_pct": true,
}

// renewals are the keys there that hold the time until access is had again.
var renewals = map[string]time.Duration{
	"estimated_time_to_regain_access": time.Minute,
	"reset_time_duration":             time.Second,
}

// common are names in net/http's spelling of fields that are on every answer of the busiest APIs. They are
// split once, when the program starts, rather than with each answer.
var common = splitAll(
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Used", "X-Ratelimit-Resource",
	"X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset",
	"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy",
	"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests",
	"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens",
)

// split is a name as identify splits it.
type split struct {
	generation generation
	word       word
	dimension  []byte
}

func splitAll(names ...string) map[string]split {
	all := map[string]split{}
	for _, name := range names {
		if g, w, dimension, ok := identify(appendLower(nil, name)); ok {
			all[name] = split{g, w, dimension}
		}
	}
	return all
}
