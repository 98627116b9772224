package main

import (
	"reflect"
	"testing"
	"time"
)

// Two runs of known numbers, the second of which begins where the first ends.
func TestPanels(t *testing.T) {
	first := outcome{Series: []tick{
		{Departures: 20, Limited: 3, Waiting: 60, InFlight: 4},
		{},
		{Departures: 1, Overloaded: 1, Waiting: 2},
	}}
	second := outcome{Series: []tick{{Departures: 2, Limited: 1, InFlight: 1}}}
	got := panelsOf([]outcome{first, second}, 200*time.Millisecond)
	want := panels{
		departures: []step{{0, 0.2, 100}, {0.2, 0.3, 5}, {0.3, 0.4, 10}},
		limited:    []point{{0.05, 3}, {0.35, 1}},
		overloaded: []point{{0.25, 1}},
		waiting:    []step{{0, 0.1, 60}, {0.1, 0.2, 0}, {0.2, 0.3, 2}, {0.3, 0.4, 0}},
		inFlight:   []step{{0, 0.1, 4}, {0.1, 0.2, 0}, {0.2, 0.3, 0}, {0.3, 0.4, 1}},
		starts:     []float64{0.3},
		end:        0.4,
	}
	if got = rounded(got); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := highest(got.waiting, got.inFlight); got != 60 {
		t.Errorf("the most that wait or are in flight: %v, want 60", got)
	}
	if got := most(got.limited, got.overloaded); got != 3 {
		t.Errorf("the most refusals: %v, want 3", got)
	}
}

// Without a bin, departures are counted in each tick.
func TestPanelsWithoutBin(t *testing.T) {
	got := rounded(panelsOf([]outcome{{Series: []tick{{Departures: 1}, {Departures: 2}}}}, 0)).departures
	if want := []step{{0, 0.1, 10}, {0.1, 0.2, 20}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What stays the same needs no corners: a picture is as large as what happens in it.
func TestSteps(t *testing.T) {
	line := steps([]step{{0, 1, 5}, {1, 2, 5}, {2, 3, 0}})
	var got [][2]float64
	for _, xy := range line.XYs {
		got = append(got, [2]float64{xy.X, xy.Y})
	}
	if want := [][2]float64{{0, 5}, {2, 5}, {2, 0}, {3, 0}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFigures(t *testing.T) {
	limited := outcome{
		Calls: 2000, Attempts: 2009, Elapsed: 22 * time.Second, Minimal: 20 * time.Second,
		ByStatus: map[int]int{200: 2000, 429: 9},
	}
	quota := outcome{Calls: 99, Failed: 2, Attempts: 100, Again: 1, Cost: 49, Quota: 50, ByStatus: map[int]int{200: 99, 403: 1}}
	unwell := outcome{Calls: 1000, Attempts: 1010, After: 7, Elapsed: time.Second, Minimal: time.Second, ByStatus: map[int]int{503: 10}}
	for _, tt := range []struct {
		c    plotCase
		runs []outcome
		want string
	}{
		{plotCase{}, []outcome{limited}, "time 1.10 × the least, 9 429s, 0 failed"},
		{plotCase{}, []outcome{quota}, "98.0 % used, one 403, 1.0 % refused again, 2 failed"},
		{plotCase{}, []outcome{{Quota: 2, Cost: 1}, {Quota: 1, Cost: 1}},
			"run 1: 50.0 % used, none refused, 0 failed; run 2: 100.0 % used, none refused, 0 failed"},
		{plotCase{outage: [2]time.Duration{0, time.Second}}, []outcome{unwell},
			"time 1.00 × the least, 10 503s, 1.010 attempts a call, 7 in the second after recovery, 0 failed"},
	} {
		if got := tt.c.figures(tt.runs); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// rounded takes out what floating point adds to tenths.
func rounded(p panels) panels {
	round := func(x *float64) { *x = float64(int(*x*1e6+0.5)) / 1e6 }
	for _, some := range [][]step{p.departures, p.waiting, p.inFlight} {
		for i := range some {
			round(&some[i].from)
			round(&some[i].to)
			round(&some[i].value)
		}
	}
	for _, some := range [][]point{p.limited, p.overloaded} {
		for i := range some {
			round(&some[i].at)
		}
	}
	for i := range p.starts {
		round(&p.starts[i])
	}
	round(&p.end)
	return p
}
