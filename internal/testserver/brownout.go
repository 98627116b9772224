package testserver

import (
	"net/http"
	"time"
)

// BrownOut refuses everything with 503 from one time after the upstream's start until just before another: the
// upstream is unwell, whoever asks. A refusal knows when it is over.
func BrownOut(from, to time.Duration) *Policy {
	return newPolicy(http.StatusServiceUnavailable, func(time.Time) meter { return &brownOut{from: from, to: to} })
}

type brownOut struct {
	uncounted
	from, to time.Duration
}

func (b *brownOut) judge(now time.Duration, _ *http.Request, _ int) ruling {
	if now < b.from || now >= b.to {
		return ruling{}
	}
	return ruling{refused: true, wait: b.to - now}
}

// uncounted is what meters have in common that count nothing.
type uncounted struct{}

func (uncounted) charge(time.Duration, int) {}
func (uncounted) release()                  {}
func (uncounted) quota(time.Duration) Quota { return Quota{} }
