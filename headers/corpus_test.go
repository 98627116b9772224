package headers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// corpusRow is a real response, or a documented one, and what should be made of it.
type corpusRow struct {
	ID      string      `json:"id"`
	Status  int         `json:"status"`
	Headers http.Header `json:"headers"`
	Now     time.Time   `json:"now"`
	Source  string      `json:"source"`
	Expect  struct {
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

// signal is what the row says should come out, in the precision of its seconds: a millisecond.
func (row corpusRow) signal() string {
	s := Signal{RetryAfter: seconds(&row.Expect.RetryAfter)}
	switch {
	case row.Expect.RateLimited:
		s.Cause = Limited
	case row.Expect.Overloaded:
		s.Cause = Overloaded
	}
	if row.Generic.RetryAfter != nil {
		s.RetryAfter = seconds(row.Generic.RetryAfter)
	}
	limits := row.Expect.Limits
	if row.Generic.Limits != nil {
		limits = row.Generic.Limits
	}
	for _, l := range limits {
		s.Quotas = append(s.Quotas, Quota{
			Name: l.Name, Limit: count(l.Limit), Remaining: count(l.Remaining),
			Reset: seconds(l.Reset), Window: seconds(&l.Window), Unit: l.Unit,
		})
	}
	slices.SortFunc(s.Quotas, compareQuotas)
	return printSignal(s)
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
		fmt.Fprintf(&b, "\n  %q limit %d remaining %d reset %v window %v %s", q.Name, q.Limit, q.Remaining, reset, q.Window, q.Unit)
	}
	return b.String()
}

func TestCorpus(t *testing.T) {
	path := "testdata/corpus.jsonl"
	if p := os.Getenv("CORPUS"); p != "" {
		path = p
	}
	for _, row := range readCorpus(t, path) {
		t.Run(row.ID, func(t *testing.T) {
			got := printSignal(ParseHeader(row.Status, row.Headers, row.Now))
			if want := row.signal(); got != want {
				t.Errorf("%s\n%d %v\n got %s\nwant %s", row.Source, row.Status, row.Headers, got, want)
			}
		})
	}
}
