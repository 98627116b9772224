package headers

import (
	"slices"
	"strings"
	"time"
)

// Servers send one limit in several generations at once, and one generation splits it over several
// fields that needn't name it. merge brings together what is about the same limit. drafts are in the
// order of compare; the result is a part of them.
func merge(drafts []draft) []draft {
	policies := 0
	for i := range drafts {
		if drafts[i].policy {
			policies++
		}
	}
	merged := drafts[:0]
	for _, d := range drafts {
		if i := partner(merged, &d, policies > 1); i >= 0 {
			merged[i].fill(&d)
		} else {
			merged = append(merged, d)
		}
	}
	share(merged)
	// A name alone (X-RateLimit-Resource, without a count for it) is worth telling only when it is
	// all there is.
	if speaking := slices.ContainsFunc(merged, func(d draft) bool { return !d.silent() }); speaking {
		merged = slices.DeleteFunc(merged, func(d draft) bool { return d.name == "" && d.label != "" && d.silent() })
	}
	return merged
}

// share gives a reset that is of all quotas to those that have none (Yelp).
func share(drafts []draft) {
	all := time.Duration(unknown)
	for i := range drafts {
		if drafts[i].resetOfAll {
			all = max(all, drafts[i].reset)
		}
	}
	for i := range drafts {
		if d := &drafts[i]; all >= 0 && d.reset < 0 && !d.silent() {
			d.reset = all
		}
	}
}

// partner finds the draft that is about the same limit as d, or -1.
//
// One with a name has the same name. One without is the same as a draft, named if possible, with the
// same limit, or where a limit is missing with the same remaining count; or it is the same as the
// only other without a name that it doesn't contradict. Several policies leave that open. One of the IETF's
// trio without a limit is what remains of the only limit there that lacks that.
func partner(drafts []draft, d *draft, severalPolicies bool) int {
	if d.apart {
		return -1
	}
	if d.name != "" {
		return slices.IndexFunc(drafts, func(o draft) bool {
			return strings.EqualFold(o.name, d.name) && !differ(o.partition, d.partition) && !d.apart && !o.apart
		})
	}
	best, bestScore, nameless, candidates := -1, 0, -1, 0
	lacking, lacks := -1, 0
	for i := range drafts {
		o := &drafts[i]
		if d.limit >= 0 && o.limit >= 0 && d.limit != o.limit || d.window > 0 && o.window > 0 && d.window != o.window {
			continue
		}
		if o.apart || (o.unit == "concurrency") != (d.unit == "concurrency") {
			continue
		}
		score := 0
		if d.limit >= 0 && d.limit == o.limit {
			score += 2
		}
		if d.remaining >= 0 && d.remaining == o.remaining {
			score++
		}
		if score > bestScore {
			best, bestScore = i, score
		}
		if o.generation == trio && d.generation == trio && o.limit >= 0 && o.remaining < 0 && d.limit < 0 && !o.policy {
			lacking = i // Yelp: RateLimit-Remaining is that of RateLimit-DailyLimit
			lacks++
		}
		if o.name == "" {
			nameless = i
			candidates++
		}
	}
	if best < 0 && candidates == 1 && !(severalPolicies && (d.policy || drafts[nameless].policy)) {
		return nameless
	}
	if best < 0 && lacks == 1 {
		return lacking
	}
	return best
}

// differ reports whether two partition keys are of two partitions. A field may leave its key out.
func differ(a, b string) bool { return a != "" && b != "" && a != b }
