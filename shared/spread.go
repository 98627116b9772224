package shared

import "github.com/outflow-go/outflow/leakyqueue"

// spread leases departures that several buckets hold whose keys may be on different nodes: from one bucket after the
// other, the narrowest first. A departure is when the latest of them lets it go, and is charged to each when that one
// would have. So it isn't a matter of all or nothing: what only some have let go is given back.
type spread struct {
	tenant leakyqueue.Tenant
	parts  []*lessor
}

// Ask has departures be leased, and others be given back.
func (sp *spread) Ask(a leakyqueue.Ask) {
	sp.askPart(a, len(sp.parts)-1, make([]leakyqueue.Grant, len(sp.parts)))
}

// askPart asks the i-th bucket, and then those before it, for no more than that one lets go.
func (sp *spread) askPart(a leakyqueue.Ask, i int, got []leakyqueue.Grant) {
	sp.parts[i].ask(sp.part(a, i), func(g leakyqueue.Grant) {
		got[i] = g
		a.Runs = first(a.Runs, len(g.Leased))
		if i > 0 {
			sp.askPart(a, i-1, got)
			return
		}
		sp.tenant.Granted(sp.join(a.Runs, got))
	})
}

// part is what is asked of the i-th bucket.
func (sp *spread) part(a leakyqueue.Ask, i int) leakyqueue.Ask {
	var p leakyqueue.Ask
	for _, r := range a.Runs {
		p.Runs = append(p.Runs, leakyqueue.Run{N: r.N, High: r.High, Costs: r.Costs[i : i+1]})
	}
	for _, d := range a.Back {
		if d.Costs[i] > 0 {
			p.Back = append(p.Back, leakyqueue.Leased{Token: d.Token.([]any)[i], Costs: d.Costs[i : i+1]})
		}
	}
	if a.Owed != nil {
		p.Owed = a.Owed[i : i+1]
	}
	return p
}

// first are the first n departures of runs.
func first(runs []leakyqueue.Run, n int) []leakyqueue.Run {
	var some []leakyqueue.Run
	for _, r := range runs {
		if r.N = min(r.N, n); r.N > 0 {
			some = append(some, r)
			n -= r.N
		}
	}
	return some
}

// join has the buckets' departures be one each. Of the buckets that let go more than the first, the rest is given back.
func (sp *spread) join(runs []leakyqueue.Run, got []leakyqueue.Grant) leakyqueue.Grant {
	g := got[0]
	n := len(g.Leased)
	g.Leased = make([]leakyqueue.Leased, 0, n)
	for i := range got {
		g.Tail, g.Lead, g.Retry = max(g.Tail, got[i].Tail), max(g.Lead, got[i].Lead), max(g.Retry, got[i].Retry)
		if rest := got[i].Leased[n:]; len(rest) > 0 {
			sp.parts[i].Close(rest, nil)
		}
	}
	for _, r := range runs {
		for range r.N {
			d := leakyqueue.Leased{Costs: r.Costs}
			tokens := make([]any, len(got))
			for i := range got {
				part := got[i].Leased[len(g.Leased)]
				d.Due, tokens[i] = max(d.Due, part.Due), part.Token
			}
			d.Token = tokens
			g.Leased = append(g.Leased, d)
		}
	}
	return g
}

// Close gives back what wasn't used.
func (sp *spread) Close(back []leakyqueue.Leased, owed []int64) {
	a := leakyqueue.Ask{Back: back, Owed: owed}
	for i, l := range sp.parts {
		p := sp.part(a, i)
		l.Close(p.Back, p.Owed)
	}
}
