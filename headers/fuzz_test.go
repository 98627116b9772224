package headers

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"
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

// FuzzVendorField tries values in the fields that have a form of their own.
func FuzzVendorField(f *testing.F) {
	names := slices.Sorted(maps.Keys(ownFields))
	names = append(names, "x-mbx-used-weight-1m", "zendesk-ratelimit-exports", "x-ratelimit-type", "x-ratelimit-scope", "x-ratelimit", "x-ratelimit-limit")
	for i, value := range []string{
		"32/40", "api-usage=25/5000; per-app-api-usage=17/250(appName=x)", "0.04512", "a;5,b;6", "20:1,100:120", "60:error;transaction:organization, 5::",
		`{"123":[{"type":"x","call_count":42,"estimated_time_to_regain_access":5}]}`, "b=per_hour;q=100;r=50;t=3600", "total=10; remaining=9; resets=2",
		`{"name":"General","period":60,"limit":1000,"remaining":999,"until":"2020-11-02T23:33:00Z"}`, "'portal'", "QPS", "ThrottlingException:http://x",
	} {
		f.Add(uint8(i), value, "1,2")
	}
	strava := &Dialect{ResetUnit: time.Millisecond, Unit: "weight", Windows: []Window{{"a", time.Minute}, {"b", time.Hour}}}
	f.Fuzz(func(t *testing.T, n uint8, one, two string) {
		h := http.Header{names[int(n)%len(names)]: {one, two}, "X-Ratelimit-Usage": {two}}
		for _, d := range []*Dialect{nil, strava} {
			s := d.ParseHeader(429, h, arrival)
			checkSane(t, s)
			if again := d.ParseHeader(429, h, arrival); !reflect.DeepEqual(s, again) {
				t.Fatalf("%v: %+v, then %+v", h, s, again)
			}
		}
	})
}

func FuzzProse(f *testing.F) {
	for _, s := range []string{"7m12.5s. x", "1 minute and 20 seconds", "Thu, 15 Jan 2026 12:04:53 GMT or", "2026-01-15T12:01:00Z.", "1768478460000.", " 3", "3 attempts", "99999999999999999999 hours"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		base := baseTime{now: arrival}
		wait, n := proseWait(text, &base)
		if wait < 0 || wait > MaxRetryAfter || n < 0 || n > len(text) || n == 0 && wait != 0 {
			t.Fatalf("%q: %v, %d", text, wait, n)
		}
		for i := range phrases {
			found, ok := phrases[i].match(text, &base)
			if found.wait < 0 || found.limit < unknown || found.remaining < unknown || !ok && found.waits {
				t.Fatalf("%q in %q: %+v", phrases[i].text, text, found)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	types := []string{"", "application/json", "application/problem+json", "application/xml", "text/plain", "text/html", "image/png"}
	rows, err := os.ReadFile("testdata/corpus.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(rows)) {
		var row corpusRow
		if json.Unmarshal([]byte(line), &row) == nil && row.Body != "" {
			f.Add(row.Status, uint8(0), "", row.Body, uint8(0))
		}
	}
	f.Add(503, uint8(3), "5", `<?xml version="1.0"?><Error><Code>SlowDown</Code></Error>`, uint8(1))
	f.Add(429, uint8(1), "", `{"a":{"b":[{"retry_after":"1m"},{"message":"try again in 5s"}]}}`, uint8(2))
	f.Fuzz(func(t *testing.T, status int, media uint8, retryAfter, body string, how uint8) {
		response := func() *http.Response {
			resp := answer(status, body, "Retry-After", retryAfter)
			if kind := types[int(media)%len(types)]; kind != "" {
				resp.Header.Set("Content-Type", kind)
			}
			var reader io.Reader = strings.NewReader(body)
			switch how % 4 {
			case 1:
				reader = iotest.HalfReader(reader)
			case 2:
				reader = iotest.DataErrReader(reader)
			case 3:
				reader = iotest.OneByteReader(reader)
			}
			resp.Body = io.NopCloser(reader)
			if how&4 != 0 {
				resp.ContentLength = -1
			}
			return resp
		}
		resp := response()
		s := Parse(resp, arrival)
		checkSane(t, s)
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != body {
			t.Fatalf("%q became %q, %v", body, got, err)
		}
		if again := Parse(response(), arrival); !reflect.DeepEqual(s, again) {
			t.Fatalf("%q: %+v, then %+v", body, s, again)
		}
		// What the header asks for stands, whatever the body says.
		if h := ParseHeader(status, resp.Header, arrival); h.RetryAfter > 0 && h.RetryAfter != s.RetryAfter {
			t.Fatalf("%q: the header has %v, got %v", body, h.RetryAfter, s.RetryAfter)
		}
		if s.Cause != None && status != 200 && verdicts[status] == (verdict{}) {
			t.Fatalf("%d: %v", status, s.Cause)
		}
	})
}

// FuzzScan holds the scanner of JSON against encoding/json: of a document that is well-formed it visits what
// is in it, in order.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,"x",true,null,{"c":-1.5e3}]},"d":"e\"f"}`, `[]`, `"a"`, `{"a":`, `[[[[`, `<a><b>c</b></a>`, `<a/><!-- x --><b>`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		scanXML(text, func(path []string, s string, _ bool) {
			if len(path) == 0 || len(path) > maxDepth || s == "" {
				t.Fatalf("%q: %q %q", text, path, s)
			}
		})
		var visited []string
		scanJSON(text, func(path []string, s string, quoted bool) {
			if len(path) > maxDepth+1 {
				t.Fatalf("%q: %q", text, path)
			}
			if quoted {
				s = `"` + s + `"`
			}
			visited = append(visited, s)
		})
		if want, ok := scalars(text); ok && !slices.Equal(visited, want) {
			t.Fatalf("%q:\n got %q\nwant %q", text, visited, want)
		}
		wholeJSON([]byte(text))
	})
}

// scalars are the texts, numbers and literals of a document that encoding/json accepts, unless it is one that
// the scanner doesn't follow to its end.
func scalars(text string) (all []string, ok bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	tokens := json.NewDecoder(strings.NewReader(text))
	tokens.UseNumber()
	var inObject, isKey []bool
	for {
		token, err := tokens.Token()
		if err != nil {
			return all, true
		}
		raw := strings.TrimLeft(text[:tokens.InputOffset()], " ")
		top := len(inObject) - 1
		switch token {
		case json.Delim('{'), json.Delim('['):
			if top >= 0 {
				isKey[top] = true
			}
			inObject, isKey = append(inObject, token == json.Delim('{')), append(isKey, true)
			if len(inObject) > maxDepth {
				return nil, false
			}
			continue
		case json.Delim('}'), json.Delim(']'):
			inObject, isKey = inObject[:top], isKey[:top]
			continue
		}
		if top >= 0 && inObject[top] && isKey[top] {
			isKey[top] = false
			continue
		}
		if top >= 0 {
			isKey[top] = true
		}
		switch token := token.(type) {
		case string:
			if strings.Contains(raw, `\`) || strings.ContainsRune(raw, '\ufffd') || !utf8.ValidString(raw) {
				return nil, false // the scanner leaves escapes as they are
			}
			all = append(all, `"`+token+`"`)
		default:
			all = append(all, literal(token))
		}
	}
}

// literal prints a number, true, false or null.
func literal(token json.Token) string {
	if token == nil {
		return "null"
	}
	return fmt.Sprint(token)
}

// silent are fields that say nothing here, also not the time.
var silent = func() http.Header {
	h := with(plain)
	delete(h, "Date")
	return h
}()
