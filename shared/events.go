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

// heard takes up one message: "p microseconds bucket" for a pause, "r bucket" for its end, and "s bucket" for slots that
// may be had.
func (s *Store) heard(message string) {
	kind, rest, _ := strings.Cut(message, " ")
	var tell []func()
	s.mu.Lock()
	switch kind {
	case "p":
		us, name, _ := strings.Cut(rest, " ")
		if d, err := strconv.ParseInt(us, 10, 64); err == nil && d > 0 {
			tell = s.pausedLocked(name, s.now()+min(micros(min(d, DefaultMaxPause.Microseconds())), DefaultMaxPause))
		}
	case "r":
		for m := range s.byKey[rest] {
			m.pausedUntil = 0
			tell = append(tell, m.watcher.Resumed)
		}
	case "s":
		for m := range s.byKey[rest] {
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
