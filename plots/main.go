// Plots draws what the scenarios of the signals_*_test.go files did, over time: what left, what was refused, and
// who waited, for each of the cases in docs/signals.md.
//
//	go -C plots run .                         runs them, draws docs/signals/*.svg and renews the page's table
//	go -C plots run . -nginx=false -out DIR   draws those in virtual time into DIR, within seconds
//	go -C plots run . -from DIR               draws what go test -signals.dir DIR wrote
//
// It is a module of its own, so that what draws stays out of the library's go.mod.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	from := flag.String("from", "", "draw the outcomes in this directory, instead of running the scenarios")
	out := flag.String("out", "", "write the pictures to this directory, and leave the page as it is")
	nginx := flag.Bool("nginx", true, "run those against a real nginx too, where there is one: a minute")
	format := flag.String("format", "svg", "of the pictures: svg, png")
	flag.Parse()
	if err := plots(*from, *out, *nginx, *format); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

const page = "../docs/signals.md" // from here, where go -C runs it

func plots(from, out string, nginx bool, format string) error {
	if from == "" {
		dir, err := os.MkdirTemp("", "signals")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		// The calls of other conditions are measured by the tests. Here those count for which targets were set.
		test("-run", "^TestSignals/latency=1ms$", "-signals.dir", dir)
		if nginx {
			test("-run", "^TestNginx$", "-signals.dir", dir)
		}
		from = dir
	}
	dir := out
	if dir == "" {
		dir = "../docs/signals"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	reached := make(map[string]string)
	for _, c := range cases {
		outcomes, err := c.read(from)
		if os.IsNotExist(err) && c.optional() {
			fmt.Printf("%s: not run, left as it was\n", c.file)
			continue
		}
		if err != nil {
			return err
		}
		name := filepath.Join(dir, c.file+"."+format)
		if err := drawCase(c, outcomes, name, format); err != nil {
			return err
		}
		reached[c.file] = c.figures(outcomes)
		fmt.Printf("%s: %s\n", name, reached[c.file])
	}
	if out != "" {
		return nil
	}
	return renewTable(page, reached)
}

// test runs tests of the library. One that misses its target has still written what it came to, and that is when one
// wants to look at it. One that didn't run at all leaves nothing to draw, which is told then.
func test(args ...string) {
	cmd := exec.Command("go", append(append([]string{"test", "-count=1"}, args...), ".")...)
	cmd.Dir = ".."
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Printf("%v: %v: drawn all the same\n", cmd.Args, err)
	}
}
