package main

import (
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/outflow-go/outflow/examples/internal/workload"
	"github.com/outflow-go/outflow/internal/testserver"
)

func TestNotOneCallFails(t *testing.T) {
	report := runQuietly(t, workload.Options{Requests: 70, Workers: 64})
	if report.OK != 70 || report.Failed != 0 || report.Attempts != 70 || report.Throttled != 0 {
		t.Errorf("%v; %v", report, report.FirstError)
	}
	// Neither faster than the limits allow nor far from it; how near is a matter for a quiet machine.
	if least, most := report.Ideal*95/100, report.Ideal+time.Second; report.Elapsed < least || report.Elapsed > most {
		t.Errorf("%v, want from %v to %v", report, least, most)
	}
	line := regexp.MustCompile(`^outflow: requests=70 ok=70 failed=0 attempts=70 throttled=0 elapsed=\d+\.\d\ds ideal=\d\.\d\ds$`)
	if !line.MatchString(report.String()) {
		t.Errorf("the line is %q", report)
	}
}

func TestWithoutOutflowCallsFail(t *testing.T) {
	report := runQuietly(t, workload.Options{Requests: 70, Workers: 64, Without: true})
	if report.Failed == 0 || report.Throttled == 0 || report.OK+report.Failed != 70 || report.Attempts != 70 {
		t.Error(report)
	}
	line := regexp.MustCompile(`^without outflow: requests=70 ok=\d+ failed=\d+ attempts=70 throttled=\d+ elapsed=\d+\.\d\ds ideal=\d\.\d\ds$`)
	if !line.MatchString(report.String()) {
		t.Errorf("the line is %q", report)
	}
}

// The limits that we keep to may be wrong, or others may use them up. What the upstream then refuses is
// sent again, and the SDK doesn't notice.
func TestRefusedCallIsSentAgain(t *testing.T) {
	refusal := testserver.Reply(http.StatusTooManyRequests, `{"code": 20429, "status": 429}`, "Retry-After-Ms", "50")
	up := testserver.New(testserver.Script(refusal).By(testserver.PathSegment(2))).
		Answering(testserver.Reply(http.StatusCreated, `{"sid": "SM1"}`))
	report := runQuietly(t, workload.Options{Requests: 10, Workers: 10, BaseURL: up.TCP(t).URL})
	if report.OK != 10 || report.Attempts != 13 || report.Throttled != 3 {
		t.Errorf("each of three accounts refused once: %v; %v", report, report.FirstError)
	}
}

func runQuietly(t *testing.T, o workload.Options) workload.Report {
	t.Helper()
	o.Out = io.Discard
	report, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
