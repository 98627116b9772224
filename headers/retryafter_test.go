package headers

import (
	"cmp"
	"net/http"
	"strings"
	"testing"
	"time"
)

// waits are Retry-After values at arrival, which is Thu, 15 Jan 2026 12:00:00 GMT.
var waits = []struct {
	value string
	want  time.Duration
}{
	// numbers
	{"120", 120 * time.Second},
	{"5.0", 5 * time.Second},
	{"1.939", 1939 * time.Millisecond},
	{"0.000000001", 1},
	{"007", 7 * time.Second},
	{" \t30\t ", 30 * time.Second},
	{`"30"`, 30 * time.Second},
	{` "30" `, 30 * time.Second},
	{"999999999", 999999999 * time.Second}, // a delay, though as an epoch it is in 2001
	// Unix times, near to now only
	{"1768478490", 90 * time.Second},
	{"1768478490.5", 90*time.Second + 500*time.Millisecond},
	{"1768478490000", 90 * time.Second},
	{"1768478490000000", 90 * time.Second},
	{"1768478490000000000", 90 * time.Second},
	{"1768478399", 0},                        // a second ago
	{"1768392000", 0},                        // a day ago
	{"1768391999", 1768391999 * time.Second}, // more
	{"1800100800", 366 * day},                // 366 days ahead
	{"1800100801", 1800100801 * time.Second}, // more
	// durations
	{"1m30s", 90 * time.Second},
	{"12000ms", 12 * time.Second},
	{"496.400009ms", 496400009},
	{"1d", day},
	{"2d12h", 60 * time.Hour},
	{"5µs", 5 * time.Microsecond},
	// HTTP-dates, RFC 9110 §5.6.7, and their variants
	{"Thu, 15 Jan 2026 12:01:00 GMT", time.Minute},
	{"Thursday, 15-Jan-26 12:01:00 GMT", time.Minute},
	{"Thu Jan 15 12:01:00 2026", time.Minute},
	{"Sun Feb  1 00:00:00 2026", 16*day + 12*time.Hour},
	{"Thu, 15 Jan 2026 12:01:00 UTC", time.Minute},
	{"Thu, 15 Jan 2026 12:01:00 Z", time.Minute},
	{"Thu, 15 Jan 2026 13:01:00 +0100", time.Minute},
	{"Thu, 15 Jan 2026 07:01:00 -0500", time.Minute},
	{"Sun, 1 Feb 2026 00:00:00 GMT", 16*day + 12*time.Hour},
	{"thu, 15 jan 2026 12:01:00 gmt", time.Minute},
	{"THU, 15 JAN 2026 12:01:00 GMT", time.Minute},
	{"Thu, 15 Jan 2026 12:00:60 GMT", time.Minute},
	{"Mon, 15 Jan 2026 12:01:00 GMT", time.Minute}, // it is a Thursday
	{"Thu,  15 Jan 2026  12:01:00 GMT", time.Minute},
	{`"Thu, 15 Jan 2026 12:01:00 GMT"`, time.Minute},
	{"Thu Jan 15 2026 13:01:00 GMT+0100 (Central European Standard Time)", time.Minute},
	{"Thu, 01 Jan 1970 00:00:00 GMT", 0},
	{"Thu, 15 Jan 2026 12:00:00 GMT", 0},
	// RFC 3339
	{"2026-01-15T12:01:00Z", time.Minute},
	{"2026-01-15t12:01:00z", time.Minute},
	{"2026-01-15T14:01:00.25+02:00", time.Minute + 250*time.Millisecond},
	{"2026-01-15T12:01Z", time.Minute},
	// several answers in one line
	{"2814, 2", 2814 * time.Second},
	{"2, 2814", 2814 * time.Second},
	{"soon, 7", 7 * time.Second},
	{"5, Thu, 15 Jan 2026 12:01:00 GMT, 3", time.Minute},
	{"Thu, 15 Jan 2026 12:01:00 GMT, Thu, 15 Jan 2026 12:02:00 GMT", 2 * time.Minute},
	{",,4,", 4 * time.Second},
}

func TestRetryAfter(t *testing.T) {
	for _, test := range waits {
		if got := parse(429, "Retry-After", test.value).RetryAfter; got != test.want {
			t.Errorf("%q: %v, want %v", test.value, got, test.want)
		}
	}
}

// A device without a clock starts in 1970, where every number of seconds is near to now.
func TestSmallNumberIsNoInstant(t *testing.T) {
	h := http.Header{"Retry-After": {"120"}}
	if got := ParseHeader(429, h, time.Unix(60, 0)).RetryAfter; got != 2*time.Minute {
		t.Error(got)
	}
}

// Trap 18: a date that the parser doesn't know must not mean "at once"; here the three forms that
// RFC 9110 wants are waits, and so are fractions.
func TestRetryAfterDatesAndFractionsTrap18(t *testing.T) {
	for _, value := range []string{
		"Thu, 15 Jan 2026 12:00:03 GMT", "Thursday, 15-Jan-26 12:00:03 GMT", "Thu Jan 15 12:00:03 2026", "3.0",
	} {
		if got := parse(429, "Retry-After", value).RetryAfter; got != 3*time.Second {
			t.Errorf("%q: %v", value, got)
		}
	}
	if got := parse(429, "Retry-After", "0.9").RetryAfter; got != 900*time.Millisecond {
		t.Errorf("0.9: %v", got)
	}
}

// Trap 16: seconds times time.Second overflows from 9223372037 on.
func TestRetryAfterOverflowTrap16(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"9223372035":                    9223372035 * time.Second,
		"9223372035.999999999":          9223372035999999999,
		"9223372036":                    MaxRetryAfter,
		"9223372036.9":                  MaxRetryAfter,
		"9223372037":                    MaxRetryAfter,
		"18446744073":                   MaxRetryAfter,
		"9223372036854775807":           MaxRetryAfter,
		"18446744073709551616":          MaxRetryAfter,
		strings.Repeat("1", 5000):       MaxRetryAfter,
		"99999999999d":                  MaxRetryAfter,
		"9000000000s9000000000s":        MaxRetryAfter,
		"Fri, 31 Dec 9999 23:59:59 GMT": MaxRetryAfter,
		"106751d23h47m16s854ms":         MaxRetryAfter,
		"106751d23h47m15s":              MaxRetryAfter - time.Second,
		"9999-12-31T23:59:59Z":          MaxRetryAfter,
	} {
		if got := parse(429, "Retry-After", value).RetryAfter; got != want {
			t.Errorf("%.40q: %v, want %v", value, got, want)
		}
	}
	if MaxRetryAfter < 292*365*day {
		t.Error(MaxRetryAfter)
	}
}

// Trap 17: 0, negative and past are no usable hint, and garbage is none at all. Traps for Go: what
// strconv and package time accept of this.
func TestRetryAfterNoUsableHintTrap17(t *testing.T) {
	for _, value := range []string{
		"", " ", "0", "0.0", "-0", "-1", "-1484742195", "+5", "1e3", "1e309", "0x1p4", "1_000", "NaN", "Inf", "infinity",
		"5.", ".5", "5 s", "five", "badbadbad", "5 minutes", "5min", "1m 30s", "-5s", "+5s", "-", `"`, `""`,
		"\u00a030", "٣", "30\x00", "0s", "1h-5m", "1.5.5",
		"Fri, 32 Dec 1999 23:59:59 GMT", "Wed, 21 Oct 2015 07:28:00", "Wed, 21 Oct 2015 07:28:00 GMT",
		"Thu, 15 Jan 2026 12:01:00 EST", "Thu, 15 Jan 2026 12:01:00 PST", "Thu, 15 Jan 2026 12:01:00 CET", "Thu, 15 Jan 2026 12:01:00 +9999",
		"Thu, 15 Jan 2026 12:60:00 GMT", "Thu, 15 Jan 2026 25:01:00 GMT", "Thu, 30 Feb 2026 12:01:00 GMT", "Thu, 15 anF 2026 12:01:00 GMT", "Thu, 15 Jan 2026",
		"15 Jan 2026 12:01:00 GMT,", "2026-01-15 12:01:00", "2026-01-15T12:01:00", "2026-13-45T99:99:99Z", "2026-01-15",
		"Thu, 15 Jan 2026 12:01:00 GMT" + strings.Repeat(" ", 100) + "x",
	} {
		if got := parse(429, "Retry-After", value).RetryAfter; got != 0 {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func TestRetryAfterSeveralLines(t *testing.T) {
	for _, test := range []struct {
		lines []string
		want  time.Duration
	}{
		{[]string{"2", "3"}, 3 * time.Second},
		{[]string{"3", "2"}, 3 * time.Second},
		{[]string{"abc", "10"}, 10 * time.Second},
		{[]string{"Thu, 15 Jan 2026 12:01:00 GMT", "5"}, time.Minute},
	} {
		got := ParseHeader(429, http.Header{"Retry-After": test.lines}, arrival).RetryAfter
		if got != test.want {
			t.Errorf("%v: %v, want %v", test.lines, got, test.want)
		}
	}
}

func TestHintsInOrder(t *testing.T) {
	// Each field goes before all that follow it, though those ask for more.
	for best := range hints {
		h := http.Header{}
		for rank := best; rank < len(hints); rank++ {
			value := "100"
			if rank == best {
				value = "50"
			}
			h.Set(hints[rank].name, value)
		}
		unit := cmp.Or(hints[best].unit, time.Second)
		if got := ParseHeader(429, h, arrival).RetryAfter; got != 50*unit {
			t.Errorf("%v: %v", h, got)
		}
	}
}

func TestHintThatIsUnusableLeavesTheWordToTheNext(t *testing.T) {
	for _, bad := range []string{"bad", "-1", "", "NaN", "0", "1s", "Thu, 15 Jan 2026 12:01:00 GMT"} {
		for range 20 { // in both orders of the map
			if got := parse(429, "retry-after-ms", bad, "Retry-After", "7").RetryAfter; got != 7*time.Second {
				t.Fatalf("%q: %v", bad, got)
			}
		}
	}
	if got := parse(429, "retry-after-ms", "2500.5", "Retry-After", "7").RetryAfter; got != 2500500*time.Microsecond {
		t.Errorf("milliseconds: %v", got)
	}
	if got := parse(200, "Beta-Retry-After", "50").RetryAfter; got != 0 {
		t.Errorf("Beta-Retry-After isn't enforced: %v", got)
	}
}

// A wrong clock cancels out, because absolute times and Date are from one clock.
func TestAbsoluteTimesAreRelativeToDate(t *testing.T) {
	for _, skew := range []time.Duration{-1000 * day, -time.Hour, 0, time.Hour, 1000 * day} {
		for _, value := range []string{
			"Thu, 15 Jan 2026 12:00:30 GMT", "2026-01-15T12:00:30Z", "1768478430", "1768478430000",
		} {
			h := http.Header{"Date": {"Thu, 15 Jan 2026 12:00:00 GMT"}, "Retry-After": {value}, "X-Ratelimit-Reset": {value}}
			got := ParseHeader(429, h, arrival.Add(skew))
			if got.RetryAfter != 30*time.Second || got.Quotas[0].Reset != 30*time.Second {
				t.Errorf("skew %v, %q: %+v", skew, value, got)
			}
		}
	}
}

func TestDateThatIsUnusable(t *testing.T) {
	for _, test := range []struct {
		date []string
		want time.Duration
	}{
		{nil, time.Minute},
		{[]string{""}, time.Minute},
		{[]string{"garbage"}, time.Minute},
		{[]string{"Tue May 04 2021 08:14:43 GMT+0300 (Israel Daylight Time)x"}, time.Minute},
		{[]string{"1768478400"}, time.Minute},
		{[]string{"garbage", "Thu, 15 Jan 2026 12:00:50 GMT"}, 10 * time.Second},
		{[]string{"Thu,  15 Jan 2026 12:00:50 GMT", "Thu, 15 Jan 2026 12:00:40 GMT"}, 10 * time.Second},
	} {
		h := http.Header{"Date": test.date, "Retry-After": {"Thu, 15 Jan 2026 12:01:00 GMT"}}
		if got := ParseHeader(429, h, arrival).RetryAfter; got != test.want {
			t.Errorf("%q: %v, want %v", test.date, got, test.want)
		}
	}
	h := http.Header{"date": {"Thu, 15 Jan 2026 12:00:50 GMT"}, "Retry-After": {"Thu, 15 Jan 2026 12:01:00 GMT"}}
	if got := ParseHeader(429, h, arrival).RetryAfter; got != 10*time.Second {
		t.Errorf("date in lower case: %v", got)
	}
}

// RFC 9110 §5.6.7: a two-digit year more than 50 years ahead is the past; package time has a fixed
// pivot at 1969 instead.
func TestTwoDigitYear(t *testing.T) {
	for _, test := range []struct {
		date string
		now  int
		want int
	}{
		{"Sunday, 06-Nov-94 08:49:37 GMT", 1994, 1994},
		{"Sunday, 06-Nov-94 08:49:37 GMT", 2026, 1994},
		{"Sunday, 06-Nov-70 08:49:37 GMT", 2026, 2070},
		{"Sunday, 06-Nov-75 08:49:37 GMT", 2026, 2075},
		{"Sunday, 06-Nov-77 08:49:37 GMT", 2026, 1977},
		{"Sunday, 06-Nov-01 08:49:37 GMT", 1999, 2001},
		{"Sunday, 06-Nov-01 08:49:37 GMT", 2099, 2101},
	} {
		got, ok := parseDate(test.date, time.Date(test.now, 1, 15, 0, 0, 0, 0, time.UTC))
		if !ok || got.Year() != test.want {
			t.Errorf("%s seen from %d: %v, want %d", test.date, test.now, got, test.want)
		}
	}
}
