package outflow_test

import (
	"os"
	"strings"
	"testing"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// The README's Go blocks stand in example_test.go, where they are compiled.
func TestReadmeQuickStartCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	source := squeeze(string(compiled))
	blocks := 0
	for i, part := range strings.Split(string(readme), "```") {
		if code, ok := strings.CutPrefix(part, "go\n"); ok && i%2 == 1 {
			blocks++
			if !strings.Contains(source, squeeze(code)) {
				t.Errorf("this block of the README isn't in example_test.go:\n%s", code)
			}
		}
	}
	if blocks < 2 {
		t.Errorf("found %d Go blocks in the README", blocks)
	}
	if _, err := outflow.New(readmeRules); err != nil {
		t.Error(err)
	}
	_, _ = quickStart, fleetStart // which would send requests
}

// The texts in the README's table of limits are limits.
func TestReadmeLimitsParse(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "| text | is |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		for i, text := range strings.Split(strings.Split(row, "|")[1], "`") {
			if i%2 == 0 {
				continue
			}
			if _, err := limit.Parse(strings.Replace(text, "…", "300/m sliding", 1)); err != nil {
				t.Error(err)
			}
		}
	}
	if !strings.Contains(table, "headroom") {
		t.Error("no table of limits")
	}
}
