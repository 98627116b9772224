package shared

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// An errand is one run of a script. All that come while others are on their way go together: what is in flight is the
// clock, so that nobody waits for company, and under load there is much of it.
type errand struct {
	group  *group
	script *redis.Script
	keys   []string
	args   []any
	// done is called with what the script returned, or why it didn't, without a lock held.
	done func(reply any, err error, sent, received time.Duration)

	command *redis.Cmd
}

// command is a call of a script. The client may send it again as its options say, but not when we don't wait for it any
// longer: a Redis that hung finds all that was sent to it when it goes on, and would count each.
type command struct {
	*redis.Cmd
	late *atomic.Bool
}

func (c command) NoRetry() bool { return c.late.Load() }

// call has the script run.
func (e *errand) call(ctx context.Context, late *atomic.Bool) redis.Cmder {
	args := make([]any, 0, 3+len(e.keys)+len(e.args))
	args = append(args, "evalsha", e.script.Hash(), len(e.keys))
	for _, k := range e.keys {
		args = append(args, k)
	}
	e.command = redis.NewCmd(ctx, append(args, e.args...)...)
	e.command.SetFirstKeyPos(3)
	return command{e.command, late}
}

// line is errands that wait to go together. Store.mu guards it.
type line struct {
	waiting []*errand
	flights int
}

const (
	maxFlights  = 4  // of a line at once
	maxTogether = 64 // errands of one flight
)

// lineOf is where errands of a group wait: all together, but not for nodes that may be gone.
func (s *Store) lineOf(g *group) *line {
	if s.several {
		return &g.line
	}
	return s.line
}

// sendLocked has an errand run.
func (s *Store) sendLocked(e *errand) {
	l := s.lineOf(e.group)
	l.waiting = append(l.waiting, e)
	if l.flights < maxFlights && !s.closed {
		l.flights++
		s.flights.Go(func() { s.fly(l) })
	}
}

// fly runs what waits until nothing does.
func (s *Store) fly(l *line) {
	for {
		s.mu.Lock()
		n := min(len(l.waiting), maxTogether)
		if n == 0 {
			l.flights--
			s.mu.Unlock()
			return
		}
		batch := l.waiting[:n:n]
		l.waiting = l.waiting[n:]
		if len(l.waiting) == 0 {
			l.waiting = nil
		}
		s.mu.Unlock()
		s.run(batch)
	}
}

// run runs errands in one round trip. Our own deadline is around it: go-redis waits for seconds, tries again, and takes no
// notice of a context's. What comes after that is true all the same.
func (s *Store) run(batch []*errand) {
	s.counts.roundTrips.Add(1)
	late := new(atomic.Bool)
	deadline := time.AfterFunc(s.deadline(batch), func() {
		late.Store(true)
		for _, e := range batch {
			e.group.fails(errTimeout)
		}
	})
	ctx := s.calls
	sent := s.now()
	if len(batch) == 1 {
		_ = s.rdb.Process(ctx, batch[0].call(ctx, late)) // each command has its error
	} else {
		pipe := s.rdb.Pipeline()
		for _, e := range batch {
			_ = pipe.Process(ctx, e.call(ctx, late))
		}
		_, _ = pipe.Exec(ctx)
	}
	received := s.now()
	for _, e := range batch {
		reply, err := e.command.Result()
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") { // once, and never in a pipeline
			s.counts.roundTrips.Add(1)
			sent := s.now()
			reply, err = e.script.Eval(ctx, s.rdb, e.keys, e.args...).Result()
			s.finish(e, reply, err, sent, s.now())
			continue
		}
		s.finish(e, reply, err, sent, received)
	}
	deadline.Stop()
}

func (s *Store) finish(e *errand, reply any, err error, sent, received time.Duration) {
	if err != nil {
		e.group.fails(err)
	} else {
		e.group.isReached(true)
	}
	e.done(reply, err, sent, received)
}

// deadline is for how long the errands may take.
func (s *Store) deadline(batch []*errand) time.Duration {
	d := s.cfg.Timeout
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch {
		d = max(d, 8*e.group.clock.roundTrip)
	}
	return min(d, time.Minute)
}
