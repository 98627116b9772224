package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What is measured unless flags say otherwise. A peer that this build doesn't have is left out.
const (
	closedPeers = "in-memory,redis_rate:1,redis_rate:10ms,redis_rate:1s,locked-bucket,outflow"
	openPeers   = "in-memory:11ms,redis_rate:10ms,redis_rate:1,locked-bucket,outflow:11ms,outflow"
	scalePeers  = "in-memory,redis_rate:1,outflow"
)

type options struct {
	loops     []string
	limits    []float64
	instances []int
	entries   []entry // nil: the loop's own
	waiters   int
	seconds   float64
	warmUp    float64
	tries     int
	others    float64

	share        float64
	buckets      int
	scaleLimit   float64
	scaleWaiters int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	path, err := findRedis()
	if err != nil {
		return err
	}
	version, _ := exec.Command(path, "--version").Output()
	fmt.Printf("%s, %s/%s, %d CPUs, GOMAXPROCS %d; %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0), strings.TrimSpace(string(version)))
	fmt.Printf("%v s of warm-up, then %v s measured; cpu in %% of one core, \"others\" is what else ran on the machine: the quietest of up to %d runs\n", o.warmUp, o.seconds, o.tries)
	for _, p := range peers {
		fmt.Printf("- %s: %s\n", p.name, p.is)
	}
	for _, loop := range o.loops {
		if err := o.table(ctx, loop); err != nil {
			return err
		}
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("fleet", flag.ContinueOnError)
	loops := fs.String("loops", "closed,open,scale", "which loops")
	limits := fs.String("limit", "1000,10000", "departures per second, of the closed loop and the open one")
	instances := fs.String("instances", "1,4,16", "how many instances; the open loop and the scale loop have the most of these")
	list := fs.String("peers", "", "which peers, as name, name:burst or name:duration, a burst of what the limit allows in that time (default: those of each loop)")
	fs.IntVar(&o.waiters, "waiters", 64, "waiters of each instance in the closed loop")
	fs.Float64Var(&o.seconds, "seconds", 5, "how long each run is measured")
	fs.Float64Var(&o.warmUp, "warmup", 1.5, "seconds before that")
	fs.IntVar(&o.tries, "tries", 3, "how often to do a run during which others took too much CPU; the quietest counts")
	fs.Float64Var(&o.others, "others", 0.2, "how much CPU others may take, in cores")
	fs.Float64Var(&o.share, "load", 0.9, "what comes in the open loop, as a share of the limit")
	fs.IntVar(&o.buckets, "buckets", 100, "buckets of the scale loop")
	fs.Float64Var(&o.scaleLimit, "scale-limit", 2500, "departures per second of each of those")
	fs.IntVar(&o.scaleWaiters, "scale-waiters", 16, "waiters of each instance and bucket in the scale loop")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.loops = strings.Split(*loops, ",")
	for _, loop := range o.loops {
		if !slices.Contains([]string{"closed", "open", "scale"}, loop) {
			return o, fmt.Errorf("-loops: there is no %q: have closed, open, scale", loop)
		}
	}
	for s := range strings.SplitSeq(*limits, ",") {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || !(n > 0) {
			return o, fmt.Errorf("-limit: %q isn't a number above 0", s)
		}
		o.limits = append(o.limits, n)
	}
	for s := range strings.SplitSeq(*instances, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-instances: %q isn't a number above 0", s)
		}
		o.instances = append(o.instances, n)
	}
	if *list != "" {
		for s := range strings.SplitSeq(*list, ",") {
			e, err := parseEntry(s)
			if err != nil {
				return o, fmt.Errorf("-peers: %w", err)
			}
			o.entries = append(o.entries, e)
		}
	}
	if !(o.seconds > 0) || o.warmUp < 0 || !(o.share > 0) || !(o.scaleLimit > 0) || min(o.waiters, o.buckets, o.scaleWaiters, o.tries) < 1 {
		return o, errors.New("numbers must be above 0")
	}
	return o, nil
}

// loads are the runs of a loop.
func (o options) loads(loop string) []load {
	entries, limits, instances := o.entries, o.limits, o.instances
	buckets, waiters := 1, o.waiters
	most := []int{slices.Max(instances)}
	var own string
	switch loop {
	case "closed":
		own = closedPeers
	case "open":
		own, instances, waiters = openPeers, most, 0
	case "scale":
		own, instances, limits, buckets, waiters = scalePeers, most, []float64{o.scaleLimit}, o.buckets, o.scaleWaiters
	}
	if entries == nil {
		entries = known(own)
	}
	var loads []load
	for _, rate := range limits {
		for _, n := range instances {
			for _, e := range entries {
				loads = append(loads, load{
					entry: e, rate: rate, buckets: buckets, instances: n, waiters: waiters,
					warmUp: seconds(o.warmUp), length: seconds(o.seconds),
				})
			}
		}
	}
	return loads
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// measure does one run of a loop, again where the machine was busy with something else. Which one
// counts depends on that alone, and not on what came of it.
func (o options) measure(ctx context.Context, loop string, l load) (result, error) {
	var quietest result
	for try := range o.tries {
		r, err := l.run(ctx, loop, o.share)
		if err != nil {
			return r, err
		}
		if try == 0 || r.othersCPU < quietest.othersCPU {
			quietest = r
		}
		if quietest.othersCPU <= o.others {
			break
		}
	}
	return quietest, nil
}

func (l load) run(ctx context.Context, loop string, share float64) (result, error) {
	if loop == "open" {
		return l.open(ctx, share)
	}
	return l.closed(ctx)
}

func (o options) table(ctx context.Context, loop string) error {
	columns := columnsOf(loop)
	fmt.Printf("\n### %s\n\n", o.title(loop))
	heads, rules := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		heads[i], rules[i] = c.head, "---"
	}
	fmt.Printf("| %s |\n|%s|\n", strings.Join(heads, " | "), strings.Join(rules, "|"))
	notes := ""
	for _, l := range o.loads(loop) {
		r, err := o.measure(ctx, loop, l)
		if err != nil {
			return err
		}
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(r)
		}
		fmt.Printf("| %s |\n", strings.Join(cells, " | "))
		notes += r.note()
	}
	if notes != "" {
		fmt.Printf("\n%s", notes)
	}
	return nil
}

func (o options) title(loop string) string {
	switch loop {
	case "open":
		return fmt.Sprintf("Open loop: Poisson arrivals at %v of the limit", o.share)
	case "scale":
		return fmt.Sprintf("Scale: %d buckets of %v/s, %d waiters for each at each instance", o.buckets, o.scaleLimit, o.scaleWaiters)
	default:
		return fmt.Sprintf("Closed loop: %d waiters at each instance", o.waiters)
	}
}

// A column is one of a table.
type column struct {
	head string
	cell func(r result) string
}

func columnsOf(loop string) []column {
	number := func(head, format string, of func(r result) any) column {
		return column{head, func(r result) string { return fmt.Sprintf(format, of(r)) }}
	}
	window := func(head string, window time.Duration, of func(r result) int) column {
		return column{head + " (limit/with slack)", func(r result) string {
			n, bound, slack := of(r), r.quota.allowed(window), r.quota.withSlack(window)
			if n > slack {
				return fmt.Sprintf("**%d** (%d/%d)", n, bound, slack)
			}
			return fmt.Sprintf("%d (%d/%d)", n, bound, slack)
		}}
	}
	wait := func(head string, q float64) column {
		return number(head, "%v", func(r result) any { return short(quantile(r.waits, q)) })
	}
	who := []column{
		{"peer", func(r result) string { return r.label }},
		number("inst", "%d", func(r result) any { return r.load.instances }),
		number("limit/s", "%.0f", func(r result) any { return r.rate * float64(r.buckets) }),
		number("admitted/s", "%.0f", func(r result) any { return r.admitted }),
		number("util %", "%.2f", func(r result) any { return 100 * r.used }),
	}
	cost := []column{
		number("round trips/admit", "%.3f", func(r result) any { return r.trips }),
		number("Redis cmds/admit", "%.2f", func(r result) any { return r.commands }),
		number("Redis cpu %", "%.0f", func(r result) any { return 100 * r.redisCPU }),
		number("Redis µs/admit", "%.1f", func(r result) any { return float64(r.redisEach) / float64(time.Microsecond) }),
		number("client cpu %", "%.0f", func(r result) any { return 100 * r.clientCPU }),
		number("others cpu %", "%.0f", func(r result) any { return 100 * r.othersCPU }),
	}
	windows := []column{
		window("max/100 ms", 100*time.Millisecond, func(r result) int { return r.max100ms }),
		window("max/1 s", time.Second, func(r result) int { return r.max1s }),
	}
	if loop == "open" {
		waits := []column{wait("wait p50", 0.5), wait("p90", 0.9), wait("p99", 0.99), wait("p99.9", 0.999), wait("max", 1)}
		return slices.Concat(who, waits, cost, windows)
	}
	rest := []column{{"inst min/max", func(r result) string { return fmt.Sprintf("%d/%d", r.leastShare, r.mostShare) }}}
	if loop == "closed" {
		rest = append(rest,
			number("spacing p50", "%v", func(r result) any { return short(r.spacing50) }),
			number("p99", "%v", func(r result) any { return short(r.spacing99) }))
	}
	return slices.Concat(who, cost, windows, rest)
}

// short keeps as many digits as anybody reads.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}
