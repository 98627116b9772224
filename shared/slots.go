package shared

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/limit"
)

//go:embed slots.lua
var slotsSource string

var slotsScript = redis.NewScript(slotsSource)

// slots is what a member has of a concurrency. Store.mu guards it.
type slots struct {
	most    int // 0: there is no concurrency
	want    int
	out     int
	granted int
	unmet   bool
	excess  int // what Redis still counts, since it was or is out, where that is more than granted
	asking  bool
	again   bool
	asked   int // of want
	when    time.Duration
}

// slotsOf is how many slots limits have; 0: any number.
func slotsOf(limits []limit.Limit, share float64) (most int) {
	for _, l := range limits {
		if n, ok := l.Scaled(share).Slots(); ok && (most == 0 || n < most) {
			most = n
		}
	}
	return most
}

// Slots asks for slots.
func (m *member) Slots(want, out int) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.left || m.slots.most == 0 {
		return
	}
	sl := &m.slots
	sl.want, sl.out = want, out
	// What isn't wanted any more is given back at the next turn, or when others want it.
	if want > sl.granted && want > sl.asked || sl.excess > sl.granted && out < sl.excess {
		m.askSlotsLocked()
	}
	if !m.s.renewal && !m.s.closed {
		m.s.renewal = true
		m.s.loops.Go(m.s.renew)
	}
}

func (m *member) askSlotsLocked() {
	sl := &m.slots
	if sl.most == 0 || m.g.down || m.s.closed {
		return
	}
	if sl.asking {
		sl.again = true
		return
	}
	sl.asking, sl.again, sl.asked, sl.when = true, false, sl.want, m.s.now()
	base := strings.TrimSuffix(m.keys.state, ":s")
	keys := []string{base + ":h", base + ":n", base + ":e"}
	args := []any{
		m.id, sl.want, sl.out, sl.granted, sl.most, m.s.cfg.SlotLease.Microseconds(),
		m.s.channel(), slotsMessage(m.key), "",
	}
	if us, ours := m.s.ourClock(); ours {
		args[len(args)-1] = ourClock(us)
	}
	m.s.sendLocked(&errand{group: m.g, script: slotsScript, keys: keys, args: args, done: m.gotSlots})
}

func (m *member) gotSlots(reply any, err error, sent, _ time.Duration) {
	n, lost, unmet, holders, err := parseSlots(reply, err)
	out := 0
	if err == nil { // and by Redis the lease ends later than a lease after this was sent
		out = m.watcher.Slots(n, m.s.epoch.Add(sent+m.s.cfg.SlotLease), lost)
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	sl := &m.slots
	sl.asking = false
	if m.left && sl.again {
		m.askSlotsLocked()
	}
	if err != nil || m.left {
		sl.unmet = sl.want > sl.granted // asked for again at the next turn
		return
	}
	m.g.holders = holders
	// Until Redis hears that fewer are out it counts those that could have been, so it hears at once.
	before := sl.granted
	sl.granted, sl.unmet, sl.out, sl.excess = n, unmet, out, max(n, out)
	if sl.again || n < before || sl.want > n && sl.want > sl.asked {
		m.askSlotsLocked()
	}
}

func parseSlots(reply any, err error) (n int, lost, unmet bool, holders int, _ error) {
	if err != nil {
		return 0, false, false, 0, err
	}
	var v [4]int64
	list, _ := reply.([]any)
	for i := range v {
		if i >= len(list) {
			return 0, false, false, 0, fmt.Errorf("shared: slots.lua returned %d values, want %d", len(list), len(v))
		}
		x, ok := list[i].(int64)
		if !ok || x < 0 || x > limit.MaxConcurrent {
			return 0, false, false, 0, fmt.Errorf("shared: slots.lua returned %v, want 0 to %d", list[i], limit.MaxConcurrent)
		}
		v[i] = x
	}
	return int(v[0]), v[1] != 0, v[2] != 0, int(v[3]), nil
}

// turn is how long instances have slots if there are fewer of those; it is in slots.lua, too.
const turn = 250 * time.Millisecond

// renew has those asked for again that are held, at a third of their lease, and those that weren't had, at every turn: a
// message may be lost that says there are some.
func (s *Store) renew() {
	for {
		select {
		case <-s.life.Done():
			return
		case <-time.After(min(turn, s.cfg.SlotLease/6) + rand.N(turn/10)):
		}
		s.mu.Lock()
		now := s.now()
		for _, g := range s.groups {
			for m := range g.members {
				sl := &m.slots
				if sl.most > 0 && (sl.unmet || sl.want < sl.granted || (sl.granted > 0 || sl.out > 0) && now-sl.when >= s.cfg.SlotLease/3) {
					m.askSlotsLocked()
				}
			}
		}
		s.mu.Unlock()
	}
}

// channel is where events are told.
func (s *Store) channel() string { return s.cfg.Prefix + ":events" }

// slotsMessage tells that there may be slots for those who want some.
func slotsMessage(key string) string { return "slots 0 " + key }
