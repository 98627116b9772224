package leakyqueue

import (
	"slices"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// A Quota is what an answer tells of one limit that the upstream counts.
type Quota struct {
	Name, Partition string // as the upstream tells it from its others
	Unit            string // what is counted: "requests", "tokens", …

	Limit, Remaining int64         // -1: unknown
	Reset            time.Duration // until it is renewed; negative: unknown
	Window           time.Duration // 0: unknown
}

// maxQuotas bounds how many are remembered of a bucket.
const maxQuotas = 16

// quota is what is remembered of one, and by what it is found again.
type quota struct {
	limit.Quota
	name, partition string
	size            int64 // where it has no name
	window          time.Duration
	credential      uint64
	foreign         bool // it counts something else than the rule does
}

func (q *quota) is(o *Quota) bool {
	return q.name == o.Name && q.partition == o.Partition && (o.Name != "" || q.size == o.Limit && q.window == o.Window)
}

// within is when a request may leave that the upstream's count leaves room for.
func (l *learnt) within(b *bucket, since time.Duration, ahead, cost int64) time.Duration {
	_, inFlight := l.learner.InFlight()
	spread := limit.SpreadLast
	if b.key.Rule.learning != nil {
		spread = b.key.Rule.learning.Spread
	}
	for i := range l.quotas {
		q := &l.quotas[i]
		if b.fleet != nil {
			q.Among(b.fleet.queues)
		}
		var t time.Duration
		if q.foreign {
			t = q.Earliest(since, 1, 0, l.learner.Sent(), 0, limit.SpreadNone)
		} else {
			t = q.Earliest(since, cost, inFlight+ahead, l.learner.Sent()+ahead, int64(b.place().waiting), spread)
		}
		// What a server says holds nobody for longer than a pause does: then it is asked again.
		since = max(since, min(t, max(q.Heard(), q.Last())+b.key.Rule.q.cfg.MaxPause))
	}
	return since
}

// countsLocked takes up the quotas of an answer: each for the narrowest bucket that counts in its unit, or if
// there is none for the one that the answer is about.
func (q *Queue) countsLocked(t *Ticket, about int, a *Answer, now time.Duration) {
	for i := range a.Quotas {
		at := about
		for j := len(t.buckets) - 1; j >= 0; j-- {
			if l := t.buckets[j].key.Rule.learning; l != nil && l.Unit == a.Quotas[i].Unit {
				at = j
				break
			}
		}
		if b := t.buckets[at].live(); b != nil {
			q.countOneLocked(b, &a.Quotas[i], a, t.flight(at), now)
		}
	}
}

// countLocked takes up the quotas of an answer to a request that had no ticket.
func (q *Queue) countLocked(b *bucket, f limit.Flight, a *Answer, now time.Duration) {
	for i := range a.Quotas {
		q.countOneLocked(b, &a.Quotas[i], a, f, now)
	}
}

func (q *Queue) countOneLocked(b *bucket, c *Quota, a *Answer, f limit.Flight, now time.Duration) {
	l := b.learn
	if l == nil || b.key.Rule.learning == nil {
		return
	}
	if c.Remaining < 0 {
		return
	}
	var known *quota
	for i := range l.quotas {
		if l.quotas[i].is(c) {
			known = &l.quotas[i]
			break
		}
	}
	switch {
	case known == nil && len(l.quotas) >= maxQuotas && !l.forgetQuota(now):
		return
	case known == nil:
		l.quotas = append(l.quotas, quota{name: c.Name, partition: c.Partition, size: c.Limit, window: c.Window, credential: a.Credential, foreign: c.Unit != b.key.Rule.learning.Unit})
		known = &l.quotas[len(l.quotas)-1]
	case known.credential != a.Credential && known.Known(now):
		return
	}
	known.credential = a.Credential
	before := known.Left()
	known.Tell(limit.Count{Limit: c.Limit, Remaining: c.Remaining, Reset: c.Reset, Window: c.Window}, f.Left(), now, f.UpTo(), l.learner.Sent())
	q.alignLocked(b, c, known.Renewed(), now)
	if at := known.Renewed(); known.Left() == 0 && at < limit.Never && at-now > q.cfg.MaxPause {
		q.pauseLocked(b, at, now) // nobody waits for that
	} else if at := b.place(); b.fleet != nil && known.Left() == 0 && before != 0 && known.Renewed() < limit.Never {
		q.pauseFleetLocked(b, known.Renewed(), now) // the others had better hear it before they are refused
	} else if known.Left() == 0 && before != 0 && at.waiting > 0 {
		q.calmsLocked(b)
		q.tellLateLocked(at, now)
	}
}

// forgetQuota forgets one that isn't told any more, if there is any.
func (l *learnt) forgetQuota(now time.Duration) bool {
	for i := range l.quotas {
		if !l.quotas[i].Known(now) {
			l.quotas = slices.Delete(l.quotas, i, i+1)
			return true
		}
	}
	return false
}

// alignLocked has a declared fixed window of the same size, and of unknown phase, end when the upstream's does.
func (q *Queue) alignLocked(b *bucket, c *Quota, reset, now time.Duration) {
	if reset <= now || reset == limit.Never || b.state.Leap() == 0 {
		return
	}
	for _, declared := range b.key.Rule.set.Limits() {
		n, d, ok := declared.Window()
		if !ok || declared.WithHeadroom(0) != limit.FixedWindow(n, d) || int64(n) != c.Limit && d != c.Window || c.Window != 0 && d != c.Window {
			continue
		}
		b.state.AlignWindow(d, reset, now)
	}
}
