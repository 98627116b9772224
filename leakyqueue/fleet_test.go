package leakyqueue

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// aFleet is queues that share one pacer.
type aFleet struct {
	*fakePacer
	queues []*Queue
	rules  []*Rule

	mu   sync.Mutex
	left [][]time.Duration // of each queue
}

func newFleet(t *testing.T, n int, rtt time.Duration, cfg Config, limits ...limit.Limit) *aFleet {
	f := &aFleet{fakePacer: newFakePacer(rtt), left: make([][]time.Duration, n)}
	for range n {
		q := newQueue(t, cfg)
		r := newRule(t, q, "api", limits...)
		if err := r.Share(f, Sharing{}); err != nil {
			t.Fatal(err)
		}
		f.queues, f.rules = append(f.queues, q), append(f.rules, r)
	}
	return f
}

// keepBusy has so many callers of the i-th queue ask again and again until ctx ends.
func (f *aFleet) keepBusy(ctx context.Context, wg *sync.WaitGroup, i, callers int, hold time.Duration, d Demand) {
	d.Keys = []Key{{Rule: f.rules[i]}}
	for range callers {
		wg.Go(func() {
			for {
				var ticket Ticket
				if _, err := f.queues[i].Depart(ctx, d, &ticket); err != nil {
					return
				}
				f.note(i)
				if hold > 0 {
					time.Sleep(hold)
				}
				ticket.Done()
			}
		})
	}
}

func (f *aFleet) note(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left[i] = append(f.left[i], f.now())
}

func (f *aFleet) all() []time.Duration {
	all := slices.Concat(f.left...)
	slices.Sort(all)
	return all
}

func (f *aFleet) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, q := range f.queues {
		_ = q.Close(ctx)
	}
	time.Sleep(time.Second) // what is on its way arrives
}

// most is how many of the moments are within any span of length w.
func most(all []time.Duration, w time.Duration) int {
	n, from := 0, 0
	for i := range all {
		for all[i]-all[from] >= w {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}

func TestFleetKeepsTheRateTogether(t *testing.T) {
	for _, n := range []int{1, 4, 16} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, n, 300*time.Microsecond, Config{}, limit.PerSecond(1000))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for i := range n {
				f.keepBusy(ctx, &wg, i, 64, 0, Demand{})
			}
			wg.Wait()
			all := f.all()
			if len(all) < 4990 || len(all) > 5001 {
				t.Errorf("%d queues: %d departures in 5 s, want 5000", n, len(all))
			}
			for _, w := range []time.Duration{100 * time.Millisecond, time.Second} {
				if got, bound := most(all, w), 1+int(math.Ceil(1000*(w+DefaultSlack).Seconds())); got > bound {
					t.Errorf("%d queues: %d departures within %v, want at most %d", n, got, w, bound)
				}
			}
			least, greatest := len(all), 0
			for _, l := range f.left {
				least, greatest = min(least, len(l)), max(greatest, len(l))
			}
			if float64(greatest-least) > 0.05*float64(len(all)/n)+1 {
				t.Errorf("%d queues: between %d and %d departures each", n, least, greatest)
			}
			if perDeparture := float64(f.asks) / float64(len(all)); perDeparture > 0.2 {
				t.Errorf("%d queues: %.3f round trips a departure, want at most 0.2", n, perDeparture)
			}
			f.close()
		})
	}
}

func TestFleetSharesPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, time.Millisecond, Config{}, limit.PerSecond(1000))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 4 {
			f.keepBusy(ctx, &wg, i, 20, 0, Demand{})
		}
		time.Sleep(time.Second)
		if err := f.queues[2].Pause(time.Now().Add(time.Second), Key{Rule: f.rules[2]}); err != nil {
			t.Error(err)
		}
		wg.Wait()
		inPause, after := 0, 0
		for _, at := range f.all() {
			switch {
			case at > time.Second+time.Millisecond && at < 2*time.Second:
				inPause++
			case at >= 2*time.Second && at < 2100*time.Millisecond:
				after++
			}
		}
		if inPause > 0 {
			t.Errorf("%d departures in the pause", inPause)
		}
		if after < 95 || after > 102 {
			t.Errorf("%d departures within 100 ms of the pause's end, want 100", after)
		}
		f.close()
	})
}

// Queues that keep to a pace since an upstream refused them use what they lease: nobody else can use all that they give back.
func TestFleetKeepsWhatItSoonUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, rate = 8, 1000
		f := newFleet(t, n, time.Millisecond, Config{}, limit.PerSecond(rate))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var refused [n]bool
		var wg sync.WaitGroup
		for i := range n {
			f.rules[i].Learn(Learning{})
			for range 16 {
				wg.Go(func() {
					for {
						var ticket Ticket
						if _, err := f.queues[i].Depart(ctx, Demand{Keys: []Key{{Rule: f.rules[i]}}}, &ticket); err != nil {
							return
						}
						f.note(i)
						time.Sleep(time.Millisecond)
						answer := Answer{Verdict: Accepted}
						f.mu.Lock()
						if f.now() > 500*time.Millisecond && !refused[i] {
							refused[i] = true
							answer = Answer{Verdict: Limited, Pause: 200 * time.Millisecond}
						}
						f.mu.Unlock()
						ticket.Answered(answer)
						ticket.Done()
					}
				})
			}
		}
		time.Sleep(1500 * time.Millisecond) // they are in their stride again
		f.fakePacer.mu.Lock()
		before := f.unused
		f.fakePacer.mu.Unlock()
		time.Sleep(time.Second)
		f.fakePacer.mu.Lock()
		unused := f.unused - before
		f.fakePacer.mu.Unlock()
		wg.Wait()
		if unused > rate/50 {
			t.Errorf("%d of %d departures given back in a second in which all wait, want none", unused, rate)
		}
		f.close()
	})
}

func TestFleetSharesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, time.Millisecond, Config{}, limit.Concurrent(10))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 4 {
			f.keepBusy(ctx, &wg, i, 10, 50*time.Millisecond, Demand{})
		}
		var outMost int
		for ctx.Err() == nil {
			out := 0
			for _, q := range f.queues {
				for _, s := range q.Stats() {
					out += s.InFlight
				}
			}
			outMost = max(outMost, out)
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		if outMost > 10 {
			t.Errorf("%d out at once, want at most 10", outMost)
		}
		if n := len(f.all()); n < 1800 {
			t.Errorf("%d departures in 10 s, want almost 2000", n)
		}
		f.close()
	})
}

// Slots whose lease has ended may be those of others, whoever hasn't been told so yet.
func TestFleetKeepsNoSlotsBeyondTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, time.Millisecond, Config{}, limit.Concurrent(4))
		f.slotLease = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		f.keepBusy(ctx, &wg, 0, 10, 50*time.Millisecond, Demand{})
		time.Sleep(2500 * time.Millisecond)
		f.fakePacer.mu.Lock()
		for _, b := range f.buckets {
			b.share(f.fakePacer) // they are renewed
		}
		f.fakePacer.mu.Unlock()
		wg.Wait()
		var n [4]int // departures in each second
		for _, at := range f.all() {
			n[at/time.Second]++
		}
		if n[0] < 70 || n[1] > 4 || n[2] < 30 || n[2] > 45 || n[3] < 30 || n[3] > 45 {
			t.Errorf("%v departures in each second, want 80, none, and 40 each", n)
		}
		f.close()
	})
}

func TestFleetInAnOutage(t *testing.T) {
	for _, c := range []struct {
		o           Outage
		least, most int // departures in the second of the outage
		err         error
	}{
		{Outage{Mode: ShareLocally, Share: 0.25}, 96, 104, nil},
		{Outage{Mode: LetAllGo}, 1000, math.MaxInt, nil},
		{Outage{Mode: RefuseAll}, 0, 2, ErrStoreUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 4, time.Millisecond, Config{}, limit.PerSecond(100))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			var refused error
			for i := range 4 {
				for range 10 {
					wg.Go(func() {
						for ctx.Err() == nil {
							if _, err := f.queues[i].Depart(ctx, Demand{Keys: []Key{{Rule: f.rules[i]}}}, nil); err == nil {
								f.note(i)
							} else if !errors.Is(err, context.DeadlineExceeded) {
								f.mu.Lock()
								refused = err
								f.mu.Unlock()
							}
							time.Sleep(time.Millisecond)
						}
					})
				}
			}
			time.Sleep(time.Second)
			f.tell(c.o)
			time.Sleep(time.Second)
			f.tell(Outage{})
			wg.Wait()
			n, after := 0, 0
			for _, at := range f.all() {
				switch at += time.Millisecond; {
				case at > time.Second+5*time.Millisecond && at <= 2*time.Second:
					n++
				case at > 2*time.Second+5*time.Millisecond:
					after++
				}
			}
			if n < c.least || n > c.most {
				t.Errorf("%v: %d departures in the outage, want %d to %d", c.o, n, c.least, c.most)
			}
			if after < 90 || after > 105 {
				t.Errorf("%v: %d departures in the second after it, want 100", c.o, after)
			}
			if !errors.Is(refused, c.err) {
				t.Errorf("%v: refused with %v, want %v", c.o, refused, c.err)
			}
			f.close()
		})
	}
}

func TestFleetHandsBackWhatIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, time.Millisecond, Config{}, limit.Per(1, time.Minute))
		d := func(i int) Demand { return Demand{Keys: []Key{{Rule: f.rules[i]}}} }
		if _, err := f.queues[0].Depart(t.Context(), d(0), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		turn, err := f.queues[0].Enter(ctx, d(0), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		cancel()
		if _, err := turn.Await(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		begin := time.Now()
		if _, err := f.queues[1].Depart(t.Context(), d(1), nil); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited > 59*time.Second {
			t.Errorf("waited %v, want what was handed back, after 58 s", waited)
		}
		f.close()
	})
}

func TestFleetTellsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, time.Millisecond, Config{}, limit.Per(1, time.Minute))
		d := Demand{Keys: []Key{{Rule: f.rules[0]}}}
		if _, err := f.queues[0].Depart(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := f.queues[0].Depart(ctx, d, nil); !errors.Is(err, ErrDeadline) {
			t.Errorf("refused with %v, want ErrDeadline", err)
		}
		if waited := time.Since(begin); waited > 10*time.Millisecond {
			t.Errorf("told after %v, want at once", waited)
		}
		f.close()
	})
}

func TestFleetOfSeveralBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakePacer(time.Millisecond)
		const n = 3
		var mu sync.Mutex
		var wide, narrow []time.Duration
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		var queues []*Queue
		for range n {
			q := newQueue(t, Config{})
			queues = append(queues, q)
			all := newRule(t, q, "all", limit.PerSecond(100))
			few := newRule(t, q, "few", limit.PerSecond(20))
			if err := all.Share(p, Sharing{}); err != nil {
				t.Fatal(err)
			}
			if err := few.Share(p, Sharing{}); err != nil {
				t.Fatal(err)
			}
			for j := range 20 {
				keys := []Key{{Rule: all}}
				if j%2 == 0 {
					keys = append(keys, Key{Rule: few})
				}
				wg.Go(func() {
					for {
						left, err := q.Depart(ctx, Demand{Keys: keys}, nil)
						if err != nil {
							return
						}
						_ = left
						mu.Lock()
						wide = append(wide, p.now())
						if len(keys) > 1 {
							narrow = append(narrow, p.now())
						}
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if len(wide) < 495 || len(wide) > 502 {
			t.Errorf("%d departures from the wide bucket, want 500", len(wide))
		}
		if len(narrow) < 97 || len(narrow) > 102 {
			t.Errorf("%d departures from the narrow bucket, want 100", len(narrow))
		}
		closed, cancel := context.WithCancel(t.Context())
		cancel()
		for _, q := range queues {
			_ = q.Close(closed)
		}
		time.Sleep(time.Second)
	})
}

// What was leased for much later is asked for again when the limits have become wider.
func TestFleetAsksAgainWhenLimitsAreWider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, time.Millisecond, Config{}, limit.Per(1, 10*time.Second))
		begin := time.Now()
		left := make(chan time.Duration, 3)
		for range 3 {
			go func() {
				if _, err := f.queues[0].Depart(t.Context(), Demand{Keys: []Key{{Rule: f.rules[0]}}}, nil); err != nil {
					t.Error(err)
				}
				left <- time.Since(begin)
			}()
		}
		time.Sleep(time.Second)
		var told []Watcher
		f.fakePacer.mu.Lock()
		for _, b := range f.buckets {
			b.interval, b.taken = 100*time.Millisecond, nil
			for m := range b.members {
				told = append(told, m.w)
			}
		}
		f.fakePacer.mu.Unlock()
		for _, w := range told {
			w.Sooner(time.Now())
		}
		for i := range 3 {
			if at := <-left; at > 1300*time.Millisecond {
				t.Errorf("the %d. left after %v, want no more than 1.3 s", i+1, at)
			}
		}
		f.close()
	})
}
