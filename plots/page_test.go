package main

import (
	"os"
	"strings"
	"testing"
)

// The page shows each case under its name, which the table refers to, and its picture is there.
func TestPageShowsEachCase(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, c := range cases {
		if names[c.file] {
			t.Errorf("two cases are called %s", c.file)
		}
		names[c.file] = true
		for _, want := range []string{"\n## " + c.file + "\n", "(signals/" + c.file + ".svg)", "\n| [" + c.file + "](#" + c.file + ") | "} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", page, want)
			}
		}
		if _, err := os.Stat("../docs/signals/" + c.file + ".svg"); err != nil {
			t.Error(err)
		}
	}
}

func TestTableKeepsWhatWasNotRun(t *testing.T) {
	page := "# Signals\n" + tableBegins + "obsolete\n" + tableEnds + "the rest\n"
	one, err := withTable(page, map[string]string{"gcra": "1.09 ×", "window": "1.00 ×"})
	if err != nil {
		t.Fatal(err)
	}
	two, err := withTable(one, map[string]string{"gcra": "1.07 ×"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Signals\n", "0 failed | 1.07 × | ", "0 failed | 1.00 × | ", tableEnds + "the rest\n"} {
		if !strings.Contains(two, want) {
			t.Errorf("no %q in\n%s", want, two)
		}
	}
	for _, unwanted := range []string{"obsolete", "1.09 ×"} {
		if strings.Contains(two, unwanted) {
			t.Errorf("%q in\n%s", unwanted, two)
		}
	}
	if _, err := withTable("no table", nil); err == nil {
		t.Error("a page without a table: no error")
	}
}
