// Package workload is what the examples have in common: their flags, the workers that make an SDK's
// calls, a look at what really goes over the wire, and the line that sums up.
package workload

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
)

// Options are an example's flags.
type Options struct {
	Requests int    // SDK calls to make, 1 or more
	Workers  int    // goroutines that make them, 1 or more
	Without  bool   // send without outflow, to see the difference
	BaseURL  string // of the upstream; "": a local one that the example starts

	// Out is where progress is shown: a bar if it is a terminal, else a line a second.
	Out io.Writer
}

// Main is the main function of an example: it reads the flags, runs, prints the report and ends the
// program, as [Conclude] says.
func Main(requests int, run func(context.Context, Options) (Report, error)) {
	o := parse(requests)
	Conclude(func(ctx context.Context) (Report, error) { return run(ctx, o) })
}

// Conclude is Main for an example that has read flags of its own. The status is 1 if a call failed, unless
// it was made without outflow, which is expected to fail.
func Conclude(run func(context.Context) (Report, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	report, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if report.FirstError != nil {
		fmt.Fprintln(os.Stderr, "one of the failures:", report.FirstError)
	}
	fmt.Println(report)
	if report.Failed > 0 && !report.Without {
		os.Exit(1)
	}
}

func parse(requests int) Options {
	o := Options{Out: os.Stdout}
	flag.IntVar(&o.Requests, "requests", requests, "SDK calls to make")
	flag.IntVar(&o.Workers, "workers", 64, "goroutines that make them")
	flag.BoolVar(&o.Without, "without", false, "send the same work without outflow")
	flag.StringVar(&o.BaseURL, "base-url", "", "upstream to send to, such as http://localhost:12111 (default: a local one that enforces limits)")
	flag.Parse()
	if err := o.Check(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		flag.Usage()
		os.Exit(2)
	}
	return o
}

// Check returns what is wrong with the flags, or with the arguments that are left after them.
func (o Options) Check(rest []string) error {
	if o.Requests < 1 {
		return fmt.Errorf("-requests is %d, want 1 or more", o.Requests)
	}
	if o.Workers < 1 {
		return fmt.Errorf("-workers is %d, want 1 or more", o.Workers)
	}
	if o.BaseURL != "" {
		if u, err := url.Parse(o.BaseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("-base-url is %q, want http://host or https://host", o.BaseURL)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	return nil
}
