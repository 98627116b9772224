// Package redistest starts real Redis processes for tests and mistreats them.
//
//	srv := redistest.Start(t)
//	client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
//	…
//	srv.Stop()     // hangs: SIGSTOP
//	srv.Continue() // and goes on
//	srv.Kill()     // SIGKILL
//	srv.Restart()  // at the same address, with nothing in memory
//
// [StartSentinel] and [StartCluster] make whole installations, of the same kind of [Server].
//
// It is imported by _test.go files and by the modules bench, examples and faults, and by nothing that others
// link. It needs redis-server (6.2 or newer, or Valkey under that name) and only the standard library: not the
// client that the tests use. What can be done to the network between a client and a server is in module faults.
//
// # Where there is no redis-server
//
// A test that starts one is skipped, with a message that says so. .ci/run installs it and takes a skip for
// a failure. What a test does instead of being skipped is its own choice, after [Find].
//
// # From which goroutine
//
// The functions that start, WaitFailover and the methods of a [Cluster] and a [Move] end the test when they fail,
// so they belong on its goroutine. All other methods may be called from any; what goes wrong there is an error of
// the test, which continues.
//
// # What is left behind
//
// Nothing: a test kills its servers when it ends. On Linux they also die with the test's process, even when
// that is killed. Elsewhere a killed test leaves its servers running.
package redistest
