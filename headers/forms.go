package headers

import (
	"encoding/json"
	"math"
	"strings"
	"time"
)

// The forms of this file are those of single vendors, or of a few.

// readForm takes a line of a field whose value is no plain fact.
func (r *reader) readForm(g generation, w word, dimension []byte, line string) {
	switch w.part {
	case fraction:
		r.readFraction(g, w, dimension, line)
	case rate:
		r.readRate(g, w, dimension, line)
	case pairs:
		r.readPairs(g, w, dimension, line)
	case ratios:
		r.readRatios(g, w, dimension, line)
	case counts:
		r.readCounts(g, w, line)
	case limitsByTime, usedByTime:
		r.readByTime(w, dimension, line)
	case blocks:
		r.readBlocks(line)
	case percentages:
		r.readPercentages(g, dimension, line)
	case policiesNamed:
		r.readPolicies(dimension, line)
	}
}

// readFraction takes how much was used, of 1. It is told in percent, for counts are whole; nothing
// remains only when all was used.
func (r *reader) readFraction(g generation, w word, dimension []byte, line string) {
	d, ok := parseDecimal(unquote(trim(line)))
	if !ok {
		return
	}
	const percent = int64(time.Second / 100) // in a decimal's nano
	left := int64(0)
	if d.whole == 0 {
		left = (int64(time.Second) - d.nano + percent - 1) / percent
	}
	q := r.quota(g, w, dimension)
	q.unit = "percent"
	q.putLimit(100)
	q.putRemaining(left)
}

// readRate takes a limit per second (Amazon). One that isn't whole is told as one in so many seconds.
func (r *reader) readRate(g generation, w word, dimension []byte, line string) {
	d, ok := parseDecimal(unquote(trim(line)))
	if !ok || d.over || d.whole == 0 && d.nano == 0 {
		return
	}
	q := r.quota(g, w, dimension)
	if d.nano == 0 {
		q.putLimit(d.whole)
		q.putWindow(time.Second)
		return
	}
	perSecond := float64(d.whole) + float64(d.nano)/float64(time.Second)
	q.putLimit(1)
	q.putWindow(time.Duration(math.Min(float64(time.Second)/perSecond, float64(MaxRetryAfter/2))))
}

// readPairs takes a quota whose parts are named in the value.
func (r *reader) readPairs(g generation, w word, dimension []byte, line string) {
	if !strings.Contains(line, "=") {
		return
	}
	for pair := ""; line != ""; {
		pair, line = cutOutside(line, ';')
		key, value, _ := strings.Cut(pair, "=")
		value = unquote(trim(value))
		switch strings.ToLower(trim(key)) {
		case "total", "limit":
			if n, ok := parseLimit(value); ok {
				r.quota(g, w, dimension).putLimit(n)
			}
		case "remaining":
			if n, ok := parseCount(value); ok {
				r.quota(g, w, dimension).putRemaining(n)
			}
		case "resets", "reset":
			if d, ok := r.reset(value, byMagnitude); ok {
				r.quota(g, w, dimension).putReset(d, 0)
			}
		}
	}
}

// readRatios takes used/limit, alone or as a list with names: api-usage=17/250(appName=x); …
func (r *reader) readRatios(g generation, w word, dimension []byte, line string) {
	for member := ""; line != ""; {
		member, line = cutOutside(line, ';')
		name, ratio, named := strings.Cut(trim(member), "=")
		if !named {
			ratio = name
		}
		ratio, _, _ = strings.Cut(ratio, "(")
		count, of, ok := strings.Cut(ratio, "/")
		n, valid := parseCount(count)
		total, validTotal := parseLimit(of)
		if !ok || !valid || !validTotal {
			continue
		}
		if named && len(dimension) == 0 {
			r.ratio(g, w, []byte(trim(name)), n, total)
		} else {
			r.ratio(g, w, dimension, n, total)
		}
	}
}

func (r *reader) ratio(g generation, w word, dimension []byte, used, of int64) {
	if len(dimension) > maxName {
		return
	}
	q := r.quota(g, w, dimension)
	q.putLimit(of)
	if used >= 0 && of >= 0 {
		q.putRemaining(max(0, of-used))
	}
}

// readCounts takes what remains of named quotas: name;139,other;699.
func (r *reader) readCounts(g generation, w word, line string) {
	for member := ""; line != ""; {
		member, line = cutOutside(line, ',')
		name, count, _ := strings.Cut(trim(member), ";")
		if n, ok := parseCount(count); ok && name != "" && len(name) <= maxName {
			r.quota(g, w, []byte(trim(name))).putRemaining(n)
		}
	}
}

// readByTime takes limits with their windows in seconds, 20:1,100:120, or what was used of those.
func (r *reader) readByTime(w word, dimension []byte, line string) {
	for member := ""; line != ""; {
		member, line, _ = strings.Cut(line, ",")
		count, window, _ := strings.Cut(member, ":")
		n, ok := parseCount(count)
		length, valid := parseDecimal(trim(window))
		if !ok || !valid {
			continue
		}
		d := r.windowed(dimension, length.times(time.Second))
		if w.part == limitsByTime {
			d.putLimit(n)
		} else {
			d.putUsed(n)
		}
	}
}

// readBlocks takes what is blocked for how long: seconds:category;category:scope:reason, … Without a
// category it is all of them.
func (r *reader) readBlocks(line string) {
	for member := ""; line != ""; {
		member, line, _ = strings.Cut(line, ",")
		seconds, rest, _ := strings.Cut(trim(member), ":")
		wait, ok := parseDecimal(seconds)
		if !ok {
			continue
		}
		categories, _, _ := strings.Cut(rest, ":")
		for more := true; more; {
			var category string
			category, categories, more = strings.Cut(categories, ";")
			if category = trim(category); len(category) > maxName {
				continue
			}
			q := r.windowed([]byte(category), 0)
			q.putRemaining(0)
			q.putReset(wait.times(time.Second), 0)
		}
	}
}

// readPolicies takes policies whose names are within a dimension: per_hour;q=100;r=50;t=3600, also with b=
// in front of the name.
func (r *reader) readPolicies(dimension []byte, line string) {
	if !withinBounds([]string{line}) {
		return
	}
	for member := ""; line != ""; {
		member, line = cutOutside(line, ',')
		it, ok := scanItem(strings.TrimPrefix(trim(member), "b="), &r.base)
		if !ok || it.name == "" || len(it.name) > maxName {
			continue
		}
		if it.window == 0 {
			it.window = dimensions[strings.TrimPrefix(strings.ToLower(it.name), "per_")].window
		}
		it.name = string(dimension) + "/" + it.name
		r.putItem(custom, it)
	}
}

// readObject takes a quota as a JSON object (Basecamp, Trakt):
// {"name":"General","period":60,"limit":1000,"remaining":999,"until":"2020-11-02T23:33:00Z"}.
func (r *reader) readObject(g generation, dimension []byte, line string) {
	if !json.Valid([]byte(line)) {
		return
	}
	d := newDraft()
	scanJSON(line, func(path []string, text string, _ bool) {
		if len(path) != 1 {
			return
		}
		switch fold(path[0]) {
		case "name":
			d.name = text[:min(len(text), maxName)]
		case "limit":
			if n, ok := parseLimit(text); ok {
				d.putLimit(n)
			}
		case "remaining":
			if n, ok := parseCount(text); ok {
				d.putRemaining(n)
			}
		case "period", "window":
			if w, ok := parseWindow(text, time.Second); ok {
				d.putWindow(w)
			}
		case "until", "reset", "resetat":
			if t, ok := r.reset(text, byMagnitude); ok {
				d.putReset(t, 0)
			}
		}
	})
	if d.silent() {
		return
	}
	if d.name == "" {
		d.name = string(dimension)
	}
	into := r.draft(g, []byte(d.name))
	into.putLimit(d.limit)
	into.putRemaining(d.remaining)
	into.overdrawn = into.overdrawn || d.overdrawn
	into.putReset(d.reset, 0)
	into.putWindow(d.window)
}

// readPercentages takes Facebook's JSON: an object of percentages used, or one such object or several for
// each account in an object, each with its type.
func (r *reader) readPercentages(g generation, dimension []byte, line string) {
	var all map[string]any
	if json.Unmarshal([]byte(line), &all) != nil {
		return
	}
	if len(dimension) > 0 {
		r.putPercentages(g, string(dimension), all)
		return
	}
	for account, usages := range all {
		switch usages := usages.(type) {
		case map[string]any:
			r.putPercentages(g, account, usages)
		case []any:
			for _, usage := range usages {
				if usage, ok := usage.(map[string]any); ok {
					r.putPercentages(g, account, usage)
				}
			}
		}
	}
}

func (r *reader) putPercentages(g generation, name string, usage map[string]any) {
	if kind, ok := usage["type"].(string); ok {
		name += "/" + kind
	}
	reset := time.Duration(unknown)
	for key, unit := range renewals {
		if n, ok := usage[key].(float64); ok && n >= 0 && n < float64(maxDelta/unit) {
			reset = max(reset, time.Duration(n*float64(unit)))
		}
	}
	for key := range percents {
		n, ok := usage[key].(float64)
		if !ok || n < 0 || len(name)+len(key) > maxName {
			continue
		}
		d := r.draft(g, []byte(name+"/"+key))
		d.unit = "percent"
		d.putLimit(100)
		d.putRemaining(int64(math.Ceil(max(0, 100-n))))
		d.putReset(reset, 0)
	}
}
