package headers

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Anything worse than linear takes minutes on a megabyte of these.
func TestHostileValuesAreCheap(t *testing.T) {
	const size = 1 << 17
	names := []string{
		"Retry-After", "Retry-After-Ms", "Date", "Ratelimit", "Ratelimit-Policy", "X-Ratelimit-Policy", "X-Ratelimit-Limit",
		"X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Reset-Ms", "X-Ratelimit-Period", "X-Ratelimit-Resource",
	}
	for _, unit := range []string{
		"1", "9", "0", ".", "-", ",", ";", `"`, `\`, `\"`, "(", "a", "A,", "Sun,", "1,", "1s", "1h", `"a";r=1,`, `;r=1`, `"a",`, "1;w=1,", "a=1,",
		"Thu, 15 Jan 2026 12:01:00 GMT,", "Thu, 15 Jan 2026 12:01:00 XXX,", "2026-01-15T12:01:00X,", ":60", " (", " ", "\t", "\x00", "\xff", "µ", "1r/m,",
	} {
		value := strings.Repeat(unit, size/len(unit))
		for _, name := range names {
			h := http.Header{name: {value}, "Retry-After": {"1768478460", value}}
			checkSane(t, ParseHeader(429, h, arrival))
		}
	}
	lines := make([]string, size/16)
	for i := range lines {
		lines[i] = fmt.Sprintf(`"%d";r=1`, i)
	}
	for _, name := range names {
		checkSane(t, ParseHeader(429, http.Header{name: lines}, arrival))
	}
}

// The Date is read once, whatever it says: also if it is the zero time.
func TestHostileDateIsCheap(t *testing.T) {
	const lines = 20_000
	date := make([]string, lines)
	for i := range date {
		date[i] = "Thu, 15 Jan 2026 12:01:00 XXX"
	}
	date[lines-1] = "Mon, 01 Jan 0001 00:00:00 GMT"
	h := http.Header{"Date": date, "Retry-After": {strings.Repeat("1768478460,", lines)}}
	checkSane(t, ParseHeader(429, h, arrival))
}

func TestHostileNamesAreCheap(t *testing.T) {
	h := http.Header{}
	for i := range 10_000 {
		h[fmt.Sprintf("X-Ratelimit-Limit-%d", i)] = []string{"5"}
		h[fmt.Sprintf("X-Ratelimit%s-%d", strings.Repeat("-a", 50), i)] = []string{"5"}
		h[fmt.Sprintf("X-%d-Ratelimit-Limit", i)] = []string{"5"}
	}
	h[strings.Repeat("ratelimit-", 100_000)] = []string{"5"}
	h["Retry-After"] = []string{"7"}
	if got := ParseHeader(429, h, arrival); got.Quotas != nil || got.RetryAfter != 7*time.Second {
		t.Errorf("%d quotas, retry after %v", len(got.Quotas), got.RetryAfter)
	}
}

func TestHostileBodiesAreCheap(t *testing.T) {
	for _, unit := range []string{
		`{`, `[`, `"`, `{"a":`, `{"retry_after":`, `{"code":"x"},`, `"message":"try again in `, `try again in 1 `, `1 s and `, `<`, `<a>`, `</a>`, `9`, `-`, `\`, `:`,
		`"` + strings.Repeat("a", 200) + `":{`, `"error":{"`, `throttled: throttled: `, "\xff", "Thu, ", " ",
	} {
		text := strings.Repeat(unit, 1+maxPeek/len(unit))
		for _, lead := range []string{``, `{`, `<`} {
			for _, status := range []int{200, 403, 429} {
				for range 20 {
					checkSane(t, Parse(answer(status, lead+text), arrival))
				}
			}
		}
	}
}

func TestQuotasAreCapped(t *testing.T) {
	for n, want := range map[int]int{maxQuotas: maxQuotas, maxQuotas + 1: 0} {
		h := http.Header{}
		for i := range n {
			h[fmt.Sprintf("X-Ratelimit-Limit-%d", i)] = []string{fmt.Sprint(i)}
		}
		if got := len(ParseHeader(200, h, arrival).Quotas); got != want {
			t.Errorf("%d: %d quotas", n, got)
		}
	}
}

func TestNamesAreCapped(t *testing.T) {
	for length, want := range map[int]int{maxName: 1, maxName + 1: 0} {
		name := "x-ratelimit-limit-" + strings.Repeat("a", length-len("x-ratelimit-limit-"))
		if got := len(parse(200, name, "5").Quotas); got != want {
			t.Errorf("%d bytes: %d quotas", length, got)
		}
	}
}

func TestFieldsAreCapped(t *testing.T) {
	member := func(i int) string { return fmt.Sprintf(`"%d";r=1`, i%8) }
	for _, test := range []struct {
		members, padding, want int
	}{
		{maxMembers, 0, 8},
		{maxMembers + 1, 0, 0},
		{8, maxField - 8*len(member(0)) - 7, 8},
		{8, maxField - 8*len(member(0)) - 6, 0},
	} {
		var all []string
		for i := range test.members {
			all = append(all, member(i))
		}
		value := strings.Join(all, ",") + strings.Repeat(" ", test.padding)
		if got := len(parse(200, "RateLimit", value).Quotas); got != test.want {
			t.Errorf("%+v: %d quotas", test, got)
		}
	}
	for size, want := range map[int]int64{maxField: 5, maxField + 1: unknown} {
		value := "5" + strings.Repeat(" ", size-1)
		q := parse(200, "X-RateLimit-Limit", value, "X-RateLimit-Remaining", value, "X-RateLimit-Reset", "1").Quotas
		if len(q) != 1 || q[0].Limit != want || q[0].Remaining != want {
			t.Errorf("%d bytes: %+v", size, q)
		}
	}
}

func TestDatesAreCapped(t *testing.T) {
	const date = "Thu, 15 Jan 2026 12:01:00 GMT"
	for size, want := range map[int]time.Duration{maxDate: time.Minute, maxDate + 1: 0} {
		value := strings.Replace(date, " 12", strings.Repeat(" ", size-len(date)+1)+"12", 1)
		if got := parse(429, "Retry-After", value).RetryAfter; got != want {
			t.Errorf("%d bytes: %v", size, got)
		}
	}
}

// checkSane checks what holds for every Signal.
func checkSane(t *testing.T, s Signal) {
	t.Helper()
	if s.RetryAfter < 0 || s.RetryAfter > MaxRetryAfter {
		t.Errorf("RetryAfter %v", s.RetryAfter)
	}
	if s.Cause > Overloaded {
		t.Errorf("Cause %v", s.Cause)
	}
	if s.Quotas != nil && len(s.Quotas) == 0 || len(s.Quotas) > maxQuotas {
		t.Errorf("%d quotas", len(s.Quotas))
	}
	for i, q := range s.Quotas {
		if q.Limit < unknown || q.Remaining < unknown || q.Reset < unknown || q.Reset > MaxRetryAfter ||
			q.Window < 0 || q.Window > MaxRetryAfter || q.Unit == "" {
			t.Errorf("%+v", q)
		}
		if i > 0 && compareQuotas(s.Quotas[i-1], q) > 0 {
			t.Errorf("out of order: %+v", s.Quotas)
		}
	}
}

func TestSaneOnTheCorpus(t *testing.T) {
	for _, row := range readCorpus(t, "testdata/corpus.jsonl") {
		once := ParseHeader(row.Status, row.Headers, row.Now)
		checkSane(t, once)
		if again := ParseHeader(row.Status, row.Headers, row.Now); !reflect.DeepEqual(once, again) {
			t.Errorf("%s: %+v, then %+v", row.ID, once, again)
		}
	}
}
