package headers

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// corpusRow is a real response, or a documented one, and what should be made of it.
type corpusRow struct {
	ID       string      `json:"id"`
	Provider string      `json:"provider"`
	Status   int         `json:"status"`
	Headers  http.Header `json:"headers"`
	Body     string      `json:"body_hint"`
	Tags     []string    `json:"tags"`
	Now      time.Time   `json:"now"`
	Source   string      `json:"source"`
	Expect   struct {
		RetryAfter  float64       `json:"retry_after_s"` // null: 0, no usable hint
		RateLimited bool          `json:"rate_limited"`
		Overloaded  bool          `json:"overloaded"`
		Limits      []corpusLimit `json:"limits"`
	} `json:"expect"`
	// Generic is what can be known without knowing the vendor, where that differs: the wire doesn't
	// tell the unit or the window.
	Generic struct {
		RetryAfter *float64      `json:"retry_after_s"`
		Limits     []corpusLimit `json:"limits"`
	} `json:"expect_generic"`
}

type corpusLimit struct {
	Name      string   `json:"name"`
	Limit     *float64 `json:"limit"`
	Remaining *float64 `json:"remaining"`
	Reset     *float64 `json:"reset_s"`
	Window    float64  `json:"window_s"`
	Unit      string   `json:"unit"`
}

func readCorpus(t *testing.T, path string) []corpusRow {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []corpusRow
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row corpusRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// signal is what the row says should come out, in the precision of its seconds: a millisecond. generic:
// without knowing the vendor.
func (row corpusRow) signal(generic bool) string {
	s := Signal{RetryAfter: seconds(&row.Expect.RetryAfter)}
	switch {
	case row.Expect.RateLimited: // also S3's SlowDown, which is both: it is this client that has to slow down
		s.Cause = Limited
	case row.Expect.Overloaded:
		s.Cause = Overloaded
	}
	limits := row.Expect.Limits
	if generic {
		if row.Generic.RetryAfter != nil {
			s.RetryAfter = seconds(row.Generic.RetryAfter)
		}
		if row.Generic.Limits != nil {
			limits = row.Generic.Limits
		}
	}
	for _, l := range limits {
		s.Quotas = append(s.Quotas, l.quota())
	}
	slices.SortFunc(s.Quotas, compareQuotas)
	return printSignal(s)
}

// quota is l with whole numbers: a fraction in percent, and a rate as one in so many seconds.
func (l corpusLimit) quota() Quota {
	q := Quota{
		Name: l.Name, Limit: count(l.Limit), Remaining: count(l.Remaining),
		Reset: seconds(l.Reset), Window: seconds(&l.Window), Unit: l.Unit,
	}
	switch {
	case l.Unit == "fraction":
		q.Unit, q.Limit, q.Remaining = "percent", 100, int64(math.Round(*l.Remaining*100))
	case l.Limit != nil && *l.Limit < 1 && *l.Limit > 0:
		q.Limit, q.Window = 1, seconds(new(l.Window / *l.Limit))
	}
	return q
}

func count(n *float64) int64 {
	if n == nil {
		return -1
	}
	return int64(*n)
}

func seconds(n *float64) time.Duration {
	if n == nil {
		return -1
	}
	return time.Duration(*n * float64(time.Second))
}

func printSignal(s Signal) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v, retry after %v", s.Cause, s.RetryAfter.Round(time.Millisecond))
	for _, q := range s.Quotas {
		reset := q.Reset
		if reset > 0 {
			reset = reset.Round(time.Millisecond)
		}
		fmt.Fprintf(&b, "\n  %q limit %d remaining %d reset %v window %v %s", q.Name, q.Limit, q.Remaining, reset, q.Window.Round(time.Millisecond), q.Unit)
	}
	return b.String()
}

// readRows reads the corpus, or the one that CORPUS names.
func readRows(t *testing.T) []corpusRow {
	return readCorpus(t, cmp.Or(os.Getenv("CORPUS"), "testdata/corpus.jsonl"))
}

// response is the row's, as net/http would hand it over but for the request.
func (row corpusRow) response() *http.Response {
	resp := &http.Response{StatusCode: row.Status, Header: row.Headers.Clone(), Body: http.NoBody}
	if row.Body != "" {
		resp.Body = io.NopCloser(strings.NewReader(row.Body))
		resp.ContentLength = int64(len(row.Body))
	}
	return resp
}

// dialects are what the vendors document and don't send.
var dialects = map[string]*Dialect{
	"kucoin":             {ResetUnit: time.Millisecond, Window: 30 * time.Second, Unit: "weight"},
	"prisjakt":           {ResetUnit: time.Millisecond},
	"nuvemshop-style":    {ResetUnit: time.Millisecond},
	"skuvault":           {ResetUnit: time.Millisecond},
	"fastify-rate-limit": {RetryAfterUnit: time.Millisecond},
	"m2m-signal-service": {WindowUnit: time.Millisecond},
	"strava":             {Windows: []Window{{"15min", 15 * time.Minute}, {"daily", day}}},
}

// otherwise are the rows whose expectation isn't followed, and why.
var otherwise = map[string]func(*Signal){
	// The row has what is on the wire, which is nothing; GitHub's documentation asks for a minute.
	"github-secondary-403-no-headers": func(s *Signal) { s.RetryAfter = 0 },
	// A success that says which categories are limited, and the row's own note says that it is no throttle
	// of the client; NOTES §2: on a 200, "Sentry per category", the wait sets no flag.
	"sentry-ingest-200": func(s *Signal) { s.Cause = Limited },
}

func TestCorpus(t *testing.T) {
	for _, row := range readRows(t) {
		t.Run(row.ID, func(t *testing.T) {
			got := Parse(row.response(), row.Now)
			if adapt := otherwise[row.ID]; adapt != nil {
				adapt(&got)
			}
			if got, want := printSignal(got), row.signal(true); got != want {
				t.Errorf("%s\n%d %v %s\n got %s\nwant %s", row.Source, row.Status, row.Headers, row.Body, got, want)
			}
		})
	}
}

// With what the vendor documents, the rows where that matters come out right.
func TestCorpusByDialect(t *testing.T) {
	for _, row := range readRows(t) {
		if !slices.Contains(row.Tags, "needs-profile") {
			continue
		}
		t.Run(row.ID, func(t *testing.T) {
			dialect := dialects[row.Provider]
			if dialect == nil {
				t.Fatal("no dialect for", row.Provider)
			}
			if got, want := printSignal(dialect.Parse(row.response(), row.Now)), row.signal(false); got != want {
				t.Errorf("%s\n%d %v\n got %s\nwant %s", row.Source, row.Status, row.Headers, got, want)
			}
		})
	}
}

// Where the signal isn't in the body, the header alone has it.
func TestCorpusOfHeaders(t *testing.T) {
	for _, row := range readRows(t) {
		if slices.Contains(row.Tags, "body") || row.ID == "stripe-429-lock-timeout" {
			continue
		}
		got := ParseHeader(row.Status, row.Headers, row.Now)
		if adapt := otherwise[row.ID]; adapt != nil {
			adapt(&got)
		}
		if got, want := printSignal(got), row.signal(true); got != want {
			t.Errorf("%s: %s\n%d %v\n got %s\nwant %s", row.ID, row.Source, row.Status, row.Headers, got, want)
		}
	}
}
