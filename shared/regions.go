package shared

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed regions.lua
var regionsSource string

var regionsScript = redis.NewScript(regionsSource)

// What a RegionsConfig has where it says nothing.
const (
	DefaultPeriod       = time.Second
	DefaultRegionsLease = 10 * time.Second
)

// RegionsConfig says how regions share limits. Region, Regions and Ledgers have to be given.
type RegionsConfig struct {
	// Region is the name of this one, and Regions are those of all, up to 50.
	Region  string
	Regions []string

	// Ledgers are the Redis in any of which the shares are kept, the same in the same order in all regions: mostly the
	// regions' own. The first that can be reached is used. They remain the caller's.
	Ledgers []redis.UniversalClient

	// Alone is the share of a region that reaches no ledger, or not its own Redis. From its base (see Regions) to 1.
	// Defaults to 1/len(Regions).
	Alone float64

	// Period is how often shares are looked at. From twice Config.Horizon to a minute. Defaults to DefaultPeriod.
	Period time.Duration

	// Lease is for how long a region keeps its share without a ledger. From 8 times Period to an hour. Defaults to
	// DefaultRegionsLease.
	Lease time.Duration
}

const (
	shares     = 1000 // a share is so many of these
	baseShares = 50   // that all regions have together, whatever is in the ledger
	maxRegions = baseShares
	step       = 25 // in which shares are asked for
)

func (c RegionsConfig) withDefaults(s *Store) (RegionsConfig, error) {
	n := len(c.Regions)
	sorted := slices.Clone(c.Regions)
	slices.Sort(sorted)
	switch {
	case n == 0 || n > maxRegions:
		return c, fmt.Errorf("%w: Regions are %d, want 1 to %d", ErrInvalid, n, maxRegions)
	case len(slices.Compact(sorted)) < n:
		return c, fmt.Errorf("%w: Regions has one twice: %q", ErrInvalid, c.Regions)
	case c.Region == "" || !slices.Contains(c.Regions, c.Region):
		return c, fmt.Errorf("%w: Region is %q, want one of %q", ErrInvalid, c.Region, c.Regions)
	case len(c.Ledgers) == 0 || slices.Contains(c.Ledgers, nil):
		return c, fmt.Errorf("%w: Ledgers are %d clients, want at least one, and none that is nil", ErrInvalid, len(c.Ledgers))
	}
	if c.Alone == 0 {
		c.Alone = 1 / float64(n)
	}
	if least := float64(c.base()) / shares; !(c.Alone >= least && c.Alone <= 1) {
		return c, fmt.Errorf("%w: Alone is %v, want %v to 1", ErrInvalid, c.Alone, least)
	}
	if c.Period == 0 {
		c.Period = DefaultPeriod
	}
	if c.Period < 2*s.cfg.Horizon || c.Period > time.Minute {
		return c, fmt.Errorf("%w: Period is %v, want %v to %v", ErrInvalid, c.Period, 2*s.cfg.Horizon, time.Minute)
	}
	if c.Lease == 0 {
		c.Lease = max(DefaultRegionsLease, 8*c.Period)
	}
	if c.Lease < 8*c.Period || c.Lease > time.Hour {
		return c, fmt.Errorf("%w: Lease is %v, want %v to %v", ErrInvalid, c.Lease, 8*c.Period, time.Hour)
	}
	return c, nil
}

// base is what a region has of shares whatever is in the ledger, and pool what the ledger has for all of them.
func (c *RegionsConfig) base() int { return baseShares / len(c.Regions) }
func (c *RegionsConfig) pool() int { return shares - c.base()*len(c.Regions) }

// alone is what a region that is alone has beyond its base.
func (c *RegionsConfig) alone() int { return int(math.Ceil(c.Alone*shares)) - c.base() }

// Regions have one limit together: each has its own Redis, and its Stores go by a share of the limits there, which
// follows the demand.
//
// A region always has its base, of which all regions together have 5 %. The rest is in a ledger, as if it were the slots
// of a concurrency (see slots.lua): a region leases of it what it makes use of and an eighth and 2.5 to 5 % more, or asks
// for all of it if somebody waits who can't leave soon. Of several buckets that one counts which takes the most. Where all want more than there is, each gets the same, but no more than it wants. So a
// region that is busy alone has 95 % of the limits and its base; and where none gets what it wants, one that isn't busy
// keeps up to an eighth of its own use, and 5 %, and its base, from the others. A share moves in six to eight Periods.
//
// One instance leads those of a region: it alone talks to the ledger, and has its region's Redis tell the others, who
// look there once in a Period and leave there what they make use of. Thereby a region is one to the ledger however many
// instances it has, a departure never waits for another region, and the link between regions carries one call in a
// Period. If each talked to the ledger itself, its share would be for its own departures and not for its region's,
// which are leased from one bucket.
//
// # What may leave in excess
//
// While a region reaches a ledger, nothing of a rate: who has to give shares up does so before others get them. What an
// instance may still have in effect counts until it says otherwise, or for a Lease after it was heard of last; so do
// slots that are out, and what windows count, since these are used up. But there is no less than one of what is
// counted in whole units: in each region at least one unit of a window and of a burst, and one slot. And shares that
// move bring the burst that goes with them along: that much of it, once.
//
// A region that reaches no ledger keeps its share until the Lease ends, less a tenth of it and a horizon, and then has
// Alone: who has less than that then waits for half a Lease more, so that the others have come down if it is the ledger
// that is gone. Others may have all but its base then. So with k regions cut off, their bases b and
// Alone a, up to 1 + k·(a-b) times a rate leaves; with Alone as low as the base, no more than the rate. If none reaches
// a ledger, all are alone: n·a times, which is 1 by default. What windows counted in a region that is cut off
// isn't known to the ledger any more, so that up to its share may leave once more. So it is when all instances of a
// region crash.
//
// A ledger that was lost, or another one, is empty at first. Who isn't known there, comes from another, or had no answer
// the last time asks for no more than it has for a Lease, by which time the others have come, too. A region that nobody knew, since it is new, has up to Alone
// for that long. Two ledgers that are both in use, each by regions that don't reach the other, give the pool out
// twice: up to 1.95 times the rate leaves. Only a majority could prevent that, which of two regions is both. Who can't
// have that gives a single ledger.
//
// A Redis that hung may run a call later that was given up. Until the region's next call, in a Period, the ledger may
// count less for it than it has.
//
// When a region is back that was alone while others took its share, it has no more than its base until they have given
// some of it back, some Periods later.
type Regions struct {
	s   *Store
	cfg RegionsConfig
	own *remote   // the region's own Redis
	far []*remote // the ledgers

	leader state // of the loop only, if it leads

	mu     sync.Mutex  // guards what follows; before Store.mu
	inUse  int         // shares beyond the base
	end    *time.Timer // of the lease: then the region is alone
	until  time.Duration
	alone  bool
	ledger int
	leads  bool
}

// state is what a leader remembers from one Period to the next.
type state struct {
	used  float64
	knows *remote // the ledger that answered last, as long as it does
	lost  bool    // that there is no ledger was told
}

// RegionsStats is how things stand.
type RegionsStats struct {
	Share  float64 // of the limits that this region has now
	Alone  bool    // it has that since it reaches no ledger
	Leads  bool    // this instance leads its region
	Ledger int     // which of the Ledgers it used last, if it leads; -1: none
}

// NewRegions has a Store go by its region's share of the limits, which is its base at first. No rule may be shared yet. It
// ends when the Store is closed.
func NewRegions(s *Store, cfg RegionsConfig) (*Regions, error) {
	cfg, err := cfg.withDefaults(s)
	if err != nil {
		return nil, err
	}
	r := &Regions{s: s, cfg: cfg, own: &remote{rdb: s.rdb}, ledger: -1}
	for _, rdb := range cfg.Ledgers {
		r.far = append(r.far, &remote{rdb: rdb})
	}
	s.mu.Lock()
	if s.closed || s.regions != nil || len(s.groups) > 0 {
		s.mu.Unlock()
		return nil, fmt.Errorf("%w: the Store is closed, in use, or has regions already", ErrInvalid)
	}
	s.regions, s.gauges = r, make(map[string]*gauge)
	s.share, s.leastShare = float64(cfg.base())/shares, float64(cfg.base())/shares
	r.until = s.now() + cfg.Lease
	r.end = time.AfterFunc(cfg.Lease, r.goAlone)
	s.loops.Go(r.loop)
	s.mu.Unlock()
	return r, nil
}

// Stats returns how things stand.
func (r *Regions) Stats() RegionsStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := RegionsStats{Alone: r.alone, Leads: r.leads, Ledger: r.ledger}
	st.Share = float64(r.inUse+r.cfg.base()) / shares
	return st
}

// useLocked has so many shares beyond the base be in effect.
func (r *Regions) useLocked(n int) {
	r.inUse = n
	r.s.setShare(float64(n+r.cfg.base()) / shares)
}

// goAlone is for when the lease has ended. Who has less then than when it is alone waits for the others' leases to end,
// which were all renewed at about the same time if it is the ledger that is gone.
func (r *Regions) goAlone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch over := r.s.now() - r.until; {
	case over < 0:
	case over < r.cfg.Lease/2 && r.inUse < r.cfg.alone():
		r.end.Reset(r.cfg.Lease/2 - over)
	default:
		r.alone = true
		r.useLocked(r.cfg.alone())
	}
}

// told takes up the share that the region has for so long since a moment.
func (r *Regions) told(rec record, sent, left time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until := sent + min(left, r.cfg.Lease)
	if left > 0 && until > r.s.now() {
		r.until, r.alone = until, false
		r.end.Reset(until - r.s.now())
		r.useLocked(rec.shares)
	}
}

func (r *Regions) loop() {
	last := r.s.now()
	for {
		now := r.s.now()
		r.turn(max(now-last, r.cfg.Period/2))
		last = now
		select {
		case <-r.s.life.Done():
			r.end.Stop()
			_, _ = r.own.run(r.s.calls, r.s.cfg.Timeout, nil, regionsScript, []string{r.key("region")}, []any{r.s.instance, ""})
			return
		case <-time.After(r.cfg.Period*9/10 + rand.N(r.cfg.Period/5)):
		}
	}
}

// turn looks at the share once.
func (r *Regions) turn(elapsed time.Duration) {
	s := r.s
	s.mu.Lock()
	u := s.useLocked(elapsed)
	s.mu.Unlock()
	report := fmt.Sprintf("%.4f %.4f %.4f %.4f", u.own, u.region, u.held, u.spent)
	sent := s.now()
	a, err := r.ask(report, record{}, 0)
	r.mu.Lock()
	r.leads = err == nil && a.leads
	r.mu.Unlock()
	if err != nil {
		return
	}
	r.told(a.record, sent, a.left)
	if !a.leads {
		r.leader = state{}
		return
	}
	next, err := r.lease(a)
	if s.life.Err() != nil {
		return
	}
	r.tellLedger(err)
	if err != nil {
		return
	}
	// By the clock of the region's Redis the ledger was asked after it had answered, so the lease there ends later.
	ends := a.now + micros(r.cfg.Lease-r.cfg.Lease/10-s.cfg.Horizon)
	sent = s.now()
	if a, err := r.ask(report, next, ends); err == nil {
		r.told(a.record, sent, a.left)
	}
}

// A record is what a region remembers of its lease.
type record struct {
	shares   int   // beyond the base
	wary     int64 // until then, in us by the clock of the region's Redis, others may not have come to the ledger yet
	most     int   // and no more than that is asked for
	isntNone bool
}

func (rec record) String() string { return fmt.Sprintf("%d %d %d", rec.shares, rec.wary, rec.most) }

func parseRecord(text string) record {
	var rec record
	n, err := fmt.Sscanf(text, "%d %d %d", &rec.shares, &rec.wary, &rec.most)
	if err != nil || n != 3 || rec.shares < 0 || rec.shares > shares {
		return record{}
	}
	rec.isntNone = true
	return rec
}

// answer is what the region's Redis says.
type answer struct {
	now    int64
	leads  bool
	record record
	left   time.Duration // until the record ends
	inUse  int           // the most shares that any instance may have in effect
	used   float64
	spent  float64
}

// ask leaves a report in the region's Redis, and a record if there is one.
func (r *Regions) ask(report string, rec record, ends int64) (answer, error) {
	r.mu.Lock()
	inUse := r.inUse
	r.mu.Unlock()
	lease := time.Duration(3+len(r.far)) * r.patience()
	args := []any{r.s.instance, inUse, report, micros(lease), micros(r.cfg.Lease)}
	if rec.isntNone {
		args = append(args, rec.String(), ends)
	}
	v, err := r.own.run(r.s.calls, r.patience(), r.s.life.Done(), regionsScript, []string{r.key("region")}, args)
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(v)
}

func parseAnswer(v any) (answer, error) {
	list, ok := v.([]any)
	if !ok || len(list) < 4 {
		return answer{}, fmt.Errorf("%w: it is %v", errReply, v)
	}
	rd := reader{rest: list}
	a := answer{now: rd.between(1, latest), leads: rd.between(0, 1) == 1}
	if rd.err != nil {
		return a, rd.err
	}
	text, _ := rd.rest[0].(string)
	a.record = parseRecord(text)
	rd.rest = rd.rest[1:]
	a.left = moment(rd.between(0, latest))
	if !a.record.isntNone {
		a.left = 0
	}
	// Each of the sums and the maxima is at least what is so: their least is closest to it.
	var own, region, held, spent float64
	for _, v := range rd.rest {
		var inUse int
		var u use
		text, _ := v.(string)
		if _, err := fmt.Sscanf(text, "%d %f %f %f %f", &inUse, &u.own, &u.region, &u.held, &u.spent); err != nil {
			return a, fmt.Errorf("%w: a report is %q", errReply, text)
		}
		a.inUse = max(a.inUse, inUse)
		own, held = own+u.own, held+u.held
		region, spent = max(region, u.region), max(spent, u.spent)
	}
	a.used, a.spent = min(own, region), max(held, spent)
	return a, rd.err
}

// lease has the ledger give the region what it wants, or some of it.
func (r *Regions) lease(a answer) (record, error) {
	used := max(a.used, r.leader.used) // now and before, so that one that is uneven isn't given up at once
	r.leader.used = a.used
	want, pool := 0, r.cfg.pool()
	if used > 0 {
		// In steps, so that it doesn't change for nothing.
		want = int(math.Ceil(min(used*9/8, 1)*shares/step))*step + step
	}
	next, had := a.record, 0
	if !next.isntNone {
		next = record{isntNone: true, wary: a.now + micros(r.cfg.Lease), most: r.cfg.alone()}
		want = max(want, next.most) // nobody knows yet
	} else {
		had = max(1, next.shares)
	}
	if a.now < next.wary && next.wary-a.now <= micros(r.cfg.Lease) {
		want = min(want, next.most)
	}
	want = max(1, min(want, pool)) // with one at least, it can tell whether it is known
	// What is spent of windows is the ledger's to know: it can't be of use to others.
	out := max(a.inUse, min(int(math.Ceil(a.spent*shares))-r.cfg.base(), pool))
	args := []any{r.cfg.Region, want, out, had, pool, micros(r.cfg.Lease), r.s.channel(), "regions", ""}
	keys := []string{r.key("ledger:h"), r.key("ledger:n"), r.key("ledger:e")}
	ledger, v, err := r.reach(keys, args)
	if err != nil {
		return record{}, err
	}
	n, lost, _, _, err := parseSlots(v, nil)
	if err != nil {
		return record{}, err
	}
	// A call that was given up may be what the region is known by.
	if had > 0 && (lost || ledger != r.leader.knows) {
		next.wary, next.most = a.now+micros(r.cfg.Lease), a.inUse
		n = min(n, a.inUse)
	}
	r.leader.knows = ledger
	next.shares = min(n, pool)
	return next, nil
}

// reach runs slots.lua in the first ledger that answers. One that didn't is left alone for a while.
func (r *Regions) reach(keys []string, args []any) (*remote, any, error) {
	err := errTimeout
	for i, l := range r.far {
		if r.s.now() < l.after {
			continue
		}
		var v any
		if v, err = l.run(r.s.calls, r.patience(), r.s.life.Done(), slotsScript, keys, args); err == nil {
			r.usesLedger(i)
			return l, v, nil
		}
		l.after = r.s.now() + r.cfg.Lease/4
		if l == r.leader.knows {
			r.leader.knows = nil
		}
	}
	r.usesLedger(-1)
	return nil, nil, err
}

func (r *Regions) usesLedger(i int) {
	r.mu.Lock()
	r.ledger = i
	r.mu.Unlock()
}

func (r *Regions) tellLedger(err error) {
	if lost := err != nil; lost != r.leader.lost {
		r.leader.lost = lost
		if lost {
			r.s.cfg.Logger.Warn("outflow: regions can't share", "region", r.cfg.Region, "err", err)
		} else {
			r.s.cfg.Logger.Info("outflow: regions share again", "region", r.cfg.Region)
		}
	}
}

// patience is how long an answer may take.
func (r *Regions) patience() time.Duration { return max(r.s.cfg.Timeout, r.cfg.Period) }

func (r *Regions) key(name string) string { return r.s.cfg.Prefix + ":{regions}:" + name }

// remote is a Redis that may be far away.
type remote struct {
	rdb   redis.UniversalClient
	busy  atomic.Bool   // the last call isn't over
	after time.Duration // it is asked again
}

// run runs a script, and waits no longer than that, nor beyond the end. What comes later nobody hears of.
func (m *remote) run(ctx context.Context, wait time.Duration, end <-chan struct{}, script *redis.Script, keys []string, args []any) (any, error) {
	if !m.busy.CompareAndSwap(false, true) {
		return nil, errTimeout
	}
	type result struct {
		v   any
		err error
	}
	came := make(chan result, 1)
	go func() {
		defer m.busy.Store(false)
		v, err := script.EvalSha(ctx, m.rdb, keys, args...).Result()
		if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
			v, err = script.Eval(ctx, m.rdb, keys, args...).Result()
		}
		came <- result{v, err}
	}()
	select {
	case got := <-came:
		return got.v, got.err
	case <-end:
		return nil, context.Canceled
	case <-time.After(wait):
		return nil, errTimeout
	}
}
