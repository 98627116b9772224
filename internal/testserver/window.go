package testserver

import (
	"net/http"
	"time"
)

// Window admits n requests in each fixed window of length d; n is 1 or more, d above 0. Where windows
// begin is for [Policy.FromStart], which is the default, [Policy.FromFirst], [Policy.Aligned] and
// [Policy.Boundaries]. A refusal knows when the window ends.
func Window(n int, d time.Duration) *Policy {
	mustBeWindow("Window", n, d)
	windows := newWindows(d)
	p := newCounting(func(start time.Time) meter { return &window{limit: n, windows: windows, start: start} })
	p.windows = windows
	return p
}

func mustBeWindow(name string, n int, d time.Duration) {
	if n < 1 || d <= 0 {
		panic("testserver: " + name + " wants 1 or more requests per duration above 0")
	}
}

type window struct {
	limit   int
	windows *windows
	start   time.Time

	since time.Duration // the first charge in the window that used counts in
	end   time.Duration // of that window
	used  int
}

func (w *window) judge(now time.Duration, _ *http.Request, cost int) ruling {
	switch {
	case cost > w.limit:
		return ruling{refused: true}
	case cost > w.limit-w.usedAt(now):
		return ruling{refused: true, wait: w.endAt(now) - now}
	}
	return ruling{}
}

func (w *window) charge(now time.Duration, cost int) {
	if now >= w.end {
		w.since, w.end, w.used = now, w.endAt(now), 0
	}
	w.used += cost
}

func (w *window) correct(_, at time.Duration, from, to int) {
	if w.endAt(at) == w.end {
		w.used += to - from
	}
}

func (w *window) release() {}

func (w *window) quota(now time.Duration) Quota {
	return Quota{
		Limit:     int64(w.limit),
		Remaining: int64(max(0, w.limit-w.usedAt(now))),
		Reset:     w.endAt(now) - now,
		Window:    w.windows.length,
	}
}

func (w *window) usedAt(now time.Duration) int {
	if now >= w.end {
		return 0
	}
	return w.used
}

// endAt is when the window ends that a moment is in.
func (w *window) endAt(at time.Duration) time.Duration {
	if at >= w.since && at < w.end { // known: a calendar isn't asked for each request
		return w.end
	}
	return at + w.windows.left(w.start.Add(at), at)
}
