package leakyqueue

import (
	"slices"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// A Verdict is what an answer means for those who wait.
type Verdict uint8

const (
	// Accepted: the request was not refused for reasons of load or limits.
	Accepted Verdict = iota
	// Limited: it was refused because of what this client is allowed.
	Limited
	// Overloaded: it was refused because the upstream is unwell for everybody.
	Overloaded
	// Unanswered: there was no answer, or one that says nothing of the upstream's limits.
	Unanswered
)

// An Answer is what an upstream said to one request.
type Answer struct {
	Verdict Verdict

	// Pause is for how long the upstream asked not to be asked again; 0: it didn't say.
	Pause time.Duration

	// Otherwise is for how long nobody leaves after a refusal that says no Pause, as long as nothing is known
	// that tells better. 0 is none.
	Otherwise time.Duration

	// Concurrency says that the refusal is a matter of how many are in flight.
	Concurrency bool

	// Quotas are what the upstream counts.
	Quotas []Quota

	// Credential tells those apart whom the upstream counts apart: a hash, say. Quotas of another credential than
	// the one that a bucket's are of are ignored until those are renewed.
	Credential uint64

	// Bucket is the upstream's own name of what the request was counted in; "": it didn't tell. Two keys of
	// a rule that are counted in one have one bucket from then on: those who wait for the one wait for the other, in
	// their places.
	Bucket string

	// Key is the index, in the demand, of the bucket that the answer is about. A negative one counts from
	// the end: -1 is the last.
	Key int
}

// Heard is what was made of an answer.
type Heard struct {
	Paused bool          // the bucket is, so a retry needs no delay of its own
	Holds  bool          // the ticket may hold a slot until Done
	Rest   time.Duration // in an outage: for how long a retry had better let others go first
}

// Answered tells what the upstream said to the request that holds the ticket. The first call does; further
// ones, and calls after Done, do nothing. Who calls Done without it had no answer.
func (t *Ticket) Answered(a Answer) Heard {
	if t == nil || t.q == nil {
		return Heard{}
	}
	if !t.tracked && a.Verdict == Accepted && len(a.Quotas) == 0 && a.Bucket == "" {
		return Heard{Holds: true} // it may, which is to be found out by who calls Done
	}
	q := t.q
	q.mu.Lock()
	now := q.now()
	heard := q.answeredLocked(t, &a, now)
	heard.Holds = t.slot != nil
	q.unlock(now)
	return heard
}

// Observe tells what an upstream said to a request that had left without a ticket, or whose ticket is
// done. The keys are those of its demand.
func (q *Queue) Observe(left Departure, a Answer, keys ...Key) (Heard, error) {
	var heard Heard
	if a.Key < 0 {
		a.Key += len(keys)
	}
	i := 0
	err := q.eachBucket(keys, func(b *bucket, now time.Duration) {
		if i == a.Key || len(keys) == 0 {
			cost := int64(1)
			f := limit.Untracked(left.at, cost)
			heard = q.hearLocked(b, f, &a, now)
			q.countLocked(b, f, &a, now)
			q.heardLocked(b, now)
		}
		i++
	})
	return heard, err
}

func (q *Queue) answeredLocked(t *Ticket, a *Answer, now time.Duration) (heard Heard) {
	if t.answered {
		return Heard{}
	}
	t.answered = true
	about := a.Key
	if about < 0 {
		about += len(t.buckets)
	}
	for i, b := range t.buckets {
		f := t.flight(i)
		if b = b.live(); b == nil {
			if i != about || a.Verdict == Accepted || a.Verdict == Unanswered {
				continue
			}
			b = q.bucketLocked(t.buckets[i].key, now)
		}
		switch {
		case i == about:
			heard = q.hearLocked(b, f, a, now)
		case b.learn == nil:
		case a.Verdict == Accepted:
			q.acceptedLocked(b, f, t.since, now)
		default:
			b.learn.learner.Lost(f)
		}
	}
	if len(a.Quotas) > 0 && about >= 0 && about < len(t.buckets) {
		q.countsLocked(t, about, a, now)
	}
	if a.Bucket != "" && about >= 0 && about < len(t.buckets) {
		if b := t.buckets[about].live(); b != nil {
			q.identifyLocked(b, a.Bucket, now)
		}
	}
	for _, b := range t.buckets {
		if b = b.live(); b != nil {
			q.heardLocked(b, now)
		}
	}
	return heard
}

// flight is the departure from the i-th bucket, for the one that has its keys now.
func (t *Ticket) flight(i int) limit.Flight {
	if i >= len(t.flights) || !t.flights[i].Tracked() || t.buckets[i].gone && t.buckets[i].into == nil {
		return limit.Untracked(t.since, t.costAt(i))
	}
	if t.buckets[i].gone {
		return t.flights[i].Joined()
	}
	return t.flights[i]
}

// hearLocked has b learn of an answer, and pauses it if that says so.
func (q *Queue) hearLocked(b *bucket, f limit.Flight, a *Answer, now time.Duration) (heard Heard) {
	l := b.learn
	pause := a.Pause
	if b.fleet != nil && (a.Verdict == Limited || len(a.Quotas) > 0) {
		b.fleet.heard(b, a)
	}
	if l != nil {
		for i := range l.quotas {
			l.quotas[i].Hear(a.Verdict == Limited, f.Cost())
		}
	}
	switch a.Verdict {
	case Accepted:
		if l != nil {
			q.acceptedLocked(b, f, now, now)
		}
		return heard
	case Limited:
		b.counts.Limited++
		switch {
		case l != nil:
			p := l.learner.Refused(f, a.Pause, a.Otherwise, a.Concurrency, now)
			if l.slots != nil {
				l.slots.Observe(now, 0, f.InFlight(), true)
			}
			if pause == 0 {
				pause = p
			}
			heard.Paused = true // or who may leave goes by what was learnt
		case pause == 0:
			pause = a.Otherwise
		}
	case Overloaded:
		b.counts.Overloaded++
		if l != nil {
			heard.Rest = l.learner.Overloaded(f, a.Pause, now)
			q.giveUpLocked(b, now)
			if l.slots != nil {
				l.slots.Observe(now, 0, f.InFlight(), true)
			}
		}
	default:
		if l != nil {
			l.learner.Lost(f)
		}
		return heard
	}
	b.blamed = limitedBy
	if a.Verdict == Overloaded {
		b.blamed = overloadedBy
	}
	if pause > 0 {
		end := now + min(pause, longest)
		b.blamedUntil = max(b.blamedUntil, min(end, now+q.cfg.MaxPause))
		q.pauseFleetLocked(b, end, now)
		heard.Paused = true
	} else if at := b.place(); at.waiting > 0 {
		q.tellLateLocked(at, now)
	}
	return heard
}

// acceptedLocked has b learn that a request was accepted.
func (q *Queue) acceptedLocked(b *bucket, f limit.Flight, left, now time.Duration) {
	l := b.learn
	down := l.learner.Down()
	l.learner.Accepted(f, now)
	if l.slots != nil && f.Tracked() {
		l.slots.Observe(now, now-f.Left(), f.InFlight(), false)
	}
	if down && !l.learner.Down() {
		q.rousedLocked(b, now)
	}
}

// giveUpLocked refuses those who wait for b if its upstream has been down for longer than anybody waits for a pause. Who
// comes later waits for the next probe.
func (q *Queue) giveUpLocked(b *bucket, now time.Duration) {
	at := b.place()
	members := []*bucket{b}
	if b.pool != nil {
		members = b.pool.members
	}
	for _, m := range members {
		if since, down := m.learn.learner.DownSince(); !down || now-since < q.cfg.MaxPause || at.waiting == 0 {
			return
		}
	}
	shut, said := at.shutUntil, at.saidUntil
	at.shutUntil, at.saidUntil = now+1, b.learn.learner.Earliest(now, 0)
	q.tellLateLocked(at, now)
	at.shutUntil, at.saidUntil = shut, said
}

// rousedLocked has those retries join their lanes that rest while b's upstream is down: it isn't any more.
func (q *Queue) rousedLocked(b *bucket, now time.Duration) {
	for _, d := range slices.Clone(q.delayed) {
		if d.lane.indexOf(b.place()) >= 0 && d.place != 0 && d.joined > now {
			q.delayed.remove(d)
			d.joined = now
			q.delayed.push(d)
		}
	}
}

// heardLocked lets those leave who may after an answer.
func (q *Queue) heardLocked(b *bucket, now time.Duration) {
	if b.learn == nil {
		return
	}
	if b.learn.slots != nil {
		q.adaptSlotsLocked(b, now)
	}
	q.calmsLocked(b)
	q.returnedLocked(b, now)
}
