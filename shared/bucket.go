package shared

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/outflow-go/outflow/limit"
)

const (
	// maxCost is the largest cost, and the largest number of departures times their cost, that the
	// script is asked for, so that all its products are exact.
	maxCost = 1 << 30

	// maxDenominator bounds the fraction of a microsecond in a rate's interval, for the same reason. An
	// interval that needs a larger one is rounded up, by less than 2⁻⁴⁰ us; or down, if that is closer than
	// a double can be.
	maxDenominator = 1 << 40

	// maxVersion is the largest integer that a double counts up to.
	maxVersion = 1<<53 - 1
)

// bucketKeys is what the script needs to know of a bucket: where it is, and what its limits are.
type bucketKeys struct {
	key     string // the bucket's, among all of the store
	state   string // STRING: what the bucket remembers
	log     string // ZSET: what left its sliding windows
	members string // ZSET: the instances that use it, until when

	version  uint64        // of the limits
	spec     string        // the limits as the script reads them
	windows  int           // how many of the limits are windows
	calendar []limit.Limit // those of them whose windows are of different lengths
}

// newBucket is the bucket of a key under some limits, whose keys in Redis begin with the prefix and have the
// given hash tag. Concurrencies are left out: they aren't a matter of time. The error wraps
// [limit.ErrInvalid], and names the limit.
func newBucket(prefix, tag, key string, version uint64, limits ...limit.Limit) (*bucketKeys, error) {
	return newNamedBucket(prefix, tag, key, key, version, limits...)
}

// newNamedBucket is newBucket where the bucket's name among those of the store is another than its key, by which windows begin
// that do so by the key.
func newNamedBucket(prefix, tag, name, key string, version uint64, limits ...limit.Limit) (*bucketKeys, error) {
	if version > maxVersion {
		return nil, fmt.Errorf("%w: version %d of the limits: want at most %d", limit.ErrInvalid, version, uint64(maxVersion))
	}
	set, err := limit.Join(limits...)
	if err != nil {
		return nil, err
	}
	base := prefix + "{" + tag + "}:" + name
	b := &bucketKeys{key: name, state: base + ":s", log: base + ":w", members: base + ":m", version: version}
	var spec []string
	for i, l := range limits {
		words, err := b.compile(l, key)
		if err != nil {
			return nil, fmt.Errorf("limits[%d]: %w", i, err)
		}
		spec = append(spec, words...)
	}
	if least, most, ok := set.AdaptiveRate(); ok {
		spec = append(spec, adaptiveSpec(least, most)...)
	}
	b.spec = strings.Join(spec, " ")
	return b, nil
}

// Phases of fixed windows in the script.
const (
	phaseUnknown  = 0
	phaseAnchored = 1
	phaseCalendar = 2
)

func (b *bucketKeys) compile(l limit.Limit, key string) ([]string, error) {
	switch l.Kind() {
	case limit.KindRate:
		t, _ := l.Interval()
		return rateSpec(t, l.Burst(), l.Kept())
	case limit.KindSlidingWindow, limit.KindSlidingCounter, limit.KindFixedWindow:
	default:
		return nil, nil
	}
	n, d, _ := l.Window()
	if d%time.Microsecond != 0 {
		return nil, fmt.Errorf("%w: %v: d is %v: windows that are shared are whole microseconds long", limit.ErrInvalid, l, d)
	}
	b.windows++
	w := windowSpec{n: int64(n + l.Burst()), d: micros(d), guard: micros(l.Guard()), kept: int64(l.Kept())}
	switch l.Kind() {
	case limit.KindSlidingWindow:
		return w.sliding(), nil
	case limit.KindSlidingCounter:
		start, _, _ := l.WindowAt(time.Unix(0, 0), key)
		w.anchor = modulo(start.UnixMicro(), w.d)
		return w.counter(), nil
	}
	w.width = w.d / 16
	w.rounding = min(w.width, micros(2*time.Second))
	if l.Calendar() {
		w.phase = phaseCalendar
		b.calendar = append(b.calendar, l)
	} else if start, _, ok := l.WindowAt(time.Unix(0, 0), key); ok {
		w.phase = phaseAnchored
		w.anchor = modulo(start.UnixMicro(), w.d)
	}
	return w.fixed(), nil
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

func modulo(a, d int64) int64 { return ((a % d) + d) % d }

// rateSpec is a rate with the given interval, in nanoseconds, of whose burst some is kept.
func rateSpec(interval *big.Rat, burst, kept int) ([]string, error) {
	us := new(big.Rat).Quo(interval, big.NewRat(1000, 1))
	whole, part := new(big.Int).QuoRem(us.Num(), us.Denom(), new(big.Int))
	x := new(big.Rat).SetFrac(part, us.Denom())
	p, q := atLeast(x, maxDenominator)
	if a, b := atMost(x, maxDenominator); closer(a, b, x, us) {
		p, q = a, b // what was meant: 1/3, and not 0.3333333333333333
	}
	i := whole.Int64()
	if p == q {
		i, p, q = i+1, 0, 1
	}
	return words(1, i, p, q, int64(burst), int64(burst-kept)), nil
}

// closer reports whether a/b is so close to x that the interval us, of which x is the fraction, is no other
// double with it.
func closer(a, b int64, x, us *big.Rat) bool {
	off := new(big.Rat).Sub(x, big.NewRat(a, b))
	return off.Mul(off, big.NewRat(1<<53, 1)).Cmp(us) <= 0
}

// atLeast is the smallest fraction that isn't below x, and atMost the largest that isn't above it, with a
// denominator of at most limit. x is at least 0 and below 1.
func atLeast(x *big.Rat, limit int64) (p, q int64) {
	_, _, p, q = around(x, limit)
	return p, q
}

func atMost(x *big.Rat, limit int64) (a, b int64) {
	a, b, _, _ = around(x, limit)
	return a, b
}

func around(x *big.Rat, limit int64) (a, b, p, q int64) {
	if x.Denom().IsInt64() && x.Denom().Int64() <= limit {
		p, q = x.Num().Int64(), x.Denom().Int64()
		return p, q, p, q
	}
	// Below x is a/b, and above it p/q, each the closest with such denominators. Between them is
	// (a+p)/(b+q); as many steps as possible are taken at once.
	a, b, p, q = 0, 1, 1, 1
	// x·q − p and so on, exactly, with x as num/den.
	num, den := x.Num(), x.Denom()
	times := func(s, d int64) *big.Int { // num·d − s·den: how far x is above s/d
		l := new(big.Int).Mul(num, big.NewInt(d))
		return l.Sub(l, new(big.Int).Mul(den, big.NewInt(s)))
	}
	for b+q <= limit {
		below, above := times(a, b), times(p, q) // at least 0, below 0
		above.Neg(above)
		// a/b moves up by k steps as long as (a+k·p)/(b+k·q) isn't above x.
		if k := new(big.Int).Quo(below, above); k.Sign() > 0 {
			n := min(fit(k), (limit-b)/q)
			a, b = a+n*p, b+n*q
			continue
		}
		k := new(big.Int).Quo(above, below)
		n := max(1, min(fit(k), (limit-q)/b))
		p, q = p+n*a, q+n*b
	}
	return a, b, p, q
}

func fit(k *big.Int) int64 {
	if k.IsInt64() {
		return min(k.Int64(), 1<<32)
	}
	return 1 << 32
}

// adaptiveSpec is a rate to be learnt, in departures per million seconds.
func adaptiveSpec(least, most float64) []string {
	return words(2, max(1, int64(least*1e6)), max(1, int64(most*1e6)))
}

// windowSpec is a window in microseconds.
type windowSpec struct {
	n, d, guard, kept       int64
	width, rounding, anchor int64
	phase                   int64
}

func (w windowSpec) sliding() []string { return words(3, w.n, w.d, w.guard, w.kept) }
func (w windowSpec) counter() []string { return words(4, w.n, w.d, w.guard, w.kept, w.anchor) }
func (w windowSpec) fixed() []string {
	return words(5, w.n, w.d, w.guard, w.kept, w.width, w.rounding, w.phase, w.anchor)
}

func words(n ...int64) []string {
	w := make([]string, len(n))
	for i := range n {
		w[i] = strconv.FormatInt(n[i], 10)
	}
	return w
}

// bounds says when the calendar's windows around a moment begin: the one in which it is, and three more.
func (b *bucketKeys) bounds(now time.Time) string {
	if len(b.calendar) == 0 {
		return ""
	}
	var s []byte
	for _, l := range b.calendar {
		s = append(s, "/ "...)
		t := now
		for i := range 4 {
			start, end, ok := l.WindowAt(t, b.key)
			if !ok {
				break
			}
			if i == 0 {
				s = strconv.AppendInt(s, start.UnixMicro(), 10)
				s = append(s, ' ')
			}
			s = strconv.AppendInt(s, end.UnixMicro(), 10)
			s = append(s, ' ')
			t = end
		}
	}
	return string(s)
}
