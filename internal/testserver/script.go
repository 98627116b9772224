package testserver

import (
	"net/http"
	"time"
)

// Script answers the first requests step by step, and admits all others. A nil step admits its
// request. With By, every key runs through a script of its own.
//
//	testserver.Script(testserver.Times(3, testserver.Reply(429, "", "Retry-After", "1"))...)
func Script(steps ...http.Handler) *Policy {
	return ScriptFunc(func(i int, _ *http.Request) http.Handler {
		if i < len(steps) {
			return steps[i]
		}
		return nil
	})
}

// ScriptFunc asks step how to answer the i-th request, counted from 0. If step returns nil, the
// request is admitted. step is called for one request at a time.
func ScriptFunc(step func(i int, r *http.Request) http.Handler) *Policy {
	return newPolicy(http.StatusTooManyRequests, func(time.Time) meter { return &script{step: step} })
}

// Times repeats a step of a script.
func Times(n int, step http.Handler) []http.Handler {
	steps := make([]http.Handler, n)
	for i := range steps {
		steps[i] = step
	}
	return steps
}

type script struct {
	uncounted
	step func(int, *http.Request) http.Handler
	seen int
}

// judge counts, unlike other meters: a step is used up by the request that gets it for an answer,
// which is a refused one.
func (s *script) judge(_ time.Duration, r *http.Request, _ int) ruling {
	answer := s.step(s.seen, r)
	s.seen++
	return ruling{refused: answer != nil, answer: answer}
}
