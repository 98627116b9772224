package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A quota is what a fleet shares: each bucket lets rate departures per second leave, and burst at once.
type quota struct {
	rate    float64
	burst   int
	buckets int
}

// A fleet is a limiter whose instances share a quota.
type fleet interface {
	// Instance adds one, which has a client of its own. It is called for one at a time.
	Instance(rdb *redis.Client) (instance, error)
}

// An instance is a process' part of a fleet.
type instance struct {
	wait  waitFunc
	close func() // when nobody waits any more
}

// A waitFunc returns when a request may leave.
type waitFunc func(ctx context.Context, bucket int) error

// A peer is a kind of fleet.
type peer struct {
	name  string
	is    string
	plain bool // has no burst
	fleet func(q quota) (fleet, error)
}

// peers are in the order in which tables show them. Those of other files add themselves.
var peers = []peer{inMemory, redisRate, lockedBucket}

// An entry is a peer with a burst.
type entry struct {
	peer
	burst func(rate float64) int
	label string
}

// parseEntry reads "name", "name:burst" or "name:duration". A duration is a burst of what the rate
// allows in that time.
func parseEntry(s string) (entry, error) {
	name, burst, has := strings.Cut(s, ":")
	e := entry{label: s, burst: func(float64) int { return 1 }}
	for _, p := range peers {
		if p.name == name {
			e.peer = p
		}
	}
	if e.fleet == nil {
		return e, fmt.Errorf("there is no peer %q: have %s", name, strings.Join(names(), ", "))
	}
	if !has {
		return e, nil
	}
	if e.plain {
		return e, fmt.Errorf("%s: %s has no burst", s, name)
	}
	if n, err := strconv.Atoi(burst); err == nil && n > 0 {
		e.burst = func(float64) int { return n }
	} else if d, err := time.ParseDuration(burst); err == nil && d > 0 {
		e.burst = func(rate float64) int { return max(1, int(math.Round(rate*d.Seconds()))) }
	} else {
		return e, fmt.Errorf("%s: want a burst or a duration after the colon", s)
	}
	return e, nil
}

func names() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

// known are the entries whose peers there are, of a list that names all that there can be.
func known(list string) []entry {
	var entries []entry
	for s := range strings.SplitSeq(list, ",") {
		if e, err := parseEntry(s); err == nil {
			entries = append(entries, e)
		}
	}
	return entries
}

// sleep waits as a caller would who was told how long.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
