package leakyqueue

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// line is all who wait for the same buckets, in lanes. It lives as long as it has any.
type line struct {
	id      string // in Queue.lines, and of its shares
	buckets []*bucket
	plain   *lane // of normal priority and no flow, which most are
	others  map[laneKey]*lane
	waiting int          // in its lanes, the delayed apart
	outside list[waiter] // with Block, who is to come in when there is room
}

// last is the last of the line's buckets: that of the lease, if there is one.
func (n *line) last() *bucket { return n.buckets[len(n.buckets)-1] }

// find returns the lane of a key; nil: nobody of that key waits.
func (n *line) find(key laneKey) *lane {
	switch {
	case n == nil:
		return nil
	case key == laneKey{level: normalLevel}:
		return n.plain
	default:
		return n.others[key]
	}
}

// lanes lists a line's lanes.
func (n *line) lanes() []*lane {
	all := make([]*lane, 0, 1+len(n.others))
	if n.plain != nil {
		all = append(all, n.plain)
	}
	return slices.AppendSeq(all, maps.Values(n.others))
}

// appendLineID appends what tells lines of several buckets apart. That of a single one is empty.
func appendLineID(id []byte, buckets []*bucket) []byte {
	if len(buckets) == 1 {
		return id
	}
	for _, b := range buckets {
		id = binary.AppendUvarint(id, b.id)
	}
	return id
}

// findLine returns the line of those who wait for these buckets; nil: nobody does.
func (q *Queue) findLine(buckets []*bucket) *line {
	if len(buckets) == 1 {
		return buckets[0].alone
	}
	return q.findJoint(buckets)
}

//go:noinline
func (q *Queue) findJoint(buckets []*bucket) *line {
	var few [4 * binary.MaxVarintLen64]byte
	return q.lines[string(appendLineID(few[:0], buckets))]
}

//go:noinline
func (q *Queue) newLine(buckets []*bucket) *line {
	n := &line{buckets: slices.Clone(buckets), outside: list[waiter]{linksOf: orderLinks}}
	if len(buckets) == 1 {
		buckets[0].alone = n
		return n
	}
	n.id = string(appendLineID(nil, buckets))
	q.lines[n.id] = n
	for _, b := range buckets {
		if b.joint == nil {
			b.joint = make(map[*line]struct{})
		}
		b.joint[n] = struct{}{}
	}
	return n
}

//go:noinline
func (q *Queue) newLane(n *line, of laneKey) *lane {
	key := laneKey{of.level, strings.Clone(of.flow)} // so that nobody's Demand needs to be allocated
	l := &lane{line: n, key: key, weight: q.weightOf(key.flow), fresh: list[waiter]{linksOf: orderLinks}}
	l.shares, l.costs = make([]*share, len(n.buckets)), make([]int64, len(n.buckets))
	for i, b := range n.buckets {
		if b.order == &noOrder {
			b.order = new(order)
		}
		l.shares[i] = b.shares.take(key, n.id)
	}
	if key == (laneKey{level: normalLevel}) {
		n.plain = l
		return l
	}
	if n.others == nil {
		n.others = make(map[laneKey]*lane)
	}
	n.others[key] = l
	return l
}

// laneFor returns the lane of a key among those who wait for these buckets, and makes it if need be.
func (q *Queue) laneFor(buckets []*bucket, key laneKey) *lane {
	n := q.findLine(buckets)
	if n == nil {
		n = q.newLine(buckets)
	}
	if l := n.find(key); l != nil {
		return l
	}
	return q.newLane(n, key)
}

func (q *Queue) dropLaneLocked(l *lane) {
	n := l.line
	if n.plain == l {
		n.plain = nil
	} else {
		delete(n.others, l.key)
	}
	for i, b := range n.buckets {
		b.shares.giveBack(l.shares[i])
		if b.waiting == 0 {
			b.shares.forgetAll()
		}
	}
	if n.plain != nil || len(n.others) > 0 {
		return
	}
	if len(n.buckets) == 1 {
		n.buckets[0].alone = nil
		return
	}
	delete(q.lines, n.id)
	for _, b := range n.buckets {
		delete(b.joint, n)
	}
}

// lanesOf lists the lanes of those whom b holds, parked there or not.
func (q *Queue) lanesOf(b *bucket) []*lane {
	var lanes []*lane
	if b.alone != nil {
		lanes = b.alone.lanes()
	}
	for n := range b.joint {
		lanes = append(lanes, n.lanes()...)
	}
	return lanes
}
