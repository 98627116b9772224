package headers

import (
	"maps"
	"math/big"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func FuzzRetryAfter(f *testing.F) {
	for _, test := range waits {
		f.Add(test.value, arrival.Unix())
	}
	for _, value := range []string{"9223372037", "-1", "1e3", "NaN", "0x1p4", "5.", ".5", `"`, "Thu, 15 Jan 2026 12:01:00 CET"} {
		f.Add(value, arrival.Unix())
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		now := time.Unix(unix%epoch2100, 0).UTC()
		base := baseTime{now: now}
		got, ok := parseRetryAfter(value, 0, &base)
		if got < 0 || got > MaxRetryAfter || !ok && got != 0 {
			t.Fatalf("%q: %v, %v", value, got, ok)
		}
		if again, _ := parseRetryAfter(value, 0, &baseTime{now: now}); again != got {
			t.Fatalf("%q: %v, then %v", value, got, again)
		}
		if strings.ContainsAny(value, "-+_xXpP") && strings.Trim(value, "+-_xXpP.0123456789") == "" && ok {
			t.Fatalf("%q is no number, but %v", value, got)
		}
		member, isNumber := parseWait(value, 0, &base)
		if isNumber && ok && !strings.Contains(value, ",") && member != got {
			t.Fatalf("%q: alone %v, in a list %v", value, member, got)
		}
		checkNumber(t, value, now)
		checkDuration(t, value)
		checkHTTPDate(t, value, now)

		h := http.Header{"Retry-After": {value, "5"}}
		if two := ParseHeader(429, h, now).RetryAfter; two != max(got, 5*time.Second) {
			t.Fatalf("%q is %v, and beside 5 s it is %v", value, got, two)
		}
	})
}

// checkNumber compares with math/big, for a number of digits.
func checkNumber(t *testing.T, value string, now time.Time) {
	if value == "" || strings.Trim(value, "0123456789") != "" {
		return
	}
	n, _ := new(big.Int).SetString(value, 10)
	got, ok := parseRetryAfter(value, 0, &baseTime{now: now})
	want := MaxRetryAfter
	if n.Cmp(big.NewInt(int64(MaxRetryAfter/time.Second))) < 0 {
		want = time.Duration(n.Int64()) * time.Second
	}
	if !ok || got != want && (n.Cmp(big.NewInt(epoch2000)) < 0 || got > instantFuture) {
		t.Fatalf("%q: %v, want %v", value, got, want)
	}
}

// checkDuration compares with time.ParseDuration, of which ours takes a part, and days.
func checkDuration(t *testing.T, value string) {
	want, err := time.ParseDuration(value)
	if err != nil || value == "0" || want > MaxRetryAfter {
		return
	}
	got, _, ok := parseDuration(value)
	if sloppy := strings.HasPrefix(value, "+") || strings.HasPrefix(value, "-") || strings.Contains(value, "."); !ok && sloppy {
		return // a sign, .5s or 5.s
	}
	// Theirs carries a fraction of a nanosecond on as a float, ours cuts it off.
	if diff := (got - want).Abs(); !ok || diff > 4*time.Microsecond && strings.Contains(value, ".") || diff > 0 && !strings.Contains(value, ".") {
		t.Fatalf("%q: %v, want %v", value, got, want)
	}
}

// checkHTTPDate compares with http.ParseTime, of which ours takes everything.
func checkHTTPDate(t *testing.T, value string, now time.Time) {
	if got, ok := parseIMFFixdate(value); ok {
		if want, err := time.Parse(http.TimeFormat, "Mon"+value[3:]); err != nil || !got.Equal(want) {
			t.Fatalf("%q: %v, want %v, %v", value, got, want, err)
		}
	}
	want, err := http.ParseTime(value)
	if err != nil || len(value) > maxDate {
		return
	}
	got, ok := parseDate(value, now)
	if strings.Contains(value, "-") { // RFC 850: theirs takes any zone, and the century is another matter
		if !strings.HasSuffix(value, " GMT") {
			return
		}
		y, m, d := want.Date()
		want = time.Date(got.Year()/100*100+y%100, m, d, want.Hour(), want.Minute(), want.Second(), want.Nanosecond(), time.UTC)
	}
	if !ok || !got.Equal(want) {
		t.Fatalf("%q: %v, %v, want %v", value, got, ok, want)
	}
}

func FuzzReset(f *testing.F) {
	for _, test := range resets {
		f.Add(test.value, uint8(byMagnitude))
	}
	f.Fuzz(func(t *testing.T, value string, c uint8) {
		kind := clock(c % 4)
		got, ok := parseReset(value, kind, &baseTime{now: arrival})
		if got < unknown || got > MaxRetryAfter || !ok && got != unknown {
			t.Fatalf("%q: %v, %v", value, got, ok)
		}
		if again, _ := parseReset(value, kind, &baseTime{now: arrival}); again != got {
			t.Fatalf("%q: %v, then %v", value, got, again)
		}
		if strings.Trim(value, "0123456789.") != "" {
			return
		}
		// A number has one unit, wherever the clock stands: later, the reset is nearer or the same.
		later, _ := parseReset(value, kind, &baseTime{now: arrival.Add(time.Hour)})
		if later != got && later != max(0, got-time.Hour) {
			t.Fatalf("%q: %v, an hour later %v", value, got, later)
		}
	})
}

func FuzzRateLimitField(f *testing.F) {
	for _, test := range fields {
		f.Add(test.value, "")
	}
	f.Add(`"a";r=1`, `"b";r=2;pk=:AQ==:`)
	f.Fuzz(func(t *testing.T, one, two string) {
		for _, lines := range [][]string{{one}, {one, two}} {
			if withinBounds(lines) {
				checkLenient(t, lines)
			}
			h := http.Header{"Ratelimit": lines, "Ratelimit-Policy": {two}}
			s := ParseHeader(200, h, arrival)
			checkSane(t, s)
			if again := ParseHeader(200, h, arrival); !reflect.DeepEqual(s, again) {
				t.Fatalf("%q: %+v, then %+v", lines, s, again)
			}
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add(200, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4987", "X-RateLimit-Reset", "1768478460")
	f.Add(429, "Date", "Thu, 15 Jan 2026 12:00:00 GMT", "Retry-After", "Thu, 15 Jan 2026 12:01:00 GMT", "RateLimit", `"default";r=0;t=5`)
	f.Add(403, "RateLimit-Limit", `10, 10;w=1;name="per-ip"`, "X-RateLimit-Resource", "core", "X-Acme-RateLimit-User-Limit", "60r/m")
	f.Add(503, "ratelimit-policy", `"fixed window";"api";q=500;w=300`, "RateLimit", "limit=100, remaining=1", "retry-after-ms", "2500")
	f.Add(200, "X-Rate-Limit-Limit", "5m", "X-RateLimit-Interval-Ms", "1000", "x-ratelimit-limit", "-3")
	f.Fuzz(func(t *testing.T, status int, n1, v1, n2, v2, n3, v3 string) {
		h := http.Header{}
		for _, field := range [][2]string{{n1, v1}, {n2, v2}, {n3, v3}} {
			h[field[0]] = append(h[field[0]], field[1])
		}
		before := h.Clone()
		s := ParseHeader(status, h, arrival)
		checkSane(t, s)
		if !reflect.DeepEqual(h, before) {
			t.Fatalf("%v became %v", before, h)
		}
		for range 3 {
			if again := ParseHeader(status, maps.Clone(h), arrival); !reflect.DeepEqual(s, again) {
				t.Fatalf("%v: %+v, then %+v", h, s, again)
			}
		}
		if noisy := ParseHeader(status, with(silent, h), arrival); !reflect.DeepEqual(s, noisy) {
			t.Fatalf("%v: %+v, among other fields %+v", h, s, noisy)
		}
	})
}

// silent are fields that say nothing here, also not the time.
var silent = func() http.Header {
	h := with(plain)
	delete(h, "Date")
	return h
}()
