package leakyqueue

import "time"

// Overflow says what happens when one more comes where Config.MaxWaiting requests wait. Retries neither
// count as that one, nor give way.
type Overflow uint8

const (
	// RefuseNewcomer refuses who comes with ErrQueueFull.
	RefuseNewcomer Overflow = iota

	// DropOldest refuses who has waited longest, for callers who want fresh answers or none.
	DropOldest

	// DropLowest refuses, of the lowest priority that waits, who came last; or who comes, if it is of no
	// higher priority.
	DropLowest

	// Block has who comes stay outside until there is room, first come first served whatever the
	// priority: the queue is as long as before, and the callers wait in two places. The time outside
	// isn't part of Config.MaxWait, and who is outside is not told early.
	Block
)

// givesWay is who leaves a line that is full, for one of the given level to come in; nil: nobody.
func (q *Queue) givesWay(n *line, newcomer level) (victim *waiter) {
	for _, l := range n.lanes() {
		switch q.cfg.Overflow {
		case DropOldest:
			if w := l.fresh.front; w != nil && (victim == nil || w.before(victim)) {
				victim = w
			}
		case DropLowest:
			if w := l.fresh.back; w != nil && l.key.level > newcomer && (victim == nil || victim.worthMore(w)) {
				victim = w
			}
		}
	}
	return victim
}

// fullLocked reports whether as many wait in n as may.
func (q *Queue) fullLocked(n *line) bool {
	return q.cfg.MaxWaiting > 0 && n.waiting >= q.cfg.MaxWaiting
}

// crowdOutLocked refuses who gives way to a newcomer.
func (q *Queue) crowdOutLocked(victim *waiter, now time.Duration) {
	at := victim.lane.parkedAt
	q.refuseLocked(victim, crowdedOut, at, never, now)
	q.dispatchLocked(at, now)
}

// worthMore reports whether o is to give way before w.
func (w *waiter) worthMore(o *waiter) bool {
	if w.lane.key.level != o.lane.key.level {
		return w.lane.key.level < o.lane.key.level
	}
	return w.before(o)
}

// leaveOutside keeps w, of lane l, outside until its line has room.
func (q *Queue) leaveOutside(w *waiter) {
	w.state = outside
	w.lane.delayed++
	w.lane.line.outside.push(w)
}

// hasRoom notes that somebody has left n.
func (q *Queue) hasRoom(n *line) {
	if n.outside.n > 0 {
		q.roomy = append(q.roomy, n)
	}
}

// letInLocked lets those in who stay outside of lines that have room now.
func (q *Queue) letInLocked(now time.Duration) {
	for len(q.roomy) > 0 {
		n := q.roomy[len(q.roomy)-1]
		q.roomy = q.roomy[:len(q.roomy)-1]
		for n.outside.n > 0 && n.waiting < q.cfg.MaxWaiting {
			w := n.outside.front
			n.outside.remove(w)
			w.lane.delayed--
			w.joined = now
			q.joinLocked(w, now)
		}
	}
}
