package main

import (
	"sync/atomic"
	"testing"
)

// BenchmarkFleetFastPathShared is BenchmarkFleetFastPath with a shared bucket, whose departures one
// instance leases for as many as wait for them.
func BenchmarkFleetFastPathShared(b *testing.B) {
	if _, err := findRedis(); err != nil {
		b.Skip(err)
	}
	s, err := startRedis(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.stop)
	var trips atomic.Int64
	rdb := s.client(&trips)
	b.Cleanup(func() { rdb.Close() })
	f, err := newOutflow(quota{rate: 1e9, burst: 1e6, buckets: 1})
	if err != nil {
		b.Fatal(err)
	}
	i, err := f.Instance(rdb)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(i.close)
	fastPath(b, "outflow", i.wait)
}
