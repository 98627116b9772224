module github.com/outflow-go/outflow/breaker

go 1.26.0

require (
	github.com/outflow-go/outflow v0.0.0
	github.com/sony/gobreaker/v2 v2.4.0
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/outflow-go/outflow => ../
