package leakyqueue

import "time"

// Cancel gives up the turn of a request that won't be sent, and the slots of its ticket. Its charge
// isn't given back if the request had left when Enter returned. Further calls do nothing.
func (t Turn) Cancel() {
	if t.w != nil {
		t.q.cancel(t.w)
	} else {
		t.ticket.Done()
	}
}

// cancel ends w's wait, unless it has ended already with a refusal or a cancellation, and reports that.
func (q *Queue) cancel(w *waiter) (time.Duration, bool) {
	q.mu.Lock()
	now := q.now()
	if w.state == refused || w.state == cancelled {
		q.mu.Unlock()
		return now, false
	}
	q.cancelLocked(w, now)
	q.unlock(now)
	return now, true
}

// cancelLocked ends w's wait, and gives its turn to the next if it had come already: the caller has
// gone and would send nothing.
func (q *Queue) cancelLocked(w *waiter, now time.Duration) {
	l := w.lane
	for _, b := range l.line.buckets {
		b.counts.Cancelled++
	}
	if w.state != departed {
		at, headed := l.parkedAt, l.heads(w)
		q.removeLocked(w)
		w.state = cancelled
		// Where it headed no line, or one whose next head asks for just as much of the same, nobody's
		// turn has changed.
		if headed && !(l.parkedAt == at && at.front(now) == l && l.head().asksAsMuchAs(w)) {
			q.dispatchLocked(at, now)
		}
		q.unclaimLocked(w)
		return
	}
	w.state = cancelled
	for i := range l.line.buckets {
		b := w.leftFrom(i)
		b.settle(w.deadline, w.deadline+time.Duration(w.at), w.costAt(i), 0, now) // the deadline is when it was charged
		b.counts.Departed--
	}
	if w.ticket != nil {
		q.answeredLocked(w.ticket, &Answer{Verdict: Unanswered}, now)
		if w.ticket.slot != nil {
			q.giveBackLocked(w.ticket, now)
		}
	}
	for _, b := range l.line.buckets {
		q.freedLocked(b)
		q.dispatchLocked(b, now)
	}
}
