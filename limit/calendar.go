package limit

import "time"

// A calendar says when days or months begin by the clocks of some place.
type calendar struct {
	monthly           bool
	day, hour, minute int // the day of months only
	loc               *time.Location
	epoch             time.Time
}

func newCalendar(l Limit, loc *time.Location, o origin) *calendar {
	return &calendar{monthly: l.phase == monthly, day: l.day, hour: l.hour, minute: l.minute, loc: loc, epoch: time.Unix(0, o.wall)}
}

// at returns when the window in which t is begins and ends.
func (c *calendar) at(t time.Duration) (start, end time.Duration) {
	local := c.epoch.Add(t).In(c.loc)
	windows := 0
	for start = c.begin(local, windows); start > t; start = c.begin(local, windows) {
		windows--
	}
	return start, c.next(local, windows, start)
}

// following returns when the window begins and ends that comes some windows after the one that ends at end.
func (c *calendar) following(end time.Duration, windows int64) (time.Duration, time.Duration) {
	if windows == 0 {
		return c.at(end)
	}
	// No moment is as far away as that many days.
	skip := int(min(windows, 150*366))
	local := c.epoch.Add(end).In(c.loc)
	start := c.begin(local, skip)
	return start, c.next(local, skip, start)
}

// next is when the window after the given one begins. A place that moved over the date line may have
// skipped a day: then two windows begin at once, and the first of them is none.
func (c *calendar) next(local time.Time, windows int, start time.Duration) time.Duration {
	end := start
	for end <= start && end < Never {
		windows++
		end = c.begin(local, windows)
	}
	return end
}

// begin is when the window begins that comes some windows after the one that begins on local's day or
// in its month.
func (c *calendar) begin(local time.Time, windows int) time.Duration {
	year, month, day := local.Date()
	if c.monthly {
		month += time.Month(windows)
		day = c.day
	} else {
		day += windows
	}
	return min(Never, firstAt(time.Date(year, month, day, c.hour, c.minute, 0, 0, c.loc), c.hour, c.minute).Sub(c.epoch))
}

// firstAt is the first moment at which the clocks show what t was made of, or later where they skip
// it. Which moment [time.Date] chooses in either case isn't defined.
func firstAt(t time.Time, hour, minute int) time.Time {
	start, end := t.ZoneBounds()
	want := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
	shown := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	switch {
	case shown == want:
		if start.IsZero() {
			return t
		}
		// Before the last change the clocks may have shown the same.
		_, now := t.Zone()
		_, before := start.Add(-1).Zone()
		if first := t.Add(time.Duration(now-before) * time.Second); first.Before(start) {
			return first
		}
		return t
	case (shown-want+36*time.Hour)%(24*time.Hour) > 12*time.Hour:
		return start // t came out later than it was made
	default:
		return end
	}
}
