package headers

import (
	"strings"
	"time"
)

// maxDelta is the longest number that is read as seconds until the reset. RapidAPI sends 12 days and
// quotas are monthly, so a day or a week would be too short.
const maxDelta = 31 * day

// epochScale is a band of Unix times in one unit.
type epochScale struct {
	unit        time.Duration
	from, until int64
}

// epochScales are the years 2000 to 2100 in four units. The bands overlap neither each other nor the
// deltas, and don't depend on the clock: a client whose clock is wrong must not read a number in
// another unit. A past time is past; it is never taken for a delta instead.
var epochScales = [...]epochScale{
	{time.Second, epoch2000, epoch2100},
	{time.Millisecond, epoch2000 * 1e3, epoch2100 * 1e3},
	{time.Microsecond, epoch2000 * 1e6, epoch2100 * 1e6},
	{time.Nanosecond, epoch2000 * 1e9, epoch2100 * 1e9},
}

const (
	epoch2000 = 946_684_800
	epoch2100 = 4_102_444_800
)

// at is the Unix time d, in the scale's unit.
func (e *epochScale) at(d decimal) time.Time {
	perSecond := int64(time.Second / e.unit)
	return time.Unix(d.whole/perSecond, d.whole%perSecond*int64(e.unit)+d.nano/perSecond)
}

// clock is what a field's name says of the number in it.
type clock uint8

const (
	byMagnitude clock = iota // nothing: the number's own size tells
	inSeconds                // a delta in seconds
	inMillis                 // a delta or a Unix time, in milliseconds
	asInstant                // a Unix time
)

// parseReset reads a whole field line that says when a quota is renewed: the latest of its members.
// The result is unknown, and ok, for a number that is neither a believable delta nor an epoch.
func parseReset(s string, c clock, base *baseTime) (reset time.Duration, ok bool) {
	return parseResetIn(s, c, time.Second, base)
}

// parseResetIn is parseReset with deltas in a unit, where the clock doesn't tell one.
func parseResetIn(s string, c clock, unit time.Duration, base *baseTime) (reset time.Duration, ok bool) {
	reset = unknown
	for member := ""; s != ""; {
		member, s = cutMember(s)
		if d, valid := resetMember(unquote(trim(member)), c, unit, base); valid {
			reset, ok = max(reset, d), true
		}
	}
	return reset, ok
}

func resetMember(s string, c clock, unit time.Duration, base *baseTime) (time.Duration, bool) {
	digits, negative := strings.CutPrefix(s, "-")
	if d, ok := parseDecimal(digits); ok {
		if negative {
			return unknown, true
		}
		return c.reset(d, unit, base), true
	}
	if d, over, ok := parseDuration(s); ok {
		if over {
			return unknown, true
		}
		return d, true
	}
	if t, ok := parseTime(s, base); ok {
		return base.until(t), true
	}
	return zoneless(s, base)
}

// reset reads a number as c says. unit is that of a delta, if c doesn't know better.
func (c clock) reset(d decimal, unit time.Duration, base *baseTime) time.Duration {
	if d.over {
		return unknown
	}
	if c == inMillis {
		unit = time.Millisecond
	}
	// A delta of weeks in milliseconds is less likely than a Unix time from a server that otherwise sends those.
	delta := d.times(unit)
	isDelta := c != asInstant && delta <= maxDelta
	if isDelta && (c != byMagnitude || unit == time.Second || d.whole < epoch2000) {
		return delta
	}
	for i := range epochScales {
		scale := &epochScales[i]
		if c == inSeconds || c == inMillis && scale.unit != unit {
			continue
		}
		if scale.from <= d.whole && d.whole < scale.until {
			return base.until(scale.at(d))
		}
	}
	if isDelta {
		return delta
	}
	return unknown
}

// zoneless reads a time that names no zone as UTC, if that puts it within a month of now. A zone of
// the server's own would be hours off at most, and then Reset is hours off; Retry-After, which is
// obeyed to the second, has no such form.
func zoneless(s string, base *baseTime) (time.Duration, bool) {
	if len(s) != len(time.DateTime) || s[4] != '-' {
		return 0, false
	}
	t, err := time.Parse(time.DateTime, s)
	if err != nil || t.Sub(base.time()).Abs() > maxDelta {
		return 0, false
	}
	return base.until(t), true
}
