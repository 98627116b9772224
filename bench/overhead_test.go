package bench

import (
	"net/http"
	"testing"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/time/rate"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// stub answers at once, without any header: the base that costs next to nothing.
type stub struct{}

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// xtimeRate is the ten lines that people write today.
type xtimeRate struct {
	base    http.RoundTripper
	limiter *rate.Limiter
}

func (t xtimeRate) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.limiter.Wait(req.Context()); err != nil {
		return nil, err
	}
	return t.base.RoundTrip(req)
}

// BenchmarkOverhead is what is added to a request where nobody waits. The rate is one that nobody
// reaches.
func BenchmarkOverhead(b *testing.B) {
	const fast, burst = 1e9, 1e6
	transport := func(cfg outflow.Config) http.RoundTripper {
		cfg.Base = stub{}
		t, err := outflow.New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	rates := []limit.Limit{limit.PerSecond(fast).WithBurst(burst)}
	retrying := retryablehttp.NewClient()
	retrying.Logger = nil
	retrying.HTTPClient.Transport = xtimeRate{stub{}, rate.NewLimiter(fast, burst)}

	for _, c := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", stub{}},
		{"peer=xtimerate", xtimeRate{stub{}, rate.NewLimiter(fast, burst)}},
		{"peer=retryablehttp+xtimerate", &retryablehttp.RoundTripper{Client: retrying}},
		{"peer=failsafe-limiter+bulkhead", failsafehttp.NewRoundTripper(stub{},
			ratelimiter.NewSmoothBuilder[*http.Response](fast, 1e9).Build(), bulkhead.New[*http.Response](burst))},
		{"outflow=zero", transport(outflow.Config{})},
		{"outflow=rate", transport(outflow.Config{Limits: rates})},
		{"outflow=rate+concurrency", transport(outflow.Config{Limits: append(rates, limit.Concurrent(burst))})},
		{"outflow=rule", transport(outflow.Config{Rules: []outflow.Rule{{Match: "api.example.com/", Limits: rates}}})},
		{"outflow=two-rules-one-keyed", transport(outflow.Config{Rules: []outflow.Rule{
			{Match: "api.example.com/", Limits: rates},
			{Match: "api.example.com/v1/{kind}/", Key: outflow.PathValue("kind"), Limits: rates},
		}})},
	} {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://api.example.com/v1/charges/ch_1", nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/serial", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.rt.RoundTrip(req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.rt.RoundTrip(req); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
