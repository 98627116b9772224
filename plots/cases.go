package main

import (
	"strings"
	"time"
)

// A plotCase is a picture: what is drawn, and against what.
type plotCase struct {
	file  string
	title string
	runs  []string // of the tests, one after another; as they call their outcomes

	bin      time.Duration    // over which departures are counted; 0: a tick
	rate     float64          // what the upstream takes per second; 0: nothing to draw
	rateIs   string           // what to call that
	slots    int              // how many it takes at once
	outage   [2]time.Duration // when it is unwell
	latency  bool             // is what the case is about
	refusals string           // what the upstream refuses with: 429 unless told

	target, peers string // for the table; the peers are in process, told nothing
}

// optional reports whether there needn't be such a run.
func (c plotCase) optional() bool { return strings.HasPrefix(c.file, "nginx") }

const (
	vendorTarget = "≥ 98 % used, ≤ 1 % refused again, 0 failed"
	notMeasured  = "not measured"
)

// cases are those of docs/signals.md, in its order.
var cases = []plotCase{
	{
		file: "gcra", title: "100/s with a burst of 20, Retry-After: 1; nothing declared",
		runs: []string{"GCRA 100/s burst 20 latency=1ms"}, bin: 200 * time.Millisecond, rate: 100,
		target: "≤ 1.10 ×, ≤ 15 429s, 0 failed",
		peers:  "1.06–5.0 ×, 1,057–6,228 429s; or up to half of the calls fail",
	},
	{
		file: "window", title: "200 in each 2 s, RateLimit headers; nothing declared",
		runs: []string{"window 200 per 2s RateLimit fields latency=1ms"}, bin: 500 * time.Millisecond, rate: 100, rateIs: "200 in each 2 s are 100/s",
		target: "≤ 1.05 ×, ≤ 2 429s, 0 failed",
		peers:  "1.06–1.8 ×, 526–896 429s; or most calls fail",
	},
	{
		file: "brownout-closed", title: "3 s of 503s, then 50 ms each: 64 workers in a closed loop; nothing declared",
		runs: []string{"brown-out, closed loop latency=1ms"}, outage: [2]time.Duration{0, 3 * time.Second},
		target: "≤ 1.25 ×, ≤ 1.03 attempts a call, 0 failed",
		peers:  "1.01–2.3 ×, 1.04–1.18 attempts a call; or every call fails",
	},
	{
		file: "brownout-open", title: "503s from 4 s to 7 s: 200 calls come each second; nothing declared",
		runs: []string{"brown-out, open loop latency=1ms"}, outage: [2]time.Duration{4 * time.Second, 7 * time.Second}, rate: 200, rateIs: "200/s come",
		target: "≤ 1.03 attempts a call, ≤ 250 in the second after recovery, 0 failed",
		peers:  "1.5–2.2 attempts a call, 286–745 in that second; or 3 in 10 calls fail",
	},
	{
		file: "concurrency", title: "8 at a time, 50 ms each, 429 beyond; nothing declared",
		runs: []string{"8 at a time latency=1ms"}, bin: 200 * time.Millisecond, rate: 8 / 0.051, rateIs: "8 in each 51 ms are 157/s", slots: 8,
		target: "≤ 1.05 ×, ≤ 8 429s, 0 failed",
		peers:  "1.2–9.2 ×, 273–691 429s; or most calls fail",
	},
	{
		file: "cliff", title: "latency grows with the square beyond 8 in flight; AdaptiveConcurrency(1, 64)",
		runs: []string{"latency cliff beyond 8 latency=1ms"}, bin: 200 * time.Millisecond, rate: 8 / 0.051, rateIs: "8 in each 51 ms are 157/s", slots: 8, latency: true,
		target: "≤ 1.18 × (85 % of the best throughput), p95 ≤ 75 ms, 0 failed",
		peers:  notMeasured,
	},
	{
		file: "github", title: "GitHub's 900 points a minute, 403 without Retry-After; nothing declared",
		runs: []string{"GitHub secondary limit 403 latency=1ms"}, bin: time.Second, refusals: "403",
		target: vendorTarget, peers: notMeasured,
	},
	{
		file: "shopify", title: "Shopify's bucket of 40 that leaks 2/s, told by its header; nothing declared",
		runs: []string{"Shopify 40 at 2 per s latency=1ms"}, bin: time.Second, rate: 2, rateIs: "2/s come back, on top of 40",
		target: vendorTarget, peers: notMeasured,
	},
	{
		file: "openai-requests", title: "OpenAI, 500 requests a minute are what binds; by headers",
		runs: []string{"OpenAI requests, by headers latency=1ms"}, bin: time.Second, rate: 500.0 / 60, rateIs: "500 a minute come back, on top of 500",
		target: vendorTarget, peers: notMeasured,
	},
	{
		file: "openai-tokens", title: "OpenAI, 30,000 tokens a minute are what binds; by headers",
		runs: []string{"OpenAI tokens, by headers latency=1ms"}, bin: time.Second,
		target: vendorTarget, peers: notMeasured,
	},
	{
		file: "discord-routes", title: "Discord's limits of 16 routes in 12 buckets; those not declared",
		runs: []string{"Discord routes latency=1ms"}, bin: time.Second, rate: 400.0 / 30, rateIs: "all routes together let 13.3/s pass",
		target: vendorTarget, peers: notMeasured,
	},
	{
		file: "discord-global", title: "Discord's global 50/s; declared",
		runs: []string{"Discord global declared latency=1ms"}, bin: 200 * time.Millisecond, rate: 50,
		target: vendorTarget, peers: notMeasured,
	},
	nginx("nginx-declared-burst", "declared, burst 5", "≤ 1.01 ×, no 429"),
	nginx("nginx-declared-strict", "declared, no burst", "≤ 1.10 ×, ≤ 12 429s"),
	nginx("nginx-learnt-burst", "nothing declared, burst 5", learntTarget),
	nginx("nginx-learnt-strict", "nothing declared, no burst", learntTarget),
}

const learntTarget = "≤ 1.5 ×, ≤ 60 429s; then ≤ 1.15 ×, ≤ 12"

func nginx(file, name, target string) plotCase {
	peers := "no 429 (x/time/rate at 100/s)"
	switch {
	case strings.HasPrefix(name, "declared, no"):
		peers = "1.6 ×, 292 429s (x/time/rate at 100/s)"
	case strings.HasPrefix(name, "nothing declared, b"):
		peers = "13.5 ×, 1,084 429s, 7–55 failed (go-retryablehttp)"
	case strings.HasPrefix(name, "nothing declared, n"):
		peers = "13.5 ×, 1,414 429s, 7–55 failed (go-retryablehttp)"
	}
	return plotCase{
		file: file, title: "nginx limit_req 100r/s, 600 GETs, twice: " + name,
		runs: []string{"nginx, " + name + " run 1", "nginx, " + name + " run 2"},
		bin:  200 * time.Millisecond, rate: 100,
		target: target + ", 0 failed", peers: peers,
	}
}
