package leakyqueue

import (
	"context"
	"maps"
	"slices"
)

// Close refuses newcomers with ErrClosed from now on, lets those who wait leave at their turns, and
// returns when nobody waits and every ticket is given back. If ctx ends before that, those who still
// wait are refused with ErrClosed, and Close returns the context's cause. Until it returns, retries
// (demands with a Place) are let in; afterwards nobody is. Close may be called again, and from
// several goroutines.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	q.closing = true
	q.unlock(q.now())
	select {
	case <-q.drained:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	now := q.now()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.timer.Stop()
	close(q.drained)
	q.leaveAllLocked()
	lines := slices.Collect(maps.Values(q.lines))
	for b := range q.all {
		if b.alone != nil {
			lines = append(lines, b.alone)
		}
	}
	for _, n := range lines {
		for _, l := range n.lanes() {
			for _, w := range l.inOrder() {
				q.refuseLocked(w, closed, l.parkedAt, never, now)
			}
		}
		for n.outside.n > 0 {
			q.refuseLocked(n.outside.front, closed, nil, never, now)
		}
	}
	for len(q.delayed) > 0 {
		q.refuseLocked(q.delayed[0].waiter, closed, nil, never, now)
	}
	q.unlock(now)
	return context.Cause(ctx)
}
