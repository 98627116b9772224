package leakyqueue

import (
	"time"

	"github.com/outflow-go/outflow/limit"
)

// A Pacer says when requests leave whose limits hold for several queues together: those of a fleet of processes, say.
// The package shared has one. A queue leases departures from it, some time ahead, and binds each to a waiter only when
// it falls due: so order, priority, fairness and cancellation are the queue's own business, and the Pacer is asked once
// for many.
//
// Its methods, and those of what it returns, are called by several goroutines at once, and with the queue's lock held, so
// that calls come in the order in which things happen. They don't wait for anything: what they bring about is told to
// the [Tenant] or the [Watcher] later, not from within the call nor while a lock is held that these methods need.
type Pacer interface {
	// Check says why a bucket's limits can't be shared; nil: they can.
	Check(b Shared) error

	// Join has a bucket be one with those of other queues that have the same Shared: their pauses are its pauses.
	Join(b Shared, w Watcher) Member

	// Open returns where departures are leased from that several buckets, or one, let go jointly.
	Open(of []Shared, t Tenant) Lessor
}

// Shared says which bucket is meant.
type Shared struct {
	Rule, Key string // of the bucket
	Limits    []limit.Limit

	// Group is the same for all buckets that may hold a request together. A Pacer keeps those of a group in one place,
	// so that they can be charged together or not at all.
	Group string
}

// Sharing says how a rule's buckets are shared: see [Rule.Share].
type Sharing struct {
	// Group tells the group of the bucket with a key: see [Shared]. Keys that come in one Demand need the same. Nil: all
	// have one, "".
	Group func(key string) string
}

// A Member is a bucket that is shared.
type Member interface {
	// Pause has nobody of the fleet leave before until, and Resume ends all pauses.
	Pause(until time.Time)
	Resume()

	// Slots tells how many slots of the bucket's concurrency are wanted, those included of which it tells that they are out.
	// Watcher.Slots tells how many there are, at any time.
	Slots(want, out int)

	// Heard passes on what an upstream said to a request of this queue, if the Pacer can make use of it for the fleet.
	Heard(a Answer, inFlight int)

	// Leave ends it. So many of its slots are still out. Further calls do nothing.
	Leave(out int)
}

// A Watcher is told what happens to a shared bucket. A queue implements it.
type Watcher interface {
	// Paused: nobody is to leave before until. Departures at hand that are due before that are void.
	Paused(until time.Time)

	// Resumed: the pauses are over.
	Resumed()

	// Slots: so many requests may be out. Fewer than are out already: nobody leaves until that many are back. From until on
	// others may have the slots, so nobody leaves then before it is told anew; the zero Time is never. Lost says that the slots
	// had been given to others, since it was not heard in time that this queue still held them. It returns how many are out
	// now.
	Slots(n int, until time.Time, lost bool) (out int)

	// Queues says how many queues share the bucket, this one included.
	Queues(n int)

	// Sooner says that the limits have become wider: what is at hand and due after that can be had sooner. It is given back
	// and asked for again.
	Sooner(after time.Time)

	// Outage says whether departures can be leased at all.
	Outage(o Outage)
}

// A Lessor leases departures. They come to its Tenant.
type Lessor interface {
	// Ask asks for departures, and gives back others. Each call is answered by one of Tenant.Granted, and the next
	// comes after that.
	Ask(a Ask)

	// Close ends it, and gives back what wasn't used. What an answer that is still to come brings is given back by
	// another Close.
	Close(back []Leased, owed []int64)
}

// An Ask is what a queue wants of a Lessor.
type Ask struct {
	Runs []Run    // wanted, those who go first first
	Back []Leased // not used, or with the part of their Costs that wasn't
	Owed []int64  // of each bucket: units that left beyond what was leased
}

// A Run is requests alike.
type Run struct {
	N     int
	High  bool    // of high priority: see limit.Limit.WithHeadroom
	Costs []int64 // in each bucket; not to be changed
}

// A Leased departure.
type Leased struct {
	Due   time.Duration // since Grant.From
	Token any           // the Lessor's own, for what it is given back
	Costs []int64       // in each bucket; not to be changed
}

// A Tenant is given what it asked for. A queue implements it.
type Tenant interface {
	Granted(g Grant)
}

// A Grant is the answer to an Ask.
type Grant struct {
	From   time.Time // with a monotonic clock
	Leased []Leased  // at most what was asked for, in order; none before the one before it

	// Tail is when, after From, one more would have been due: who asks later isn't let go earlier.
	Tail time.Duration

	// Lead is how long before the last departure at hand is due the next are to be asked for.
	Lead time.Duration

	// Retry is for how long, if nothing was leased, it is of no use to ask again.
	Retry time.Duration
}

// An Outage is what a queue does while departures can't be leased. The zero Outage is that there is none.
type Outage struct {
	Mode OutageMode

	// Share is what ShareLocally leaves to this queue, of each rate, window and concurrency, above 0 to 1.
	Share float64
}

// OutageMode says what becomes of requests in an [Outage].
type OutageMode uint8

const (
	NoOutage     OutageMode = iota
	ShareLocally            // they leave at a share of the limits
	LetAllGo                // they leave as if there were no limits
	RefuseAll               // they are refused with ErrStoreUnavailable
)
