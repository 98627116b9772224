// Package faults puts [toxiproxy] between a client and a Redis, in the process of the test.
//
//	srv := redistest.Start(t)
//	network := faults.Start(t, srv.Addr())
//	client := redis.NewClient(&redis.Options{Addr: network.Addr()})
//	network.Delay(100*time.Millisecond, 0)
//
// It is a module of its own: toxiproxy brings 16 modules with it, Prometheus among them, that nobody who
// imports outflow should have in the go.sum. Here are also the tests of what becomes of a fleet when its Redis, or
// the way there, fails.
//
// # Faults
//
// Those of a [Network] add up until [Network.Heal] takes all of them away. They hold for connections that exist
// and for those that are made later, unless their method says something else.
//
// Sentinel and Cluster tell clients the addresses of the servers themselves, and those lead around a Network.
// A client's Dialer can lead back.
//
// [toxiproxy]: https://github.com/Shopify/toxiproxy
package faults
