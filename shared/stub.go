package shared

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/leakyqueue"
)

type bucketKeys struct {
	base, tag, name string
	T               float64
	channel         string
}

func (s *Store) keysOf(b leakyqueue.Shared) *bucketKeys {
	tag := s.cfg.Prefix + ":" + b.Group
	k := &bucketKeys{tag: tag, base: "{" + tag + "}:" + b.Rule + ":" + b.Key, channel: s.channel()}
	k.name = k.base
	for _, l := range b.Limits {
		if r, ok := l.Rate(); ok {
			k.T = 1e6 / float64(r)
		}
	}
	return k
}

func instancesKey(tag string) string { return "{" + tag + "}:instances" }

func (k *bucketKeys) pause(d time.Duration) ([]string, []any) {
	return []string{k.base}, []any{d.Microseconds(), k.channel, pauseMessage(k.name, d)}
}
func (k *bucketKeys) resume() ([]string, []any) {
	return []string{k.base}, []any{0, k.channel, "r " + k.name}
}

type call struct {
	buckets           []*bucketKeys
	runs              []run
	back              []slot
	owed              []int64
	instance          string
	known, recovering bool
	horizon           time.Duration
	version           uint64
	used              []int64
}
type run struct {
	n     int
	high  bool
	costs []int64
}
type slot struct {
	at    int64
	costs []int64
}
type reply struct {
	now         int64
	slots       []slot
	tail        int64
	live        int
	pausedUntil []int64
	expires     time.Duration
	used        []int64
	retry       int64
}

func (c *call) keys() []string {
	return []string{c.buckets[0].base, instancesKey(c.buckets[0].tag)}
}
func (c *call) args() []any {
	n := 0
	for _, r := range c.runs {
		n += r.n
	}
	return []any{n, fmt.Sprint(c.buckets[0].T), c.horizon.Microseconds(), c.instance, 3000000}
}
func parseReply(v any, c *call) (reply, error) {
	l := v.([]any)
	r := reply{now: l[0].(int64), live: int(l[1].(int64)), tail: l[2].(int64), expires: time.Second}
	r.pausedUntil = []int64{l[3].(int64)}
	costs := []int64{1}
	for _, s := range l[4:] {
		r.slots = append(r.slots, slot{at: s.(int64), costs: costs})
	}
	_ = strings.Join
	return r, nil
}

var leaseScript = redis.NewScript(`
local t = redis.call('TIME'); local now = t[1]*1000000 + t[2]
local n, T, H, inst, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
redis.call('ZADD', KEYS[2], string.format('%.0f', now+ttl), inst)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
local m = redis.call('ZCARD', KEYS[2])
local a = tonumber(redis.call('HGET', KEYS[1], 'a')) or 0
local p = tonumber(redis.call('HGET', KEYS[1], 'p')) or 0
if a < now then a = now end
if a < p then a = p end
local out = {now, m, 0, p}
local cap = math.max(1, math.floor(H/T/m))
local i = 0
while i < n and i < cap and (a <= now + H or i == 0) do out[#out+1] = math.ceil(a); a = a + T; i = i + 1 end
out[3] = math.ceil(a)
redis.call('HSET', KEYS[1], 'a', string.format('%.3f', a))
redis.call('PEXPIRE', KEYS[1], 60000)
redis.call('PEXPIRE', KEYS[2], 60000)
return out`)

var pauseScript = redis.NewScript(`
local t = redis.call('TIME'); local now = t[1]*1000000 + t[2]
redis.call('HSET', KEYS[1], 'p', string.format('%.0f', now + tonumber(ARGV[1])))
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1`)
