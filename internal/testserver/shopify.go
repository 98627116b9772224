package testserver

import (
	"fmt"
	"net/http"
)

// Shopify is the REST Admin API of a shop: a leaky bucket that holds bucket requests and leaks perSecond, for
// each app in each shop. The documented buckets are 40 at 2 a second on the standard plan, 80 at 4 and 400 at
// 20. The shop is the host, and the app its X-Shopify-Access-Token. Source:
// https://shopify.dev/docs/api/admin-rest/usage/rate-limits, read in November 2026.
//
// What is documented: the bucket, its X-Shopify-Shop-Api-Call-Limit on each answer, as "used/bucket", and 429
// with a Retry-After. That the Retry-After is always "2.0" and doesn't depend on how full the bucket is, and
// the body, are as clients report them: https://github.com/MONEI/Shopify-api-node/issues/135 and
// https://github.com/Shopify/shopify_python_api/issues/256. How a bucket that is not quite whole is rounded
// isn't known; here it is rounded to the fuller.
func Shopify(bucket int, perSecond float64) *Upstream {
	return New(
		GCRA(perSecond, bucket).
			By(func(r *http.Request) string { return r.Host + " " + r.Header.Get("X-Shopify-Access-Token") }).
			Advertise(func(h http.Header, q Quota) {
				h.Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/%d", q.Limit-q.Remaining, q.Limit))
			}).
			RetryAfter("2.0").
			RefuseWith(jsonReply(http.StatusTooManyRequests, map[string]any{
				"errors": fmt.Sprintf("Exceeded %g calls per second for api client. Reduce request rates to resume uninterrupted service.", perSecond),
			})),
	).Answering(Reply(http.StatusOK, `{"products":[]}`, "Content-Type", "application/json; charset=utf-8"))
}
