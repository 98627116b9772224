package limit

import (
	"testing"
	"time"
)

func TestScaled(t *testing.T) {
	for _, c := range []struct {
		l     Limit
		share float64
		want  Limit
	}{
		{PerSecond(100), 0.25, PerSecond(25)},
		{PerSecond(100).WithBurst(10), 0.25, PerSecond(25).WithBurst(2)},
		{PerSecond(1).WithBurst(3), 0.01, PerSecond(0.01)},
		{FixedWindow(10, time.Minute), 0.25, FixedWindow(2, time.Minute)},
		{FixedWindow(3, time.Minute).ByClock(), 0.25, FixedWindow(1, time.Minute).ByClock()},
		{SlidingWindow(100, time.Minute).WithBurst(10), 0.5, SlidingWindow(50, time.Minute).WithBurst(5)},
		{Concurrent(10).WithHeadroom(0.5), 0.5, Concurrent(5).WithHeadroom(0.5)},
		{Concurrent(10), 0.01, Concurrent(1)},
		{AdaptiveConcurrency(2, 20), 0.25, AdaptiveConcurrency(1, 5)},
		{AdaptiveRate(2, 20), 0.5, PerSecond(1)},
		{PerSecond(100), 1, PerSecond(100)},
		{PerSecond(100), 0, PerSecond(100)},
	} {
		got := c.l.Scaled(c.share)
		if got != c.want {
			t.Errorf("%v.Scaled(%v) is %v, want %v", c.l, c.share, got, c.want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%v.Scaled(%v): %v", c.l, c.share, err)
		}
	}
}
