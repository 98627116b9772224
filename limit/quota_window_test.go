package limit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// windowServer counts in fixed windows, and says what is left.
type windowServer struct {
	n      int64
	d      time.Duration
	window time.Duration
	used   int64
	over   int64
}

func (w *windowServer) arrive(now time.Duration, cost int64) limit.Count {
	if i := now / w.d; i != w.window {
		w.window, w.used = i, 0
	}
	w.used += cost
	w.over = max(w.over, w.used-w.n)
	return limit.Count{Limit: w.n, Remaining: max(0, w.n-w.used), Reset: (w.window+1)*w.d - now}
}

// In whatever order the answers come, no more leave in a window than the server says are left, but for those that left
// before it had said anything; and all that is allowed is used.
func TestQuotaIsNeverOverAndUsed(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		server := &windowServer{n: 20 + r.Int64N(200), d: time.Duration(1+r.IntN(10)) * time.Second, window: -1}
		rtt := time.Duration(r.IntN(100)) * ms
		var q limit.Quota
		type flight struct {
			left, arrives, back time.Duration
			cost, upTo          int64
			count               limit.Count
			arrived             bool
		}
		var flights []*flight
		var now time.Duration
		var inFlight, sent, served int64
		end := 5 * server.d
		for now < end {
			// The first one goes alone: nothing is known before.
			for cost := 1 + r.Int64N(3); inFlight == 0 || q.Renewed() != limit.Never && inFlight < 64; cost = 1 + r.Int64N(3) {
				if q.Asking(now) || q.Earliest(now, cost, inFlight, sent, 0, limit.SpreadNone) > now {
					break
				}
				q.Depart(now, inFlight, sent)
				sent += cost
				inFlight += cost
				there := rtt/2 + time.Duration(r.Int64N(int64(rtt/4+1)))
				flights = append(flights, &flight{left: now, arrives: now + there, back: now + there + rtt/2 + time.Duration(r.Int64N(int64(rtt/4+1))), cost: cost, upTo: sent})
			}
			now += ms
			for _, f := range flights {
				if !f.arrived && f.arrives <= now {
					f.arrived, f.count = true, server.arrive(f.arrives, f.cost)
					if f.arrives < end {
						served += f.cost
					}
				}
			}
			var rest []*flight
			for _, f := range flights {
				if f.back > now {
					rest = append(rest, f)
					continue
				}
				inFlight -= f.cost
				q.Tell(f.count, f.left, now, f.upTo, sent)
				q.Hear(false, f.cost)
			}
			flights = rest
		}
		if server.over > 3 {
			t.Errorf("seed %d: %d more than %d left in a window of %v, with a round trip of %v", seed, server.over, server.n, server.d, rtt)
		}
		if share := float64(served) / float64(5*server.n); share < 0.9 {
			t.Errorf("seed %d: %.2f of what %d per %v allow was used, with a round trip of %v", seed, share, server.n, server.d, rtt)
		}
	}
}
