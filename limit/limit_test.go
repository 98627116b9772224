package limit_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/outflow-go/outflow/limit"
)

func TestTextRoundTrip(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		text  string
	}{
		{limit.PerSecond(100), "100/s"},
		{limit.PerSecond(0.5), "0.5/s"},
		{limit.PerSecond(1e6), "1000000/s"},
		{limit.Per(1e-7, time.Second), "1e-07/s"},
		{limit.PerSecond(100).WithBurst(20), "100/s burst 20"},
		{limit.Per(300, time.Minute), "300/m"},
		{limit.Per(5000, time.Hour), "5000/h"},
		{limit.Per(1000, 24*time.Hour), "1000/day"},
		{limit.Per(5, 2*time.Second), "5/2s"},
		{limit.Per(1, 90*time.Second), "1/1m30s"},
		{limit.Per(3, 250*time.Millisecond).WithBurst(2), "3/250ms burst 2"},
		{limit.Concurrent(10), "concurrent 10"},
	} {
		if got := c.limit.String(); got != c.text {
			t.Errorf("%#v prints as %q, want %q", c.limit, got, c.text)
		}
		got, err := limit.Parse(c.text)
		if err != nil || got != c.limit {
			t.Errorf("Parse(%q) = %v, %v", c.text, got, err)
		}
		data, err := json.Marshal(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		var back limit.Limit
		if err := json.Unmarshal(data, &back); err != nil || back != c.limit {
			t.Errorf("%s comes back as %v, %v", data, back, err)
		}
	}
}

func TestParseReadsWhatPeopleWrite(t *testing.T) {
	for text, want := range map[string]limit.Limit{
		" 100/S  Burst 20 ": limit.PerSecond(100).WithBurst(20),
		"10/sec":            limit.PerSecond(10),
		"10/second":         limit.PerSecond(10),
		"10/min":            limit.Per(10, time.Minute),
		"10/minute":         limit.Per(10, time.Minute),
		"10/hour":           limit.Per(10, time.Hour),
		"10/d":              limit.Per(10, 24*time.Hour),
		"1e3/s":             limit.PerSecond(1000),
		"CONCURRENT 3":      limit.Concurrent(3),
	} {
		if got, err := limit.Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestBadTextIsQuotedWithWhatIsWrong(t *testing.T) {
	for text, part := range map[string]string{
		"":                         "want",
		"100":                      `no "/"`,
		"100/":                     `period is ""`,
		"/s":                       `n is ""`,
		"nan/s":                    `n is "nan"`,
		"inf/s":                    `n is "inf"`,
		"0x10/s":                   `n is "0x10"`,
		"1_000/s":                  `n is "1_000"`,
		"-1/s":                     "n is -1",
		"0/s":                      "n is 0",
		"1/0s":                     "d is 0s",
		"1/-2s":                    "d is -2s",
		"1/fortnight":              `period is "fortnight"`,
		"1/s burst 0":              "burst is 0",
		"1/s burst -4":             "burst is -4",
		"1/s burst many":           `burst is "many"`,
		"1/s burst 99999999999":    "burst",
		"1/s bust 4":               "want",
		"1/s burst":                "want",
		"concurrent 0":             "concurrent 0",
		"concurrent -1":            "concurrent -1",
		"concurrent x":             `concurrent is "x"`,
		"concurrent":               "want",
		"1e10/s":                   "at most 1e+09",
		"1e-300/s":                 "longer than",
		strings.Repeat("1", 1000):  "1000 bytes",
		"1e400/s":                  `n is "1e400"`,
		"1/9999999999999999999h":   "period",
		"1/s burst 10 extra words": "want",
	} {
		l, err := limit.Parse(text)
		switch {
		case !errors.Is(err, limit.ErrInvalid):
			t.Errorf("Parse(%q) = %v, %v, want ErrInvalid", text, l, err)
		case !strings.Contains(err.Error(), part):
			t.Errorf("Parse(%q): %v, want it to say %q", text, err, part)
		case l != limit.Limit{}:
			t.Errorf("Parse(%q) returns %v with its error", text, l)
		}
	}
	l := limit.PerSecond(7)
	if err := l.UnmarshalText([]byte("x")); err == nil || l != limit.PerSecond(7) {
		t.Errorf("after a failed UnmarshalText the limit is %v, %v", l, err)
	}
}

func TestInvalidLimitsNameTheFieldAndTheValue(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		parts string // to be found in the error, separated by "|"
	}{
		{limit.Limit{}, "zero Limit"},
		{limit.PerSecond(0), "n is 0"},
		{limit.PerSecond(-3), "n is -3"},
		{limit.PerSecond(math.NaN()), "n is NaN"},
		{limit.PerSecond(math.Inf(1)), "n is +Inf"},
		{limit.PerSecond(math.Inf(-1)), "n is -Inf"},
		{limit.FromRate(rate.Inf, 1), "n is +Inf"},
		{limit.PerSecond(2e9), "2e+09|at most 1e+09"},
		{limit.Per(10, 0), "d is 0s"},
		{limit.Per(10, -time.Second), "d is -1s"},
		{limit.PerSecond(1).WithBurst(0), "burst is 0"},
		{limit.PerSecond(1).WithBurst(-1), "burst is -1"},
		{limit.PerSecond(1).WithBurst(limit.MaxBurst + 1), "burst is 1073741825"},
		{limit.Per(1, 24*time.Hour).WithBurst(4000), "burst of 4000"},
		{limit.Concurrent(0), "concurrent 0"},
		{limit.Concurrent(-2), "concurrent -2"},
		{limit.Concurrent(limit.MaxConcurrent + 1), "concurrent 1073741825"},
		{limit.Concurrent(1).WithBurst(2), "burst 2"},
	} {
		err := c.limit.Validate()
		if !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("%v: %v, want ErrInvalid", c.limit, err)
			continue
		}
		for part := range strings.SplitSeq(c.parts, "|") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: %v, want it to say %q", c.limit, err, part)
			}
		}
		if _, err := limit.Join(limit.PerSecond(1), c.limit); !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), "limits[1]") {
			t.Errorf("Join with %v: %v, want ErrInvalid for limits[1]", c.limit, err)
		}
		if text, err := c.limit.MarshalText(); err == nil {
			t.Errorf("%v marshals to %q", c.limit, text)
		}
	}
}

func TestWhatALimitSaysOfItself(t *testing.T) {
	r := limit.Per(120, time.Minute).WithBurst(3)
	if got, ok := r.Rate(); got != 2 || !ok || r.Burst() != 3 {
		t.Errorf("%v: rate %v, %v, burst %d", r, got, ok, r.Burst())
	}
	if _, ok := r.Slots(); ok {
		t.Errorf("%v has slots", r)
	}
	c := limit.Concurrent(5)
	if n, ok := c.Slots(); n != 5 || !ok || c.Burst() != 0 {
		t.Errorf("%v: slots %d, %v, burst %d", c, n, ok, c.Burst())
	}
	if _, ok := c.Rate(); ok {
		t.Errorf("%v has a rate", c)
	}
	if got := limit.FromRate(rate.Every(100*time.Millisecond), 4); got != limit.PerSecond(10).WithBurst(4) {
		t.Errorf("FromRate(every 100ms, 4) = %v", got)
	}
	set, err := limit.Join(r, limit.Concurrent(9), c)
	if err != nil || set.Slots() != 5 || len(set.Limits()) != 3 || set.Limits()[1] != limit.Concurrent(9) {
		t.Errorf("joined: %d slots, %v, %v", set.Slots(), set.Limits(), err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"100/s", "100/s burst 20", "concurrent 10", "5/2s", "1e-3/day", "0/s", "nan/s", "1/1h2m3.5s", "\xff/s",
		"5000/h fixed", "5000/h fixed by clock", "5000/h fixed by key burst 2", "300/m sliding burst 5 headroom 10%", "300/m sliding counter",
		"1000/day at 00:00 America/Los_Angeles", "10000/month on 1 at 00:00 UTC headroom 7.5%", "1/day at 0:00 local", "concurrent 3 headroom 50%",
		"adaptive 1/s to 100/s", "adaptive 0.5/2m to 1e3/h", "adaptive concurrent 1 to 64 headroom 10%", "adaptive concurrent 1 to", "adaptive 1/s burst 2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := limit.Parse(text)
		if err != nil {
			if !errors.Is(err, limit.ErrInvalid) {
				t.Fatalf("%q: %v is not ErrInvalid", text, err)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%q parses to an invalid limit: %v", text, err)
		}
		if back, err := limit.Parse(l.String()); err != nil || back != l {
			t.Fatalf("%q prints as %q, which parses to %v, %v", text, l, back, err)
		}
		set, err := limit.Join(l)
		if err != nil {
			t.Fatal(err)
		}
		st := set.NewState(time.Time{}, "")
		leave(&st, 0, 1)
		if next := st.Earliest(0, 0, 1<<40, 1<<30, false); next < 0 {
			t.Fatalf("%q: a departure at %v", text, next)
		}
	})
}
