// Fleet measures limiters whose instances share one quota through Redis, side by side in one run, and
// prints Markdown tables.
//
//	go -C bench run ./fleet
//	go -C bench run ./fleet -limit 1000,10000 -instances 1,4,16 -peers redis_rate:1,locked-bucket -seconds 5
//	go -C bench run ./fleet -loops open -limit 1000 -load 0.5
//	go -C bench test -run '^$' -bench Fleet -benchtime 1x ./fleet
//
// It starts a redis-server for each run, on a free port of 127.0.0.1, so that each begins with no key
// at all. Where there is no redis-server it says so and stops, and benchmarks are skipped.
//
// # What is measured
//
// An instance is a limiter with a Redis client, and a connection pool, of its own. All instances are in
// this process, which shares the machine's cores with Redis: what takes much of a core gets less here
// than on machines of its own.
//
// The closed loop has each instance's waiters ask again as soon as they may leave. The open loop has
// requests come at random (Poisson) whether or not others still wait, and measures how long each waits.
// The scale loop is a closed one over many buckets, whose limits together nobody is meant to reach
// one request at a time.
//
// A departure is the moment at which its goroutine runs again, with all that the scheduler adds. Windows
// are counted over the whole run, from the first departure on; everything else after the warm-up. A
// round trip is one command or one pipeline that a client writes, whatever the client then does to have
// it answered. Commands and Redis' CPU are Redis' own counts, and those of commands include what
// scripts call. What a subscription receives is no round trip.
//
// The row in-memory is the same queue without Redis, which is one for all instances: what it doesn't
// reach can't be reached in this process, on this machine, at that moment. Where others take much of
// the CPU, as their column says, rows can't be compared: such runs are repeated, see -tries.
package main
