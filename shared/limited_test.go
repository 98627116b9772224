package shared_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
	"github.com/outflow-go/outflow/internal/testserver"
	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// noted is a Base that notes when requests leave, in µs since 1970 as Redis does.
type noted struct {
	http.RoundTripper

	mu   sync.Mutex
	left []int64
}

func (n *noted) RoundTrip(r *http.Request) (*http.Response, error) {
	at := time.Now().UnixMicro()
	n.mu.Lock()
	n.left = append(n.left, at)
	n.mu.Unlock()
	return n.RoundTripper.RoundTrip(r)
}

// One of sixteen clients is told "429, Retry-After: 1". From when Redis hears of it next to nobody leaves anywhere until the
// pause is over, and no herd leaves then.
func TestRealRedisOneIsLimited(t *testing.T) {
	fleettest.Timed(t)
	const n, rate, rounds = 16, 1000, 5
	srv := redistest.Start(t)
	var refuse atomic.Bool
	up := testserver.New(testserver.ScriptFunc(func(int, *http.Request) http.Handler {
		if refuse.CompareAndSwap(true, false) {
			return testserver.Reply(http.StatusTooManyRequests, "", "Retry-After", "1")
		}
		return nil
	})).TCP(t)
	base := &noted{RoundTripper: up.Transport}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	for range n {
		rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
		store, err := shared.New(rdb, shared.Config{})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := outflow.New(outflow.Config{Base: base, Limits: []limit.Limit{limit.PerSecond(rate)}, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cancel()
			wg.Wait()
			_ = tr.Close(context.Background())
			_ = store.Close()
			_ = rdb.Close()
		})
		for range 16 {
			wg.Go(func() {
				for ctx.Err() == nil {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, up.URL, nil)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := tr.RoundTrip(req)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			})
		}
	}
	listener := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	t.Cleanup(func() { _ = listener.Close() })
	events := listener.Subscribe(ctx, shared.DefaultPrefix+":events")
	t.Cleanup(func() { _ = events.Close() })
	if _, err := events.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)

	type pause struct{ heard, until int64 }
	var pauses []pause
	noisy := crowded(t)
	for range rounds {
		refuse.Store(true)
		m, err := events.ReceiveMessage(ctx) // "now until bucket"
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(m.Payload)
		heard, err1 := strconv.ParseInt(words[0], 10, 64)
		until, err2 := strconv.ParseInt(words[1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatalf("%q: %v", m.Payload, err)
		}
		pauses = append(pauses, pause{heard, until})
		time.Sleep(time.Duration(until-heard)*time.Microsecond + 700*time.Millisecond)
	}
	busy := noisy()
	cancel()
	wg.Wait()
	base.mu.Lock()
	left := slices.Clone(base.left)
	base.mu.Unlock()

	var counts []int
	var lasts []time.Duration
	for _, p := range pauses {
		leaked, last, first, herd, after := 0, int64(0), int64(0), 0, 0
		for _, at := range left {
			switch {
			case at <= p.heard || at > p.until+600_000:
			case at < p.until:
				leaked++
				last = max(last, at-p.heard)
			default:
				after++
				if d := at - p.until; first == 0 || d < first {
					first = d
				}
				if at < p.until+100_000 {
					herd++
				}
			}
		}
		t.Logf("paused for %d us: %d left after Redis had heard of it, the last after %d us; the first after the pause at %d us, %d in the 100 ms after it, %d in 600 ms", p.until-p.heard, leaked, last, first, herd, after)
		counts, lasts = append(counts, leaked), append(lasts, time.Duration(last)*time.Microsecond)
		if p.until-p.heard < 990_000 {
			t.Errorf("paused for %d us, want a second", p.until-p.heard)
		}
		if bound := 1 + int((100*time.Millisecond+lateness)*rate/time.Second); herd > bound {
			t.Errorf("%d departures in the 100 ms after the pause, want at most %d", herd, bound)
		}
		if after < rate*6/10*9/10 && !busy {
			t.Errorf("%d departures in the 600 ms after the pause, want %d", after, rate*6/10)
		}
	}
	// The median: where another process has the CPUs, a goroutine that was let go notes it late.
	slices.Sort(counts)
	slices.Sort(lasts)
	if most := counts[rounds/2]; most > 2 && !busy {
		t.Errorf("%d departures after Redis had heard of the pause, want at most 2", most)
	}
	if last := lasts[rounds/2]; last > 5*time.Millisecond && !busy {
		t.Errorf("the last departure was %v after Redis had heard of the pause, want at most 5 ms", last)
	}
}
