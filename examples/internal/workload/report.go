package workload

import (
	"fmt"
	"time"
)

// A Report sums up a run of an example.
type Report struct {
	Without   bool          // it was made without outflow
	Requests  int           // calls made of the SDK
	OK        int           // calls that succeeded
	Failed    int           // calls that returned an error
	Attempts  int64         // requests that went over the wire
	Throttled int64         // of these, answered with 429
	Elapsed   time.Duration // from the first call to the last answer
	Ideal     time.Duration // the least time that the limits allow

	FirstError error // what one of the failed calls returned, or nil
}

// NewReport puts together what the callers and the wire have seen.
func NewReport(o Options, r Result, w *Wire, ideal time.Duration) Report {
	return Report{
		Without:   o.Without,
		Requests:  o.Requests,
		OK:        r.OK,
		Failed:    r.Failed,
		Attempts:  w.Attempts.Load(),
		Throttled: w.Throttled.Load(),
		Elapsed:   r.Elapsed,
		Ideal:     ideal,

		FirstError: r.FirstError,
	}
}

// String is the report in one line.
func (r Report) String() string {
	who := "outflow"
	if r.Without {
		who = "without outflow"
	}
	return fmt.Sprintf("%s: requests=%d ok=%d failed=%d attempts=%d throttled=%d elapsed=%.2fs ideal=%.2fs",
		who, r.Requests, r.OK, r.Failed, r.Attempts, r.Throttled, r.Elapsed.Seconds(), r.Ideal.Seconds())
}
