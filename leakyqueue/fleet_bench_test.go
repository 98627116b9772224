package leakyqueue

import (
	"testing"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// idlePacer leases nothing.
type idlePacer struct{}

func (idlePacer) Check(Shared) error           { return nil }
func (idlePacer) Join(Shared, Watcher) Member  { return idlePacer{} }
func (idlePacer) Open([]Shared, Tenant) Lessor { return idleLessor{} }
func (idlePacer) Pause(time.Time)              {}
func (idlePacer) Resume()                      {}
func (idlePacer) Slots(int, int)               {}
func (idlePacer) Heard(Answer, int)            {}
func (idlePacer) Leave(int)                    {}

type idleLessor struct{}

func (idleLessor) Ask(Ask)                 {}
func (idleLessor) Close([]Leased, []int64) {}

// BenchmarkSharedDeparture is what a departure costs for which something is at hand, and in a bucket of this process
// alone.
func BenchmarkSharedDeparture(b *testing.B) {
	for _, shared := range []bool{false, true} {
		name := "alone"
		if shared {
			name = "shared"
		}
		b.Run(name, func(b *testing.B) {
			q, err := New(Config{})
			if err != nil {
				b.Fatal(err)
			}
			r, err := q.AddRule("api", limit.PerSecond(1e9).WithBurst(1e6))
			if err != nil {
				b.Fatal(err)
			}
			if shared {
				if err := r.Share(idlePacer{}, Sharing{}); err != nil {
					b.Fatal(err)
				}
			}
			d := Demand{Keys: []Key{{Rule: r}}}
			var lease *lease
			ones := []int64{1}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if n--; shared && n < 0 {
					n = 1000
					q.mu.Lock()
					if lease == nil {
						q.withLease([]*bucket{q.bucketLocked(Key{Rule: r}, q.now())}, q.now())
						lease = r.plain.fleet.alone.lease
						lease.hand = make([]leased, 0, n+1)
					}
					now := q.now()
					lease.hand = lease.hand[:0]
					for range n + 1 {
						lease.total++
						lease.hand = append(lease.hand, leased{due: now, until: now + time.Minute, total: lease.total, units: 1, Leased: Leased{Costs: ones}})
					}
					lease.asking = true
					q.mu.Unlock()
				}
				if _, err := q.Depart(b.Context(), d, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
