package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A meeting point of the fleet.
type redisServer struct {
	address string
	prefix  string // of the keys of this run: one that was just before is another fleet
	close   func()
}

// findRedis finds the Redis at an address, or starts one within the program.
func findRedis(ctx context.Context, address string) (*redisServer, error) {
	s := &redisServer{address: address, prefix: "fleet-" + rand.Text()[:8], close: func() {}}
	if address == "" {
		m, err := miniredis.Run()
		if err != nil {
			return nil, err
		}
		m.ClockTTL(true) // it is for tests, and else lets keys expire when it is told to
		s.address, s.close = m.Addr(), m.Close
		return s, nil
	}

	// The workers would go on without it, each at its part of the limit. Here somebody has mistyped.
	rdb := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("-redis is %q: %w", address, err)
	}
	return s, nil
}
