package faults

import (
	"math/rand/v2"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

const lossType = "outflow_loss"

func init() { toxics.Register(lossType, new(loss)) }

// loss closes a connection at a message, with a probability. Toxiproxy's own reset_peer is drawn once for each
// connection.
type loss struct {
	Probability float64 `json:"probability"`
}

// Pipe is what toxiproxy calls for each connection and direction.
func (l *loss) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil || rand.Float64() < l.Probability {
				stub.Close()
				return
			}
			stub.Output <- chunk
		}
	}
}
