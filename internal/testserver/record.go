package testserver

import (
	"net/http"
	"slices"
	"time"
)

// LabelHeader is a request header that tests set to tell requests, and attempts of the same request,
// apart: its value becomes [Arrival.Label].
const LabelHeader = "Testserver-Label"

// An Arrival is what an upstream knows about one request.
type Arrival struct {
	At       time.Time // when its header had been read; has a monotonic reading
	Done     time.Time // when its handler had ended; zero while it runs
	Method   string
	Host     string
	Path     string
	Key      string // of the first policy that gave it one
	Label    string // the request's [LabelHeader]
	Cost     int    // of the first policy with [Policy.Cost], as last settled; 1 without one
	InFlight int    // requests of the same Key being handled at that moment, this one included
	Status   int    // 0: none was sent (yet)
	BodyRead int64  // bytes of the request's body that the handler read; 0 while it runs
}

func newArrival(at time.Time, r *http.Request, key string, cost int) Arrival {
	return Arrival{
		At:     at,
		Method: r.Method,
		Host:   r.Host,
		Path:   r.URL.Path,
		Key:    key,
		Label:  r.Header.Get(LabelHeader),
		Cost:   cost,
	}
}

// record is what an upstream has seen since New or Reset; its upstream's lock guards it.
type record struct {
	arrivals []Arrival
	inFlight map[string]int // by key
}

// newRecord has room for a usual test from the start, so that recording doesn't disturb the pace.
func newRecord() *record {
	return &record{arrivals: make([]Arrival, 0, 1024), inFlight: make(map[string]int)}
}

func (r *record) arriveLocked(a Arrival) (index int) {
	r.inFlight[a.Key]++
	a.InFlight = r.inFlight[a.Key]
	r.arrivals = append(r.arrivals, a)
	return len(r.arrivals) - 1
}

func (r *record) leaveLocked(index int, at time.Time, bodyRead int64) {
	a := &r.arrivals[index]
	a.Done = at
	a.BodyRead = bodyRead
	r.inFlight[a.Key]--
	if r.inFlight[a.Key] == 0 {
		delete(r.inFlight, a.Key)
	}
}

func (r *record) copyLocked() Arrivals { return slices.Clone(Arrivals(r.arrivals)) }

// Arrivals are in the order of their arrival, and so sorted by At.
type Arrivals []Arrival

// Where returns those for which keep is true.
func (as Arrivals) Where(keep func(Arrival) bool) Arrivals {
	var kept Arrivals
	for _, a := range as {
		if keep(a) {
			kept = append(kept, a)
		}
	}
	return kept
}

// OK returns those that were answered with a 2xx.
func (as Arrivals) OK() Arrivals {
	return as.Where(func(a Arrival) bool { return a.Status >= 200 && a.Status < 300 })
}

// To returns those whose path is path.
func (as Arrivals) To(path string) Arrivals {
	return as.Where(func(a Arrival) bool { return a.Path == path })
}

// ByKey returns them separated by key.
func (as Arrivals) ByKey() map[string]Arrivals {
	byKey := make(map[string]Arrivals)
	for _, a := range as {
		byKey[a.Key] = append(byKey[a.Key], a)
	}
	return byKey
}

// Count returns how many were answered with the status; 0 counts those without an answer.
func (as Arrivals) Count(status int) int {
	n := 0
	for _, a := range as {
		if a.Status == status {
			n++
		}
	}
	return n
}

// ByStatus returns how many were answered with each status.
func (as Arrivals) ByStatus() map[int]int {
	counts := make(map[int]int)
	for _, a := range as {
		counts[a.Status]++
	}
	return counts
}

// Labels returns their labels, in order.
func (as Arrivals) Labels() []string {
	labels := make([]string, len(as))
	for i, a := range as {
		labels[i] = a.Label
	}
	return labels
}

// Since returns how long after a moment each arrived, in order.
func (as Arrivals) Since(start time.Time) []time.Duration {
	offsets := make([]time.Duration, len(as))
	for i, a := range as {
		offsets[i] = a.At.Sub(start)
	}
	return offsets
}

// Span is the time from the first to the last.
func (as Arrivals) Span() time.Duration {
	if len(as) == 0 {
		return 0
	}
	return as[len(as)-1].At.Sub(as[0].At)
}

// MinGap is the shortest time between two that follow one another; 0 if there are fewer than two.
func (as Arrivals) MinGap() time.Duration {
	if len(as) < 2 {
		return 0
	}
	shortest := as[1].At.Sub(as[0].At)
	for i := 2; i < len(as); i++ {
		shortest = min(shortest, as[i].At.Sub(as[i-1].At))
	}
	return shortest
}

// MaxInWindow is the largest number in any window of length d, wherever it begins: of those in
// [t, t+d), for all t. d is above 0.
func (as Arrivals) MaxInWindow(d time.Duration) int {
	most, first := 0, 0
	for last := range as {
		for as[last].At.Sub(as[first].At) >= d {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// MaxCostInWindow is MaxInWindow with each counted as its Cost.
func (as Arrivals) MaxCostInWindow(d time.Duration) int {
	most, cost, first := 0, 0, 0
	for _, last := range as {
		for last.At.Sub(as[first].At) >= d {
			cost -= as[first].Cost
			first++
		}
		cost += last.Cost
		most = max(most, cost)
	}
	return most
}

// TotalCost is the sum of their Costs.
func (as Arrivals) TotalCost() int {
	sum := 0
	for _, a := range as {
		sum += a.Cost
	}
	return sum
}

// MaxInFlight is the largest number of requests of one key that were being handled at once. It
// counts refused ones too, for the instant that a refusal takes.
func (as Arrivals) MaxInFlight() int {
	most := 0
	for _, a := range as {
		most = max(most, a.InFlight)
	}
	return most
}

// Utilisation is how much of a limit of perSecond and burst they used: the least time in which the
// limit lets so many arrive, as a share of the time they took. 1 is all of it, and more is over the
// limit. It is 1 for no more than burst arrivals.
func (as Arrivals) Utilisation(perSecond float64, burst int) float64 {
	if len(as) <= burst {
		return 1
	}
	ideal := float64(len(as)-burst) / perSecond
	return ideal / as.Span().Seconds()
}
