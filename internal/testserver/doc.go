// Package testserver runs upstreams that really enforce limits, for tests, examples and benchmarks.
//
// An [Upstream] is an [http.Handler] made of policies. It records every request at the moment it
// arrives, so that a test asserts the pace where it matters: at the server.
//
//	up := testserver.New(
//		testserver.GCRA(100, 5).RetryAfter("1"),
//		testserver.GCRA(20, 2).On("POST /v1/files"),
//		testserver.Concurrency(10).By(testserver.HeaderValue("Authorization")),
//	)
//	srv := up.Pipe(t) // or TCP, TLS, PipeHTTP2
//	client := &http.Client{Transport: srv.Transport}
//	… client.Get(srv.URL + "/v1/charges") …
//	if most := up.Arrivals().MaxInWindow(time.Second); most > 100 {
//
// # An oracle
//
// The package imports only the standard library and computes its limits by itself. What it tests
// shares no line with it, so a mistake on one side shows on the other.
//
// # Policies
//
// The policies of an upstream are asked in the order in which New lists them. The first that
// refuses, answers. A request that is refused is charged to none of them, but for those with
// [Policy.ChargingAll]; a request that all admit is charged to all of them, and then the upstream's
// answer (see [Upstream.Answering]) is served. Requests are judged one at a time, in the order of
// their arrival.
//
// # Vendors
//
// [GitHub], [Shopify], [OpenAI] and [Discord] enforce what those document, and answer in their form. Each
// states its sources, and what it had to assume where they are silent.
//
// # Costs
//
// A policy with a [Policy.Cost] counts each request as what that says, and [Policy.Settle] corrects the
// count when the answer is known, as the token limits of LLM APIs do. [Arrivals.MaxCostInWindow] is then
// what was really used.
//
// # Time
//
// The package reads time.Now and nothing else, so inside a testing/synctest bubble all of it runs in
// virtual time. There the upstream must be served by [Upstream.Pipe] or [Upstream.PipeHTTP2]: a
// goroutine that waits for a socket keeps the bubble's clock from moving.
//
// # Concurrency
//
// A request is in flight from its arrival until its handler has returned. net/http sends the end of
// a response after that, unless the handler has itself declared a Content-Length: so a client that
// waits for the end of each response is never seen with more in flight than it has.
package testserver
