package leakyqueue

import "math"

// ClaimNothing has nobody claim a bucket, however often it is passed over.
func (q *Queue) ClaimNothing() { q.patience = math.MaxInt }

// Lookup finds the bucket of a key, and does nothing with it.
func (q *Queue) Lookup(k Key) {
	q.mu.Lock()
	q.bucketLocked(k, 0)
	q.mu.Unlock()
}
