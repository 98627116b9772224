package leakyqueue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// full returns a queue of 1/s from which one has left, and in which one of each given priority waits:
// as many as may.
func full(t *testing.T, o Overflow, priorities ...Priority) (q *Queue, in []Turn) {
	t.Helper()
	q = newQueue(t, Config{MaxWaiting: len(priorities), Overflow: o}, limit.PerSecond(1))
	enter(t, q, t.Context(), Demand{})
	for _, p := range priorities {
		turn, _ := enter(t, q, t.Context(), Demand{Priority: p})
		in = append(in, turn)
	}
	return q, in
}

func TestOverflow(t *testing.T) {
	for _, tt := range []struct {
		name     string
		overflow Overflow
		waiting  []Priority
		newcomer Priority
		victim   int // who gives way; -1: the newcomer
	}{
		{"refuse the newcomer", RefuseNewcomer, []Priority{Low, Low}, Urgent, -1},
		{"drop the oldest", DropOldest, []Priority{Urgent, Low, Low}, Low, 0},
		{"drop the lowest", DropLowest, []Priority{Normal, Low, Low, Normal}, Normal, 2},
		{"drop the lowest of several", DropLowest, []Priority{Background, Low, Normal}, Urgent, 0},
		{"drop the lowest, where the newcomer is no higher", DropLowest, []Priority{Normal, Low}, Low, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, in := full(t, tt.overflow, tt.waiting...)
				turn, err := q.Enter(t.Context(), Demand{Priority: tt.newcomer}, nil)
				if refused := errors.Is(err, ErrQueueFull); refused != (tt.victim < 0) {
					t.Fatalf("the newcomer: %v", err)
				}
				for i, one := range in {
					if one.over() != (i == tt.victim) {
						t.Errorf("number %d: over is %v", i, one.over())
					}
				}
				if tt.victim >= 0 {
					if _, err := in[tt.victim].Await(t.Context()); !errors.Is(err, ErrQueueFull) {
						t.Errorf("who gave way got %v", err)
					}
					in = append(slices.Delete(in, tt.victim, tt.victim+1), turn)
				}
				for _, one := range in {
					if _, err := one.Await(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// Nobody gives way to one who can't make it in time anyway.
func TestOverflowDropsNobodyForOneWhoIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, in := full(t, DropOldest, Normal, Normal, Normal)
		come := func(timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := q.Enter(ctx, Demand{}, nil)
			return err
		}
		if err := come(2900 * time.Millisecond); !errors.Is(err, ErrDeadline) || in[0].over() {
			t.Errorf("too late for 3s: %v; the oldest gave way: %v", err, in[0].over())
		}
		if err := come(3100 * time.Millisecond); err != nil || !in[0].over() {
			t.Errorf("in time for 3s: %v; the oldest gave way: %v", err, in[0].over())
		}
	})
}

func TestRetriesNeitherOverflowNorGiveWay(t *testing.T) {
	for _, o := range []Overflow{RefuseNewcomer, DropOldest, DropLowest, Block} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t, Config{MaxWaiting: 1, Overflow: o}, limit.PerSecond(1))
			left, err := q.Depart(t.Context(), Demand{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			newcomer, _ := enter(t, q, t.Context(), Demand{Priority: Low})
			retry, _ := enter(t, q, t.Context(), Demand{Place: left.Place, Priority: Low})
			second, err := q.Enter(t.Context(), Demand{}, nil)
			if wantIn := o != RefuseNewcomer; (err == nil) != wantIn {
				t.Errorf("overflow %d: the second newcomer got %v", o, err)
			}
			wantOver(t, newcomer, o == DropOldest || o == DropLowest, "the first newcomer")
			for _, one := range []Turn{retry, second} {
				if one.q == nil {
					continue
				}
				if _, err := one.Await(t.Context()); err != nil {
					t.Errorf("overflow %d: %v", o, err)
				}
			}
			if o == RefuseNewcomer || o == Block {
				if _, err := newcomer.Await(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Who stays outside comes in as others leave, in order, and may be cancelled there.
func TestBlockKeepsThemOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, in := full(t, Block, Normal, Normal)
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		fickle, _ := enter(t, q, ctx, Demand{})
		first, _ := enter(t, q, t.Context(), Demand{})
		urgent, _ := enter(t, q, t.Context(), Demand{Priority: Urgent})
		cancel()
		if _, err := fickle.Await(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if s := q.Stats()[0]; s.Waiting != 4 {
			t.Errorf("%d wait", s.Waiting)
		}
		// At 1 s one leaves and first comes in, at 2 s another and urgent, which then overtakes first.
		for i, turn := range []Turn{in[0], in[1], urgent, first} {
			if _, err := turn.Await(t.Context()); err != nil {
				t.Error(err)
			}
			if at, want := time.Since(start), time.Duration(i+1)*time.Second; at != want {
				t.Errorf("number %d left at %v, want %v", i, at, want)
			}
		}
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The time outside isn't part of MaxWait.
func TestMaxWaitBeginsInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Config{MaxWaiting: 1, Overflow: Block, MaxWait: 1500 * time.Millisecond}, limit.PerSecond(1))
		enter(t, q, t.Context(), Demand{})
		start := time.Now()
		for i := range 4 {
			turn, _ := enter(t, q, t.Context(), Demand{})
			defer func() {
				if _, err := turn.Await(t.Context()); err != nil {
					t.Errorf("number %d: %v", i, err)
				}
			}()
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if s := q.Stats()[0]; s.Waiting != 0 {
			t.Errorf("after %v %d wait", time.Since(start), s.Waiting)
		}
	})
}

func TestCloseEndsThoseOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, in := full(t, Block, Normal)
		outside, _ := enter(t, q, t.Context(), Demand{})
		if err := q.Close(canceled(t)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, turn := range append(in, outside) {
			if _, err := turn.Await(t.Context()); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
	})
}
