package limit_test

import (
	"testing"
	"time"

	"github.com/outflow-go/outflow/limit"
)

// The third answer in a row that says that the upstream is unwell makes it an outage, and one that asks for a pause at
// once.
func TestWhatIsAnOutage(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers string // a: accepted, o: overloaded, p: with a pause
		down    bool
	}{
		{"two", "oo", false}, {"three", "ooo", true}, {"not in a row", "ooaoo", false}, {"again in a row", "ooaooo", true}, {"with a pause", "p", true},
	} {
		l := limit.NewLearner(limit.LearnerBounds{})
		var now time.Duration
		for _, a := range tt.answers {
			now += time.Second
			f := l.Depart(now, now, 1)
			switch a {
			case 'a':
				l.Accepted(f, now)
			case 'o':
				l.Overloaded(f, 0, now)
			case 'p':
				l.Overloaded(f, time.Second, now)
			}
		}
		if l.Down() != tt.down {
			t.Errorf("%s: down is %v, want %v", tt.name, l.Down(), tt.down)
		}
	}
}

// What had left before the outage was known, and was accepted, doesn't end it: a probe does.
func TestAProbeEndsAnOutage(t *testing.T) {
	l := limit.NewLearner(limit.LearnerBounds{})
	var out []limit.Flight
	for range 4 {
		out = append(out, l.Depart(0, 0, 1))
	}
	for _, f := range out[:3] {
		l.Overloaded(f, 0, time.Second)
	}
	l.Accepted(out[3], time.Second)
	if !l.Down() {
		t.Error("one that had left earlier has ended the outage")
	}
	probe := l.Earliest(time.Second, 0)
	if wait := probe - time.Second; wait < 100*time.Millisecond || wait > time.Second {
		t.Errorf("the probe leaves after %v", wait)
	}
	f := l.Depart(probe, probe, 1)
	if next := l.Earliest(probe, 0); next <= probe {
		t.Error("another leaves with the probe")
	}
	l.Accepted(f, probe+time.Millisecond)
	if l.Down() {
		t.Error("the probe hasn't ended the outage")
	}
}

// Of refusals with nothing accepted between them each lowers the pace by much, so that it soon is what the upstream takes.
func TestRefusalsInARowLowerThePaceByMuch(t *testing.T) {
	l := limit.NewLearner(limit.LearnerBounds{Declared: 1000, NoWindow: true})
	now := time.Second
	for range 20 {
		now = max(now, l.Earliest(now, 0))
		l.Refused(l.Depart(now, now, 1), time.Second, 0, false, now)
		now += time.Second
	}
	if rate := l.Rate(); rate <= 0 || rate > 10 {
		t.Errorf("after 20 refusals in a row the pace is %v/s, want at most 10", rate)
	}
}

// A server that renews its windows later than it says is believed to, so that not each window begins with a refusal.
func TestWindowsThatAreRenewedLate(t *testing.T) {
	var q limit.Quota
	q.Tell(limit.Count{Limit: 10, Remaining: 0, Reset: time.Minute}, 0, 0, 1, 1)
	at := q.Earliest(time.Second, 1, 0, 1, 1, limit.SpreadNone)
	if at != time.Minute {
		t.Fatalf("the next leaves at %v, want it when the window is renewed", at)
	}
	q.Depart(at, 0, 1)
	if !q.Asking(at) || q.AskingUntil(at) <= at || q.Asking(q.AskingUntil(at)) {
		t.Error("the others don't wait for that, or for ever")
	}
	q.Hear(true, 1)
	if later := q.Earliest(at, 1, 0, 2, 1, limit.SpreadNone); later <= at || later > at+3*time.Second {
		t.Errorf("after a refusal the next leaves at %v", later)
	}
}
