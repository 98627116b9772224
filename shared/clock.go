package shared

import (
	"strings"
	"time"
)

// clock tells by what Redis' clock is ahead of ours. A reply that says what it was at some moment between the sending and
// the receipt bounds that from both sides: the least of what receipts say, over some seconds, is what is gone by, so that a
// departure is never before its moment, and late by the fastest way from Redis to here at most. One slow reply changes
// nothing.
type clock struct {
	known     bool
	young     time.Duration // the least since
	old       time.Duration // the least of the span before
	since     time.Duration
	roundTrip time.Duration // a moving average
}

// span is how long the least is remembered, at least: clocks drift by less than 200 µs in it.
const span = 5 * time.Second

// heard notes a reply that said now, which was sent and received at moments of ours.
func (c *clock) heard(sent, received, now time.Duration) {
	offset := received - now
	switch {
	case !c.known:
		*c = clock{known: true, young: offset, old: offset, since: received, roundTrip: received - sent}
		return
	case sent-now > min(c.young, c.old): // Redis' clock went back
		c.young, c.old, c.since = offset, offset, received
	case received-c.since > span:
		c.old, c.young, c.since = c.young, offset, received
	default:
		c.young = min(c.young, offset)
	}
	c.roundTrip += (received - sent - c.roundTrip) / 8
}

// local is a moment by Redis' clock as one of ours.
func (c *clock) local(t time.Duration) time.Duration { return t + min(c.young, c.old) }

// ourClock is what to take for Redis' clock, in microseconds since 1970, if scripts may not ask for that.
func (s *Store) ourClock() (us int64, ours bool) {
	if !s.clockless.Load() {
		return 0, false
	}
	return time.Now().UnixMicro(), true
}

// mayNotAsk reports whether an error is that a script may not ask for the time, and has the instances' clocks do from then
// on.
func (s *Store) mayNotAsk(err error) bool {
	text := strings.ToLower(err.Error())
	isTime := strings.Contains(text, "time") && (strings.Contains(text, "not allowed") || strings.Contains(text, "no permissions"))
	if !isTime && !strings.Contains(text, "can't run this command") { // as Redis 7.0 says, whatever the command
		return false
	}
	if !s.clockless.Swap(true) {
		s.cfg.Logger.Warn("outflow: Redis doesn't let scripts ask for the time: the clocks of all instances have to agree", "err", err)
	}
	return true
}

// lead is how long before it is needed something has to be asked for.
func (c *clock) lead(horizon time.Duration) time.Duration {
	return min(max(2*time.Millisecond, 3*c.roundTrip), max(horizon/2, 2*time.Millisecond))
}
