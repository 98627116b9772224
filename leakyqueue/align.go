package leakyqueue

import "time"

// Align tells the keys' buckets, or the queue's own without any, when a fixed window that runs now ends on
// the server: those of [limit.FixedWindow] whose length is the given one, or, if that is 0, the only one
// that can be meant. From then on it is a window of known phase: see [limit.State.AlignWindow]. It reports
// whether all of the buckets have such a window and took it: what is past, or further away than two
// windows, is not believed. The error is that of [Queue.Pause].
func (q *Queue) Align(reset time.Time, window time.Duration, keys ...Key) (bool, error) {
	all := true
	err := q.eachBucket(keys, func(b *bucket, now time.Duration) {
		if !b.state.AlignWindow(window, now+min(time.Until(reset), longest), now) {
			all = false
			return
		}
		q.usedLocked(b, now)
		if b.waiting > 0 {
			q.tellLateLocked(b, now)
		}
		q.dispatchLocked(b, now)
	})
	return all && err == nil, err
}
