package shared

import "github.com/outflow-go/outflow/leakyqueue"

// Heard passes on what an upstream said.
func (m *member) Heard(a leakyqueue.Answer, inFlight int) {}
