package limit

import (
	"math"
	"time"
)

const (
	anyNumber     = 128 // a window this large holds nobody back any more
	growsByItself = 250 * time.Millisecond
	goodStart     = 1000
	earlyTry      = time.Second / 2
	firstTry      = 5 * time.Second
	lastTry       = 2 * time.Minute
	raiseAfter    = 3 // tries
)

// opening is how many may be in flight. The zero opening is any number.
type opening struct {
	size    float64 // 0: any number
	gain    float64 // for each that was accepted
	changed time.Duration

	ceiling  int           // one more was refused; 0: unknown
	try      time.Duration // when one more is tried
	patience time.Duration // until the try after that, should it be refused
	fine     int           // tries in a row that were accepted
	early    bool          // none was refused yet

	good  int    // accepted
	most  [2]int // in flight at the departure of one that was accepted: lately, and before that
	since time.Duration
}

func (w *opening) begin(size, gain float64) {
	w.size, w.gain = size, gain
	if w.ceiling > 0 {
		w.size = min(w.size, float64(w.ceiling))
	}
}

// slots is never stuck: what is not answered for a while is no reason to hold the others for ever.
func (w *opening) slots(now time.Duration) (int, time.Duration) {
	switch {
	case w.size == 0:
		return 0, Never
	case w.ceiling > 0 && int(w.size) >= w.ceiling:
		if now >= w.try {
			return w.ceiling + 1, Never
		}
		return w.ceiling, w.try
	}
	periods := math.Floor(float64(now-w.changed) / float64(growsByItself))
	size := w.size * math.Pow(1+w.gain, min(periods, 64))
	if w.ceiling > 0 {
		size = min(size, float64(w.ceiling))
	}
	return int(min(size, 1e9)), w.changed + time.Duration(periods+1)*growsByItself
}

func (w *opening) accepted(f Flight, news bool, now, roundTrip time.Duration) {
	if now-w.since > 5*time.Second {
		w.most[1], w.most[0], w.since = w.most[0], 0, now
	}
	w.most[0] = max(w.most[0], int(f.with))
	if w.size == 0 {
		return
	}
	if w.good++; w.ceiling == 0 {
		if n, _ := w.slots(now); n >= anyNumber || w.good >= goodStart {
			w.size = 0
			return
		}
	}
	if w.ceiling > 0 && news && int(f.with) > w.ceiling { // one more would do
		w.fine++
		w.try = now + max(2*roundTrip, growsByItself)
		if w.fine >= raiseAfter || w.early {
			w.ceiling++
			w.fine = raiseAfter - 1 // the next is easier
			w.patience = max(w.patience/2, firstTry)
		}
	}
	if float64(f.with) >= w.size/2 {
		w.size += w.gain
		w.changed = now
	}
	switch {
	case w.ceiling > 0:
		w.size = min(w.size, float64(w.ceiling))
	case w.size >= anyNumber:
		w.size = 0
	}
}

// concerns reports whether a refusal without a hint is a matter of how many are in flight.
func (w *opening) concerns(f Flight, paced bool) bool {
	most := max(w.most[0], w.most[1])
	switch n := int(f.with); {
	case n <= 2: // a limit of one at a time is rarer than one that wants some time between two
		return false
	case paced:
		return n > most+most/2+1
	default:
		return true
	}
}

// departed notes that a request left with so many in flight.
func (w *opening) departed(inFlight int, now time.Duration) {
	if w.ceiling > 0 && inFlight > w.ceiling { // it was the try, and there is one at a time
		w.try = now + w.patience
	}
}

// refused lowers the window to what it must be for f not to have left.
func (w *opening) refused(news bool, inFlight int, now time.Duration) {
	// What is in flight now was let in, all that is refused out of the way. Who left when isn't known as well: requests
	// overtake one another.
	n := max(inFlight, 1)
	if w.size == 0 {
		w.begin(float64(n), 0.5)
	}
	if news {
		w.patience = min(max(2*w.patience, firstTry), lastTry)
		w.try = now + w.patience
		w.fine, w.early = 0, false
	}
	if w.ceiling == 0 { // the first guess may be too low by one
		w.try, w.early = now+earlyTry, true
	}
	if w.ceiling == 0 || n < w.ceiling {
		w.ceiling = n
	}
	w.shrink(inFlight)
	w.changed = now
}

// shrink has others leave only as those in flight are answered: who was refused isn't in the upstream's
// books, and says nothing of room for others.
func (w *opening) shrink(inFlight int) {
	if w.size != 0 {
		w.size = max(1, min(w.size, float64(inFlight)))
	}
}
