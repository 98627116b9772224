package backoff

import (
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"
)

// Span shows the range from which Delay draws.
func (p Policy) Span(attempt int, prev time.Duration) (lo, hi time.Duration) {
	return p.span(attempt, prev)
}

// Skip sets how many delays a BackOff of New has given.
func Skip(b cenkalti.BackOff, attempts int) { b.(*sequence).attempt = attempts }
