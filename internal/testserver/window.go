package testserver

import (
	"net/http"
	"time"
)

// Window admits n requests in each fixed window of length d; n is 1 or more, d above 0. The windows
// follow one another from the upstream's start, not from the clock's full hours, so that a client can't know
// their phase unless it is told. A refusal knows when the next window begins.
func Window(n int, d time.Duration) *Policy {
	if n < 1 || d <= 0 {
		panic("testserver: Window wants 1 or more requests per duration above 0")
	}
	return newPolicy(http.StatusTooManyRequests, func() meter { return &window{limit: n, length: d} })
}

type window struct {
	limit  int
	length time.Duration
	index  int64 // of the window that used counts in
	used   int
}

func (w *window) judge(now time.Duration, _ *http.Request) ruling {
	if w.usedAt(now) >= w.limit {
		return ruling{refused: true, wait: w.untilNext(now)}
	}
	return ruling{}
}

func (w *window) charge(now time.Duration) {
	w.used = w.usedAt(now) + 1
	w.index = int64(now / w.length)
}

func (w *window) release() {}

func (w *window) quota(now time.Duration) Quota {
	return Quota{
		Limit:     int64(w.limit),
		Remaining: int64(w.limit - w.usedAt(now)),
		Reset:     w.untilNext(now),
		Window:    w.length,
	}
}

func (w *window) usedAt(now time.Duration) int {
	if int64(now/w.length) != w.index {
		return 0
	}
	return w.used
}

func (w *window) untilNext(now time.Duration) time.Duration { return w.length - now%w.length }
