package shared

import (
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// hear passes on what other instances tell. What is lost while the connection is comes with the next lease.
func (s *Store) hear() {
	sub := s.rdb.Subscribe(s.life, s.channel())
	defer sub.Close()
	messages := sub.Channel(redis.WithChannelSize(1000))
	for {
		select {
		case <-s.life.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			s.heard(m.Payload)
		}
	}
}

// heard takes up one message: "now until bucket" tells of a pause, both in microseconds since 1970 by Redis' clock, and
// of its end if that is 0; "slots 0 bucket" that there may be slots for those who want some.
func (s *Store) heard(message string) {
	first, rest, _ := strings.Cut(message, " ")
	second, key, ok := strings.Cut(rest, " ")
	until, err := strconv.ParseInt(second, 10, 64)
	if !ok || err != nil {
		return
	}
	var tell []func()
	s.mu.Lock()
	if now, err := strconv.ParseInt(first, 10, 64); err == nil {
		switch d := until - now; {
		case until == 0:
			for m := range s.byKey[key] {
				m.pausedUntil = 0
				tell = append(tell, m.watcher.Resumed)
			}
		case now > 0 && d > 0:
			tell = s.pausedLocked(key, s.now()+min(moment(min(d, DefaultMaxPause.Microseconds())), DefaultMaxPause))
		}
	} else {
		for m := range s.byKey[key] {
			if sl := &m.slots; sl.unmet || sl.granted > 0 {
				m.askSlotsLocked()
			}
		}
	}
	s.mu.Unlock()
	for _, f := range tell {
		f()
	}
}
