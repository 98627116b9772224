package main

import (
	"fmt"
	"os"
	"strings"
)

const (
	tableBegins = "<!-- the program in plots/ writes from here -->\n"
	tableEnds   = "<!-- to here -->\n"
)

// renewTable puts what was reached into the page's table. A row whose case wasn't run stays.
func renewTable(page string, reached map[string]string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	renewed, err := withTable(string(text), reached)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(renewed), 0o644)
}

func withTable(text string, reached map[string]string) (string, error) {
	before, rest, ok := strings.Cut(text, tableBegins)
	if !ok {
		return "", fmt.Errorf("no line %q", tableBegins)
	}
	old, after, ok := strings.Cut(rest, tableEnds)
	if !ok {
		return "", fmt.Errorf("no line %q", tableEnds)
	}
	var b strings.Builder
	b.WriteString("| case | to reach | reached | peers told nothing |\n|---|---|---|---|\n")
	for _, c := range cases {
		row := fmt.Sprintf("| [%s](#%s) | %s |", c.file, c.file, c.target)
		if figures, ok := reached[c.file]; ok {
			fmt.Fprintf(&b, "%s %s | %s |\n", row, figures, c.peers)
			continue
		}
		for line := range strings.Lines(old) {
			if strings.HasPrefix(line, row) {
				b.WriteString(line)
			}
		}
	}
	return before + tableBegins + b.String() + tableEnds + after, nil
}
