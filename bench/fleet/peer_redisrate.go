package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

var redisRate = peer{name: "redis_rate", is: "go-redis/redis_rate v10: Allow, and sleep for RetryAfter when denied", fleet: newRedisRate}

type redisRateFleet struct {
	limit redis_rate.Limit
	keys  []string
}

func newRedisRate(q quota) (fleet, error) {
	if q.rate != math.Trunc(q.rate) {
		return nil, fmt.Errorf("redis_rate counts in whole departures per second, not in %v", q.rate)
	}
	f := redisRateFleet{limit: redis_rate.Limit{Rate: int(q.rate), Burst: q.burst, Period: time.Second}}
	for i := range q.buckets {
		f.keys = append(f.keys, "api:"+strconv.Itoa(i))
	}
	return f, nil
}

func (f redisRateFleet) Instance(rdb *redis.Client) (instance, error) {
	limiter := redis_rate.NewLimiter(rdb)
	wait := func(ctx context.Context, bucket int) error {
		for {
			answer, err := limiter.Allow(ctx, f.keys[bucket], f.limit)
			if err != nil {
				return err
			}
			if answer.Allowed > 0 {
				return nil
			}
			if err := sleep(ctx, answer.RetryAfter); err != nil {
				return err
			}
		}
	}
	return instance{wait: wait, close: func() {}}, nil
}
