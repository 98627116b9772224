package outflow

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	defaultBudgetRatio = 0.2
	minBudgetRatio     = 0.001
	maxBudgetRatio     = 100.0
	defaultBudgetFloor = 10
	budgetToken        = 1 / minBudgetRatio // a retry, in units of budget.tokens
	maxBudgetTokens    = 100 * budgetToken
)

// Budget bounds the retries of all requests of a Transport together, so that an upstream that is down
// gets little more than its normal load instead of a multiple. It is a token bucket to which every
// request adds Ratio and from which every retry takes 1, up to 100 in store; where it is empty,
// MinPerSecond retries a second are allowed nevertheless, so that a quiet client can retry at all.
// The idea is that of Finagle's RetryBudget. Where there is no budget left, the caller gets what the
// attempt ended with.
//
// Requests that were refused because of a limit are outside the budget: they wait for their turn, and
// their retries leave at the limit's pace.
type Budget struct {
	// Ratio is how many retries each request pays for, 0.001 to 100. Negative: retries are not
	// bounded. Defaults to 0.2.
	Ratio float64

	// MinPerSecond is the rate of retries that is allowed whatever the ratio. Negative: none.
	// Defaults to 10.
	MinPerSecond float64
}

// budget is a compiled Budget; nil: no bound. It is safe for concurrent use.
type budget struct {
	perRequest int64
	tokens     atomic.Int64
	floor      *rate.Limiter
}

func (b Budget) compile() (*budget, error) {
	switch {
	case math.IsNaN(b.Ratio) || b.Ratio > maxBudgetRatio || b.Ratio > 0 && b.Ratio < minBudgetRatio:
		return nil, fmt.Errorf("Ratio is %v, want %v to %v, or 0 for %v, or less for no bound", b.Ratio, minBudgetRatio, maxBudgetRatio, defaultBudgetRatio)
	case math.IsNaN(b.MinPerSecond) || math.IsInf(b.MinPerSecond, 1):
		return nil, fmt.Errorf("MinPerSecond is %v, want a finite number", b.MinPerSecond)
	case b.Ratio < 0:
		return nil, nil
	}
	if b.Ratio == 0 {
		b.Ratio = defaultBudgetRatio
	}
	if b.MinPerSecond == 0 {
		b.MinPerSecond = defaultBudgetFloor
	}
	floor := max(b.MinPerSecond, 0)
	return &budget{
		perRequest: int64(b.Ratio * budgetToken),
		floor:      rate.NewLimiter(rate.Limit(floor), int(math.Ceil(min(floor, math.MaxInt32)))),
	}, nil
}

// deposit counts a request.
func (b *budget) deposit() {
	if b == nil {
		return
	}
	// Requests that come at the same time may go over the maximum together, by as much as they pay.
	if b.tokens.Load()+b.perRequest <= maxBudgetTokens {
		b.tokens.Add(b.perRequest)
	}
}

// withdraw takes one retry, if there is one.
func (b *budget) withdraw() bool {
	if b == nil {
		return true
	}
	for {
		tokens := b.tokens.Load()
		if tokens < budgetToken {
			return b.floor.AllowN(time.Now(), 1)
		}
		if b.tokens.CompareAndSwap(tokens, tokens-budgetToken) {
			return true
		}
	}
}
