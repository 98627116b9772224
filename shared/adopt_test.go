package shared

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/limit"
)

// next is the same bucket under other limits.
func (b *bucketKeys) next(t *testing.T, limits ...limit.Limit) *bucketKeys {
	t.Helper()
	n, err := newBucket("test:", "x", b.key, b.version+1, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNewLimits has limits change while something counts: nothing is forgotten, and nothing stays longer than it
// would under the new ones.
func TestNewLimits(t *testing.T) {
	slow, fast := limit.PerSecond(1), limit.PerSecond(10)
	hour := limit.SlidingWindow(10, time.Hour)
	for _, c := range []struct {
		name     string
		old, new []limit.Limit
		first    int // departures at the beginning
		want     []int64
	}{
		{"the same", []limit.Limit{slow.WithBurst(4)}, []limit.Limit{slow.WithBurst(4)}, 3, []int64{0, 1000000}},
		{"faster", []limit.Limit{slow.WithBurst(4)}, []limit.Limit{fast.WithBurst(4)}, 4, []int64{100000}},
		{"slower", []limit.Limit{fast.WithBurst(4)}, []limit.Limit{slow.WithBurst(4)}, 4, []int64{1000000}},
		{"slower, and a larger burst", []limit.Limit{fast.WithBurst(4)}, []limit.Limit{slow.WithBurst(6)}, 4, []int64{1000000}},
		{"a larger burst", []limit.Limit{slow.WithBurst(4)}, []limit.Limit{slow.WithBurst(6)}, 4, []int64{0, 0, 1000000}},
		{"a smaller burst", []limit.Limit{slow.WithBurst(6)}, []limit.Limit{slow.WithBurst(4)}, 6, []int64{3000000}},
		{"another rate besides", []limit.Limit{slow.WithBurst(4)}, []limit.Limit{slow.WithBurst(4), fast.WithBurst(2)}, 2, []int64{0, 100000, 1000000}},
		{"a window's n", []limit.Limit{hour}, []limit.Limit{limit.SlidingWindow(12, time.Hour)}, 9, []int64{0, 0, 0, 3600050000}},
		{"a longer window", []limit.Limit{hour}, []limit.Limit{limit.SlidingWindow(10, 2*time.Hour)}, 9, []int64{0, 7200050000}},
		{"another kind of window", []limit.Limit{hour}, []limit.Limit{limit.FixedWindow(10, time.Hour)}, 9, []int64{0, 3600050000}},
		{"a window for a rate", []limit.Limit{limit.Per(10, time.Hour).WithBurst(10)}, []limit.Limit{hour}, 9, []int64{0, 3600050000}},
		{"one window of two", []limit.Limit{hour, limit.SlidingWindow(20, 2*time.Hour)}, []limit.Limit{hour}, 9, []int64{0, 3600050000}},
		{"a second window", []limit.Limit{hour}, []limit.Limit{hour, limit.SlidingWindow(11, 2*time.Hour)}, 9, []int64{0, 3600050000, 7200050000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachRedis(t, func(t *testing.T, rdb *redis.Client) {
				b := testBucket(t, c.old...)
				if got := len(asks(c.first, b).do(t, rdb).slots); got != c.first {
					t.Fatalf("got %d of %d", got, c.first)
				}
				n := b.next(t, c.new...)
				var got []int64
				for len(got) < len(c.want) {
					k := asks(1, n)
					k.horizon = 0
					rep := k.do(t, rdb)
					got = append(got, rep.moments(base)...)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
				// And back: what left under the new limits counts under the old ones.
				if rep := asks(0, n.next(t, c.old...)).do(t, rdb); rep.tail < base {
					t.Errorf("tail is %d", rep.tail-base)
				}
			})
		})
	}
}
