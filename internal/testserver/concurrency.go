package testserver

import (
	"net/http"
	"time"
)

// Concurrency admits n requests at once, 1 or more. A request counts from its arrival until its
// handler has returned; see [After] for handlers that take their time.
func Concurrency(n int) *Policy {
	if n < 1 {
		panic("testserver: Concurrency wants 1 or more")
	}
	return newPolicy(http.StatusTooManyRequests, func(time.Time) meter { return &concurrency{limit: n} })
}

type concurrency struct {
	limit    int
	inFlight int
}

func (c *concurrency) judge(time.Duration, *http.Request, int) ruling {
	return ruling{refused: c.inFlight >= c.limit}
}

func (c *concurrency) charge(time.Duration, int) { c.inFlight++ }

func (c *concurrency) release() { c.inFlight-- }

func (c *concurrency) quota(time.Duration) Quota {
	return Quota{Limit: int64(c.limit), Remaining: int64(c.limit - c.inFlight)}
}
