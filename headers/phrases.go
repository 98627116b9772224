package headers

import "time"

// The tables of this file are what servers say in the body of a refusal. A vendor is a row. Keys, codes and
// paths are folded: in lower case, of letters and digits only.

// waitKeys are keys that hold a wait, in JSON. With a unit it is a number of those; else it is read as
// Retry-After is.
var waitKeys = map[string]time.Duration{
	"retryafter":             0,                // Discord, Telegram
	"retryafterms":           time.Millisecond, // Matrix
	"retryaftermilliseconds": time.Millisecond,
	"retryafterseconds":      0,
	"retryaftersec":          0,
	"retryinseconds":         0, // monday.com
	"retryin":                0,
	"retrydelay":             0, // Google's RetryInfo: "57.238747106s"
	"resetsinseconds":        0, // OpenAI's Codex
	"retrydelayms":           time.Millisecond,
}

// codeKeys are keys that hold a code, and elements that do in XML.
var codeKeys = map[string]bool{
	"code": true, "errorcode": true, "errcode": true, "statuscode": true, "status": true,
	"type": true, "errortype": true, "id": true, "reason": true, "category": true, "name": true,
	"error": true, "errors": true,
}

// messageKeys are keys that hold prose.
var messageKeys = map[string]bool{
	"message": true, "msg": true, "errormessage": true, "description": true, "errordescription": true,
	"detail": true, "details": true, "title": true, "reason": true, "error": true, "errors": true,
}

// codes are what servers call their refusals.
var codes = map[string]judgement{
	"ratelimit":                              isLimit, // Heroku
	"ratelimits":                             isLimit, // HubSpot
	"ratelimited":                            isLimit, // Linear, Notion, Slack, Square, GitHub's GraphQL
	"ratelimiterror":                         isLimit, // Anthropic, Square, Stripe
	"ratelimitexceeded":                      isLimit, // Google, OpenAI, Plaid
	"ratelimitreached":                       isLimit, // Airtable
	"ratelimitexceedederror":                 isLimit,
	"userratelimitexceeded":                  isLimit, // Google
	"dailylimitexceeded":                     isLimit,
	"quotaexceeded":                          isLimit, // also a problem type of the IETF draft
	"resourceexhausted":                      isLimit,
	"abnormalusagedetected":                  isLimit, // IETF
	"toomanyrequests":                        isLimit, // DigitalOcean
	"toomanyrequestserror":                   isLimit,
	"requestlimitexceeded":                   isLimit, // Salesforce, EC2
	"requestquotaexceeded":                   isLimit, // Cerebras
	"mlimitexceeded":                         isLimit, // Matrix
	"throttled":                              isLimit, // Shopify
	"complexityexception":                    isLimit, // monday.com
	"complexitybudgetexhausted":              isLimit,
	"throttling":                             isLimit, // AWS, from here
	"throttlingexception":                    isLimit,
	"throttledexception":                     isLimit,
	"requestthrottled":                       isLimit,
	"requestthrottledexception":              isLimit,
	"ec2throttledexception":                  isLimit,
	"toomanyrequestsexception":               isLimit,
	"bandwidthlimitexceeded":                 isLimit,
	"slowdown":                               isLimit, // S3, per prefix
	"-1003":                                  isLimit, // Binance
	"-1015":                                  isLimit,
	"20429":                                  isInFlight, // Twilio
	"429":                                    isLimit,
	"toomanyconcurrentrequests":              isInFlight, // ElevenLabs
	"provisionedthroughputexceededexception": isLimit,

	"modelcapacityexhausted":      isOverload, // Google
	"queueexceeded":               isOverload, // Cerebras
	"systembusy":                  isOverload, // ElevenLabs
	"servicetiercapacityexceeded": isOverload, // Mistral
	"overloaded":                  isOverload,
	"engineoverloaded":            isOverload,
	"serveroverloaded":            isOverload,
	"modeloverloaded":             isOverload,
	"temporaryreducedcapacity":    isOverload, // IETF
	"overloadederror":             isOverload, // Anthropic
	"serviceoverload":             isOverload, // Notion

	"locktimeout": isSomething, // Stripe: an object is locked
}

// accepted are the places where an answer with status 200 may hold a code that counts.
var accepted = map[string]bool{
	"errors.extensions.code": true, // GraphQL: Shopify, Linear, monday.com
	"errors.type":            true, // GitHub's GraphQL
	"error":                  true, // Kraken, Slack
	"errorcode":              true, // monday.com
	"statuscode":             true,
	"error.code":             true, // S3
}

// phrases are what prose says, in lower case. A {} is a wait or a time; a {remaining} and a {limit} are
// counts of the quota.
var phrases = [...]phrase{
	{text: "secondary rate limit", judgement: gitHubSecondary},
	{text: "abuse detection mechanism", judgement: gitHubSecondary},
	{text: "rate limit exceeded", judgement: isLimit}, // MailHops, Kraken
	{text: "too many requests", judgement: isLimit},
	{text: "request limit reached", judgement: isLimit},   // Facebook
	{text: "exceeded the rate limit", judgement: isLimit}, // Facebook
	{text: "too many concurrent", judgement: isInFlight},  // Google
	{text: "concurrent requests", concurrency: true},
	{text: "concurrency limit", concurrency: true},      // Microsoft Graph
	{text: "concurrent connections", concurrency: true}, // Anthropic

	{text: "throttled: {}", judgement: isLimit},   // Kraken
	{text: "banned until {}", judgement: isLimit}, // Binance
	{text: "try again after {}"},                  // Mailgun, crates.io
	{text: "try again in {}"},                     // Groq, OpenAI
	{text: "retry after {}"},                      // Telegram
	{text: "retry in {}"},                         // Google
	{text: "available in {}"},                     // Django REST framework
	{text: "budget remaining {remaining} out of {limit} reset in {}", quota: "complexity", unit: "cost"}, // monday.com
}

type phrase struct {
	text        string
	judgement   judgement
	concurrency bool   // what refuses is about the number in flight, if it refuses
	quota, unit string // which the counts are of
}

// gitHubSecondary is a limit that no header tells. "If the retry-after response header is not present and
// x-ratelimit-remaining is not 0, wait at least one minute":
// https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
var gitHubSecondary = judgement{said: true, cause: Limited, wait: time.Minute}

// stocks are numbers in JSON that are a part of a quota, by their key.
var stocks = map[string]stock{
	"maximumavailable":   {"extensions.cost.throttlestatus", limit, "graphql-cost", "cost"}, // Shopify
	"currentlyavailable": {"extensions.cost.throttlestatus", remaining, "graphql-cost", "cost"},
}

type stock struct {
	path  string // of the keys above
	part  part
	quota string
	unit  string
}
