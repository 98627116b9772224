package backoff

import "fmt"

// Jitter is how chance spreads the delays of a Policy. The zero Jitter is Full.
//
// It prints and reads as its name in lower case: "full", "equal", "decorrelated", "none".
type Jitter uint8

const (
	// Full draws from everything up to the exponential delay. In the article's simulation of clients
	// that compete for one upstream, it got the work done with the fewest requests.
	Full Jitter = iota

	// Equal keeps half of the exponential delay and draws the other half, for an upstream that is
	// known to need the time.
	Equal

	// Decorrelated draws between Base and a multiple of the delay before, whatever the attempt, so
	// that clients drift apart although their attempts are the same.
	Decorrelated

	// None takes the exponential delay as it is. Clients that failed together retry together.
	None
)

// jitterNames is indexed by Jitter.
var jitterNames = [...]string{Full: "full", Equal: "equal", Decorrelated: "decorrelated", None: "none"}

// String returns the name of j, or "Jitter(9)" for a value that has none.
func (j Jitter) String() string {
	if !j.valid() {
		return fmt.Sprintf("Jitter(%d)", uint8(j))
	}
	return jitterNames[j]
}

// MarshalText returns the name of j, and an error for a value that has none.
func (j Jitter) MarshalText() ([]byte, error) {
	if !j.valid() {
		return nil, fmt.Errorf("backoff: %v has no name", j)
	}
	return []byte(j.String()), nil
}

// UnmarshalText sets j to the kind of that name, which must be spelled as String does.
// When it isn't, j stays as it was.
func (j *Jitter) UnmarshalText(text []byte) error {
	for i, name := range jitterNames {
		if string(text) == name {
			*j = Jitter(i)
			return nil
		}
	}
	return fmt.Errorf("backoff: jitter is %.40q, want full, equal, decorrelated or none", text)
}

func (j Jitter) valid() bool { return int(j) < len(jitterNames) }
