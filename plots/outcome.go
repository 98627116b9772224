package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An outcome is what the tests write with -signals.dir: see signals_outcome_test.go, which says what is what.
type outcome struct {
	Calls      int
	Failed     int
	Attempts   int
	ByStatus   map[int]int
	Elapsed    time.Duration
	Minimal    time.Duration
	After      int
	Again      int
	AtUpstream time.Duration
	Cost       int
	Quota      int
	Series     []tick
}

type tick struct{ Departures, Limited, Overloaded, Waiting, InFlight int }

const tickLength = 100 * time.Millisecond

func (c plotCase) read(dir string) ([]outcome, error) {
	var all []outcome
	for _, run := range c.runs {
		text, err := os.ReadFile(filepath.Join(dir, strings.NewReplacer("/", "-", " ", "_").Replace(run)+".json"))
		if err != nil {
			return nil, err
		}
		var o outcome
		if err := json.Unmarshal(text, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", run, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// figures is what the runs of a case came to.
func (c plotCase) figures(outcomes []outcome) string {
	var runs []string
	for i, o := range outcomes {
		text := strings.Join(c.figuresOf(o), ", ")
		if len(outcomes) > 1 {
			text = fmt.Sprintf("run %d: %s", i+1, text)
		}
		runs = append(runs, text)
	}
	return strings.Join(runs, "; ")
}

func (c plotCase) figuresOf(o outcome) []string {
	var f []string
	add := func(format string, args ...any) { f = append(f, fmt.Sprintf(format, args...)) }
	if o.Minimal > 0 {
		add("time %.2f × the least", o.Elapsed.Seconds()/o.Minimal.Seconds())
	}
	if o.Quota > 0 {
		add("%.1f %% used", 100*float64(o.Cost)/float64(o.Quota))
	}
	if c.latency {
		add("p95 at the upstream %v", o.AtUpstream.Round(time.Millisecond))
	}
	refused := false
	for _, status := range slices.Sorted(maps.Keys(o.ByStatus)) {
		switch n := o.ByStatus[status]; {
		case status < 300 || n == 0:
			continue
		case n == 1:
			add("one %d", status)
		default:
			add("%d %ds", n, status)
		}
		refused = true
	}
	switch {
	case !refused:
		add("none refused")
	case o.Quota > 0:
		add("%.1f %% refused again", 100*float64(o.Again)/float64(max(1, o.Attempts)))
	}
	if c.outage != [2]time.Duration{} {
		add("%.3f attempts a call", float64(o.Attempts)/float64(o.Calls))
		add("%d in the second after recovery", o.After)
	}
	add("%d failed", o.Failed)
	return f
}
