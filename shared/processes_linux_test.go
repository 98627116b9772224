package shared_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// clockAtStart is the machine's monotonic clock at a moment of this process' own.
var clockAtStart, startedAt = func() (time.Duration, time.Time) {
	const clockMonotonic = 1
	var t syscall.Timespec
	if _, _, e := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		panic(e)
	}
	return time.Duration(t.Nano()), time.Now()
}()

// machineTime is the same for all processes of a machine, and never set.
func machineTime() time.Duration { return clockAtStart + time.Since(startedAt) }

// work is what a process is to do.
type work struct {
	Addr    string // of Redis
	Limits  []limit.Limit
	Waiters int
	Config  workConfig
	URL     string // of the upstream, for those that send requests
}

// workConfig is what a shared.Config of a process has.
type workConfig struct {
	SlotLease         time.Duration
	ExpectedInstances int
}

const processWork = "OUTFLOW_TEST_WORK"

// process is one that runs the test binary again. It tells what it does on its standard output, each in a line of two
// words, and ends when its standard input does.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer

	mu   sync.Mutex
	said map[string][]int64
}

func startProcess(t *testing.T, kind string, w work) *process {
	t.Helper()
	spec, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(exe), said: make(map[string][]int64)}
	p.cmd.Env = append(os.Environ(), processKind+"="+kind, processWork+"="+string(spec))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			what, n, _ := strings.Cut(lines.Text(), " ")
			v, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				continue // cut short by SIGKILL
			}
			p.mu.Lock()
			p.said[what] = append(p.said[what], v)
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		reading.Wait()
		_ = p.cmd.Wait()
	})
	return p
}

// signal returns when it was sent. To a process that has ended it isn't.
func (p *process) signal(s syscall.Signal) time.Duration {
	_ = p.cmd.Process.Signal(s)
	return machineTime()
}

// heard is what the process has told under a word.
func (p *process) heard(what string) []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said[what])
}

// first is when the process first told of something.
func (p *process) first(what string) time.Duration {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if said := p.heard(what); len(said) > 0 {
			return time.Duration(said[0])
		}
	}
	p.t.Fatalf("a process has told of no %q within 20 s", what)
	return 0
}

// finish has processes end that can.
func finish(all []*process) {
	for _, p := range all {
		_ = p.in.Close()
	}
}

// telling writes each report at once, so that nothing is lost with a process that is killed.
type telling struct{ mu sync.Mutex }

func (t *telling) tell(what string, n int64) {
	line := fmt.Appendf(nil, "%s %d\n", what, n)
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = os.Stdout.Write(line)
}

// myWork is what this process is to do, until ctx ends.
func myWork() (w work, ctx context.Context) {
	if err := json.Unmarshal([]byte(os.Getenv(processWork)), &w); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return w, ctx
}

func (w work) store() (*shared.Store, *redis.Client) {
	rdb := redis.NewClient(&redis.Options{Addr: w.Addr})
	s, err := shared.New(rdb, shared.Config{SlotLease: w.Config.SlotLease, ExpectedInstances: w.Config.ExpectedInstances})
	if err != nil {
		panic(err)
	}
	return s, rdb
}

func init() { processes["queue"] = runQueue }

// runQueue is a process whose waiters leave one queue again and again, and tell when.
func runQueue() {
	w, ctx := myWork()
	store, rdb := w.store()
	q, err := leakyqueue.New(leakyqueue.Config{})
	if err != nil {
		panic(err)
	}
	r, err := q.AddRule("api", w.Limits...)
	if err != nil {
		panic(err)
	}
	if err := r.Share(store, leakyqueue.Sharing{}); err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	var out telling
	for range w.Waiters {
		wg.Go(func() {
			d := leakyqueue.Demand{Keys: []leakyqueue.Key{{Rule: r}}}
			for {
				if _, err := q.Depart(ctx, d, nil); err != nil {
					return
				}
				out.tell("left", int64(machineTime()))
			}
		})
	}
	wg.Wait()
	_ = q.Close(context.Background())
	_ = store.Close()
	_ = rdb.Close()
}

func init() { processes["client"] = runClient }

// runClient is a process whose callers send requests to an upstream through a Transport, and tells when slots were lost.
func runClient() {
	w, ctx := myWork()
	store, rdb := w.store()
	t, err := outflow.New(outflow.Config{Limits: w.Limits, Store: store, Base: &http.Transport{MaxIdleConnsPerHost: w.Waiters}})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: t}
	var wg sync.WaitGroup
	var out telling
	for range w.Waiters {
		wg.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL, nil)
				if err != nil {
					panic(err)
				}
				resp, err := client.Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, err)
					out.tell("failed", int64(machineTime()))
				}
			}
		})
	}
	wg.Go(func() {
		for lost := uint64(0); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			for _, b := range t.Stats().Buckets {
				if b.Counts.SlotsLost > lost {
					lost = b.Counts.SlotsLost
					out.tell("lost", int64(machineTime()))
				}
			}
		}
	})
	wg.Wait()
	_ = t.Close(context.Background())
	_ = store.Close()
	_ = rdb.Close()
}

// departuresOf are those that processes told of, in order.
func departuresOf(all []*process) []time.Duration {
	var left []time.Duration
	for _, p := range all {
		for _, at := range p.heard("left") {
			left = append(left, time.Duration(at))
		}
	}
	slices.Sort(left)
	return left
}

// Sixteen processes hold one limit while one is killed, one is halted for two seconds and goes on, and one comes late. What
// was leased by one that is gone isn't used by anybody: so after each the fleet is back at its rate when the horizon of
// that has passed.
func TestRealRedisProcesses(t *testing.T) {
	fleettest.Timed(t)
	for _, waiters := range []int{16, 64} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			const rate = 1000
			w := work{Addr: redistest.Start(t).Addr(), Limits: []limit.Limit{limit.PerSecond(rate)}, Waiters: waiters}
			var all []*process
			for range 15 {
				all = append(all, startProcess(t, "queue", w))
			}
			for _, p := range all {
				p.first("left")
			}
			time.Sleep(300 * time.Millisecond)
			begin := machineTime()
			type event struct {
				what string
				at   time.Duration
			}
			var events []event
			happened := func(what string, at time.Duration) { events = append(events, event{what, at}) }
			time.Sleep(1200 * time.Millisecond)
			happened("killed", all[0].signal(syscall.SIGKILL))
			time.Sleep(1200 * time.Millisecond)
			happened("halted", all[1].signal(syscall.SIGSTOP))
			time.Sleep(2 * time.Second)
			happened("continued", all[1].signal(syscall.SIGCONT))
			time.Sleep(1200 * time.Millisecond)
			late := startProcess(t, "queue", w)
			all = append(all, late)
			happened("late", late.first("left"))
			time.Sleep(1200 * time.Millisecond)
			end := machineTime()
			finish(all)

			left := departuresOf(all)
			left = slices.DeleteFunc(left, func(at time.Duration) bool { return at < begin || at >= end })
			for _, span := range []time.Duration{100 * time.Millisecond, time.Second, end - begin} {
				most, bound := densest(left, span), 1+int((span+lateness)*rate/time.Second)
				t.Logf("at most %d in %v, may be %d", most, span, bound)
				if most > bound {
					t.Errorf("%d departures in %v, want at most %d", most, span, bound)
				}
			}
			t.Logf("%.2f %% of the limit in %v", 100*float64(len(left))/(end-begin).Seconds()/rate, end-begin)
			for _, e := range events {
				back := shared.DefaultHorizon
				used := func(after time.Duration) float64 {
					return float64(within(left, e.at+after, e.at+after+time.Second)) / rate
				}
				fast := time.Duration(0)
				for used(fast) < 0.99 && fast < 2*time.Second {
					fast += 5 * time.Millisecond
				}
				t.Logf("%s: %.1f %% in the second after it, %.1f %% in that after %v; 99 %% from %v on", e.what, 100*used(0), 100*used(back), back, fast)
				if used(back) < 0.99 {
					t.Errorf("%s: %.1f %% of the limit in the second after %v, want 99 %%", e.what, 100*used(back), back)
				}
			}
		})
	}
}

// Eight processes have twenty requests out together and never more, as the upstream counts them: also when one is killed
// with its requests out, and when one is halted for longer than its slots' lease and goes on. The slots of those are back
// with the end of their lease, and who goes on is told that it had lost them.
func TestRealRedisProcessesShareSlots(t *testing.T) {
	fleettest.Timed(t)
	const slots, lease = 20, 600 * time.Millisecond
	up := testserver.New().Answering(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(20*time.Millisecond + rand.N(30*time.Millisecond)):
		case <-r.Context().Done():
		}
	}))
	w := work{
		Addr: redistest.Start(t).Addr(), Limits: []limit.Limit{limit.Concurrent(slots)}, Waiters: 16,
		Config: workConfig{SlotLease: lease}, URL: up.TCP(t).URL,
	}
	var all []*process
	for range 8 {
		all = append(all, startProcess(t, "client", w))
	}
	time.Sleep(1500 * time.Millisecond)
	begin := time.Now()
	time.Sleep(1200 * time.Millisecond)
	all[0].signal(syscall.SIGKILL)
	killed := time.Now()
	time.Sleep(lease + 1200*time.Millisecond)
	all[1].signal(syscall.SIGSTOP)
	halted := time.Now()
	time.Sleep(lease + 1200*time.Millisecond)
	went := all[1].signal(syscall.SIGCONT)
	continued := time.Now()
	time.Sleep(1200 * time.Millisecond)
	end := time.Now()
	arrivals := up.Arrivals()
	finish(all)

	most, when := 0, time.Time{}
	for _, a := range arrivals {
		if a.InFlight > most {
			most, when = a.InFlight, a.At
		}
	}
	t.Logf("at most %d in flight, %v after the begin, %v after the one that was halted went on", most, when.Sub(begin), when.Sub(continued))
	if most > slots {
		t.Errorf("%d in flight, want at most %d", most, slots)
	}
	// used is what part of the slots was in use.
	used := func(from, to time.Time) float64 {
		sum := time.Duration(0)
		for _, a := range arrivals {
			done := a.Done
			if done.IsZero() || done.After(to) {
				done = to
			}
			if at := a.At; at.Before(to) && done.After(from) {
				if at.Before(from) {
					at = from
				}
				sum += done.Sub(at)
			}
		}
		return float64(sum) / float64(to.Sub(from)) / slots
	}
	for _, span := range []struct {
		what     string
		from, to time.Time
		least    float64
	}{
		{"before", begin, killed, 0.85},
		{"until the lease of the killed one ends", killed, killed.Add(lease), 0.7},
		{"after it", killed.Add(lease), killed.Add(lease + time.Second), 0.85},
		{"after the lease of the halted one", halted.Add(lease), halted.Add(lease + time.Second), 0.85},
		{"after it went on", continued, end, 0.85},
	} {
		u := used(span.from, span.to)
		t.Logf("%s: %.1f %% of the slots in use", span.what, 100*u)
		if u < span.least {
			t.Errorf("%s: %.1f %% of the slots were in use, want %v %%", span.what, 100*u, 100*span.least)
		}
	}
	lost := all[1].heard("lost")
	if len(lost) == 0 {
		t.Error("the one that was halted wasn't told that it had lost its slots")
	} else {
		t.Logf("told of lost slots %v after it went on", time.Duration(lost[0])-went)
	}
	for i, p := range all {
		if n := len(p.heard("failed")); n > 0 && i != 0 {
			t.Errorf("%d requests of process %d failed", n, i)
		}
		if n := len(p.heard("lost")); n > 0 && i != 1 {
			t.Errorf("process %d was told %d times that it had lost slots", i, n)
		}
	}
}
