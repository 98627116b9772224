package shared_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/outflow-go/outflow/limit"
	"github.com/outflow-go/outflow/shared"
)

// A share of the limits is that, too, for an instance that goes on by itself.
func TestLocalShareIsOfTheStoresShare(t *testing.T) {
	srv := miniredis.RunT(t)
	f := startFleet(t, 1, srv.Addr(), shared.Config{Share: 0.25}, limit.PerSecond(400))
	time.AfterFunc(time.Second, srv.Close)
	f.run(3*time.Second, 16, 0)
	all := f.departures()
	for _, c := range []struct {
		name string
		from time.Duration
	}{{"with Redis", 0}, {"without Redis", 1500 * time.Millisecond}} {
		if n := within(all, c.from, c.from+time.Second); n < 90 || n > 110 {
			t.Errorf("%s: %d departures in a second, want 100", c.name, n)
		}
	}
}
