package workload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Call is one use of an SDK.
type Call func(context.Context) error

// A Result is what came of many calls.
type Result struct {
	OK, Failed int
	Elapsed    time.Duration // from the first call to the last answer
	FirstError error         // one of the failures, or nil
}

// Run makes the calls in their order, as many at once as there are workers, and returns when all have
// ended. When ctx ends, the calls that were not yet made fail with its error.
func Run(ctx context.Context, calls []Call, o Options) Result {
	start := time.Now()
	progress := newProgress(o.Out, len(calls))
	defer progress.stop()

	var (
		next   atomic.Int64
		wg     sync.WaitGroup
		mu     sync.Mutex // guards result
		result Result
	)
	for range o.Workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(calls) {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = calls[i](ctx)
				}
				mu.Lock()
				result.add(err)
				mu.Unlock()
				progress.step(err)
			}
		})
	}
	wg.Wait()
	result.Elapsed = time.Since(start)
	return result
}

func (r *Result) add(err error) {
	if err == nil {
		r.OK++
		return
	}
	r.Failed++
	if r.FirstError == nil {
		r.FirstError = err
	}
}
