package headers

import (
	"math"
	"time"

	"github.com/dunglas/httpsfv"
)

// item is one member of a RateLimit or RateLimit-Policy field, or a policy within RateLimit-Limit.
type item struct {
	name      string
	limit     int64
	remaining int64
	reset     time.Duration
	window    time.Duration
	unit      string
	partition string
	known     bool // it has a parameter that means something to us
}

func newItem() item { return item{limit: unknown, remaining: unknown, reset: unknown} }

// bare is a bare item of RFC 9651, as far as it matters here. The zero bare is of another type.
type bare struct {
	isNumber bool
	number   decimal
	negative bool
	text     string // of a string, a token or a byte sequence
	isText   bool
	at       time.Time
}

func (b bare) count() int64 {
	if !b.isNumber || b.negative || b.number.over {
		return unknown
	}
	return b.number.whole
}

// set takes a parameter up. The last of several with one key wins, RFC 9651 §3.1.2, also when it
// makes no sense.
func (it *item) set(key string, b bare, base *baseTime) {
	switch key {
	case "q":
		it.limit = b.count()
	case "r":
		it.remaining = b.count()
	case "t":
		it.reset = unknown
		if b.count() >= 0 {
			it.reset = byMagnitude.reset(b.number, time.Second, base)
		} else if !b.at.IsZero() {
			it.reset = base.until(b.at)
		}
	case "w", "window": // the second before the working group took the draft over
		it.window = 0
		if b.count() >= 0 {
			it.window = b.number.times(time.Second)
		}
	case "qu":
		it.unit = b.text
		if unit, ok := units[b.text]; ok {
			it.unit = unit
		}
	case "pk":
		it.partition = b.text
	case "name": // Envoy
		it.name = b.text
	default:
		return
	}
	it.known = true
}

// start takes the bare item in front up: a name, or to draft 07 the limit.
func (it *item) start(b bare) (ok bool) {
	switch {
	case b.isNumber:
		it.limit = b.count()
		return !b.negative
	case b.isText:
		it.name = b.text
		return true
	}
	return false
}

// readState takes a RateLimit field: a list since draft 08, a dictionary in draft 07, and if it is
// neither, what can be made of it.
func (r *reader) readState(g generation, values []string) {
	if !r.readItems(g, values) {
		r.readDictionary(values)
	}
}

// readItems takes a list, which RateLimit-Policy always is. It reports false for a dictionary.
func (r *reader) readItems(g generation, values []string) bool {
	if !withinBounds(values) {
		return true
	}
	items, ok := strictItems(values, &r.base)
	if !ok {
		if _, err := httpsfv.UnmarshalDictionary(values); err == nil {
			return false
		}
		items = lenientItems(values, &r.base)
	}
	for _, it := range items {
		if it.name != "" && g == trio {
			r.putItem(list, it)
		} else {
			r.putItem(g, it)
		}
	}
	return true
}

// withinBounds reports whether a field is short enough to be read.
func withinBounds(values []string) bool {
	size, members := 0, len(values)
	for _, line := range values {
		size += len(line)
		for i := range len(line) {
			if line[i] == ',' {
				members++
			}
		}
	}
	return size <= maxField && members <= maxMembers
}

// strictItems reads a field as RFC 9651 has it, or not at all.
func strictItems(values []string, base *baseTime) ([]item, bool) {
	members, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return nil, false
	}
	var items []item
	for _, m := range members {
		member, ok := m.(httpsfv.Item)
		if !ok {
			continue
		}
		it := newItem()
		ok = it.start(bareOf(member.Value))
		for _, key := range member.Params.Names() {
			v, _ := member.Params.Get(key)
			it.set(key, bareOf(v), base)
		}
		if ok && it.known {
			items = append(items, it)
		}
	}
	return items, true
}

// dictionaryKeys are draft 07's keys and what draft 08 made of them.
var dictionaryKeys = [...]struct{ long, short string }{{"limit", "q"}, {"remaining", "r"}, {"reset", "t"}}

// readDictionary takes the RateLimit field of draft 07.
func (r *reader) readDictionary(values []string) {
	members, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return
	}
	it := newItem()
	for _, key := range dictionaryKeys {
		m, _ := members.Get(key.long)
		if member, ok := m.(httpsfv.Item); ok {
			it.set(key.short, bareOf(member.Value), &r.base)
		}
	}
	if !it.known {
		return
	}
	d := r.draft(dictionary, nil)
	d.putLimit(it.limit)
	d.putRemaining(it.remaining)
	d.putReset(it.reset, 0)
}

// bareOf translates a value of httpsfv's.
func bareOf(v any) bare {
	switch v := v.(type) {
	case int64:
		return bare{isNumber: true, number: decimal{whole: max(v, -v)}, negative: v < 0}
	case float64:
		whole, fraction := math.Modf(math.Abs(v))
		milli := int64(math.Round(fraction * 1000)) // there are three digits at most
		return bare{isNumber: true, number: decimal{whole: int64(whole), nano: milli * 1e6}, negative: v < 0}
	case string:
		return bare{isText: true, text: v}
	case httpsfv.Token:
		return bare{isText: true, text: string(v)}
	case []byte:
		return bare{text: string(v)}
	case time.Time:
		return bare{at: v}
	}
	return bare{}
}
