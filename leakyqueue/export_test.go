package leakyqueue

import "math"

// ClaimNothing has nobody claim a bucket, however often it is passed over.
func (q *Queue) ClaimNothing() { q.patience = math.MaxInt }
