package leakyqueue

import (
	"time"
)

// Earliest returns when the demanded request could leave if it came now, as far as rates and pauses
// decide it: those who wait for the same buckets go before it. It takes nothing. The error is
// [ErrInvalid].
func (q *Queue) Earliest(d Demand) (time.Time, error) {
	q.mu.Lock()
	now := q.now()
	defer q.unlock(now) // a bucket that is new is to be forgotten some time
	var few [4]*bucket
	buckets, r, err := q.demandedLocked(few[:0], &d, new(Ticket), now)
	if err != nil {
		return time.Time{}, err
	}
	_, t := q.behindLocked(buckets, &r, d.Place, nil, now)
	return q.epoch.Add(max(t, now+d.delay())), nil
}
