package headers

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// draft is what is known so far about a quota.
type draft struct {
	generation generation
	policy     bool   // from a policy without a name: it tells a limit and a window, and nothing else
	name       string // a dimension, or a policy's name
	partition  string // the IETF partition key, of which only equality matters
	label      string // a name that came in a field of its own
	unit       string

	limit     int64
	remaining int64
	used      int64
	reset     time.Duration
	window    time.Duration

	overdrawn   bool // remaining was negative
	telling     bool // worth telling even if all but the name is unknown
	apart       bool // no other field is about it
	labelWins   bool // over the name
	resetOfAll  bool // of all quotas that have none
	resetBetter uint8
	labelBetter uint8
}

func newDraft() draft {
	return draft{limit: unknown, remaining: unknown, used: unknown, reset: unknown}
}

// roomy is how many drafts a reader has room for without an allocation: most answers are of one quota.
const roomy = 2

// at is the i-th draft.
func (r *reader) at(i int) *draft {
	if i < roomy {
		return &r.room[i]
	}
	return &r.more[i-roomy]
}

// find returns the draft that is no policy and has this name, or nil.
func (r *reader) find(g generation, name, partition string) *draft {
	for i := range r.known {
		d := r.at(i)
		if d.generation == g && d.name == name && d.partition == partition && !d.policy && !d.apart {
			return d
		}
	}
	return nil
}

// draft returns the draft of the quota that a generation knows by a dimension.
func (r *reader) draft(g generation, dimension []byte) *draft {
	if d := r.find(g, string(dimension), ""); d != nil {
		return d
	}
	d := r.add()
	d.generation, d.name = g, string(dimension)
	return d
}

// windowed returns the draft of a quota that only one field is about, which may be one of several with one
// name, by its window.
func (r *reader) windowed(dimension []byte, window time.Duration) *draft {
	for i := range r.known {
		if d := r.at(i); d.apart && d.window == window && d.name == string(dimension) {
			return d
		}
	}
	d := r.add()
	d.generation, d.name, d.window, d.apart = custom, string(dimension), window, true
	return d
}

// add returns a new draft. Beyond the cap it has nowhere to stay: the response won't be believed.
func (r *reader) add() (d *draft) {
	switch {
	case r.known == maxQuotas:
		r.tooMany = true
		d = &r.spare
	case r.known < roomy:
		d = &r.room[r.known]
		r.known++
	default:
		r.more = append(r.more, draft{})
		d = &r.more[r.known-roomy]
		r.known++
	}
	*d = newDraft()
	return d
}

// drafts returns all drafts.
func (r *reader) drafts() []draft {
	if r.known <= roomy {
		return r.room[:r.known]
	}
	return append(r.room[:], r.more...)
}

// putItem takes up an item of a structured field.
func (r *reader) putItem(g generation, it item) {
	var into *draft
	if it.name != "" {
		into = r.find(g, it.name, it.partition)
	}
	if into == nil {
		into = r.add()
		into.generation, into.name, into.partition, into.policy = g, it.name, it.partition, it.name == ""
	}
	into.putLimit(it.limit)
	into.putRemaining(it.remaining)
	into.putReset(it.reset, 0)
	into.putWindow(it.window)
	into.unit = max(into.unit, it.unit)
}

// The put methods take a fact up. Of two, the tighter stays, whichever came first.

func (d *draft) putLimit(n int64) {
	if n >= 0 && (d.limit < 0 || n < d.limit) {
		d.limit = n
	}
}

func (d *draft) putRemaining(n int64) {
	switch {
	case n < unknown:
		d.overdrawn = true
	case n >= 0 && (d.remaining < 0 || n < d.remaining):
		d.remaining = n
	}
}

// putUsed takes up how many were used: of two, the larger stays.
func (d *draft) putUsed(n int64) { d.used = max(d.used, n) }

func (d *draft) putReset(t time.Duration, better uint8) {
	switch {
	case t < 0:
	case d.reset < 0 || better > d.resetBetter:
		d.reset, d.resetBetter = t, better
	case better == d.resetBetter:
		d.reset = max(d.reset, t)
	}
}

func (d *draft) putWindow(w time.Duration) { d.window = max(d.window, w) }

func (d *draft) putLabel(s string, better uint8) {
	if d.label == "" || better > d.labelBetter || better == d.labelBetter && s < d.label {
		d.label, d.labelBetter = s, better
	}
}

// fill takes from o what d doesn't know.
func (d *draft) fill(o *draft) {
	if d.limit < 0 {
		d.limit = o.limit
	}
	if d.remaining < 0 && !d.overdrawn {
		d.remaining, d.overdrawn = o.remaining, o.overdrawn
	}
	if d.used < 0 {
		d.used = o.used
	}
	if d.reset < 0 {
		d.reset = o.reset
	}
	if d.window == 0 {
		d.window = o.window
	}
	d.name = cmp.Or(d.name, o.name)
	d.label = cmp.Or(d.label, o.label)
	d.unit = cmp.Or(d.unit, o.unit)
	d.partition = cmp.Or(d.partition, o.partition)
	d.resetOfAll = d.resetOfAll || o.resetOfAll
}

// fillFromName takes from a name what no field told. The names of IETF lists are free text.
func (d *draft) fillFromName() {
	switch {
	case d.name == "" && mentionsConcurrency(d.label):
		d.unit = cmp.Or(d.unit, "concurrency")
	case d.name != "" && d.generation != list:
		meaning := meaningOf(d.name)
		d.unit = cmp.Or(d.unit, meaning.unit)
		d.window = cmp.Or(d.window, meaning.window)
	}
}

// meaningOf is what a dimension means, as a whole or by its parts: tokens-minute, project-tokens, unified-5h,
// 10-minute.
func meaningOf(name string) dimension {
	if whole, ok := dimensions[name]; ok {
		return whole
	}
	i := strings.LastIndexByte(name, '-')
	last, before := name[i+1:], name[:max(0, i)]
	meaning := dimensions[last]
	first, _, _ := strings.Cut(before, "-")
	meaning.unit = cmp.Or(meaning.unit, dimensions[first].unit)
	if meaning.window == 0 {
		meaning.window = lengthOf(last)
	} else if times, ok := parseDecimal(before[strings.LastIndexByte(before, '-')+1:]); ok {
		meaning.window = times.times(meaning.window)
	}
	return meaning
}

// lengthOf reads a window in a name: 5h, 15min, 24hour. What is no length has none.
func lengthOf(name string) time.Duration {
	if d, _, ok := parseDuration(name); ok {
		return d
	}
	number, n := scanDecimal(name)
	unit, ok := proseUnits[name[n:]]
	if n == 0 || !ok {
		return 0
	}
	return number.times(unit)
}

// mentionsConcurrency reports whether a name is of a limit on how many are in flight.
func mentionsConcurrency(s string) bool { return indexFold(s, "concurren") >= 0 }

// silent reports whether d tells nothing but a name.
func (d *draft) silent() bool {
	return d.limit < 0 && d.remaining < 0 && !d.overdrawn && d.reset < 0 && d.window == 0
}

func (d *draft) quota() Quota {
	q := Quota{
		Name:      cmp.Or(d.name, d.label),
		Partition: d.partition,
		Limit:     d.limit,
		Remaining: d.remaining,
		Reset:     d.reset,
		Window:    d.window,
		Unit:      cmp.Or(d.unit, "requests"),
	}
	if d.labelWins {
		q.Name = cmp.Or(d.label, d.name)
	}
	switch {
	case d.overdrawn && q.Limit > 0:
		q.Remaining = 0
	case q.Remaining < 0 && d.used >= 0 && q.Limit >= 0:
		q.Remaining = max(0, q.Limit-d.used)
	}
	return q
}

// compare is a total order: named before unnamed, the better generation first.
func compare(a, b draft) int {
	return cmp.Or(
		compareBool(a.name == "", b.name == ""),
		cmp.Compare(a.generation, b.generation),
		compareBool(a.policy, b.policy),
		strings.Compare(a.name, b.name),
		strings.Compare(a.partition, b.partition),
		cmp.Compare(a.limit, b.limit),
		cmp.Compare(a.window, b.window),
		strings.Compare(a.label, b.label),
		strings.Compare(a.unit, b.unit),
		cmp.Compare(a.remaining, b.remaining),
		cmp.Compare(a.reset, b.reset),
		cmp.Compare(a.used, b.used),
		compareBool(a.apart, b.apart),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func compareQuotas(a, b Quota) int {
	return cmp.Or(
		strings.Compare(a.Name, b.Name),
		cmp.Compare(a.Limit, b.Limit),
		cmp.Compare(a.Window, b.Window),
		cmp.Compare(a.Remaining, b.Remaining),
		cmp.Compare(a.Reset, b.Reset),
		strings.Compare(a.Unit, b.Unit),
		strings.Compare(a.Partition, b.Partition),
	)
}

// quotas turns the drafts into quotas, each limit once.
func (r *reader) quotas() []Quota {
	if r.tooMany || r.known == 0 {
		return nil
	}
	drafts := r.drafts()
	for i := range drafts {
		drafts[i].fillFromName()
	}
	if len(drafts) > 1 {
		slices.SortFunc(drafts, compare)
		drafts = merge(drafts)
	}
	drafts = slices.DeleteFunc(drafts, func(d draft) bool { return d.used >= 0 && d.silent() && !d.telling && d.label == "" })
	if len(drafts) == 0 {
		return nil
	}
	quotas := make([]Quota, len(drafts))
	for i := range drafts {
		quotas[i] = drafts[i].quota()
		r.dialect.complete(&quotas[i])
	}
	slices.SortFunc(quotas, compareQuotas)
	return quotas
}
