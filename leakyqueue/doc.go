// Package leakyqueue lets callers leave at the pace that limits allow, in order: a leaky bucket as a
// queue, for several limits at once.
//
// A [Queue] differs from a limiter that is asked "may I go now?":
//
//  1. A departure is bound to a waiter when it falls due, not when the waiter comes. One that is
//     cancelled costs nothing: the turn goes to the next.
//  2. Who can't leave before its deadline is told at once, before it has waited; and when a pause
//     makes those who wait miss theirs, they are told at once.
//  3. Nobody polls, and no caller has a timer or a goroutine: one timer serves the whole queue.
//  4. What a late timer has lost is caught up, within [Config].Slack, so that a limit is used fully.
//
// It knows nothing of HTTP.
//
// # Buckets
//
// The limits given to [New] hold every [Queue.Wait] and [Queue.Acquire] whose demand names no keys.
// [Queue.AddRule] adds limits that hold for each of a rule's keys: each [Key] has a bucket of its
// own, which is made when it is first used and forgotten when it is as good as new and was not used
// for a minute. A demand with several keys leaves when all of their buckets let it, and is charged to
// all of them at once; a bucket is never charged for a departure that another one delays.
//
// # Ordering
//
// Who goes first at a bucket is decided in three steps:
//
//  1. The higher [Priority]. A lower one gets at least every 16th departure nevertheless.
//  2. Of one priority, the flow that has had less of the bucket, in cost over its weight: see
//     [Demand].Flow. Without a name, those who wait for the same buckets are a flow, so the children of
//     one parent share it fairly.
//  3. Of one flow, who came first. A retry takes the place it had before.
//
// A line that something else holds back doesn't hold up the others. A cost above one has those behind
// it in its flow wait, even if a lighter one could leave meanwhile: otherwise it might wait for ever.
//
// # Learning
//
// A rule may learn from answers ([Rule.Learn]): who departs with a ticket tells what was said to it, by
// [Ticket.Answered]. A bucket that has something to learn needs a ticket for each departure, and its limits are
// then the declared ones and what a [limit.Learner] and a [limit.Quota] make of the answers. One that has learnt
// that nothing holds it back is as one that doesn't learn.
//
// # Cancellation
//
// A context that ends takes its waiter out of the line, and the error has the context's cause. If
// the turn had come in the same moment, it is given back and goes to the next.
//
// # Invariants
//
// These hold at any moment, and are what the package's tests check:
//
//	I1 Never over: in any window W at most b + r·(W + slack) units, rounded up, leave a bucket with
//	   rate r and burst b; costs above b, which leave alone, apart. Never more than n hold one of
//	   its n slots.
//	I2 Never idle: while somebody waits whom every bucket would let go, one goes.
//	I3 In order, as above: strictly within a flow of one priority, and each flow gets its share.
//	I4 Nothing lost: every wait ends once, with a departure, a refusal or its context's end; every
//	   slot comes back once.
//	I5 Told early, as above. With several rates or several keys, where a turn can't be foretold
//	   exactly, it is as early as it is certain: when the request comes, when a pause begins, or when
//	   it heads its line.
//	I6 Bounded: memory is for those who wait, hold a slot, or used a bucket in the last minutes.
package leakyqueue
