package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// lockedBucket stands in for the LeakyBucket of mennanov/limiters with its Redis backend and redsync's
// lock. That module is one package for all its backends, which brings the clients of DynamoDB, Cosmos
// DB, Consul, etcd and ZooKeeper. What counts here is what it does to Redis for each request, and that is
// the same: take the lock, read the moment of the last departure, write the next one, unlock; then sleep
// until it. As there, an instance asks for one request at a time, the time is the client's, and there is
// no burst; who doesn't get the lock tries again after 50 to 250 ms, 32 times.
var lockedBucket = peer{
	name: "locked-bucket", is: "not a peer's own code: does what mennanov/limiters' LeakyBucket does with redsync's lock", plain: true, fleet: newLocked,
}

const (
	lockTries  = 32
	lockExpiry = 8 * time.Second
	lockPause  = 50 * time.Millisecond // and up to 200 ms more
)

var (
	errNotLocked = errors.New("somebody else has the lock")
	errLockLost  = errors.New("the lock expired")
)

// unlock deletes a lock if it is still ours.
var unlock = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('DEL', KEYS[1])
end
return 0
`)

type lockedFleet struct{ quota }

func newLocked(q quota) (fleet, error) { return lockedFleet{q}, nil }

func (f lockedFleet) Instance(rdb *redis.Client) (instance, error) {
	views := make([]*lockedView, f.buckets)
	for i := range views {
		name := "{bucket:" + strconv.Itoa(i) + "}"
		views[i] = &lockedView{rdb: rdb, state: name + "state", lock: name + "lock", period: time.Duration(float64(time.Second) / f.rate)}
	}
	wait := func(ctx context.Context, bucket int) error {
		d, err := views[bucket].reserve(ctx)
		if err != nil {
			return err
		}
		return sleep(ctx, d)
	}
	return instance{wait: wait, close: func() {}}, nil
}

// A lockedView is what one instance has of a bucket.
type lockedView struct {
	rdb         *redis.Client
	state, lock string
	period      time.Duration

	mu sync.Mutex // held while one asks
}

type lockedState struct {
	Last int64 // the latest departure, in nanoseconds since 1970
}

// reserve takes the next departure and returns how far off it is.
func (v *lockedView) reserve(ctx context.Context) (wait time.Duration, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	secret := rand.Text()
	if err := v.take(ctx, secret); err != nil {
		return 0, err
	}
	defer func() {
		gone, unlocked := unlock.Run(ctx, v.rdb, []string{v.lock}, secret).Int()
		if unlocked == nil && gone == 0 {
			unlocked = errLockLost
		}
		if err == nil {
			err = unlocked
		}
	}()
	var s lockedState
	text, err := v.rdb.Get(ctx, v.state).Bytes()
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	now := time.Now().UnixNano()
	s.Last = max(now, s.Last+int64(v.period))
	if text, err = json.Marshal(s); err != nil {
		return 0, err
	}
	if err := v.rdb.Set(ctx, v.state, text, time.Minute).Err(); err != nil {
		return 0, err
	}
	return time.Duration(s.Last - now), nil
}

func (v *lockedView) take(ctx context.Context, secret string) error {
	for try := range lockTries {
		if try > 0 {
			if err := sleep(ctx, lockPause+mathrand.N(200*time.Millisecond)); err != nil {
				return err
			}
		}
		if ok, err := v.rdb.SetNX(ctx, v.lock, secret, lockExpiry).Result(); err != nil || ok {
			return err
		}
	}
	return errNotLocked
}
