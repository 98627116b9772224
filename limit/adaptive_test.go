package limit_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/outflow-go/outflow/limit"
)

func TestAdaptiveText(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		text  string
	}{
		{limit.AdaptiveRate(1, 100), "adaptive 1/s to 100/s"},
		{limit.AdaptiveRate(0.5, 2.25), "adaptive 0.5/s to 2.25/s"},
		{limit.AdaptiveRate(1e-7, limit.MaxRate), "adaptive 1e-07/s to 1000000000/s"},
		{limit.AdaptiveRate(3, 3), "adaptive 3/s to 3/s"},
		{limit.AdaptiveConcurrency(1, 64), "adaptive concurrent 1 to 64"},
		{limit.AdaptiveConcurrency(limit.MaxConcurrent, limit.MaxConcurrent), "adaptive concurrent 1073741824 to 1073741824"},
		{limit.AdaptiveConcurrency(2, 64).WithHeadroom(0.25), "adaptive concurrent 2 to 64 headroom 25%"},
	} {
		if got := c.limit.String(); got != c.text {
			t.Errorf("%#v prints as %q, want %q", c.limit, got, c.text)
		}
		if got, err := limit.Parse(c.text); err != nil || got != c.limit {
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
	for text, want := range map[string]limit.Limit{
		" Adaptive 1/S  TO 1e2/sec ":              limit.AdaptiveRate(1, 100),
		"adaptive 60/m to 7200/h":                 limit.AdaptiveRate(1, 2),
		"adaptive 1/2s to 5/500ms":                limit.AdaptiveRate(0.5, 10),
		"ADAPTIVE CONCURRENT 1 To 64":             limit.AdaptiveConcurrency(1, 64),
		"adaptive concurrent 1 to 64 burst 0":     limit.AdaptiveConcurrency(1, 64),
		"adaptive 1/s to 2/s headroom 0%":         limit.AdaptiveRate(1, 2),
		"adaptive concurrent 1 to 1 headroom 50%": limit.AdaptiveConcurrency(1, 1).WithHeadroom(0.5),
	} {
		if got, err := limit.Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestBadAdaptiveTextIsQuotedWithWhatIsWrong(t *testing.T) {
	for text, part := range map[string]string{
		"adaptive":                                `min is ""`,
		"adaptive 1/s":                            "want adaptive n/period to n/period",
		"adaptive 1/s to":                         `max is ""`,
		"adaptive 1 to 100":                       `min is "1"`,
		"adaptive 1/s to 100":                     `max is "100"`,
		"adaptive x/s to 100/s":                   `min is "x"`,
		"adaptive 1/s to x/s":                     `max is "x"`,
		"adaptive 1/fortnight to 2/s":             `period is "fortnight"`,
		"adaptive 1/0s to 2/s":                    "period of min is 0s",
		"adaptive 1/s to 2/-1s":                   "period of max is -1s",
		"adaptive 0/s to 2/s":                     "min is 0",
		"adaptive 3/s to 2/s":                     "max is 2",
		"adaptive 1/s to 1e10/s":                  "max is 10000000000",
		"adaptive 1/s to 2/s burst 3":             "burst is 3",
		"adaptive 1/s to 2/s headroom 10%":        "headroom is 0.1",
		"adaptive 1/s to 2/s fixed":               "want",
		"adaptive concurrent":                     `min is ""`,
		"adaptive concurrent 8":                   "want adaptive concurrent min to max",
		"adaptive concurrent 1 to":                `max is ""`,
		"adaptive concurrent 1.5 to 8":            `min is "1.5"`,
		"adaptive concurrent 0 to 8":              "min is 0",
		"adaptive concurrent 9 to 8":              "max is 8",
		"adaptive concurrent 1 to 8 burst 2":      "burst is 2",
		"adaptive concurrent 1 to 8 headroom 1%%": `headroom is "1%%"`,
		"adaptive concurrent 1/s to 8/s":          `min is "1/s"`,
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
}

func TestInvalidAdaptiveLimitsNameTheFieldAndTheValue(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		part  string
	}{
		{limit.AdaptiveRate(0, 1), "adaptive rate: min is 0,"},
		{limit.AdaptiveRate(-1, 1), "min is -1"},
		{limit.AdaptiveRate(math.NaN(), 1), "min is NaN"},
		{limit.AdaptiveRate(math.Inf(1), math.Inf(1)), "min is +Inf"},
		{limit.AdaptiveRate(1, math.NaN()), "max is NaN"},
		{limit.AdaptiveRate(1, math.Inf(1)), "max is +Inf"},
		{limit.AdaptiveRate(2, 1), "max is 1, want 2, the min, to 1000000000"},
		{limit.AdaptiveRate(1, 2*limit.MaxRate), "max is 2000000000"},
		{limit.AdaptiveRate(1e-10, 1), "min is 1e-10: a departure takes longer than"},
		{limit.AdaptiveRate(1, 2).WithBurst(1), "burst is 1"},
		{limit.AdaptiveRate(1, 2).WithHeadroom(0.5), "headroom is 0.5"},
		{limit.AdaptiveRate(1, 2).ByKey(), "only a fixed window has a phase"},
		{limit.AdaptiveConcurrency(0, 1), "adaptive concurrency: min is 0, want 1 or more"},
		{limit.AdaptiveConcurrency(-3, 1), "min is -3"},
		{limit.AdaptiveConcurrency(4, 3), "max is 3, want 4, the min, to 1073741824"},
		{limit.AdaptiveConcurrency(1, limit.MaxConcurrent+1), "max is 1073741825"},
		{limit.AdaptiveConcurrency(1, 2).WithBurst(-1), "burst is -1"},
		{limit.AdaptiveConcurrency(1, 2).WithHeadroom(1), "headroom is 1,"},
		{limit.AdaptiveConcurrency(1, 2).ByClock(), "only a fixed window has a phase"},
	} {
		err := c.limit.Validate()
		if !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%v: %v, want ErrInvalid and that it says %q", c.limit, err, c.part)
		}
		if _, err := limit.Join(limit.PerSecond(1), c.limit); !errors.Is(err, limit.ErrInvalid) || !strings.Contains(err.Error(), "limits[1]") {
			t.Errorf("Join with %v: %v, want ErrInvalid for limits[1]", c.limit, err)
		}
	}
}

func TestWhatAnAdaptiveLimitSaysOfItself(t *testing.T) {
	r, c := limit.AdaptiveRate(0.5, 20), limit.AdaptiveConcurrency(2, 64).WithHeadroom(0.25)
	if least, most, ok := r.AdaptiveRate(); least != 0.5 || most != 20 || !ok {
		t.Errorf("%v: %v to %v, %v", r, least, most, ok)
	}
	if least, most, ok := c.AdaptiveConcurrency(); least != 2 || most != 64 || !ok || c.Headroom() != 0.25 {
		t.Errorf("%v: %v to %v, %v, headroom %v", c, least, most, ok, c.Headroom())
	}
	for _, l := range []limit.Limit{r, c, limit.PerSecond(1), {}} {
		_, _, rate := l.AdaptiveRate()
		_, _, concurrency := l.AdaptiveConcurrency()
		if rate != (l == r) || concurrency != (l == c) {
			t.Errorf("%v: adaptive rate %v, adaptive concurrency %v", l, rate, concurrency)
		}
	}
	_, isRate := r.Rate()
	_, hasSlots := c.Slots()
	_, _, isWindow := r.Window()
	if isRate || hasSlots || isWindow {
		t.Errorf("stated, though adaptive: rate %v, slots %v, window %v", isRate, hasSlots, isWindow)
	}
}

func TestJoinedAdaptiveLimits(t *testing.T) {
	set, err := limit.Join(limit.AdaptiveRate(2, 50), limit.AdaptiveConcurrency(4, 32), limit.AdaptiveRate(1, 100),
		limit.AdaptiveConcurrency(8, 16).WithHeadroom(0.25), limit.Concurrent(10))
	if err != nil {
		t.Fatal(err)
	}
	if least, most, ok := set.AdaptiveRate(); least != 1 || most != 50 || !ok {
		t.Errorf("rates join to %v to %v, %v", least, most, ok)
	}
	if least, most, ok := set.AdaptiveConcurrency(); least != 4 || most != 16 || !ok {
		t.Errorf("concurrencies join to %v to %v, %v", least, most, ok)
	}
	if set.Slots() != 10 || set.OrdinarySlots() != 10 || !set.Headroom() || len(set.Limits()) != 5 {
		t.Errorf("%d slots, %d ordinary, headroom %v, %v", set.Slots(), set.OrdinarySlots(), set.Headroom(), set.Limits())
	}
	for slots, want := range map[int]int{1: 1, 2: 1, 4: 3, 16: 12} {
		if got := set.OrdinaryOf(slots); got != want {
			t.Errorf("of %d slots %d are ordinary, want %d", slots, got, want)
		}
	}
	none, err := limit.Join(limit.PerSecond(1))
	if err != nil {
		t.Fatal(err)
	}
	_, _, rate := none.AdaptiveRate()
	_, _, concurrency := none.AdaptiveConcurrency()
	if rate || concurrency || none.OrdinaryOf(5) != 5 {
		t.Errorf("without adaptive limits: rate %v, concurrency %v, %d of 5 ordinary", rate, concurrency, none.OrdinaryOf(5))
	}
}

// What is learnt is for the queue to hold people by.
func TestAdaptiveLimitsHoldNobodyByThemselves(t *testing.T) {
	set, err := limit.Join(limit.AdaptiveRate(1, 2), limit.AdaptiveConcurrency(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	st := set.NewState(time.Time{}, "")
	for range 100 {
		if at := st.Earliest(0, 0, 5, 7, false); at != 0 {
			t.Fatalf("may leave at %v", at)
		}
		st.Charge(0, 0, 7)
	}
	if set.Slots() != 0 || set.MaxCost() != math.MaxInt64 || st.Interval() != 0 || !st.Full(0) {
		t.Errorf("%d slots, costs up to %d, interval %v, full %v", set.Slots(), set.MaxCost(), st.Interval(), st.Full(0))
	}
	if st = set.Adopt(&st, 0); st.Earliest(0, 0, 0, 1, false) != 0 {
		t.Error("adopted, it holds somebody")
	}
}
