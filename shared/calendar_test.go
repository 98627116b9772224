package shared

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/limit"
)

// TestCalendarIsGo has days and months, those on which clocks change too, filled one after the other: the script
// has their ends from Go, and counts what limit.State counts.
func TestCalendarIsGo(t *testing.T) {
	place, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	eachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, begin := range []time.Time{
			time.Date(2026, 3, 5, 17, 3, 0, 0, time.UTC),
			time.Date(2026, 10, 29, 17, 3, 0, 0, time.UTC),
		} {
			for _, l := range []limit.Limit{
				limit.Daily(4, 0, 0, place),
				limit.Daily(4, 2, 30, place),
				limit.Daily(4, 0, 0, place).WithHeadroom(0.5),
				limit.Monthly(5, 8, 2, 30, place),
				limit.Monthly(5, 28, 0, 0, time.UTC).WithHeadroom(0.3),
			} {
				set, err := limit.Join(l)
				if err != nil {
					t.Fatal(err)
				}
				b := testBucket(t, l)
				st := set.NewState(begin, b.key)
				from := begin.UnixMicro()
				c := asks(1, b)
				c.clock = from
				for i := range 30 {
					// What Redis' clock shows isn't known to the minute.
					c.around = time.UnixMicro(c.clock).Add(time.Duration(i%3-1) * time.Minute)
					c.runs[0].high = i%4 == 3
					c.runs[0].costs[0] = int64(1 + i%2)
					now := time.Duration(c.clock-from) * time.Microsecond
					want := st.Earliest(now, now, 0, c.runs[0].costs[0], c.runs[0].high)
					rep := c.do(t, rdb)
					if len(rep.slots) != 1 || rep.slots[0].at-from != int64((want+999)/1000) {
						t.Fatalf("%v from %v: departure %d at %v, want %v after", l, begin, i, rep.moments(from), want)
					}
					c.clock = rep.slots[0].at
					at := time.Duration(c.clock-from) * time.Microsecond
					st.Charge(at, at, c.runs[0].costs[0])
				}
			}
		}
	})
}
