package headers

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVendors(t *testing.T) {
	for _, test := range []struct {
		name   string
		header []string
		want   string
	}{
		{"used of a limit", []string{"X-RateLimit-Limit", "100", "X-RateLimit-Used", "5"}, " 95/100 -1ns per 0s"},
		{"more used than allowed", []string{"RateLimit-Limit", "60", "RateLimit-Observed", "67"}, " 0/60 -1ns per 0s"},
		{"what remains goes before what was used", []string{"X-RateLimit-Limit", "100", "X-RateLimit-Used", "5", "X-RateLimit-Remaining", "7"}, " 7/100 -1ns per 0s"},
		{"used of nothing known", []string{"X-RateLimit-Used", "5"}, ""},
		{"used, in several windows", []string{"X-RateLimit-Limit", "600,30000", "X-RateLimit-Usage", "1,14"}, " -1/600 -1ns per 0s"},

		{"Shopify", []string{"X-Shopify-Shop-Api-Call-Limit", "32/40"}, "shop-api-call 8/40 -1ns per 0s"},
		{"Shopify, garbage", []string{"X-Shopify-Shop-Api-Call-Limit", "32"}, ""},
		{"Shopify, negative", []string{"X-Shopify-Shop-Api-Call-Limit", "-1/40"}, "shop-api-call -1/40 -1ns per 0s"},
		{"Salesforce", []string{"Sforce-Limit-Info", "api-usage=25/5000; per-app-api-usage=17/250(appName=a;b)"}, "api-usage 4975/5000 -1ns per 0s; per-app-api-usage 233/250 -1ns per 0s"},
		{"Amazon, whole", []string{"X-Amzn-RateLimit-Limit", "15.0"}, " -1/15 -1ns per 1s"},
		{"Amazon, slow", []string{"X-Amzn-RateLimit-Limit", "0.0167"}, " -1/1 -1ns per 59.88023952s"},
		{"Amazon, nothing", []string{"X-Amzn-RateLimit-Limit", "0"}, ""},
		{"Amazon, nearly nothing", []string{"X-Amzn-RateLimit-Limit", "0.000000001"}, " -1/1 -1ns per 277777h46m40s"},
		{"Azure", []string{"X-Ms-RateLimit-Remaining-Resource", "A/B3Min;46, A/B30Min;x,;5", "X-Ms-RateLimit-Remaining-Resource", "A/C;0"}, "A/B3Min 46/-1 -1ns per 0s; A/C 0/-1 -1ns per 0s"},
		{"Graph", []string{"X-Ms-Throttle-Limit-Percentage", "1.8"}, "throttle-limit 0/100 -1ns per 0s"},
		{"Graph, nearly", []string{"X-Ms-Throttle-Limit-Percentage", "0.999"}, "throttle-limit 1/100 -1ns per 0s"},
		{"Anthropic", []string{"Anthropic-RateLimit-Unified-5h-Utilization", "0.12", "Anthropic-RateLimit-Unified-5h-Reset", "1768478460"}, "unified-5h 88/100 1m0s per 5h0m0s"},
		{"Riot", []string{"X-App-Rate-Limit", "20:1,100:120", "X-App-Rate-Limit-Count", "1:1,30:120", "X-Method-Rate-Limit", "50:10"}, "app 19/20 -1ns per 1s; app 70/100 -1ns per 2m0s; method -1/50 -1ns per 10s"},
		{"Riot, garbage", []string{"X-App-Rate-Limit", "20,:,x:1,5:y"}, ""},
		{"Sentry", []string{"X-Sentry-Rate-Limits", "60:error;transaction:organization:quota, 5::key"}, " 0/-1 5s per 0s; error 0/-1 1m0s per 0s; transaction 0/-1 1m0s per 0s"},
		{"Facebook", []string{"X-Ad-Account-Usage", `{"acc_id_util_pct":9.67,"reset_time_duration":100,"ads_api_access_tier":"x"}`}, "ad-account/acc_id_util_pct 91/100 1m40s per 0s"},
		{"Facebook, over", []string{"X-App-Usage", `{"call_count":150}`}, "app/call_count 0/100 -1ns per 0s"},
		{"Facebook, garbage", []string{"X-App-Usage", `{"call_count":-1,"total_time":"5"}`, "X-Page-Usage", `[1]`}, ""},
		{"Binance", []string{"X-Mbx-Used-Weight", "4", "X-Mbx-Used-Weight-1m", "4"}, "used-weight-1m -1/-1 -1ns per 1m0s"},
		{"Twilio", []string{"Twilio-Concurrent-Requests", "1"}, "concurrent-requests -1/-1 -1ns per 0s"},
		{"Xero", []string{"X-AppMinLimit-Remaining", "9900"}, "app-minute 9900/-1 -1ns per 1m0s"},
		{"Etsy", []string{"X-Remaining-This-Second", "8", "X-Limit-Per-Second", "10"}, "second 8/10 -1ns per 1s"},
		{"Bybit", []string{"X-Bapi-Limit", "100", "X-Bapi-Limit-Status", "99", "X-Bapi-Limit-Reset-Timestamp", "1768478400824"}, "bapi 99/100 824ms per 0s"},
		{"X", []string{"X-App-Limit-24hour-Limit", "100", "X-App-Limit-24hour-Remaining", "7"}, "app-24hour 7/100 -1ns per 24h0m0s"},
		{"HubSpot", []string{"X-HubSpot-RateLimit-Max", "100", "X-HubSpot-RateLimit-Interval-Milliseconds", "10000", "X-HubSpot-RateLimit-Daily", "500000"}, "daily -1/500000 -1ns per 24h0m0s; interval -1/100 -1ns per 10s"},
		{"Zendesk", []string{"Zendesk-RateLimit-Incremental-Exports", "total=10;    remaining=9;     resets=2"}, "incremental-exports 9/10 2s per 0s"},
		{"Zendesk's form with nothing in it", []string{"X-RateLimit-Foo", "a=b"}, ""},
		{"Yelp", []string{"RateLimit-DailyLimit", "500", "RateLimit-Remaining", "499", "RateLimit-ResourceDailyLimit", "100", "RateLimit-ResourceRemaining", "99", "RateLimit-ResetTime", "2026-01-15T13:00:00+00:00"}, "daily 499/500 1h0m0s per 24h0m0s; resource-daily 99/100 1h0m0s per 24h0m0s"},
		{"Auth0", []string{"X-Quota-Client-Limit", "b=per_hour;q=100;r=50;t=3600,per_day;q=1000;r=500;t=86400"}, "client/per_day 500/1000 24h0m0s per 24h0m0s; client/per_hour 50/100 1h0m0s per 1h0m0s"},
		{"Basecamp", []string{"X-RateLimit", `{"name":"General","period":60,"limit":1000,"remaining":999,"until":"2026-01-15T12:01:00Z"}`}, "General 999/1000 1m0s per 1m0s"},
		{"Basecamp, garbage", []string{"X-RateLimit", `{"name":"General","limit":`}, ""},
		{"Spring Cloud Gateway", []string{"X-RateLimit-Burst-Capacity", "4", "X-RateLimit-Remaining", "3", "X-RateLimit-Replenish-Rate", "2"}, " 3/4 -1ns per 1s"},
		{"Zuora", []string{"Concurrency-Limit-Type", "Default", "Concurrency-Limit-Limit", "40", "Concurrency-Limit-Remaining", "12"}, "Default 12/40 -1ns per 0s"},
		{"Zuora beside another", []string{"Concurrency-Limit-Type", "Default", "Concurrency-Limit-Limit", "40", "X-RateLimit-Limit", "40"}, " -1/40 -1ns per 0s; Default -1/40 -1ns per 0s"},
		{"Buildkite", []string{"RateLimit-Scope", "'portal'", "RateLimit-Limit", "200"}, "portal -1/200 -1ns per 0s"},
		{"Zoom", []string{"X-RateLimit-Type", "QPS", "X-RateLimit-Category", "Light", "X-RateLimit-Limit", "80"}, "Light -1/80 -1ns per 1s"},
		{"Cerebras", []string{"X-RateLimit-Limit-Tokens-Minute", "60000", "X-RateLimit-Limit-Requests-Day", "14400"}, "requests-day -1/14400 -1ns per 24h0m0s; tokens-minute -1/60000 -1ns per 1m0s"},
		{"Mistral", []string{"X-RateLimitBySize-Limit-Minute", "500000", "X-RateLimitBySize-Remaining-Minute", "499"}, "tokens-minute 499/500000 -1ns per 1m0s"},
		{"ten minutes in a name", []string{"X-RateLimit-Limit-10-Minute", "5"}, "10-minute -1/5 -1ns per 10m0s"},
		{"fifteen in one word", []string{"X-RateLimit-Limit-15min", "5"}, "15min -1/5 -1ns per 15m0s"},
		{"Kubernetes, on a success", []string{"X-Kubernetes-PF-FlowSchema-UID", "u"}, ""},
	} {
		if got := quotas(parse(200, test.header...)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestUnitsOfVendors(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"X-RateLimit-Limit-Tokens-Minute", "5", "tokens"},
		{"X-RateLimit-Limit-Project-Tokens", "5", "tokens"},
		{"X-RateLimit-Limit-Images", "5", "images"},
		{"X-RateLimit-Endpoint-Complexity-Limit", "5", "cost"},
		{"X-Mbx-Used-Weight-1m", "5", "weight"},
		{"X-Mbx-Order-Count-10s", "5", "orders"},
		{"X-App-Usage", `{"call_count":5}`, "percent"},
		{"X-Ms-Throttle-Limit-Percentage", "0.9", "percent"},
		{"Twilio-Concurrent-Requests", "5", "concurrency"},
		{"X-Concurrency-Limit", "5", "concurrency"},
		{"Stripe-Rate-Limited-Reason", "endpoint-concurrency", "concurrency"},
		{"Stripe-Rate-Limited-Reason", "endpoint-rate", "requests"},
	} {
		if q := parse(200, test.name, test.value).Quotas; len(q) != 1 || q[0].Unit != test.want {
			t.Errorf("%s %s: %+v", test.name, test.value, q)
		}
	}
}

func TestConcurrency(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		header []string
		want   bool
	}{
		{"Stripe", 429, []string{"Stripe-Rate-Limited-Reason", "endpoint-concurrency"}, true},
		{"Stripe's rate", 429, []string{"Stripe-Rate-Limited-Reason", "global-rate"}, false},
		{"GitHub Models", 429, []string{"X-RateLimit-Type", "UserConcurrentRequests", "X-RateLimit-TimeRemaining", "0", "Retry-After", "0"}, true},
		{"GitHub Models' minute", 429, []string{"X-RateLimit-Type", "UserByMinute"}, false},
		{"Kubernetes", 429, []string{"X-Kubernetes-PF-FlowSchema-UID", "u", "Retry-After", "1"}, true},
		{"Sentry", 429, []string{"X-Sentry-Rate-Limit-ConcurrentLimit", "25", "X-Sentry-Rate-Limit-ConcurrentRemaining", "0", "X-Sentry-Rate-Limit-Remaining", "39"}, true},
		{"Sentry, both", 429, []string{"X-Sentry-Rate-Limit-ConcurrentRemaining", "0", "X-Sentry-Rate-Limit-Remaining", "0"}, false},
		{"Sentry's rate", 429, []string{"X-Sentry-Rate-Limit-ConcurrentRemaining", "24", "X-Sentry-Rate-Limit-Remaining", "0"}, false},
		{"IETF", 429, []string{"RateLimit-Policy", `"a";q=5;qu="concurrent-requests"`, "RateLimit", `"a";r=0`}, true},
		{"Okta", 429, []string{"X-Rate-Limit-Limit", "0", "X-Rate-Limit-Remaining", "0", "X-Rate-Limit-Reset", "1768478460"}, true},
		{"nothing but zeros", 429, []string{"X-Rate-Limit-Limit", "0", "X-Rate-Limit-Remaining", "0", "X-Rate-Limit-Reset", "0"}, false},
		{"a limit that did not refuse", 429, []string{"X-Concurrency-Limit", "3", "X-RateLimit-Limit", "5"}, false},
		{"a success", 200, []string{"X-Sentry-Rate-Limit-ConcurrentRemaining", "0"}, false},
		{"an overload", 503, []string{"X-Sentry-Rate-Limit-ConcurrentRemaining", "0"}, false},
	} {
		if got := parse(test.status, test.header...).Concurrency; got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestScopeAndBucket(t *testing.T) {
	for _, test := range []struct {
		header []string
		scope  Scope
		bucket string
	}{
		{nil, ScopeUnknown, ""},
		{[]string{"X-RateLimit-Bucket", "abcd1234", "X-RateLimit-Scope", "user"}, ScopeUser, "abcd1234"},
		{[]string{"X-RateLimit-Scope", "Shared"}, ScopeShared, ""},
		{[]string{"X-RateLimit-Scope", "global"}, ScopeGlobal, ""},
		{[]string{"X-RateLimit-Global", "true"}, ScopeGlobal, ""},
		{[]string{"X-RateLimit-Global", "false"}, ScopeUnknown, ""},
		{[]string{"X-RateLimit-Global", "true", "X-RateLimit-Scope", "user"}, ScopeGlobal, ""},
		{[]string{"X-RateLimit-Scope", "portal"}, ScopeUnknown, ""},
		{[]string{"X-RateLimit-Bucket", "b", "X-RateLimit-Bucket", "a"}, ScopeUnknown, "a"},
		{[]string{"X-RateLimit-Bucket", " "}, ScopeUnknown, ""},
		{[]string{"X-RateLimit-Bucket", strings.Repeat("a", maxName+1)}, ScopeUnknown, ""},
	} {
		if got := parse(429, test.header...); got.Scope != test.scope || got.Bucket != test.bucket {
			t.Errorf("%v: %+v", test.header, got)
		}
	}
	for s, want := range map[Scope]string{ScopeUnknown: "unknown", ScopeUser: "user", ScopeShared: "shared", ScopeGlobal: "global", 9: "invalid"} {
		if s.String() != want {
			t.Errorf("%d: %q", s, s.String())
		}
	}
}

func TestPartition(t *testing.T) {
	for value, want := range map[string]string{
		`"a";r=5`:                   "",
		`"a";r=5;pk=:AQ==:`:         "\x01",
		`"a";r=5;pk="user-1"`:       "user-1",
		`"a";r=5;pk=user`:           "user",
		`"a";"b";r=5;pk=:AQ==:`:     "\x01",
		`"a";"b";r=5;pk=:%%%:`:      "%%%",
		`"a";r=5;pk=:cHsdsRa894==:`: "p{\x1d\xb1\x16\xbc\xf7",
	} {
		if q := parse(200, "RateLimit", value).Quotas; len(q) != 1 || q[0].Partition != want {
			t.Errorf("%s: %+v, want %q", value, q, want)
		}
	}
	two := parse(200, "RateLimit", `"a";r=1;pk=:AQ==:`, "RateLimit-Policy", `"a";q=9`).Quotas
	if len(two) != 1 || two[0].Partition != "\x01" || two[0].Limit != 9 {
		t.Errorf("%+v", two)
	}
}

func TestReasons(t *testing.T) {
	for _, test := range []struct {
		status int
		header []string
		want   Cause
	}{
		{400, []string{"X-Amzn-ErrorType", "ThrottlingException"}, Limited},
		{400, []string{"X-Amzn-ErrorType", "ThrottlingException:http://internal.amazon.com/coral/"}, Limited},
		{400, []string{"X-Amzn-ErrorType", "com.amazonaws#TooManyRequestsException"}, Limited},
		{400, []string{"X-Amzn-ErrorType", "ValidationException"}, None},
		{200, []string{"X-Amzn-ErrorType", "ThrottlingException"}, None},
		{429, []string{"X-Rate-Limit-Type", "service"}, Overloaded},
		{429, []string{"X-Rate-Limit-Type", "application"}, Limited},
		{200, []string{"X-Rate-Limit-Type", "service"}, None},
	} {
		if got := parse(test.status, test.header...).Cause; got != test.want {
			t.Errorf("%d %v: %v", test.status, test.header, got)
		}
	}
}

func TestDialect(t *testing.T) {
	millis := &Dialect{ResetUnit: time.Millisecond, RetryAfterUnit: time.Millisecond, WindowUnit: time.Millisecond}
	for _, test := range []struct {
		name    string
		dialect *Dialect
		header  []string
		want    string
	}{
		{"nil", nil, []string{"X-RateLimit-Reset", "30000"}, "limited 0s  -1/-1 8h20m0s per 0s"},
		{"zero", &Dialect{}, []string{"X-RateLimit-Reset", "30000"}, "limited 0s  -1/-1 8h20m0s per 0s"},
		{"reset", millis, []string{"X-RateLimit-Reset", "30000"}, "limited 0s  -1/-1 30s per 0s"},
		{"a Unix time is one", millis, []string{"X-RateLimit-Reset", "1768478460"}, "limited 0s  -1/-1 1m0s per 0s"},
		{"in milliseconds too", millis, []string{"X-RateLimit-Reset", "1768478460000"}, "limited 0s  -1/-1 1m0s per 0s"},
		{"a name with a unit", millis, []string{"X-RateLimit-Reset-After", "30"}, "limited 0s  -1/-1 30s per 0s"},
		{"a duration", millis, []string{"X-RateLimit-Reset", "6m0s"}, "limited 0s  -1/-1 6m0s per 0s"},
		{"retry after", millis, []string{"Retry-After", "60000"}, "limited 1m0s"},
		{"retry after as a date", millis, []string{"Retry-After", "Thu, 15 Jan 2026 12:01:00 GMT"}, "limited 1m0s"},
		{"a hint with a unit", millis, []string{"Retry-After-Ms", "2500"}, "limited 2.5s"},
		{"window", millis, []string{"X-RateLimit-Limit", "5", "X-RateLimit-Interval", "1000"}, "limited 0s  -1/5 -1ns per 1s"},
		{"what isn't sent", &Dialect{Window: time.Minute, Unit: "weight"}, []string{"X-RateLimit-Limit", "5"}, "limited 0s  -1/5 -1ns per 1m0s"},
		{"what is", &Dialect{Window: time.Minute}, []string{"X-RateLimit-Limit", "5", "X-RateLimit-Period", "1"}, "limited 0s  -1/5 -1ns per 1s"},
		{"negative", &Dialect{Window: -1, ResetUnit: -1, WindowUnit: -1, RetryAfterUnit: -1}, []string{"X-RateLimit-Reset", "30", "Retry-After", "5"}, "limited 5s  -1/-1 30s per 0s"},
		{"windows", &Dialect{Windows: []Window{{"a", time.Minute}, {"b", time.Hour}}}, []string{"X-RateLimit-Limit", "5,7,9", "X-RateLimit-Remaining", "1,2"}, "limited 0s  -1/9 -1ns per 0s; a 1/5 -1ns per 1m0s; b 2/7 -1ns per 1h0m0s"},
		{"windows, but no list", &Dialect{Windows: []Window{{"a", time.Minute}}}, []string{"X-RateLimit-Limit", "5"}, "limited 0s  -1/5 -1ns per 0s"},
	} {
		resp := answer(429, "", test.header...)
		if got := said(test.dialect.Parse(resp, arrival)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
		if got := said(test.dialect.ParseHeader(429, resp.Header, arrival)); got != test.want {
			t.Errorf("%s, header:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
	if q := (&Dialect{Unit: "weight"}).ParseHeader(200, answer(200, "", "X-RateLimit-Limit", "5", "X-RateLimit-Limit-Tokens", "7").Header, arrival).Quotas; q[0].Unit != "weight" || q[1].Unit != "tokens" {
		t.Errorf("%+v", q)
	}
}

// Go iterates over a map in another order each time, and the fields of vendors must not mind either.
func TestOrderOfVendorsFieldsDoesNotMatter(t *testing.T) {
	names := slices.Sorted(maps.Keys(ownFields))
	for name := range common {
		names = append(names, strings.ToLower(name), name)
	}
	slices.Sort(names)
	values := []string{
		"5", "7", "32/40", "0.5", "a;5,b;6", "20:1,100:120", "60:error;transaction, 5::", `{"call_count":42}`, "per_hour;q=100;r=50;t=3600",
		`{"name":"a","limit":1000,"remaining":999}`, `{"name":"a","limit":10,"period":3}`, "QPS", "concurrent", "1m", "1768478460", `"a";q=5;r=3;pk=x`, "-3",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		h := http.Header{}
		for range 2 + random.IntN(6) {
			h[names[random.IntN(len(names))]] = []string{values[random.IntN(len(values))], values[random.IntN(len(values))]}
		}
		first := ParseHeader(429, h, arrival)
		checkSane(t, first)
		for range 5 {
			if again := ParseHeader(429, h, arrival); !reflect.DeepEqual(first, again) {
				t.Fatalf("%v:\nfirst %+v\nthen  %+v", h, first, again)
			}
		}
	}
}
