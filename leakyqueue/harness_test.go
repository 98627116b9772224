package leakyqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/outflow-go/outflow/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newQueue(t *testing.T, cfg Config, limits ...limit.Limit) *Queue {
	t.Helper()
	q, err := New(cfg, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func newRule(t *testing.T, q *Queue, name string, limits ...limit.Limit) *Rule {
	t.Helper()
	r, err := q.AddRule(name, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// enter lets a request in that waits or has left; done tells how its turn ended, if it has.
func enter(t *testing.T, q *Queue, ctx context.Context, d Demand) (turn Turn, ticket *Ticket) {
	t.Helper()
	ticket = new(Ticket)
	turn, err := q.Enter(ctx, d, ticket)
	if err != nil {
		t.Fatal(err)
	}
	return turn, ticket
}

func (t Turn) over() bool {
	if t.w == nil {
		return true
	}
	select {
	case <-t.w.ready:
		return true
	default:
		return false
	}
}

func wantOver(t *testing.T, turn Turn, want bool, what string) {
	t.Helper()
	synctest.Wait()
	if turn.over() != want {
		t.Errorf("%s: over is %v, want %v", what, !want, want)
	}
}

// stepWallClock has t's wall clock say d more, and leaves its monotonic reading: as if the clock had been
// set, or the machine suspended, between t and now.
func stepWallClock(t *time.Time, d time.Duration) {
	wall := (*uint64)(unsafe.Pointer(t)) // 1 bit: has a monotonic reading; 33 bits of seconds; 30 bits of ns
	*wall += uint64(d/time.Second) << 30
}
