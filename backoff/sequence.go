package backoff

import (
	"math"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"
)

// New returns a cenkalti BackOff whose delays are those of p: the first call of NextBackOff is attempt
// 1, and Reset starts over. It never returns Stop. Only one goroutine at a time may use it. The error
// is that of Validate, so a Policy that was checked once needs no check here.
func (p Policy) New() (cenkalti.BackOff, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &sequence{policy: p}, nil
}

// sequence remembers the two numbers that Delay asks for.
type sequence struct {
	policy Policy

	attempt int
	prev    time.Duration
}

func (s *sequence) NextBackOff() time.Duration {
	// Where int has 32 bits, a loop at the Floor counts over its end in 25 days; that must not
	// bring the short delays of the beginning back.
	if s.attempt < math.MaxInt {
		s.attempt++
	}
	s.prev = s.policy.Delay(s.attempt, s.prev)
	return s.prev
}

func (s *sequence) Reset() { s.attempt, s.prev = 0, 0 }
