package outflow_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
)

func TestZZ(t *testing.T) {
	for _, c := range everyday()[:2] {
		c = c.orDefault()
		synctest.Test(t, func(t *testing.T) {
			up := testserver.Shopify(40, 2)
			s := scenario{name: "x", upstream: up, during: saturated, quota: 100}
			start := time.Now()
			o := s.run(t, outflow.Config{}, c)
			t.Log(o)
			for i, a := range up.Arrivals() {
				if i > 36 && i < 75 || a.Status != 200 {
					fmt.Printf("%d:%v/%d ", i, a.At.Sub(start).Round(time.Millisecond), a.Status)
				}
			}
			fmt.Println()
		})
	}
}
