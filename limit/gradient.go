package limit

import "time"

// A Gradient learns how many requests an upstream does at once.
type Gradient struct {
	min, max int
	slots    int
}

// NewGradient returns a Gradient that has seen nothing yet. Bounds out of range are brought into it.
func NewGradient(min, max int) Gradient {
	g := Gradient{min: min, max: max}
	g.slots = min
	return g
}

// Slots returns how many requests may be out at once at present.
func (g *Gradient) Slots() int { return g.slots }

// Observe notes how a request ended: at now, a moment since an epoch, after it took latency from its
// departure to the response's headers, with inFlight requests out when it left, itself included. It was
// dropped if it was refused (429, 503), or timed out or failed for load.
func (g *Gradient) Observe(now, latency time.Duration, inFlight int, dropped bool) {}
