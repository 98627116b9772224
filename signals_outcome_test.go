package outflow_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/testserver"
)

var signalsDir = flag.String("signals.dir", "", "write the outcome of each scenario, with its time series, to a file in this directory")

// An outcome is what a scenario has come to. Its fields are exported for JSON: durations are nanoseconds.
type outcome struct {
	Scenario   string
	Conditions string
	Calls      int
	Failed     int
	Attempts   int           // as they arrived at the upstream
	Admitted   int           // of those, answered with a 2xx
	ByStatus   map[int]int   // of the attempts
	Elapsed    time.Duration // from the first call's begin to the last one's end
	Minimal    time.Duration
	After      int           // attempts in the second after recovery
	Again      int           // refused when it could be known that others had been
	P95, P99   time.Duration // of a call, its waiting included
	AtUpstream time.Duration // p95 of what an admitted request takes there
	Cost       int           // what the admitted ones cost
	Quota      int           // how much of that the upstream admits; 0: that wasn't the question
	FirstError string
	Series     []tick
}

// A tick is a tenth of a second.
type tick struct {
	Departures int // attempts sent
	Limited    int // attempts answered with 429 or 403
	Overloaded int // attempts answered with 503
	OK         int // attempts answered with a 2xx
	Waiting    int // calls that are queued in the client at the end of it
	InFlight   int // attempts that are out at the end of it
}

const tickLength = 100 * time.Millisecond

func (s scenario) outcome(c conditions, start time.Time, w *watch, attempts []span, arrivals testserver.Arrivals) outcome {
	if s.during > 0 { // what has left in time may arrive just after
		arrivals = arrivals.Where(func(a testserver.Arrival) bool { return a.At.Sub(start) <= s.during })
	}
	admitted := arrivals.OK()
	o := outcome{
		Scenario:   s.name,
		Conditions: c.String(),
		Calls:      len(w.calls),
		Attempts:   len(arrivals),
		Admitted:   len(admitted),
		Cost:       admitted.TotalCost(),
		ByStatus:   arrivals.ByStatus(),
		Elapsed:    lastEnd(w.calls).Sub(start),
		Minimal:    s.minimal,
		Quota:      s.quota,
		Series:     series(start, slices.Concat(w.calls, w.cut), attempts),
	}
	for _, call := range w.calls {
		if call.status < 200 || call.status > 299 {
			o.Failed++
		}
	}
	var known time.Time // when the first refusal could be known where the next one comes from
	for _, a := range arrivals {
		switch {
		case a.Status != http.StatusTooManyRequests && a.Status != http.StatusForbidden:
		case known.IsZero():
			known = a.At.Add(c.latency + 2*c.jitter)
		case a.At.After(known):
			o.Again++
		}
	}
	if len(w.errors) > 0 {
		o.FirstError = w.errors[0].Error()
	}
	if s.recovers > 0 {
		for _, since := range arrivals.Since(start) {
			if since >= s.recovers && since < s.recovers+time.Second {
				o.After++
			}
		}
	}
	var took, upstream []time.Duration
	for _, call := range w.calls {
		took = append(took, call.end.Sub(call.begin))
	}
	for _, a := range admitted {
		if !a.Done.IsZero() {
			upstream = append(upstream, a.Done.Sub(a.At))
		}
	}
	o.P95, o.P99 = quantile(took, 0.95), quantile(took, 0.99)
	o.AtUpstream = quantile(upstream, 0.95)
	return o
}

// ratio is the time as a multiple of the least.
func (o outcome) ratio() float64 { return o.Elapsed.Seconds() / o.Minimal.Seconds() }

// used is the share of the quota that was used.
func (o outcome) used() float64 { return float64(o.Cost) / float64(o.Quota) }

// refusedAgain is how many attempts were refused that came after the first refusal could be known, as a share of all.
func (o outcome) refusedAgain() float64 { return float64(o.Again) / float64(max(1, o.Attempts)) }

// refused is how many attempts were refused because of a limit.
func (o outcome) refused() int {
	return o.ByStatus[http.StatusTooManyRequests] + o.ByStatus[http.StatusForbidden]
}

func (o outcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s | %s:", o.Scenario, o.Conditions)
	if o.Minimal > 0 {
		fmt.Fprintf(&b, " time %.3f × %v", o.ratio(), o.Minimal)
	} else {
		fmt.Fprintf(&b, " time %v", o.Elapsed.Round(time.Millisecond))
	}
	fmt.Fprintf(&b, ", calls %d, failed %d, attempts %d, limited %d, 503s %d, after recovery %d, call p95 %v p99 %v, at upstream p95 %v",
		o.Calls, o.Failed, o.Attempts, o.refused(), o.ByStatus[503], o.After,
		o.P95.Round(time.Millisecond), o.P99.Round(time.Millisecond), o.AtUpstream.Round(time.Millisecond))
	if o.Quota > 0 {
		fmt.Fprintf(&b, ", used %.1f %% of %d", 100*o.used(), o.Quota)
	}
	if o.FirstError != "" {
		fmt.Fprintf(&b, ", first error: %s", o.FirstError)
	}
	return b.String()
}

// save writes the outcome where -signals.dir says, for a program that draws it.
func (o outcome) save(t testing.TB) {
	t.Helper()
	if *signalsDir == "" {
		return
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.NewReplacer("/", "-", " ", "_").Replace(o.Scenario+"_"+o.Conditions) + ".json"
	if err := os.WriteFile(filepath.Join(*signalsDir, name), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func series(start time.Time, calls, attempts []span) []tick {
	ticks := make([]tick, lastEnd(slices.Concat(calls, attempts)).Sub(start)/tickLength+1)
	at := func(moment time.Time) int { return int(moment.Sub(start) / tickLength) }
	out := func(spans []span, n func(*tick) *int) {
		for _, s := range spans {
			for i := at(s.begin); i < at(s.end); i++ {
				*n(&ticks[i])++
			}
		}
	}
	out(calls, func(t *tick) *int { return &t.Waiting })
	out(attempts, func(t *tick) *int { return &t.InFlight })
	for i := range ticks {
		// An attempt may end a moment after its call was cut off.
		ticks[i].Waiting = max(0, ticks[i].Waiting-ticks[i].InFlight)
	}
	for _, a := range attempts {
		ticks[at(a.begin)].Departures++
		end := &ticks[at(a.end)]
		switch {
		case a.status == http.StatusTooManyRequests || a.status == http.StatusForbidden:
			end.Limited++
		case a.status == http.StatusServiceUnavailable:
			end.Overloaded++
		case a.status >= 200 && a.status < 300:
			end.OK++
		}
	}
	return ticks
}

func lastEnd(spans []span) time.Time {
	var last time.Time
	for _, s := range spans {
		if s.end.After(last) {
			last = s.end
		}
	}
	return last
}

func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(int(q*float64(len(ds))), len(ds)-1)]
}

// atMost fails the test if what was measured is above its target.
func atMost[T cmp.Ordered](t testing.TB, what string, got, want T) {
	t.Helper()
	if got > want {
		t.Errorf("%s: %v, want at most %v", what, got, want)
	}
}

// atLeast fails the test if what was measured is below its target.
func atLeast[T cmp.Ordered](t testing.TB, what string, got, want T) {
	t.Helper()
	if got < want {
		t.Errorf("%s: %v, want at least %v", what, got, want)
	}
}

// when is what is wanted where yes, or otherwise.
func when[T any](yes bool, want, otherwise T) T {
	if yes {
		return want
	}
	return otherwise
}
