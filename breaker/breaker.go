// Package breaker puts circuit breakers of github.com/sony/gobreaker/v2 on the buckets of an
// [outflow.Transport]. It is a module of its own, so that who doesn't want any doesn't get gobreaker's
// requirements.
//
//	outflow.Rule{
//		Match:   "api.example.com/",
//		Breaker: breaker.New(gobreaker.Settings{Timeout: 10 * time.Second}),
//	}
package breaker

import (
	"context"
	"errors"

	"github.com/sony/gobreaker/v2"

	"github.com/outflow-go/outflow"
)

// New returns what makes a breaker for each bucket, for Rule.Breaker or Config.Breaker. All of them have
// the settings, but for the Name, to which the bucket's key is added after a blank.
//
// Without an IsExcluded of their own, attempts that the caller gave up count neither as failures nor as
// successes.
func New(settings gobreaker.Settings) func(key string) outflow.Breaker {
	if settings.IsExcluded == nil {
		settings.IsExcluded = CallerGaveUp
	}
	return func(key string) outflow.Breaker {
		s := settings
		switch {
		case s.Name == "":
			s.Name = key
		case key != "":
			s.Name += " " + key
		}
		return gobreaker.NewTwoStepCircuitBreaker[any](s)
	}
}

// CallerGaveUp reports whether err is that of an attempt whose caller lost interest, which says nothing
// about the upstream.
func CallerGaveUp(err error) bool { return errors.Is(err, context.Canceled) }
