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
	report := runQuietly(t, workload.Options{Requests: 100, Workers: 64})
	if report.OK != 100 || report.Failed != 0 || report.Attempts != 100 || report.Throttled != 0 {
		t.Errorf("%v; %v", report, report.FirstError)
	}
	// Neither faster than the limits allow nor far from it; how near is a matter for a quiet machine.
	if least, most := report.Ideal*95/100, report.Ideal+time.Second; report.Elapsed < least || report.Elapsed > most {
		t.Errorf("%v, want from %v to %v", report, least, most)
	}
	line := regexp.MustCompile(`^outflow: requests=100 ok=100 failed=0 attempts=100 throttled=0 elapsed=\d+\.\d\ds ideal=\d\.\d\ds$`)
	if !line.MatchString(report.String()) {
		t.Errorf("the line is %q", report)
	}
}

func TestWithoutOutflowCallsFail(t *testing.T) {
	report := runQuietly(t, workload.Options{Requests: 100, Workers: 64, Without: true})
	if report.Failed == 0 || report.Throttled == 0 || report.OK+report.Failed != 100 || report.Attempts != 100 {
		t.Error(report)
	}
	line := regexp.MustCompile(`^without outflow: requests=100 ok=\d+ failed=\d+ attempts=100 throttled=\d+ elapsed=\d+\.\d\ds ideal=\d\.\d\ds$`)
	if !line.MatchString(report.String()) {
		t.Errorf("the line is %q", report)
	}
}

// The limits that we keep to may be wrong, or others may use them up. What the upstream then refuses is
// sent again, and the SDK doesn't notice; uploads too, because the SDK says how to have a body again.
func TestRefusedCallIsSentAgain(t *testing.T) {
	refusal := testserver.Reply(http.StatusTooManyRequests, `{"error": {"code": "rate_limit"}}`, "Retry-After-Ms", "50")
	for _, endpoint := range []string{"POST /v1/customers", "POST /v1/files"} {
		up := testserver.New(testserver.Script(refusal).On(endpoint)).
			Answering(testserver.Reply(http.StatusOK, `{"id": "x_1"}`))
		report := runQuietly(t, workload.Options{Requests: 8, Workers: 8, BaseURL: up.TCP(t).URL})
		if report.OK != 8 || report.Attempts != 9 || report.Throttled != 1 {
			t.Errorf("%s refused once: %v; %v", endpoint, report, report.FirstError)
		}
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
