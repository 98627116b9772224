// Package shared has one quota hold for a whole fleet: N processes on M machines share each bucket through Redis or Valkey.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "redis:6379"})
//	store, err := shared.New(rdb, shared.Config{Prefix: "billing"})
//	transport, err := outflow.New(outflow.Config{Limits: limits, Store: store})
//
// Every process that does so, with the same prefix and rules of the same names, keeps to the limits together with all
// others. Standalone servers, Sentinel and Cluster will do, Redis 6.2 or later and Valkey; TLS, passwords and ACLs are the
// client's.
//
// # How
//
// A queue doesn't ask whether a request may leave: it leases the next departures, for those who wait, in one run of a script,
// and binds each to a waiter when it falls due. So order, priorities, flows, deadlines and cancellation are as in one
// process, and a round trip serves many requests. What several buckets hold is leased from all of them at once, or from none.
// While one run is on its way there is no other for the same buckets; who comes meanwhile is in the next.
//
// No instance has more at hand than its part of Config.Horizon, so that one with one waiter comes to its turn beside others
// with thousands: it waits for the horizon and its turn, at most. What isn't used is given back.
//
// Pauses that one instance is asked for reach all of them by a message, and with every lease: departures at hand that fall
// into a pause are void. What an upstream says is left of a quota is reckoned as everybody's: each instance takes its
// part of it, less as many in flight at each of the others as it has itself. A limit.AdaptiveRate is learnt by all together;
// limit.AdaptiveConcurrency by each for itself.
//
// Slots of a limit.Concurrent are leased too, by number: what an instance that is not heard of any more had goes to the
// others after Config.SlotLease, and it is told (leakyqueue.Counts.SlotsLost) should it come back. More instances than slots
// take turns of a quarter of a second.
//
// # Whose clock
//
// Redis'. No instance's wall clock plays a part, but for the windows of limit.Daily and limit.Monthly, for which it has to be
// right to within hours. Replies are turned into moments of the instance's monotonic clock by the fastest of the latest round
// trips: a departure isn't earlier than its moment, and later by the fastest way from Redis at most. Should Redis' clock go
// back, as after a failover to a host whose clock is behind, buckets go on as if it hadn't.
//
// # When Redis can't be reached
//
// Config.OnOutage says what becomes of requests: each instance goes on at its share of the limits (LocalShare), nothing is
// held (FailOpen), or all are refused (FailClosed). It is an outage when there was no answer for Config.Timeout, or an error.
// From then on Redis is asked for nothing but whether it is there, every 200 ms, and no request waits for it. The first
// answer ends the outage, whatever it is to; nobody bursts then. On a Cluster each hash tag is by itself.
//
// # What can be promised
//
// With a rate r and burst b, N instances, the horizon H, and L for how late a departure may be used (50 ms, or the queue's
// Slack if that is more, and what a round trip takes), departures in any window W are at most:
//
//	normally                                     r·(W + L) + b
//	Redis lost its memory, who asks first knew   r·(W + L) + b: rates pause for H, windows keep the last known count
//	Redis lost its memory, who asks first didn't as above, and max(H·r, N)
//	failover to a replica that lags              as above, and what was leased in that time
//	Redis' clock goes forward                    as normally, and H·r
//	outage, LocalShare                           r·(W + L) + b + N
//	outage, FailOpen                             without bound
//	a script ran, and its answer was lost        fewer: what it leased isn't used
//	an instance crashes                          fewer: what it had leased, H·r/N or one, isn't used
//	a pause                                      what is due within two round trips still leaves
//	split brain                                  twice r, as long as the old master serves somebody
//
// No more slots are out than there are, but for those of an instance that was cut off for longer than Config.SlotLease, or
// goes on by LocalShare.
//
// # Keys
//
// All begin with Config.Prefix, and have the hash tag of their group, so that on a Cluster those that hold one request are on
// one node: a Transport's buckets are in the group of their host, or all in one if some rule is for any host. Config.Spread
// has each bucket in a group of its own, and gives up that several are charged at once.
//
//	prefix:{group}:bucket:s   string  rates, windows, pause, settings   100 bytes, and 30 for each 16th of a window
//	prefix:{group}:bucket:w   zset    what left sliding windows         100 bytes for each moment something left at
//	prefix:{group}:bucket:m   zset    instances                         80 bytes each
//	prefix:{group}:bucket:h   hash    slots: instance to count          60 bytes each
//	prefix:{group}:bucket:n   hash    slots: how many each wants        60 bytes each
//	prefix:{group}:bucket:e   zset    slots: when leases end            80 bytes each
//
// Each has a time to live that is longer than what it remembers, set with every write: a minute more than a rate or a window
// needs, thirteen seconds for instances, twice Config.SlotLease for slots. prefix:events is the channel of pauses.
//
// # What a user of Redis may do
//
// An ACL needs no more than this, PING and HELLO for the client among it. That asks for more on a Cluster (CLUSTER SLOTS,
// READONLY), and from Redis 7.2 on for CLIENT SETINFO, but does without the latter.
//
//	ACL SETUSER outflow on >secret resetchannels ~outflow:* &outflow:events -@all
//	  +evalsha +eval +get +set +del +pttl +pexpire +exists +time
//	  +zadd +zrem +zcard +zcount +zscore +zrange +zrangebyscore +zrevrangebyscore +zremrangebyscore
//	  +hget +hset +hdel +hgetall +publish +subscribe +unsubscribe +ping +hello
//
// Scripts are run by EVALSHA, and sent again when Redis doesn't know them. Where they may not ask for the time, a clock of the
// instances' has to do: [Config.ClientClock].
//
// # Changed limits
//
// Limits travel with each call, so that a deploy may change them: Config.Version says which are newer, and those hold for
// all, also for instances that still have the older ones. What has left counts under the new limits as it did under the old.
package shared
