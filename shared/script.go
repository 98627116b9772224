package shared

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lease.lua
	leaseLua string
	//go:embed pause.lua
	pauseLua string

	// leaseScript takes [call.keys] and [call.args]; [parseReply] reads what it returns.
	leaseScript = redis.NewScript(leaseLua)

	// pauseScript takes [pause.keys] and [pause.args]; [parsePaused] reads what it returns.
	pauseScript = redis.NewScript(pauseLua)
)
