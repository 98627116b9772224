package shared

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/limit"
)

// everyKind is one limit of each kind that the script knows.
func everyKind() []limit.Limit {
	return []limit.Limit{
		limit.PerSecond(3),
		limit.Per(3, time.Hour).WithBurst(5),
		limit.AdaptiveRate(1, 100),
		limit.SlidingWindow(5, time.Hour),
		limit.SlidingCounter(5, time.Hour),
		limit.FixedWindow(5, time.Hour),
		limit.FixedWindow(5, time.Hour).ByClock(),
		limit.FixedWindow(5, time.Hour).ByKey(),
		limit.Daily(5, 0, 0, time.UTC),
		limit.Monthly(5, 1, 0, 0, time.UTC),
	}
}

// asks is a call for n departures of cost 1 in each bucket.
func asks(n int, buckets ...*bucketKeys) *call {
	c := &call{buckets: buckets, horizon: 100 * time.Millisecond, instance: "one", clock: base, around: time.UnixMicro(base)}
	r := run{n: n}
	for range buckets {
		r.costs = append(r.costs, 1)
	}
	c.runs = []run{r}
	return c
}

// Trap 32: a key without a TTL is there for ever, one with a shorter TTL than what it remembers forgets it.
func TestTrap32EveryKeyExpiresAfterWhatItRemembers(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := context.Background()
		for _, l := range everyKind() {
			b := testBucket(t, l)
			c := asks(5, b)
			for range 12 {
				rep := c.do(t, rdb)
				need := time.Duration(0)
				if n := len(rep.slots); n > 0 {
					need = time.Duration(rep.slots[n-1].at-rep.now) * time.Microsecond
				}
				if _, d, ok := l.Window(); ok {
					need += d
					if l.Kind() == limit.KindFixedWindow && !l.Calendar() || l.Kind() == limit.KindSlidingCounter {
						need = max(need, d)
					}
				}
				for _, key := range c.keys() {
					ttl := rdb.PTTL(ctx, key).Val()
					if ttl == -2 { // there is none
						if key == b.state {
							t.Fatalf("%v: no state", l)
						}
						continue
					}
					if ttl <= 0 {
						t.Fatalf("%v: %s has no TTL", l, key)
					}
					if key != b.members && (ttl < need || ttl < rep.expires) {
						t.Fatalf("%v: %s lives for %v, remembers %v, told %v", l, key, ttl, need, rep.expires)
					}
				}
				if n := len(rep.slots); n > 0 {
					c.clock = max(c.clock, rep.slots[n-1].at)
				}
			}
			p := pause{bucket: b, length: 2 * time.Hour, most: 3 * time.Hour, clock: c.clock}
			p.do(t, rdb)
			if ttl := rdb.PTTL(ctx, b.state).Val(); ttl < 2*time.Hour {
				t.Errorf("%v: lives for %v, and is paused for 2h", l, ttl)
			}
		}
		if n := rdb.DBSize(ctx).Val(); n == 0 {
			t.Error("no keys at all")
		}
		it := rdb.Scan(ctx, 0, "*", 1000).Iterator()
		for it.Next(ctx) {
			if ttl := rdb.PTTL(ctx, it.Val()).Val(); ttl <= 0 {
				t.Errorf("%s has no TTL", it.Val())
			}
		}
	})
}

// Trap 33: the time is Redis', not that of clients; and where scripts are refused TIME, a client's will do.
func TestTrap33WhoseClock(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := asks(1, testBucket(t, limit.PerSecond(1)))
		c.clock = 0
		want := rdb.Time(context.Background()).Val().UnixMicro()
		if rep := c.do(t, rdb); rep.now < want || rep.now > want+10_000_000 {
			t.Errorf("now is %d, want %d", rep.now, want)
		}
	})
	t.Run("redis-server that refuses TIME", func(t *testing.T) {
		rdb := realRedis(t)
		ctx := context.Background()
		if err := rdb.Do(ctx, "ACL", "SETUSER", "limited", "on", "nopass", "allkeys", "allchannels", "+@all", "-time").Err(); err != nil {
			t.Fatal(err)
		}
		limited := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "limited", Password: "x"})
		defer limited.Close()
		c := asks(1, testBucket(t, limit.PerSecond(1)))
		c.clock = 0
		if _, err := c.try(limited); err == nil {
			t.Fatal("TIME was allowed")
		}
		c.clock = base
		if rep := c.do(t, limited); rep.now != base || len(rep.slots) != 1 {
			t.Errorf("got %+v", rep)
		}
	})
}

// Trap 34: keys that a script makes up, or that are in other slots, don't work on a Cluster; and scripts are
// flushed.
func TestTrap34ClusterAndScriptFlush(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		c := asks(1, testBucket(t, everyKind()...))
		for _, key := range c.keys() {
			if !strings.Contains(key, "{x}") {
				t.Errorf("%s has another hash tag", key)
			}
		}
		c.do(t, rdb)
		if err := rdb.ScriptFlush(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		c.do(t, rdb) // loads it again
	})
	t.Run("redis-server as a Cluster's only node", func(t *testing.T) {
		rdb := realRedis(t, "--cluster-enabled", "yes")
		ctx := context.Background()
		if err := rdb.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
			t.Fatal(err)
		}
		for i := 0; !strings.Contains(rdb.ClusterInfo(ctx).Val(), "cluster_state:ok"); i++ {
			if i == 100 {
				t.Fatal(rdb.ClusterInfo(ctx).Val())
			}
			time.Sleep(50 * time.Millisecond)
		}
		c := asks(3, testBucket(t, everyKind()...), testBucket(t, limit.PerSecond(100)))
		if rep := c.do(t, rdb); len(rep.slots) == 0 {
			t.Error("got nothing")
		}
		p := pause{bucket: c.buckets[0], length: time.Second, most: time.Minute, channel: "pauses"}
		p.do(t, rdb)
	})
}

// Trap 35: who reads first and writes then goes over the limit.
func TestTrap35ManyAtOnceNeverOver(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const n = 100
		for _, l := range []limit.Limit{
			limit.SlidingWindow(n, time.Hour),
			limit.SlidingCounter(n, time.Hour),
			limit.FixedWindow(n, time.Hour),
			limit.FixedWindow(n, time.Hour).ByClock(),
			limit.Daily(n, 0, 0, time.UTC),
			limit.Per(1, time.Hour).WithBurst(n),
		} {
			b := testBucket(t, l)
			var mu sync.Mutex
			now := map[int64]int{}
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					for range 20 {
						c := asks(3, b)
						c.clock = 1_800_000_000_000_000 // well within a window, by the clock
						c.instance = fmt.Sprint(i)
						rep, err := c.try(rdb)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for _, s := range rep.slots {
							if s.at < base+int64(30*time.Minute/time.Microsecond) {
								now[s.at]++
							}
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			sum := 0
			for _, k := range now {
				sum += k
			}
			if sum != n {
				t.Errorf("%v: %d left, want %d", l, sum, n)
			}
		}
	})
}

// Trap 38: a rolling deploy with new limits neither resets what is counted nor brings old limits back.
func TestTrap38RollingDeploy(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		b := testBucket(t, limit.SlidingWindow(10, time.Hour), limit.PerSecond(1000).WithBurst(1000))
		later := *b
		later.version = 2
		newer, err := newBucket("test:", "x", b.key, 2, limit.SlidingWindow(15, time.Hour), limit.PerSecond(1000).WithBurst(1000))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(asks(8, b).do(t, rdb).slots); got != 8 {
			t.Fatalf("got %d", got)
		}
		if got := asks(20, newer).do(t, rdb); len(got.slots) != 7 || got.used[0][0] != 15 {
			t.Errorf("under new limits got %d, of %v used, want 7 of 15", len(got.slots), got.used)
		}
		// An instance that has the old limits still.
		old := asks(20, b).do(t, rdb)
		if len(old.slots) != 1 || old.slots[0].at < base+3_600_000_000 {
			t.Errorf("with old limits got %v", old.moments(base))
		}
		if got := asks(0, newer).do(t, rdb); got.used[0][0] != 16 {
			t.Errorf("%v are used, want 16 with the one that is due in an hour", got.used)
		}
	})
}

func TestTrap38FasterRateAppliesAtOnce(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		b := testBucket(t, limit.Per(1, time.Hour))
		c := asks(1, b)
		c.do(t, rdb)
		c.do(t, rdb) // an hour from now: the next is in two
		faster, err := newBucket("test:", "x", b.key, 2, limit.PerSecond(1))
		if err != nil {
			t.Fatal(err)
		}
		c = asks(1, faster)
		if got := c.do(t, rdb); len(got.slots) != 1 || got.slots[0].at > base+2_000_001 {
			t.Errorf("after the rate was raised the next leaves at %v, want 2 s", got.moments(base))
		}
	})
}

// A version without anything else to it changes nothing.
func TestNewerVersionOfTheSameLimits(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		b := testBucket(t, everyKind()...)
		asks(3, b).do(t, rdb)
		before := asks(0, b).do(t, rdb)
		newer := *b
		newer.version = 9
		if after := asks(0, &newer).do(t, rdb); fmt.Sprint(after.used) != fmt.Sprint(before.used) {
			t.Errorf("used is %v, was %v", after.used, before.used)
		}
	})
}

// TestAnyGarbage has keys hold what no script wrote: there is an error or it is repaired, and it takes no time.
func TestAnyGarbage(t *testing.T) {
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := context.Background()
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 600 {
			var limits []limit.Limit
			all := everyKind()
			for range 1 + random.IntN(2) {
				limits = append(limits, all[random.IntN(len(all))])
			}
			b := testBucket(t, limits...)
			c := asks(5, b)
			c.known = []bool{random.IntN(2) == 0}
			c.do(t, rdb)
			state := rdb.Get(ctx, b.state).Val()
			switch random.IntN(8) {
			case 0:
				rdb.Del(ctx, b.state)
				rdb.LPush(ctx, b.state, "x")
			case 1:
				rdb.Del(ctx, b.log, b.members)
				rdb.Set(ctx, b.log, "x", 0)
				rdb.HSet(ctx, b.members, "x", 1)
			case 2:
				rdb.Set(ctx, b.state, state[:random.IntN(len(state))], 0)
			case 3:
				rdb.Del(ctx, b.log)
			case 4:
				rdb.ZAdd(ctx, b.log, redis.Z{Score: 3, Member: "0:what"}, redis.Z{Score: 4, Member: "nothing"})
			default:
				words := strings.Split(state, " ")
				for range 1 + random.IntN(3) {
					words[random.IntN(len(words))] = []string{"nan", "-1", "inf", "9007199254740993", "1e300", "4503599627370496", "0", "1.5", "x", "0x10", "1800000000000000", "3|", "-0"}[random.IntN(13)]
				}
				rdb.Set(ctx, b.state, strings.Join(words, " "), 0)
			}
			garbage := rdb.Get(ctx, b.state).Val()
			begun := time.Now()
			rep, err := c.try(rdb)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%v: %q took %v", limits, garbage, took)
			}
			if err != nil {
				t.Errorf("%d: %v: %q: %v", i, limits, garbage, err)
				continue
			}
			for _, s := range rep.slots {
				if s.at < base {
					t.Errorf("%v: %q: departure at %d", limits, garbage, s.at)
				}
			}
			if ttl := rdb.PTTL(ctx, b.state).Val(); ttl <= 0 {
				t.Errorf("%v: %q: TTL is %v", limits, garbage, ttl)
			}
		}
	})
}

// TestHostileReplies are those that a script never sends.
func TestHostileReplies(t *testing.T) {
	b := testBucket(t, limit.PerSecond(1))
	c := asks(2, b)
	good := []any{int64(base), int64(base), int64(1), int64(1), int64(1), int64(0), int64(0), int64(0), int64(0)}
	with := func(more ...any) []any { return append(append([]any(nil), good...), more...) }
	if _, err := parseReply(with(int64(base), int64(2)), c); err != nil {
		t.Fatal(err)
	}
	rep, err := parseReply(with(int64(0), int64(2), int64(base), int64(base-1), int64(1), int64(1), int64(1), int64(3)), c)
	if err != nil || fmt.Sprint(rep.moments(base)) != "[0 1]" {
		t.Fatal(rep.moments(base), err)
	}
	for _, v := range []any{
		nil, "OK", int64(1), []any{}, []any{nil}, good[:4],
		with(int64(base), int64(3)),
		with(int64(base)),
		with(int64(base), int64(-1)),
		with(int64(base), int64(1)<<60),
		with(int64(-1), int64(1)),
		with("1", "2"),
		with(int64(0), int64(2), int64(base), int64(0), int64(1)<<62, int64(0), int64(0), int64(1)),
		with(int64(0), int64(2), int64(base), int64(0), int64(1), int64(0), int64(0), int64(0)),
		with(int64(0), int64(2), int64(base), int64(0), int64(1), int64(0), int64(0)),
	} {
		if rep, err := parseReply(v, c); err == nil {
			t.Errorf("%v is taken for %+v", v, rep)
		}
	}
}

// TestACL has a user who may do what the comment in script.go says, and nothing else.
func TestACL(t *testing.T) {
	t.Run("redis-server", func(t *testing.T) {
		rdb := realRedis(t)
		ctx := context.Background()
		err := rdb.Do(ctx, "ACL", "SETUSER", "least", "on", "nopass", "~test:*", "&pauses", "-@all",
			"+evalsha", "+eval", "+time", "+get", "+set", "+del", "+pttl", "+pexpire", "+publish", "+zadd", "+zcard", "+zcount",
			"+zrange", "+zrangebyscore", "+zrevrangebyscore", "+zremrangebyscore", "+zscore").Err()
		if err != nil {
			t.Fatal(err)
		}
		least := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "least", Password: "x", Protocol: 2, DisableIdentity: true})
		defer least.Close()
		limits := append(everyKind(), limit.SlidingWindow(7, time.Minute).WithHeadroom(0.3))
		c := asks(5, testBucket(t, limits...), testBucket(t, limit.PerSecond(10)))
		c.clock = 0
		for range 3 {
			rep := c.do(t, least)
			c.back = rep.slots
		}
		p := pause{bucket: c.buckets[0], length: time.Second, most: time.Minute, channel: "pauses"}
		p.do(t, least)
	})
}
