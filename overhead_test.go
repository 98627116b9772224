package outflow_test

import (
	"net/http"
	"testing"

	"golang.org/x/time/rate"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// stub answers at once; it is the base that costs next to nothing.
type stub struct{}

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// xtimeRate is what people write today.
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

// BenchmarkOverhead is what a Transport adds to a request where nobody waits.
func BenchmarkOverhead(b *testing.B) {
	const fast = 1e9
	transport := func(cfg outflow.Config) http.RoundTripper {
		cfg.Base = stub{}
		t, err := outflow.New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	limits := []limit.Limit{limit.PerSecond(fast).WithBurst(1e6)}
	for _, c := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", stub{}},
		{"xtimerate", xtimeRate{stub{}, rate.NewLimiter(fast, 1e6)}},
		{"zero", transport(outflow.Config{})},
		{"rate", transport(outflow.Config{Limits: limits})},
		{"rate+concurrency", transport(outflow.Config{Limits: append(limits, limit.Concurrent(1e6))})},
		{"rule", transport(outflow.Config{Rules: []outflow.Rule{{Match: "api.example.com/", Limits: limits}}})},
		{"two rules, one keyed", transport(outflow.Config{Rules: []outflow.Rule{
			{Match: "api.example.com/", Limits: limits},
			{Match: "api.example.com/v1/{kind}/", Key: outflow.PathValue("kind"), Limits: limits},
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
						b.Fatal(err)
					}
				}
			})
		})
	}
}
