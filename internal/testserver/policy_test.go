package testserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // for machines that have no zones

	"github.com/outflow-go/outflow/internal/testserver"
)

// A step is one request and what is expected of its answer.
type step struct {
	at     time.Duration // since the upstream's start
	target string        // method, space, path; "" is "GET /"
	caller string        // Authorization
	want   int
	header string // "Name: value" lines, all expected; "Name:" is expected to be missing
}

// follow sends the steps' requests at their times, in a bubble.
func follow(t *testing.T, policies func() []*testserver.Policy, steps []step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := testserver.New(policies()...)
		start := time.Now()
		for i, s := range steps {
			time.Sleep(s.at - time.Since(start))
			resp := s.send(up)
			if resp.StatusCode != s.want {
				t.Errorf("step %d at %v: status %d, want %d", i, s.at, resp.StatusCode, s.want)
			}
			for line := range strings.Lines(s.header) {
				name, want, _ := strings.Cut(line, ":")
				if got := resp.Header.Get(name); got != strings.TrimSpace(want) {
					t.Errorf("step %d at %v: %s: %q, want %q", i, s.at, name, got, strings.TrimSpace(want))
				}
			}
		}
	})
}

func (s step) send(h http.Handler) *http.Response {
	method, path, found := strings.Cut(s.target, " ")
	if !found {
		method, path = "GET", "/"
	}
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Authorization", s.caller)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func policies(ps ...func() *testserver.Policy) func() []*testserver.Policy {
	return func() []*testserver.Policy {
		var made []*testserver.Policy
		for _, p := range ps {
			made = append(made, p())
		}
		return made
	}
}

const ms = time.Millisecond

func TestGCRA(t *testing.T) {
	tests := map[string]struct {
		policy func() *testserver.Policy
		steps  []step
	}{
		"burst 1 admits one each interval, to the nanosecond": {
			func() *testserver.Policy { return testserver.GCRA(100, 1) },
			[]step{
				{at: 0, want: 200},
				{at: 0, want: 429},
				{at: 10*ms - 1, want: 429},
				{at: 10 * ms, want: 200},
				{at: 20 * ms, want: 200},
			},
		},
		"a refusal costs nothing": {
			func() *testserver.Policy { return testserver.GCRA(10, 1) },
			[]step{{want: 200}, {at: 50 * ms, want: 429}, {at: 99 * ms, want: 429}, {at: 100 * ms, want: 200}},
		},
		"burst": {
			func() *testserver.Policy { return testserver.GCRA(10, 3) },
			[]step{
				{want: 200}, {want: 200}, {want: 200}, {want: 429},
				{at: 100 * ms, want: 200}, {at: 100 * ms, want: 429},
				// Rested for longer than it takes to fill: no more than the burst.
				{at: 5 * time.Second, want: 200}, {at: 5 * time.Second, want: 200},
				{at: 5 * time.Second, want: 200}, {at: 5 * time.Second, want: 429},
			},
		},
		"no Retry-After unless asked for": {
			func() *testserver.Policy { return testserver.GCRA(1, 1) },
			[]step{{want: 200, header: "Retry-After:"}, {want: 429, header: "Retry-After:"}},
		},
		"Retry-After as given": {
			func() *testserver.Policy { return testserver.GCRA(1, 1).RetryAfter("soon") },
			[]step{{want: 200, header: "Retry-After:"}, {want: 429, header: "Retry-After: soon"}},
		},
		"Retry-After in seconds, rounded up": {
			func() *testserver.Policy { return testserver.GCRA(0.5, 1).RetryAfterFunc(testserver.DeltaSeconds) },
			[]step{
				{want: 200},
				{at: 1, want: 429, header: "Retry-After: 2"},
				{at: time.Second, want: 429, header: "Retry-After: 1"},
			},
		},
		"Retry-After as a date, rounded up": {
			func() *testserver.Policy { return testserver.GCRA(0.5, 1).RetryAfterFunc(testserver.HTTPDate) },
			// A bubble's clock starts at 2000-01-01 00:00:00 UTC.
			[]step{{want: 200}, {at: 1, want: 429, header: "Retry-After: Sat, 01 Jan 2000 00:00:02 GMT"}},
		},
		"advertised": {
			func() *testserver.Policy { return testserver.GCRA(2, 4).Advertise(testserver.RateLimitTriple) },
			[]step{
				{want: 200, header: "RateLimit-Limit: 4\nRateLimit-Remaining: 3\nRateLimit-Reset: 1"},
				{want: 200, header: "RateLimit-Remaining: 2\nRateLimit-Reset: 1"},
				{want: 200, header: "RateLimit-Remaining: 1\nRateLimit-Reset: 2"},
				{want: 200, header: "RateLimit-Remaining: 0\nRateLimit-Reset: 2"},
				{want: 429, header: "RateLimit-Remaining: 0\nRateLimit-Reset: 2"},
				{at: 499 * ms, want: 429, header: "RateLimit-Remaining: 0"},
				{at: 10 * time.Second, want: 200, header: "RateLimit-Remaining: 3"},
			},
		},
		"one count for each key": {
			func() *testserver.Policy {
				return testserver.GCRA(1, 1).By(testserver.HeaderValue("Authorization"))
			},
			[]step{{caller: "a", want: 200}, {caller: "b", want: 200}, {caller: "a", want: 429}, {caller: "b", want: 429}},
		},
		"one count for each segment of the path": {
			func() *testserver.Policy { return testserver.GCRA(1, 1).By(testserver.PathSegment(1)) },
			[]step{
				{target: "GET /accounts/a/x", want: 200}, {target: "GET /accounts/b/x", want: 200},
				{target: "GET /accounts/a/y", want: 429}, {target: "GET /accounts", want: 200},
				{target: "GET /", want: 429},
			},
		},
		"only what matches the pattern": {
			func() *testserver.Policy { return testserver.GCRA(1, 1).On("POST /files") },
			[]step{
				{target: "POST /files", want: 200}, {target: "POST /files", want: 429},
				{target: "GET /files", want: 200}, {target: "GET /files", want: 200},
				{target: "POST /other", want: 200},
			},
		},
		"another status": {
			func() *testserver.Policy { return testserver.GCRA(1, 1).Status(503) },
			[]step{{want: 200}, {want: 503}},
		},
		"another refusal": {
			func() *testserver.Policy {
				return testserver.GCRA(1, 1).RetryAfter("1").RefuseWith(testserver.Reply(403, "no", "X-Reason", "quota"))
			},
			[]step{{want: 200}, {want: 403, header: "X-Reason: quota\nRetry-After: 1"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { follow(t, policies(tt.policy), tt.steps) })
	}
}

func TestWindow(t *testing.T) {
	twoASecond := func() *testserver.Policy {
		return testserver.Window(2, time.Second).RetryAfterFunc(testserver.DeltaSeconds)
	}
	tests := map[string]struct {
		policy func() *testserver.Policy
		steps  []step
	}{
		"counts anew in each window": {twoASecond, []step{
			{want: 200},
			{at: 999 * ms, want: 200},
			{at: time.Second - 1, want: 429, header: "Retry-After: 1"},
			{at: time.Second, want: 200}, {at: time.Second, want: 200}, {at: time.Second, want: 429},
			{at: 5500 * ms, want: 200}, {at: 5500 * ms, want: 200}, {at: 5500 * ms, want: 429},
		}},
		"advertised as GitHub does": {
			func() *testserver.Policy {
				return testserver.Window(2, 10*time.Second).Advertise(testserver.XRateLimit)
			},
			[]step{
				// 946684800 is 2000-01-01 00:00:00 UTC.
				{want: 200, header: "X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 946684810"},
				{at: 3 * time.Second, want: 200, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946684810"},
				{at: 4 * time.Second, want: 429, header: "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946684810"},
				{at: 10 * time.Second, want: 200, header: "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 946684820"},
			},
		},
		"advertised with a delta": {
			func() *testserver.Policy {
				return testserver.Window(2, 10*time.Second).Advertise(testserver.XRateLimitDelta)
			},
			[]step{{at: 3500 * ms, want: 200, header: "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 7"}},
		},
		"advertised as the current IETF draft says": {
			func() *testserver.Policy {
				return testserver.Window(2, time.Minute).Advertise(testserver.RateLimitFields)
			},
			[]step{{at: 15 * time.Second, want: 200, header: `RateLimit: "default";r=1;t=45` + "\n" + `RateLimit-Policy: "default";q=2;w=60`}},
		},
		"advertised as the IETF's draft 7": {
			func() *testserver.Policy {
				return testserver.Window(2, time.Minute).Advertise(testserver.RateLimitDictionary)
			},
			[]step{{at: 15 * time.Second, want: 200, header: "RateLimit: limit=2, remaining=1, reset=45\nRateLimit-Policy: 2;w=60"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { follow(t, policies(tt.policy), tt.steps) })
	}
}

func TestWindowPhases(t *testing.T) {
	// A bubble's clock starts at 2000-01-01 00:00:00 UTC, which is a multiple of an hour, but not of 7 h, of
	// Unix time: it is 6 h after one.
	seven := 7 * time.Hour
	tests := map[string]struct {
		policy func() *testserver.Policy
		steps  []step
	}{
		"a window from the start": {
			func() *testserver.Policy { return testserver.Window(1, seven).Aligned(0).FromStart() },
			[]step{{want: 200}, {at: seven - 1, want: 429}, {at: seven, want: 200}},
		},
		"a window by the clock": {
			func() *testserver.Policy { return testserver.Window(1, seven).Aligned(0) },
			[]step{
				{want: 200}, {at: time.Hour - 1, want: 429}, {at: time.Hour, want: 200},
				{at: 8*time.Hour - 1, want: 429}, {at: 8 * time.Hour, want: 200},
			},
		},
		"a window by the clock, with an offset": {
			func() *testserver.Policy { return testserver.Window(1, seven).Aligned(time.Hour) },
			[]step{{want: 200}, {at: 2*time.Hour - 1, want: 429}, {at: 2 * time.Hour, want: 200}, {at: 9*time.Hour - 1, want: 429}},
		},
		"a window by the clock, long before the offset": {
			func() *testserver.Policy {
				return testserver.Window(1, time.Hour).Aligned(876_000*time.Hour + 59*time.Minute)
			},
			[]step{{want: 200}, {at: 59*time.Minute - 1, want: 429}, {at: 59 * time.Minute, want: 200}},
		},
		"a sliding counter by the clock": {
			func() *testserver.Policy { return testserver.SlidingCounter(1, seven) },
			[]step{{want: 200}, {at: time.Hour, want: 429}, {at: 8*time.Hour - 1, want: 429}, {at: 8 * time.Hour, want: 200}},
		},
		"a sliding counter from the start": {
			func() *testserver.Policy { return testserver.SlidingCounter(1, seven).FromStart() },
			[]step{{want: 200}, {at: 8 * time.Hour, want: 429}, {at: 14 * time.Hour, want: 200}},
		},
		"a day in a zone": {
			func() *testserver.Policy {
				east := time.FixedZone("", 5*60*60)
				return testserver.Window(1, 24*time.Hour).Boundaries(testserver.Daily(7, 30, east)).
					RetryAfterFunc(testserver.DeltaSeconds)
			},
			[]step{
				{want: 200}, {at: 150*time.Minute - time.Second, want: 429, header: "Retry-After: 1"},
				{at: 150 * time.Minute, want: 200}, {at: 150*time.Minute + 24*time.Hour - 1, want: 429},
				{at: 150*time.Minute + 24*time.Hour, want: 200},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { follow(t, policies(tt.policy), tt.steps) })
	}
}

func TestDaily(t *testing.T) {
	const layout = "2006-01-02 15:04:05 -0700"
	for _, tt := range []struct {
		zone         string
		hour, minute int
		from         string
		want         []string
	}{
		{"UTC", 0, 0, "2024-02-28 23:59:59 +0000", []string{
			"2024-02-29 00:00:00 +0000", "2024-03-01 00:00:00 +0000",
		}},
		{"America/Los_Angeles", 0, 0, "2024-03-09 12:00:00 -0800", []string{ // a day of 23 h
			"2024-03-10 00:00:00 -0800", "2024-03-11 00:00:00 -0700",
		}},
		{"America/Los_Angeles", 0, 0, "2024-11-02 12:00:00 -0700", []string{ // a day of 25 h
			"2024-11-03 00:00:00 -0700", "2024-11-04 00:00:00 -0800",
		}},
		{"America/Los_Angeles", 2, 30, "2024-03-09 12:00:00 -0800", []string{ // skipped
			"2024-03-10 03:00:00 -0700", "2024-03-11 02:30:00 -0700",
		}},
		{"America/Los_Angeles", 1, 30, "2024-11-02 12:00:00 -0700", []string{ // there twice
			"2024-11-03 01:30:00 -0700", "2024-11-04 01:30:00 -0800",
		}},
		{"America/Los_Angeles", 1, 30, "2024-11-03 01:10:00 -0800", []string{ // between the two
			"2024-11-04 01:30:00 -0800",
		}},
		{"America/Sao_Paulo", 0, 0, "2018-11-03 12:00:00 -0300", []string{ // a day without a midnight
			"2018-11-04 01:00:00 -0200", "2018-11-05 00:00:00 -0200",
		}},
		{"Australia/Lord_Howe", 1, 45, "2024-04-06 12:00:00 +1100", []string{ // turned back by half an hour
			"2024-04-07 01:45:00 +1100", "2024-04-08 01:45:00 +1030",
		}},
	} {
		zone, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		next := testserver.Daily(tt.hour, tt.minute, zone)
		at, err := time.Parse(layout, tt.from)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if at = next(at); at.In(zone).Format(layout) != want {
				t.Errorf("%d:%d in %s after %s: %s, want %s", tt.hour, tt.minute, tt.zone, tt.from, at.In(zone).Format(layout), want)
			}
			if early := next(at.Add(-1)); !early.Equal(at) {
				t.Errorf("just before %s: %s", want, early.In(zone).Format(layout))
			}
		}
	}
}

func TestBrownOut(t *testing.T) {
	brownOut := func() *testserver.Policy { return testserver.BrownOut(time.Second, 3*time.Second) }
	t.Run("bare", func(t *testing.T) {
		follow(t, policies(brownOut), []step{
			{at: time.Second - 1, want: 200},
			{at: time.Second, want: 503, header: "Retry-After:"},
			{at: 3*time.Second - 1, want: 503},
			{at: 3 * time.Second, want: 200},
		})
	})
	t.Run("with Retry-After", func(t *testing.T) {
		hinting := func() *testserver.Policy { return brownOut().RetryAfterFunc(testserver.DeltaSeconds) }
		follow(t, policies(hinting), []step{
			{at: time.Second, want: 503, header: "Retry-After: 2"},
			{at: 3 * time.Second, want: 200, header: "Retry-After:"},
		})
	})
}

func TestScript(t *testing.T) {
	t.Run("step by step, then on", func(t *testing.T) {
		follow(t, policies(func() *testserver.Policy {
			steps := testserver.Times(2, testserver.Reply(429, "", "Retry-After", "1"))
			return testserver.Script(append(steps, nil, testserver.Reply(500, ""))...)
		}), []step{
			{want: 429, header: "Retry-After: 1"}, {want: 429}, {want: 200, header: "Retry-After:"}, {want: 500}, {want: 200}, {want: 200},
		})
	})
	t.Run("every third", func(t *testing.T) {
		follow(t, policies(func() *testserver.Policy {
			return testserver.ScriptFunc(func(i int, _ *http.Request) http.Handler {
				if i%3 == 2 {
					return testserver.Reply(502, "")
				}
				return nil
			})
		}), []step{{want: 200}, {want: 200}, {want: 502}, {want: 200}, {want: 200}, {want: 502}})
	})
	t.Run("a script for each key", func(t *testing.T) {
		follow(t, policies(func() *testserver.Policy {
			return testserver.Script(testserver.Reply(401, "")).By(testserver.HeaderValue("Authorization"))
		}), []step{{caller: "a", want: 401}, {caller: "b", want: 401}, {caller: "a", want: 200}})
	})
}

func TestStamp(t *testing.T) {
	follow(t, policies(
		func() *testserver.Policy { return testserver.Stamp("X-RateLimit-Remaining", "-1") },
		func() *testserver.Policy { return testserver.GCRA(1, 1) },
	), []step{
		{want: 200, header: "X-RateLimit-Remaining: -1"},
		{want: 429, header: "X-RateLimit-Remaining: -1"},
	})
}

func TestRefusedByOneIsChargedToNone(t *testing.T) {
	follow(t, policies(
		func() *testserver.Policy { return testserver.GCRA(1, 2) },
		func() *testserver.Policy { return testserver.GCRA(1, 1).On("POST /files").Status(503) },
	), []step{
		{target: "POST /files", want: 200},
		{target: "POST /files", want: 503}, // by the second policy, so the first still has one
		{target: "GET /", want: 200},
		{target: "POST /files", want: 429}, // the first policy that refuses answers
	})
}

func TestPolicyMisuse(t *testing.T) {
	nameless := []string{"X-Name"} // which staticcheck would see in a literal
	for name, misuse := range map[string]func(){
		"rate 0":             func() { testserver.GCRA(0, 1) },
		"rate above 1e9":     func() { testserver.GCRA(2e9, 1) },
		"burst 0":            func() { testserver.GCRA(1, 0) },
		"window of none":     func() { testserver.Window(0, time.Second) },
		"window of no time":  func() { testserver.Window(1, 0) },
		"concurrency 0":      func() { testserver.Concurrency(0) },
		"malformed pattern":  func() { testserver.GCRA(1, 1).On("POST") },
		"name without value": func() { testserver.Reply(200, "", nameless...) },
		"log of none":        func() { testserver.SlidingLog(0, time.Second) },
		"counter of no time": func() { testserver.SlidingCounter(1, 0) },
		"cost of no count":   func() { testserver.Concurrency(1).Cost(headerCost) },
		"phase of no window": func() { testserver.GCRA(1, 1).Aligned(0) },
		"start of no window": func() { testserver.SlidingLog(1, 1).FromStart() },
		"unequal windows":    func() { testserver.SlidingCounter(1, time.Hour).Boundaries(testserver.Daily(0, 0, time.UTC)) },
		"boundary in the past": func() {
			(step{}).send(testserver.New(testserver.Window(1, 1).Boundaries(func(t time.Time) time.Time { return t })))
		},
		"negative cost": func() {
			sendCost(testserver.New(testserver.Window(1, time.Second).Cost(headerCost)), -1)
		},
		"settle without cost":    func() { testserver.Window(1, 1).Settle(new(http.Request), 1) },
		"settle a negative cost": func() { testserver.Window(1, 1).Cost(headerCost).Settle(new(http.Request), -1) },
		"two upstreams": func() {
			p := testserver.GCRA(1, 1)
			testserver.New(p)
			testserver.New(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse()
		})
	}
}
