package presets

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// A ShopifyPlan is what a shop has subscribed to.
type ShopifyPlan int

// The plans that have limits of their own.
const (
	ShopifyStandard ShopifyPlan = iota
	ShopifyAdvanced
	ShopifyPlus
	ShopifyEnterprise
)

// shopifyQueryCost is what a query is taken to cost before its answer tells. They cost from 1 to 1,000.
const shopifyQueryCost = 100

// Shopify has the limits of the Admin API for the shops at *.myshopify.com, each by itself:
//
//   - "shopify rest": 2, 4, 20 or 40 requests a second by plan, with a bucket for 20 seconds' worth;
//   - "shopify graphql": 100, 200, 1,000 or 2,000 points a second, likewise.
//
// Shopify documents leaky buckets, and for the standard plan one of 40 requests that leaks 2 a second; the
// sizes of the others are taken to be in proportion, which isn't documented everywhere. As many may leave
// at once, less a second's worth, for what is on its way and what timers are late. Shopify counts by app
// and shop: who calls for several apps sets the Key.
//
// A query is taken to cost 100 points until the answer's extensions.cost tells; Rule.Cost can know
// better. Shops of different plans need a preset each, with a Rule.When.
func Shopify(plan ShopifyPlan) Preset {
	requests := map[ShopifyPlan]int{ShopifyAdvanced: 4, ShopifyPlus: 20, ShopifyEnterprise: 40}[plan]
	points := map[ShopifyPlan]int{ShopifyAdvanced: 200, ShopifyPlus: 1000, ShopifyEnterprise: 2000}[plan]
	if requests == 0 { // ShopifyStandard, and whatever else: the least
		requests, points = 2, 100
	}
	bucket := func(perSecond int) []limit.Limit {
		return []limit.Limit{limit.PerSecond(float64(perSecond)).WithBurst(19 * perSecond)}
	}
	return Preset{
		Source:  "https://shopify.dev/docs/api/usage/limits",
		Checked: "2026-11-21",
		Rules: []outflow.Rule{
			{Name: "shopify rest", Match: "/admin/api/", When: shopREST, Key: outflow.Host(), Limits: bucket(requests)},
			{Name: "shopify graphql", Match: "POST /admin/api/{version}/graphql.json", When: shop, Key: outflow.Host(), Limits: bucket(points),
				Cost:   func(*http.Request) int { return shopifyQueryCost },
				Settle: shopifyCost},
		},
	}
}

func shop(req *http.Request) bool {
	return strings.HasSuffix(strings.ToLower(req.URL.Hostname()), ".myshopify.com")
}

func shopREST(req *http.Request) bool {
	return shop(req) && !strings.HasSuffix(req.URL.Path, "/graphql.json")
}

// shopifyCost is what a query has cost. One that was throttled, which is a 200 here, has cost nothing.
func shopifyCost(resp *http.Response) (int, bool) {
	var answer struct {
		Extensions struct {
			Cost struct {
				Requested *float64 `json:"requestedQueryCost"`
				Actual    *float64 `json:"actualQueryCost"`
			} `json:"cost"`
		} `json:"extensions"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&answer) != nil {
		return 0, false
	}
	switch cost := answer.Extensions.Cost; {
	case cost.Actual != nil:
		return int(*cost.Actual), true
	case cost.Requested != nil:
		return 0, true
	}
	return 0, false
}
