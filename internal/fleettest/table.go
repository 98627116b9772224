package fleettest

import (
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/outflow-go/outflow/shared"
)

var printTable = flag.Bool("fleet.table", false, "print what the tests of faults measured as a table, and take the time for it")

// Full reports whether each fault is to last as long in every mode: what a test of a mode needs is shorter.
func Full() bool { return *printTable }

// Bounds is what a fault may cost.
type Bounds struct {
	// Over is how many more than Rate·W + 1 may leave in any second, and in any 100 ms, apart from what timers are late.
	// Below 0: any number, as FailOpen says.
	Over int

	// Stall is the longest time in which nobody leaves, and Recovery until 95 % of the rate leave again in each 250 ms.
	// 0: it doesn't matter.
	Stall, Recovery time.Duration

	// Used is the least part of the limit that is to leave over the whole run; 0: any.
	// What is lost while timers are late by more than 20 ms is not counted: leased departures become stale then.
	Used float64

	// Refuses says that requests may fail with ErrStoreUnavailable: nothing else may ever make one fail.
	Refuses bool
}

// A Row is what was measured.
type Row struct {
	Fault           string
	Mode            string
	Used            float64 // part of the limit, over the run
	Lost, Refused   int
	Second, Tenth   Span // the densest second, and 100 ms
	Stall, Recovery time.Duration
	Late            time.Duration // timers, at most
	Outages         uint64
	Bounds          Bounds
}

// A Span is how many left in the densest span of some length.
type Span struct {
	Most   int
	May    int // is stated
	Late   int // more may, since timers were late just then
	Beyond int // what is stated, and what timers were late, in whichever span that is most; 0 or less: nothing
}

var table struct {
	sync.Mutex
	rows []Row
}

const (
	settles  = 500 * time.Millisecond // from the start: clients dial, and instances hear of each other and of Redis' clock
	recovers = 250 * time.Millisecond
	wakes    = 50 * time.Millisecond // may pass on a busy machine from when the timers fire to when all have left
)

// Mode is what a mode is called.
func Mode(m shared.OnOutage) string {
	return [...]string{shared.LocalShare: "LocalShare", shared.FailOpen: "FailOpen", shared.FailClosed: "FailClosed"}[m]
}

// Row measures the run.
func (f *Fleet) Row(fault string, b Bounds) Row {
	all := f.Departures()
	r := Row{
		Fault: fault, Mode: Mode(f.cfg.Store.OnOutage),
		Used: float64(len(all)) / (f.cfg.Rate * f.ran.Seconds()), Late: f.lateIn(0, f.ran), Bounds: b, Outages: f.Stats().Outages,
	}
	counted := all
	for len(counted) > 0 && counted[0] < min(settles, f.began) {
		counted = counted[1:]
	}
	r.Second = f.densest(counted, time.Second, b.Over)
	r.Tenth = f.densest(counted, 100*time.Millisecond, b.Over)
	for _, i := range f.instances {
		r.Lost += len(i.lost)
		r.Refused += i.refused
	}
	before := settles
	for _, at := range append(all, f.ran) {
		if at > settles {
			r.Stall = max(r.Stall, at-max(before, settles))
		}
		before = at
	}
	r.Recovery = f.ran - f.ended // not within the run
	want := int(0.95 * f.cfg.Rate * recovers.Seconds())
	for at := f.ended; at+recovers <= f.ran; at += time.Millisecond {
		if Within(all, at, at+recovers) >= want {
			r.Recovery = at - f.ended
			break
		}
	}
	return r
}

// densest counts what left in any span of some length: it may be the rate's, one, so many over, and those that were due
// before but whose timers were late.
func (f *Fleet) densest(all []time.Duration, span time.Duration, over int) Span {
	s := Span{May: int(f.cfg.Rate*span.Seconds()) + 1 + over, Beyond: math.MinInt}
	from := 0
	for i := range all {
		for all[i]-all[from] >= span {
			from++
		}
		n, late := i-from+1, 0
		if n > s.May || n > s.Most {
			late = int(math.Ceil(f.cfg.Rate * f.lateIn(all[from]-wakes, all[i]).Seconds()))
		}
		if n > s.Most {
			s.Most, s.Late = n, late
		}
		s.Beyond = max(s.Beyond, n-s.May-late)
	}
	return s
}

// Check measures the run, compares it with what it may be, and has it be in the table.
func (f *Fleet) Check(fault string, b Bounds) Row {
	f.t.Helper()
	r := f.Row(fault, b)
	f.t.Logf("%s", r.line())
	table.Lock()
	table.rows = append(table.rows, r)
	table.Unlock()
	if r.Lost > 0 {
		for _, i := range f.instances {
			if len(i.lost) > 0 {
				f.t.Errorf("%d requests were lost, the first with: %v", r.Lost, i.lost[0])
				break
			}
		}
	}
	if r.Refused > 0 && !b.Refuses {
		f.t.Errorf("%d requests were refused", r.Refused)
	}
	if b.Over >= 0 && r.Second.Beyond > 0 {
		f.t.Errorf("in some second %d more left than %d and those that were late; at most %d left in one", r.Second.Beyond, r.Second.May, r.Second.Most)
	}
	if b.Over >= 0 && r.Tenth.Beyond > 0 {
		f.t.Errorf("in some 100 ms %d more left than %d and those that were late; at most %d left in such a time", r.Tenth.Beyond, r.Tenth.May, r.Tenth.Most)
	}
	if b.Stall > 0 && r.Stall > b.Stall+r.Late {
		f.t.Errorf("nobody left for %v, want at most %v; timers were late by %v", r.Stall, b.Stall, r.Late)
	}
	if b.Recovery > 0 && r.Recovery > b.Recovery+r.Late {
		f.t.Errorf("%v until the rate was reached again, want at most %v; timers were late by %v", r.Recovery, b.Recovery, r.Late)
	}
	halted := time.Duration(0)
	for _, l := range f.late {
		if l.late > 20*time.Millisecond {
			halted += l.late / watchers
		}
	}
	if least := b.Used - halted.Seconds()/f.ran.Seconds(); r.Used < least {
		f.t.Errorf("%.1f %% of the limit left, want %.1f %%, or %.1f %% since timers were late by %v together", 100*r.Used, 100*b.Used, 100*least, halted)
	}
	return r
}

const head = `| fault | mode | lost | refused | any 1 s | any 100 ms | longest stall | recovers in | of the limit | outages seen | timers late |
|---|---|---|---|---|---|---|---|---|---|---|
`

func (r *Row) line() string {
	count := func(s Span) string {
		switch {
		case r.Bounds.Over < 0:
			return fmt.Sprintf("%d (any)", s.Most)
		case s.Most > s.May:
			return fmt.Sprintf("%d (%d + %d late)", s.Most, s.May, s.Late)
		}
		return fmt.Sprintf("%d (%d)", s.Most, s.May)
	}
	span := func(d, most time.Duration) string {
		s := d.Round(time.Millisecond).String()
		if most > 0 {
			s += fmt.Sprintf(" (%v)", most)
		}
		return s
	}
	used := fmt.Sprintf("%.1f %%", 100*r.Used)
	if r.Bounds.Used > 0 {
		used += fmt.Sprintf(" (%.0f %%)", 100*r.Bounds.Used)
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %s | %s | %s | %s | %s | %d | %v |",
		r.Fault, r.Mode, r.Lost, r.Refused, count(r.Second), count(r.Tenth),
		span(r.Stall, r.Bounds.Stall), span(r.Recovery, r.Bounds.Recovery), used, r.Outages, r.Late.Round(time.Millisecond))
}

// PrintTable prints all rows, with -fleet.table.
func PrintTable(w io.Writer) {
	table.Lock()
	defer table.Unlock()
	if !*printTable || len(table.rows) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString("\n" + head)
	for _, r := range table.rows {
		b.WriteString(r.line() + "\n")
	}
	_, _ = io.WriteString(w, b.String())
}

// Within is how many of the moments are from one to another.
func Within(all []time.Duration, from, to time.Duration) int {
	n := 0
	for _, at := range all {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// Densest is how many of the moments, which are in order, are in any span of that length.
func Densest(all []time.Duration, span time.Duration) int {
	n, from := 0, 0
	for i := range all {
		for all[i]-all[from] >= span {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}

// Excess is how many more of the moments than rate·W + 1 are in a span W, whichever has the most.
func Excess(all []time.Duration, rate float64) float64 {
	most, least := 0.0, math.Inf(1)
	for i, at := range all {
		// The span from the j-th to the i-th has i-j+1 of them.
		behind := float64(i) - rate*at.Seconds()
		least = min(least, behind)
		most = max(most, behind-least)
	}
	return most
}
