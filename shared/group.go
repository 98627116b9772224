package shared

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/outflow-go/outflow/leakyqueue"
)

var errTimeout = errors.New("no answer in time")

// group is the buckets that are kept in one place: their keys have one hash tag. It is reached or it isn't.
type group struct {
	s   *Store
	tag string // its key in Store.groups, and its keys' hash tag

	telling sync.Mutex // held while members are told what is so, so that the last thing they hear is the latest

	// Guarded by Store.mu.
	line    line // of its errands, if there are several nodes
	clock   clock
	live    int // instances, this one included
	holders int // those that have slots of a concurrency, or want some
	down    bool
	outages int // that have begun
	intact  int // the outage that a late answer ended, if any did
	probed  bool
	members map[*member]struct{}
}

// groupLocked returns the group of a tag.
func (s *Store) groupLocked(tag string) *group {
	g := s.groups[tag]
	if g == nil {
		g = &group{s: s, tag: tag, live: 1, members: make(map[*member]struct{})}
		s.groups[tag] = g
		if !s.reached { // it would find out too, after the timeout
			g.goesDownLocked()
		}
	}
	return g
}

// outageLocked is what the members are to know.
func (g *group) outageLocked() leakyqueue.Outage {
	if !g.down {
		return leakyqueue.Outage{}
	}
	switch g.s.cfg.OnOutage {
	case FailOpen:
		return leakyqueue.Outage{Mode: leakyqueue.LetAllGo}
	case FailClosed:
		return leakyqueue.Outage{Mode: leakyqueue.RefuseAll}
	default:
		n := max(g.live, g.holders, g.s.cfg.ExpectedInstances)
		return leakyqueue.Outage{Mode: leakyqueue.ShareLocally, Share: g.s.share / float64(n)}
	}
}

// tell tells the members whether the group is reached.
func (g *group) tell() {
	g.telling.Lock()
	defer g.telling.Unlock()
	g.s.mu.Lock()
	o := g.outageLocked()
	told := make([]leakyqueue.Watcher, 0, len(g.members))
	for m := range g.members {
		told = append(told, m.watcher)
	}
	g.s.mu.Unlock()
	for _, w := range told {
		w.Outage(o)
	}
}

// goesDownLocked has the group be down until it is reached.
func (g *group) goesDownLocked() {
	g.down = true
	g.outages++
	g.s.counts.outages.Add(1)
	if !g.s.probing && !g.s.closed {
		g.s.probing = true
		g.s.loops.Go(g.s.probe)
	}
}

// fails notes that the group can't be reached.
func (g *group) fails(err error) {
	s := g.s
	s.mu.Lock()
	s.reached = false
	if g.down || s.closed {
		s.mu.Unlock()
		return
	}
	g.goesDownLocked()
	s.mu.Unlock()
	s.cfg.Logger.Warn("outflow: limits can't be shared", "group", g.tag, "err", err)
	g.tell()
}

// isReached notes that it was. Whatever is waited for from before is true all the same, and so the end of an outage: if
// that is how it ends, Redis is the same as before, with all that it knew.
func (g *group) isReached(answered bool) {
	s := g.s
	s.mu.Lock()
	s.reached = true
	if !g.down {
		s.mu.Unlock()
		return
	}
	g.down = false
	if answered {
		g.intact = g.outages
	}
	for m := range g.members {
		m.backLocked()
	}
	s.mu.Unlock()
	s.cfg.Logger.Info("outflow: limits are shared again", "group", g.tag)
	g.tell()
}

const (
	probeEvery  = 200 * time.Millisecond
	probeAtOnce = 16
)

// probe looks for groups that can be reached again, as long as any can't. It asks for nothing that would be left
// undone if nobody listens to the answer, and each group once at a time.
func (s *Store) probe() {
	for {
		select {
		case <-s.life.Done():
			return
		case <-time.After(probeEvery*4/5 + rand.N(probeEvery*2/5)):
		}
		s.mu.Lock()
		down := 0
		for _, g := range s.groups {
			if !g.down {
				continue
			}
			if down++; !g.probed && down <= probeAtOnce {
				g.probed = true
				s.loops.Go(g.probe)
			}
		}
		if down == 0 {
			s.probing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// probeScript changes nothing, and can only be run where the others can: not by a replica, nor where Redis takes no writes,
// nor on a Cluster while one of the keys is on its way to another node.
const probeScript = `
local r = redis.pcall('ZREM', KEYS[#KEYS], '')
if type(r) == 'table' and not string.find(r.err, 'WRONGTYPE', 1, true) then return r end
return 0`

// probe runs a script with the keys of one of the group's buckets, and with those of others if there is an answer.
func (g *group) probe() {
	for g != nil {
		s := g.s
		s.mu.Lock()
		keys := []string{s.probeKey(g.tag)}
		for m := range g.members {
			keys = (&call{buckets: []*bucketKeys{m.keys}}).keys()
			break
		}
		s.mu.Unlock()
		err := s.rdb.Eval(s.life, probeScript, keys).Err()
		if err == nil {
			g.isReached(false)
		}
		s.mu.Lock()
		g.probed = false
		var next *group
		for _, o := range s.groups {
			if err == nil && o.down && !o.probed {
				next = o
				o.probed = true
				break
			}
		}
		s.mu.Unlock()
		g = next
	}
}
