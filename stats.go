package outflow

import (
	"sync/atomic"

	"github.com/outflow-go/outflow/leakyqueue"
)

// counters count what is rare enough not to slow a request down.
type counters struct {
	retries, limited, overloaded atomic.Uint64
}

// Stats is what a Transport has done, and how it stands.
type Stats struct {
	Retries    uint64 // attempts after the first
	Limited    uint64 // answers that said "you": 429 and the like
	Overloaded uint64 // answers that said "everybody": 503 and the like

	// Buckets are those in use, and those that were a short time ago, ordered by rule and key. The
	// rule of Config.Limits is called "host".
	Buckets []leakyqueue.BucketStats
}

// Stats returns the Transport's state, in time proportional to the number of buckets.
func (t *Transport) Stats() Stats {
	return Stats{
		Retries:    t.counts.retries.Load(),
		Limited:    t.counts.limited.Load(),
		Overloaded: t.counts.overloaded.Load(),
		Buckets:    t.queue.Stats(),
	}
}
