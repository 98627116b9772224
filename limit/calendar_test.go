package limit_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outflow-go/outflow/limit"
)

// scanned finds when windows begin by looking at the clocks of a place minute by minute: at the first
// moment of a day at which they show hour:minute or later.
func scanned(from, to time.Time, loc *time.Location, day, hour, minute int) []time.Time {
	var begins []time.Time
	last := from.In(loc).Format(time.DateOnly) // has begun before
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		local := t.In(loc)
		today := local.Format(time.DateOnly)
		if today != last && (day == 0 || local.Day() == day) && local.Hour()*60+local.Minute() >= hour*60+minute {
			begins, last = append(begins, t), today
		}
	}
	return begins
}

func TestCalendarWindowsBeginByTheClocksOfThePlace(t *testing.T) {
	for _, c := range []struct {
		zone             string
		from             time.Time // a few days before the clocks change
		day              int       // 0: daily
		hour, minute     int
		shortest, length time.Duration // of the windows around
	}{
		{"America/Los_Angeles", date(2026, 3, 5), 0, 0, 0, 23 * time.Hour, 24 * time.Hour},
		{"America/Los_Angeles", date(2026, 10, 28), 0, 0, 0, 24 * time.Hour, 25 * time.Hour},
		{"America/Los_Angeles", date(2026, 3, 5), 0, 2, 30, 23*time.Hour + 30*time.Minute, 24 * time.Hour}, // 02:30 doesn't exist: from 03:00
		{"America/Los_Angeles", date(2026, 10, 28), 0, 1, 30, 24 * time.Hour, 25 * time.Hour},              // 01:30 exists twice: from the first
		{"Europe/Berlin", date(2026, 3, 26), 0, 0, 0, 23 * time.Hour, 24 * time.Hour},
		{"Europe/Berlin", date(2026, 10, 22), 0, 0, 0, 24 * time.Hour, 25 * time.Hour},
		{"Europe/Berlin", date(2026, 3, 26), 0, 2, 0, 23 * time.Hour, 24 * time.Hour},
		{"Europe/Berlin", date(2026, 10, 22), 0, 3, 0, 24 * time.Hour, 25 * time.Hour},
		{"Europe/Berlin", date(2026, 10, 22), 0, 2, 0, 24 * time.Hour, 25 * time.Hour},
		{"Australia/Lord_Howe", date(2026, 4, 2), 0, 0, 0, 24 * time.Hour, 24*time.Hour + 30*time.Minute},
		{"Australia/Lord_Howe", date(2026, 10, 1), 0, 0, 0, 23*time.Hour + 30*time.Minute, 24 * time.Hour},
		{"Australia/Lord_Howe", date(2026, 10, 1), 0, 2, 15, 23*time.Hour + 45*time.Minute, 24 * time.Hour}, // from 02:30
		{"Africa/Cairo", date(2026, 4, 21), 0, 0, 0, 23 * time.Hour, 24 * time.Hour},                        // midnight doesn't exist
		{"America/Havana", date(2026, 10, 29), 0, 0, 30, 24 * time.Hour, 25 * time.Hour},
		{"Pacific/Apia", date(2011, 12, 27), 0, 0, 0, 24 * time.Hour, 24 * time.Hour}, // a day was skipped
		{"Asia/Kathmandu", date(2026, 5, 1), 0, 9, 0, 24 * time.Hour, 24 * time.Hour},
		{"UTC", date(2026, 1, 20), 1, 0, 0, 28 * 24 * time.Hour, 31 * 24 * time.Hour},
		{"UTC", date(2028, 1, 20), 1, 0, 0, 29 * 24 * time.Hour, 31 * 24 * time.Hour},
		{"Europe/Berlin", date(2026, 1, 20), 28, 23, 59, 28 * 24 * time.Hour, 31 * 24 * time.Hour},
		{"America/Los_Angeles", date(2026, 1, 20), 8, 2, 30, 28*24*time.Hour - 30*time.Minute, 31 * 24 * time.Hour},
	} {
		loc := zone(t, c.zone)
		to := c.from.AddDate(0, 0, 9)
		l := limit.Daily(1, c.hour, c.minute, loc)
		if c.day > 0 {
			to = c.from.AddDate(0, 6, 0)
			l = limit.Monthly(1, c.day, c.hour, c.minute, loc)
		}
		begins := scanned(c.from, to, loc, c.day, c.hour, c.minute)
		set, err := limit.Join(l)
		if err != nil {
			t.Fatal(err)
		}
		// One leaves in each window: the moments of departure are a guard after its begin.
		st := set.NewState(c.from, "")
		now := begins[0].Sub(c.from)
		shortest, longest := time.Duration(1<<62), time.Duration(0)
		for i, want := range begins {
			now = leave(&st, now, 1)
			if got := c.from.Add(now - 50*ms); !got.Equal(want) {
				t.Errorf("%v: window %d begins at %v, want %v", l, i, got.In(loc), want.In(loc))
				break
			}
			if i > 0 {
				shortest, longest = min(shortest, want.Sub(begins[i-1])), max(longest, want.Sub(begins[i-1]))
			}
		}
		if shortest != c.shortest || longest != c.length {
			t.Errorf("%v: windows last from %v to %v, want %v to %v", l, shortest, longest, c.shortest, c.length)
		}
		if c.zone == "Pacific/Apia" {
			continue // those far behind have the skipped day counted: their answer is too early
		}
		// The same, all at once.
		st = set.NewState(c.from, "")
		now = begins[0].Sub(c.from)
		for i, want := range begins {
			if got := c.from.Add(st.Earliest(now, now, int64(i), 1, false) - 50*ms); !got.Equal(want) {
				t.Errorf("%v: behind %d at %v, want %v", l, i, got.In(loc), want.In(loc))
			}
		}
	}
}

func date(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// A calendar window is as any other with a known phase: not over, not idle.
func TestCalendarWindowProperty(t *testing.T) {
	la := zone(t, "America/Los_Angeles")
	begins := scanned(date(2026, 2, 25), date(2026, 3, 20), la, 0, 2, 30)
	const n, guard = 5, 50 * ms
	span := func(t time.Duration) (start, end time.Duration) {
		for i := range begins[1:] {
			start, end = begins[i].Sub(epoch), begins[i+1].Sub(epoch)
			if t < end {
				break
			}
		}
		return start, end
	}
	rapid.Check(t, func(t *rapid.T) {
		w := naive{n: n, guard: guard, span: span}
		l := limit.Daily(n, 2, 30, la)
		if rapid.Bool().Draw(t, "headroom") {
			l, w.kept = l.WithHeadroom(0.4), 2
		}
		st := newState(t, l)
		var all []left
		now := time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(12*time.Hour)).Draw(t, "gap"))
			cost, high := rapid.Int64Range(1, n).Draw(t, "cost"), rapid.Bool().Draw(t, "high")
			at := st.Earliest(now, now, 0, cost, high)
			if at > 15*24*time.Hour {
				return
			}
			if !w.allows(all, at, cost, high) {
				t.Fatalf("%v: %d may leave at %v after %v", l, cost, at, all)
			}
			if at > now && (w.allows(all, at-1, cost, high) || w.allows(all, now, cost, high)) {
				t.Fatalf("%v: %d must wait till %v after %v", l, cost, at, all)
			}
			now = at
			st.Charge(at, at, cost)
			all = append(all, left{at, cost})
		}
	})
}

// A daily quota that was used up at noon is back at midnight, not at noon.
func ExampleDaily() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	set, err := limit.Join(limit.Daily(1000, 0, 0, berlin))
	if err != nil {
		panic(err)
	}
	start := time.Date(2026, 10, 24, 12, 0, 0, 0, berlin) // on Sunday clocks go back
	bucket := set.NewState(start, "")
	for day := range 3 {
		at := bucket.Earliest(0, 0, int64(1000*day), 1000, false)
		fmt.Println(start.Add(at).In(berlin).Format("Mon 15:04:05.00 MST"))
	}
	// Output:
	// Sat 12:00:00.00 CEST
	// Sun 00:00:00.05 CEST
	// Mon 00:00:00.05 CET
}
