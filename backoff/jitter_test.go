package backoff_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outflow-go/outflow/backoff"
)

func TestJitterText(t *testing.T) {
	for j, name := range map[backoff.Jitter]string{
		backoff.Full: "full", backoff.Equal: "equal", backoff.Decorrelated: "decorrelated", backoff.None: "none",
	} {
		if j.String() != name {
			t.Errorf("String = %q, want %q", j, name)
		}
		text, err := json.Marshal(j)
		if err != nil || string(text) != `"`+name+`"` {
			t.Errorf("%v as JSON: %s, %v", j, text, err)
		}
		got := backoff.Jitter(99)
		if err := json.Unmarshal(text, &got); err != nil || got != j {
			t.Errorf("%s from JSON: %v, %v", text, got, err)
		}
	}
	if j := new(backoff.Jitter); *j != backoff.Full {
		t.Errorf("zero Jitter is %v", *j)
	}
}

func TestJitterWithoutName(t *testing.T) {
	j := backoff.Jitter(9)
	if j.String() != "Jitter(9)" {
		t.Errorf("String = %q", j)
	}
	if text, err := j.MarshalText(); err == nil {
		t.Errorf("MarshalText = %q", text)
	}
	for _, text := range []string{"", "Full", " full", "none ", "Jitter(1)", "1"} {
		j := backoff.Equal
		if err := j.UnmarshalText([]byte(text)); err == nil || j != backoff.Equal {
			t.Errorf("UnmarshalText(%q): %v, now %v", text, err, j)
		} else if !strings.HasPrefix(err.Error(), "backoff: ") {
			t.Errorf("UnmarshalText(%q): %v", text, err)
		}
	}
}

func FuzzJitterText(f *testing.F) {
	for _, seed := range []string{"full", "equal", "decorrelated", "none", "", "FULL", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var j backoff.Jitter
		if err := j.UnmarshalText(text); err != nil {
			if len(err.Error()) > 400 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		if back, err := j.MarshalText(); err != nil || string(back) != string(text) {
			t.Errorf("%q became %q, %v", text, back, err)
		}
	})
}
