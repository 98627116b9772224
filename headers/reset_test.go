package headers

import (
	"net/http"
	"testing"
	"time"
)

// resets are values of X-RateLimit-Reset at arrival, which is 1768478400.
var resets = []struct {
	value string
	want  time.Duration
}{
	{"0", 0},
	{"30", 30 * time.Second},
	{"0.755", 755 * time.Millisecond},
	{`"30"`, 30 * time.Second},
	{" 30 ", 30 * time.Second},
	{"2678400", 31 * day},
	{"2678400.5", unknown},
	{"2678401", unknown},
	{"150933900", unknown}, // a gap: nearly five years
	{"946684799", unknown},
	{"946684800", 0},  // 2000
	{"1000000000", 0}, // 2001
	{"1768478395", 0},
	{"1768478400", 0},
	{"1768478460", time.Minute},
	{"1768478460.123", time.Minute + 123*time.Millisecond},
	{"4102444799", 4102444799*time.Second - 1768478400*time.Second},
	{"4102444800", unknown}, // 2100
	{"9999999999", unknown}, // "never"
	{"946684799999", unknown},
	{"946684800000", 0},
	{"1768478460000", time.Minute},
	{"1768478460250.5", time.Minute + 250500*time.Microsecond},
	{"4102444800000", unknown},
	{"1768478460000000", time.Minute},
	{"4102444800000000", unknown},
	{"1768478460000000000", time.Minute},
	{"4102444800000000000", unknown},
	{"9223372036854775807", unknown},
	{"9223372036854775808", unknown},
	{"-30", unknown},
	{"-1", unknown},
	{"1s", time.Second},
	{"6m0s", 6 * time.Minute},
	{"2m59.56s", 179560 * time.Millisecond},
	{"45d", 45 * day},
	{"9223372036854775807s", unknown},
	{"Thu, 15 Jan 2026 12:01:00 GMT", time.Minute},
	{"Thu, 15 Jan 2026 12:01:00 UTC", time.Minute},
	{"Thu, 15 Jan 2026 11:01:00 GMT", 0},
	{"2026-01-15T12:01:00Z", time.Minute},
	{"2026-01-15T12:01:00.8421074Z", time.Minute + 842107400},
	{"2026-01-15T14:01:00+02:00", time.Minute},
	{"2026-01-15T12:02Z", 2 * time.Minute},
	{"Thu Jan 15 2026 13:01:00 GMT+0100 (Central European Standard Time)", time.Minute},
	{"2026-01-15 12:01:00", time.Minute},
	{"2026-01-15 11:01:00", 0},
	{"2026-02-15 11:59:59", 31*day - time.Second},
	{"30, 40", 40 * time.Second},
	{"40, 30", 40 * time.Second},
	{"-1, 40", 40 * time.Second},
	{"Thu, 15 Jan 2026 12:01:00 GMT, Thu, 15 Jan 2026 12:02:00 GMT", 2 * time.Minute},
}

// Trap 19: the number tells its unit, and a past epoch is never a delta.
func TestResetUnitTrap19(t *testing.T) {
	for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset", "X-Rate-Limit-Reset"} {
		for _, test := range resets {
			q := parse(200, "X-RateLimit-Limit", "10", name, test.value).Quotas
			if len(q) != 1 || q[0].Reset != test.want {
				t.Errorf("%s %q: %+v, want %v", name, test.value, q, test.want)
			}
		}
	}
}

// The bands are absolute: the client's clock doesn't change the unit.
func TestResetUnitDoesNotDependOnTheClock(t *testing.T) {
	h := http.Header{"Date": {"Thu, 15 Jan 2026 12:00:00 GMT"}, "X-Ratelimit-Reset": {""}}
	for _, now := range []time.Time{{}, time.Unix(0, 0), arrival, arrival.AddDate(100, 0, 0), arrival.AddDate(200, 0, 0)} {
		for _, test := range resets {
			h["X-Ratelimit-Reset"] = []string{test.value}
			got := time.Duration(unknown)
			if q := ParseHeader(200, h, now).Quotas; q != nil {
				got = q[0].Reset
			}
			if got != test.want {
				t.Errorf("at %v %q: %v, want %v", now, test.value, got, test.want)
			}
		}
	}
}

func TestResetGarbageSaysNothing(t *testing.T) {
	for _, value := range []string{
		"", "soon", "1e9", "1.5e3", "0x10", "+30", "5.", ".5", "-1s", "5 s", "2026-13-45T99:99:99Z", "NaN",
		"2026-01-15 12:01", "2026-02-15 12:00:01", "2025-12-15 11:59:59", "2026-01-15T12:01:00",
		"Wed, 21 Oct 2015 07:28:00", "Thu, 15 Jan 2026 12:01:00 CET",
	} {
		if q := parse(200, "X-RateLimit-Reset", value).Quotas; q != nil {
			t.Errorf("%q: %+v", value, q)
		}
	}
}

func TestResetByName(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        time.Duration
	}{
		{"X-RateLimit-Reset-After", "64.57", 64570 * time.Millisecond},
		{"X-RateLimit-Reset-After", "1768478460", unknown}, // after, so it is no instant
		{"X-RateLimit-Reset-Ms", "20649", 20649 * time.Millisecond},
		{"X-RateLimit-Reset-Ms", "1768478460000", time.Minute},
		{"X-RateLimit-Reset-Ms", "3000000000", unknown}, // 34 days, and no epoch in ms
		{"X-Rate-Limit-Time-Reset-Ms", "15000", 15 * time.Second},
		{"X-RateLimit-Reset-Timestamp", "1768478460", time.Minute},
		{"X-RateLimit-Reset-Timestamp", "1768478460000", time.Minute},
		{"X-RateLimit-Reset-Timestamp", "30", unknown},
		{"RateLimit-ResetTime", "Thu, 15 Jan 2026 12:01:00 GMT", time.Minute}, // GitLab
		{"RateLimit-ResetTime", "2026-01-15T12:01:00+00:00", time.Minute},     // Yelp
	} {
		q := parse(200, "X-RateLimit-Limit", "10", test.name, test.value).Quotas
		if len(q) != 1 || q[0].Reset != test.want {
			t.Errorf("%s %q: %+v, want %v", test.name, test.value, q, test.want)
		}
	}
}

func TestResetAfterGoesBeforeReset(t *testing.T) {
	for _, reset := range []string{"10", "1768479000"} {
		q := parse(429, "X-RateLimit-Reset", reset, "X-RateLimit-Reset-After", "64.57").Quotas
		if len(q) != 1 || q[0].Reset != 64570*time.Millisecond {
			t.Errorf("%+v", q)
		}
	}
}

func TestZonelessTimeIsForResetsOnly(t *testing.T) {
	s := parse(429, "Retry-After", "2026-01-15 12:01:00", "X-RateLimit-Reset", "2026-01-15 12:01:00")
	if s.RetryAfter != 0 || len(s.Quotas) != 1 || s.Quotas[0].Reset != time.Minute {
		t.Errorf("%+v", s)
	}
}
