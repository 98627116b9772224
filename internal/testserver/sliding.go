package testserver

import (
	"math/bits"
	"net/http"
	"time"
)

// SlidingLog admits n requests in every window of length d, wherever it begins: of those in [t, t+d), for
// all t. n is 1 or more, d above 0. It keeps the time of each. A refusal knows when there will be room.
func SlidingLog(n int, d time.Duration) *Policy {
	mustBeWindow("SlidingLog", n, d)
	return newCounting(func(time.Time) meter { return &slidingLog{limit: n, length: d} })
}

type slidingLog struct {
	limit  int
	length time.Duration
	log    []logged // those that may still count, by time
	used   int      // by all of log
}

type logged struct {
	at   time.Duration
	cost int
}

func (s *slidingLog) judge(now time.Duration, _ *http.Request, cost int) ruling {
	if cost > s.limit {
		return ruling{refused: true}
	}
	recent, used := s.recent(now)
	if used+cost <= s.limit {
		return ruling{}
	}
	// Until enough of the oldest have gone.
	wait := time.Duration(0)
	for i := 0; used+cost > s.limit; i++ {
		used -= recent[i].cost
		wait = recent[i].at + s.length - now
	}
	return ruling{refused: true, wait: wait}
}

func (s *slidingLog) charge(now time.Duration, cost int) {
	recent, used := s.recent(now)
	s.log = append(recent, logged{now, cost})
	s.used = used + cost
}

func (s *slidingLog) correct(_, at time.Duration, from, to int) {
	for i, l := range s.log {
		if l == (logged{at, from}) {
			s.log[i].cost = to
			s.used += to - from
			return
		}
	}
}

func (s *slidingLog) release() {}

// quota's reset is when all that was used is back.
func (s *slidingLog) quota(now time.Duration) Quota {
	recent, used := s.recent(now)
	q := Quota{Limit: int64(s.limit), Remaining: int64(max(0, s.limit-used)), Window: s.length}
	if len(recent) > 0 {
		q.Reset = recent[len(recent)-1].at + s.length - now
	}
	return q
}

// recent returns those that count at a moment, and what they cost.
func (s *slidingLog) recent(now time.Duration) (recent []logged, used int) {
	recent, used = s.log, s.used
	for len(recent) > 0 && now-recent[0].at >= s.length {
		used -= recent[0].cost
		recent = recent[1:]
	}
	return recent, used
}

// SlidingCounter admits a request while an estimate of the last d is within n: all of the current window
// of length d, and of the one before such a share as the last d reaches into it. That is how Cloudflare
// counts (https://blog.cloudflare.com/counting-things-a-lot-of-different-things/). n is 1 or more, d above
// 0. The windows begin at multiples of d of Unix time, unless [Policy.Aligned] or [Policy.FromStart] says
// otherwise. It computes exactly, without rounding. A refusal knows when there will be room.
func SlidingCounter(n int, d time.Duration) *Policy {
	mustBeWindow("SlidingCounter", n, d)
	windows := newWindows(d)
	windows.equal = true
	p := newCounting(func(start time.Time) meter {
		return &slidingCounter{limit: n, windows: windows, start: start}
	})
	p.windows = windows
	return p.Aligned(0)
}

type slidingCounter struct {
	limit   int
	windows *windows
	start   time.Time

	end      time.Duration // of the current window, as of the last charge
	previous int
	current  int
}

func (s *slidingCounter) judge(now time.Duration, _ *http.Request, cost int) ruling {
	previous, current, end := s.at(now)
	left := end - now
	if cost <= s.limit-current && s.weighed(previous, left) <= s.limit-current-cost {
		return ruling{}
	}
	// There will be room in this window, when less of the one before is left of it; or in the next, when
	// this one is the one before.
	switch {
	case cost > s.limit:
		return ruling{refused: true}
	case cost <= s.limit-current:
		return ruling{refused: true, wait: left - s.mayBeLeft(previous, s.limit-current-cost)}
	default:
		return ruling{refused: true, wait: left + s.windows.length - s.mayBeLeft(current, s.limit-cost)}
	}
}

func (s *slidingCounter) charge(now time.Duration, cost int) {
	s.previous, s.current, s.end = s.at(now)
	s.current += cost
}

func (s *slidingCounter) correct(_, at time.Duration, from, to int) {
	// Its windows are of equal length, so that of the charge is known by its end.
	switch length := s.windows.length; {
	case at < s.end-2*length:
	case at < s.end-length:
		s.previous += to - from
	default:
		s.current += to - from
	}
}

func (s *slidingCounter) release() {}

// quota's reset is when all that was used is back, if nothing more is.
func (s *slidingCounter) quota(now time.Duration) Quota {
	previous, current, end := s.at(now)
	q := Quota{
		Limit:     int64(s.limit),
		Remaining: int64(max(0, s.limit-current-s.weighed(previous, end-now))),
		Window:    s.windows.length,
	}
	switch {
	case current > 0:
		q.Reset = end - now + s.windows.length
	case previous > 0:
		q.Reset = end - now
	}
	return q
}

// at returns what is counted in the window before and in that of a moment, and when the latter ends.
func (s *slidingCounter) at(now time.Duration) (previous, current int, end time.Duration) {
	end = now + s.windows.left(s.start.Add(now), now)
	switch end - s.end {
	case 0:
		return s.previous, s.current, end
	case s.windows.length:
		return s.current, 0, end
	default:
		return 0, 0, end
	}
}

// weighed is previous·left/length, rounded up: what is within a whole number is so before and after.
func (s *slidingCounter) weighed(previous int, left time.Duration) int {
	high, low := bits.Mul64(uint64(previous), uint64(left))
	quotient, rest := bits.Div64(high, low, uint64(s.windows.length))
	if rest > 0 {
		quotient++
	}
	return int(quotient)
}

// mayBeLeft is how much of the window may be left for previous to weigh no more than room.
func (s *slidingCounter) mayBeLeft(previous, room int) time.Duration {
	if previous <= room {
		return s.windows.length
	}
	high, low := bits.Mul64(uint64(room), uint64(s.windows.length))
	quotient, _ := bits.Div64(high, low, uint64(previous))
	return time.Duration(quotient)
}
