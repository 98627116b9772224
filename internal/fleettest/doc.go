// Package fleettest runs a fleet of queues over one Redis, has something go wrong with that, and measures what became of
// the requests: one row of a table for each fault.
//
//	f := fleettest.Start(t, fleettest.Config{Client: func() redis.UniversalClient { … }})
//	f.Run(6*time.Second, func() {
//		f.Wait(time.Second)
//		f.Begins()
//		srv.Stop()
//		f.Wait(2*time.Second)
//		srv.Continue()
//		f.Ends()
//	})
//	f.Check("hangs for 2 s", fleettest.Bounds{…})
//
// The tests of package shared and of module faults use it. With -fleet.table, and [PrintTable] at the end of TestMain,
// they print all rows as Markdown, as in docs/fleet.md, and take the time for faults of the same length in all modes.
package fleettest
