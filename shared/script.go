package shared

// What the scripts keep in Redis. Every key is passed in KEYS and has the bucket's hash tag, and every write sets
// its TTL anew: as long as what it remembers counts, and a minute more (an hour for a learnt rate).
//
//	<prefix>{<tag>}:<key>:s  STRING  the state of a bucket's limits, and the limits themselves. About 180 bytes with
//	                                 one rate, 70 more for each further limit; a fixed window up to 600 more, as it
//	                                 remembers 17 entries, and one more for each departure that is reserved in a
//	                                 later window.
//	<prefix>{<tag>}:<key>:w  ZSET    what left the bucket's sliding windows; only if it has any. Up to n entries of
//	                                 about 130 bytes each: one for each moment at which something left.
//	<prefix>{<tag>}:<key>:m  ZSET    the instances that use the bucket, with the moment until which each counts as
//	                                 alive: 3 s after its last heartbeat. 10 s more of TTL. 100 bytes each.
//
// The state is text: numbers between blanks, then a bar, then the limits as a [bucketKeys] has them in spec:
//
//	1 clock off version live pause last 0 <limits' states>|<limits>
//
// The bucket's clock is Redis' and off us more, where off is by how much Redis' clock was seen to go back since the
// bucket was first used. So it never goes back, and whatever is written in its time stays as old as it is, if Redis'
// clock steps back: what was reserved is due in as long a time as before, a debt stays a debt, and a window forgets
// nothing. What begins by the wall clock (ByClock, ByKey, Daily, Monthly, counters) begins by Redis' clock as it is
// now. A step forward can't be told from an idle time: a rate lets what was reserved, at most a horizon's worth, and
// its burst leave again; a window forgets what left in as long a time as the clock skipped.
//
// What a user needs in Redis' ACL: the keys ~<prefix>*, the channel, and +evalsha +eval +time +get +set +del +pttl
// +pexpire +publish +zadd +zcard +zcount +zrange +zrangebyscore +zrevrangebyscore +zremrangebyscore +zscore.

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lease.lua
	leaseLua string
	//go:embed lease_state.lua
	leaseStateLua string
	//go:embed lease_limits.lua
	leaseLimitsLua string
	//go:embed lease_buckets.lua
	leaseBucketsLua string
	//go:embed lease_depart.lua
	leaseDepartLua string
	//go:embed pause.lua
	pauseLua string

	// leaseScript takes [call.keys] and [call.args]; [parseReply] reads what it returns.
	leaseScript = redis.NewScript(leaseLua + leaseStateLua + leaseLimitsLua + leaseBucketsLua + leaseDepartLua)

	// pauseScript takes [pause.keys] and [pause.args]; [parsePaused] reads what it returns.
	pauseScript = redis.NewScript(pauseLua)
)
