package leakyqueue

// Flows share a bucket by start-time fair queueing (Goyal, Vin and Cheng, 1996): each has a count of
// what it has had, in units of cost over weight, and the one with the least goes next. One that comes
// anew begins at the bucket's virtual time, which is the count at which the last one left: what it
// didn't use while it was away isn't saved up, and it waits for one round of the others at most. It
// is bound late: only departures count, so that who is cancelled costs its flow nothing.
//
// Without a name, those who wait for the same buckets are a flow: the children of one parent share it
// fairly.

// share is what one flow has had of a bucket.
type share struct {
	key    shareKey
	served uint64 // in virtual time; comparisons are of differences, so it may wrap around
	lanes  int    // that have this share
}

type shareKey struct {
	laneKey
	line string // of a flow without a name
}

// unit is what a cost of 1 takes of virtual time at weight 1.
const unit = 1 << 20

// MaxWeight is the highest weight that a flow may have.
const MaxWeight = 1000

func keyOfShare(key laneKey, line string) shareKey {
	if key.flow != "" {
		line = ""
	}
	return shareKey{laneKey: key, line: line}
}

// weightOf is the weight of a flow.
func (q *Queue) weightOf(flow string) uint64 {
	if w := q.cfg.Weights[flow]; w > 0 {
		return uint64(w)
	}
	return 1
}

// later is the later of two moments of virtual time.
func later(a, b uint64) uint64 {
	if int64(a-b) > 0 {
		return a
	}
	return b
}

// shares are what the flows at one bucket have had.
type shares struct {
	virtual [levels]uint64      // the count at which the last one left, by level
	plain   share               // of those who wait for this bucket alone, of normal priority and no flow
	named   map[shareKey]*share // the others'
	left    int                 // of those, how many have no lane
}

// take returns the share of a lane, which gives it back when it is gone.
func (sh *shares) take(key laneKey, line string) *share {
	k := keyOfShare(key, line)
	s := sh.find(k)
	switch {
	case s == nil:
		s = &share{key: k, served: sh.virtual[key.level]}
		if sh.named == nil {
			sh.named = make(map[shareKey]*share)
		}
		sh.named[k] = s
	case s.lanes == 0 && s != &sh.plain:
		sh.left--
	}
	s.lanes++
	return s
}

func (sh *shares) find(k shareKey) *share {
	if k == (shareKey{laneKey: laneKey{level: normalLevel}}) {
		return &sh.plain
	}
	return sh.named[k]
}

// giveBack forgets a share, unless its flow has had more than others: then it would gain by going and
// coming back. Such shares are looked at again when there are many.
func (sh *shares) giveBack(s *share) {
	if s.lanes--; s.lanes > 0 || s == &sh.plain {
		return
	}
	sh.left++
	if !sh.ahead(s) {
		sh.forget(s)
	} else if sh.left > 64 && sh.left > len(sh.named)/2 {
		for _, s := range sh.named {
			if s.lanes == 0 && !sh.ahead(s) {
				sh.forget(s)
			}
		}
	}
}

func (sh *shares) ahead(s *share) bool { return int64(s.served-sh.virtual[s.key.level]) > 0 }

func (sh *shares) forget(s *share) {
	delete(sh.named, s.key)
	sh.left--
}

// forgetAll is for when nobody waits any more: then all begin anew.
func (sh *shares) forgetAll() {
	if len(sh.named) > 0 {
		sh.named, sh.left = nil, 0
	}
	sh.plain.served = sh.virtual[normalLevel]
}

// serve counts a departure.
func (sh *shares) serve(s *share, l level, cost int64, weight uint64) {
	start := later(sh.virtual[l], s.served)
	sh.virtual[l] = start
	s.served = start + unit*uint64(cost)/weight
}
