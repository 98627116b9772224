package limit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestWindowText(t *testing.T) {
	la := zone(t, "America/Los_Angeles")
	for _, c := range []struct {
		limit limit.Limit
		text  string
	}{
		{limit.FixedWindow(5000, time.Hour), "5000/h fixed"},
		{limit.FixedWindow(5000, time.Hour).ByClock(), "5000/h fixed by clock"},
		{limit.FixedWindow(5000, time.Hour).ByKey(), "5000/h fixed by key"},
		{limit.FixedWindow(90, 15*time.Minute).WithBurst(10), "90/15m0s fixed burst 10"},
		{limit.SlidingWindow(300, time.Minute), "300/m sliding"},
		{limit.SlidingWindow(300, 24*time.Hour), "300/day sliding"},
		{limit.SlidingCounter(300, time.Minute), "300/m sliding counter"},
		{limit.SlidingCounter(300, time.Minute).WithBurst(5).WithHeadroom(0.25), "300/m sliding counter burst 5 headroom 25%"},
		{limit.Daily(1000, 0, 0, la), "1000/day at 00:00 America/Los_Angeles"},
		{limit.Daily(1000, 9, 5, time.UTC).WithHeadroom(0.1), "1000/day at 09:05 UTC headroom 10%"},
		{limit.Daily(1000, 9, 5, time.Local), "1000/day at 09:05 Local"},
		{limit.Monthly(10000, 1, 0, 0, time.UTC), "10000/month on 1 at 00:00 UTC"},
		{limit.PerSecond(100).WithBurst(20).WithHeadroom(0.075), "100/s burst 20 headroom 7.5%"},
		{limit.PerSecond(100).WithHeadroom(0.07), "100/s headroom 7%"},
		{limit.PerSecond(100).WithHeadroom(1e-6), "100/s headroom 0.0001%"},
		{limit.Concurrent(10).WithHeadroom(0.5), "concurrent 10 headroom 50%"},
	} {
		if got := c.limit.String(); got != c.text {
			t.Errorf("prints as %q, want %q", got, c.text)
		}
		if got, err := limit.Parse(c.text); err != nil || got != c.limit {
			t.Errorf("Parse(%q) = %v, %v", c.text, got, err)
		}
	}
	for text, want := range map[string]limit.Limit{
		" 5000/H  Fixed By Clock ":              limit.FixedWindow(5000, time.Hour).ByClock(),
		"5e3/hour FIXED":                        limit.FixedWindow(5000, time.Hour),
		"1000/DAY At 7:30 utc HEADROOM 10.0%":   limit.Daily(1000, 7, 30, time.UTC).WithHeadroom(0.1),
		"1/Month On 28 At 23:59 Europe/Berlin":  limit.Monthly(1, 28, 23, 59, zone(t, "Europe/Berlin")),
		"300/m Sliding Counter burst 0":         limit.SlidingCounter(300, time.Minute),
		"10/s burst 3 headroom 0%":              limit.PerSecond(10).WithBurst(3),
		"10/day fixed by clock":                 limit.FixedWindow(10, 24*time.Hour).ByClock(),
		"1000/day at 00:00 America/Los_Angeles": limit.Daily(1000, 0, 0, la),
	} {
		if got, err := limit.Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestBadWindowTextIsQuotedWithWhatIsWrong(t *testing.T) {
	for text, part := range map[string]string{
		"1.5/h fixed":                               "n is 1.5",
		"0/h sliding":                               "n is 0",
		"1/1us sliding":                             "d is 1µs",
		"1/h fixed by moon":                         "want",
		"1/h fixed by":                              "want",
		"1/h counter":                               "want",
		"1/h fixed by clock burst 2":                "burst is 2",
		"1/h headroom 5% burst 2":                   "want",
		"1/h headroom 5":                            `headroom is "5"`,
		"1/h headroom %":                            `headroom is "%"`,
		"1/h headroom 100%":                         "headroom is 1,",
		"1/h headroom -5%":                          "headroom is -0.05",
		"1/h headroom 0.00001%":                     "headroom is 1e-07",
		"1/h headroom 1e1%":                         `headroom is "1e1%"`,
		"1/day at":                                  `time is ""`,
		"1/day at noon UTC":                         `time is "noon"`,
		"1/day at 12:5 UTC":                         `time is "12:5"`,
		"1/day at 24:00 UTC":                        "hour is 24",
		"1/day at 23:60 UTC":                        "minute is 60",
		"1/day at -1:00 UTC":                        "hour is -1",
		"1/day at 00:00":                            "zone is empty",
		"1/day at 00:00 Mars/Olympus":               `zone is "Mars/Olympus"`,
		"1/day at 00:00 ../../../etc/passwd":        `zone is "../../../etc/passwd"`,
		"1/month":                                   "want n/month on day at hh:mm place",
		"1/month on 1":                              "want n/month on day at hh:mm place",
		"1/month on first at 00:00 UTC":             `day is "first"`,
		"1/month on 29 at 00:00 UTC":                "day is 29",
		"1/month on 0 at 00:00 UTC":                 "day is 0",
		"concurrent 3 sliding":                      "want",
		"1/day at 00:00 UTC burst 4":                "burst is 4",
		"1/day at 00:00 America/Los_Angeles please": "want",
	} {
		l, err := limit.Parse(text)
		switch {
		case !errors.Is(err, limit.ErrInvalid):
			t.Errorf("Parse(%q) = %v, %v, want ErrInvalid", text, l, err)
		case !strings.Contains(err.Error(), part):
			t.Errorf("Parse(%q): %v, want it to say %q", text, err, part)
		}
	}
}

func TestInvalidWindowsNameTheFieldAndTheValue(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		part  string
	}{
		{limit.SlidingWindow(0, time.Hour), "n is 0"},
		{limit.FixedWindow(-3, time.Hour), "n is -3"},
		{limit.SlidingCounter(limit.MaxBurst+1, time.Hour), "n is 1.073741825e+09"},
		{limit.SlidingWindow(1, 0), "d is 0s"},
		{limit.SlidingWindow(1, limit.MaxSpan+1), "d is 87600h0m0.000000001s"},
		{limit.SlidingWindow(1, time.Hour).WithBurst(-1), "burst is -1"},
		{limit.SlidingWindow(1, time.Hour).ByClock(), "only a fixed window has a phase"},
		{limit.PerSecond(1).ByKey(), "only a fixed window has a phase"},
		{limit.Concurrent(1).ByKey(), "only a fixed window has a phase"},
		{limit.FixedWindow(1, time.Hour).ByClock().WithBurst(1), "burst is 1"},
		{limit.Daily(1, 0, 0, time.UTC).ByClock(), "phase from the calendar"},
		{limit.Daily(1, 0, 0, nil), "zone is empty"},
		{limit.Daily(1, 0, 0, time.FixedZone("", 3600)), "fixed zone"},
		{limit.Daily(1, 0, 0, time.FixedZone("EST", 3600)), "fixed zone EST"},
		{limit.Daily(1, 0, 0, time.FixedZone("UTC+3", 3*3600)), `zone is "UTC+3"`},
		{limit.Monthly(1, 31, 0, 0, time.UTC), "day is 31"},
		{limit.PerSecond(1).WithHeadroom(1), "headroom is 1"},
		{limit.PerSecond(1).WithHeadroom(-0.5), "headroom is -0.5"},
		{limit.Concurrent(1).WithHeadroom(2), "headroom is 2"},
	} {
		err := c.limit.Validate()
		if !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%v: %v, want ErrInvalid and that it says %q", c.limit, err, c.part)
		}
	}
}

func TestWhatAWindowSaysOfItself(t *testing.T) {
	w := limit.FixedWindow(100, time.Minute).WithBurst(7).WithHeadroom(0.25)
	if n, d, ok := w.Window(); n != 100 || d != time.Minute || !ok || w.Burst() != 7 || w.Headroom() != 0.25 {
		t.Errorf("%v: %d per %v, %v, burst %d, headroom %v", w, n, d, ok, w.Burst(), w.Headroom())
	}
	if _, ok := w.Rate(); ok {
		t.Errorf("%v has a rate", w)
	}
	if n, d, ok := limit.Monthly(9, 1, 0, 0, time.UTC).Window(); n != 9 || d != 31*24*time.Hour+time.Hour || !ok {
		t.Errorf("a month: %d per %v, %v", n, d, ok)
	}
	if _, _, ok := limit.PerSecond(1).Window(); ok {
		t.Error("a rate has a window")
	}
	set, err := limit.Join(w, limit.SlidingWindow(50, time.Hour), limit.PerSecond(1), limit.Concurrent(10).WithHeadroom(0.25), limit.Concurrent(9))
	if err != nil || set.MaxCost() != 50 || set.Slots() != 9 || set.OrdinarySlots() != 7 {
		t.Errorf("joined: costs up to %d, %d slots, %d ordinary, %v", set.MaxCost(), set.Slots(), set.OrdinarySlots(), err)
	}
	one, _ := limit.Join(limit.Concurrent(1).WithHeadroom(0.9))
	if one.OrdinarySlots() != 1 {
		t.Errorf("of one slot %d are ordinary", one.OrdinarySlots())
	}
	st := newState(t, limit.SlidingWindow(50, time.Hour))
	if at := st.Earliest(0, 0, 0, 51, true); at != limit.Never {
		t.Errorf("51 of 50 may leave at %v", at)
	}
}

// anyLimit draws limits of all kinds, some of them not valid.
func anyLimit(t *rapid.T) limit.Limit {
	n := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, limit.MaxBurst)).Draw(t, "n")
	d := time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(limit.MaxSpan)), rapid.SampledFrom([]int64{1e6, 1e9, 60e9, 3600e9, 24 * 3600e9})).Draw(t, "d"))
	hour, minute := rapid.IntRange(-1, 24).Draw(t, "hour"), rapid.IntRange(-1, 60).Draw(t, "minute")
	places := []string{"UTC", "America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe", "Local", "Etc/GMT+3"}
	loc := zone(t, rapid.SampledFrom(places).Draw(t, "zone"))
	var l limit.Limit
	switch rapid.IntRange(0, 10).Draw(t, "kind") {
	case 0:
		l = limit.Per(rapid.Float64().Draw(t, "rate"), d)
	case 1:
		l = limit.Concurrent(n)
	case 2:
		l = limit.SlidingWindow(n, d)
	case 3:
		l = limit.SlidingCounter(n, d)
	case 4:
		l = limit.FixedWindow(n, d)
	case 5:
		l = limit.FixedWindow(n, d).ByClock()
	case 6:
		l = limit.FixedWindow(n, d).ByKey()
	case 7:
		l = limit.Daily(n, hour, minute, loc)
	case 8:
		bound := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, limit.MaxRate), rapid.Float64Range(0, 1))
		l = limit.AdaptiveRate(bound.Draw(t, "least"), bound.Draw(t, "most"))
	case 9:
		l = limit.AdaptiveConcurrency(rapid.IntRange(-1, 20).Draw(t, "least"), n)
	default:
		l = limit.Monthly(n, rapid.IntRange(0, 29).Draw(t, "day"), hour, minute, loc)
	}
	if rapid.Bool().Draw(t, "burst?") {
		l = l.WithBurst(rapid.IntRange(0, 99).Draw(t, "burst"))
	}
	if rapid.Bool().Draw(t, "headroom?") {
		l = l.WithHeadroom(rapid.OneOf(rapid.Float64Range(-1, 2), rapid.Map(rapid.IntRange(0, 99), func(p int) float64 { return float64(p) / 100 })).Draw(t, "share"))
	}
	return l
}

func TestTextRoundTripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit(t)
		back, err := limit.Parse(l.String())
		if l.Validate() == nil {
			if err != nil || back != l {
				t.Fatalf("%#v prints as %q, which parses to %#v, %v", l, l, back, err)
			}
		} else if err == nil && back == l {
			t.Fatalf("%#v isn't valid, but parses", l)
		}
	})
}
