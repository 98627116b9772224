package shared

import (
	"context"
	"fmt"
	"math/big"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// base is when tests begin, in us since 1970.
const base = 1_800_000_000_000_000

// eachRedis runs a test on miniredis and, where there is one, on a real redis-server.
func eachRedis(t *testing.T, f func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		s := miniredis.RunT(t)
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
		t.Cleanup(func() { rdb.Close() })
		f(t, rdb)
	})
	t.Run("redis-server", func(t *testing.T) { f(t, realRedis(t)) })
}

// realRedis starts a redis-server that ends with the test.
func realRedis(t testing.TB, options ...string) *redis.Client {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server")
	}
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(addr)
		cmd := exec.Command(binary, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, options...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		for range 200 {
			if rdb.Ping(context.Background()).Err() == nil {
				t.Cleanup(func() {
					rdb.Close()
					cmd.Process.Kill()
					cmd.Wait()
				})
				return rdb
			}
			time.Sleep(10 * time.Millisecond)
		}
		rdb.Close()
		cmd.Process.Kill()
		cmd.Wait() // another process took the port
	}
	t.Fatal("redis-server doesn't answer")
	return nil
}

// do runs a call.
func (c *call) do(t rapid.TB, rdb redis.Scripter) reply {
	t.Helper()
	rep, err := c.try(rdb)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func (c *call) try(rdb redis.Scripter) (reply, error) {
	if err := c.check(); err != nil {
		return reply{}, err
	}
	v, err := leaseScript.Run(context.Background(), rdb, c.keys(), c.args()...).Result()
	if err != nil {
		return reply{}, err
	}
	return parseReply(v, c)
}

func (p *pause) do(t rapid.TB, rdb redis.Scripter) (now, until int64) {
	t.Helper()
	v, err := pauseScript.Run(context.Background(), rdb, p.keys(), p.args()...).Result()
	if err != nil {
		t.Fatal(err)
	}
	now, until, err = parsePaused(v)
	if err != nil {
		t.Fatal(err)
	}
	return now, until
}

var unique struct {
	sync.Mutex
	n int
}

// testBucket is a bucket that no other test uses.
func testBucket(t rapid.TB, limits ...limit.Limit) *bucketKeys {
	t.Helper()
	b, err := newBucket("test:", "x", uniqueKey(), 1, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func uniqueKey() string {
	unique.Lock()
	defer unique.Unlock()
	unique.n++
	return fmt.Sprintf("bucket%d", unique.n)
}

// scaled is a bucket whose limits are read with a nanosecond for each microsecond, so that limit.State, which
// rounds to nanoseconds, counts what the script counts, to the microsecond.
func scaled(t rapid.TB, name, key string, limits ...limit.Limit) *bucketKeys {
	t.Helper()
	b := testBucket(t)
	b.spec = scaledSpec(t, key, limits...)
	return b
}

func scaledSpec(t rapid.TB, key string, limits ...limit.Limit) string {
	t.Helper()
	var spec []string
	for _, l := range limits {
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		if l.Kind() == limit.KindRate {
			interval, _ := l.Interval()
			words, err := rateSpec(interval.Mul(interval, big.NewRat(1000, 1)), l.Burst(), l.Kept())
			if err != nil {
				t.Fatal(err)
			}
			spec = append(spec, words...)
			continue
		}
		n, d, _ := l.Window()
		w := windowSpec{n: int64(n + l.Burst()), d: int64(d), guard: int64(l.Guard()), kept: int64(l.Kept())}
		start, _, phased := l.WindowAt(time.Unix(0, 0), key)
		w.anchor = modulo(start.UnixNano(), w.d)
		switch l.Kind() {
		case limit.KindSlidingWindow:
			spec = append(spec, w.sliding()...)
		case limit.KindSlidingCounter:
			spec = append(spec, w.counter()...)
		default:
			w.width = w.d / 16
			w.rounding = min(w.width, int64(2*time.Second))
			if !phased {
				w.anchor = 0
			} else {
				w.phase = phaseAnchored
			}
			spec = append(spec, w.fixed()...)
		}
	}
	return strings.Join(spec, " ")
}

// moments are when a reply's slots are, from a moment on.
func (r *reply) moments(from int64) []int64 {
	var all []int64
	for _, s := range r.slots {
		all = append(all, s.at-from)
	}
	return all
}
