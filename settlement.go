package outflow

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/outflow-go/outflow/leakyqueue"
)

// maxSettleBody is how much of a response's body Rule.Settle is shown.
const maxSettleBody = 1 << 20

// settlement asks the rules of one attempt what it really cost, when the response's body has ended. It
// keeps a copy of what the caller reads, and neither reads ahead nor delays anything.
type settlement struct {
	rules []*compiledRule
	once  sync.Once

	// mu guards what follows: a body may be read and closed at the same time.
	mu   sync.Mutex
	resp *http.Response // nil: there was none
	seen bytes.Buffer
}

// settlementOf is nil if none of the rules that matched wants to know.
func (t *Transport) settlementOf(keys []leakyqueue.Key) *settlement {
	if !t.settles {
		return nil
	}
	var s *settlement
	for i := range t.rules {
		r := &t.rules[i]
		if r.settle == nil || !holds(keys, r.rule) {
			continue
		}
		if s == nil {
			s = new(settlement)
		}
		s.rules = append(s.rules, r)
	}
	return s
}

func holds(keys []leakyqueue.Key, r *leakyqueue.Rule) bool {
	for _, k := range keys {
		if k.Rule == r {
			return true
		}
	}
	return false
}

// of notes the response that the attempt has got.
func (s *settlement) of(resp *http.Response) {
	if s == nil || resp == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := *resp
	s.resp = &shown
}

// saw keeps what the caller has read of the body.
func (s *settlement) saw(p []byte) {
	if s == nil || len(p) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Write(p[:min(len(p), maxSettleBody-s.seen.Len())])
}

// settle has the ticket charged with what the rules make of the response.
func (s *settlement) settle(t *leakyqueue.Ticket) {
	if s == nil {
		return
	}
	s.once.Do(func() {
		s.mu.Lock()
		resp, seen := s.resp, s.seen.Bytes()
		s.mu.Unlock()
		if resp == nil {
			return
		}
		for _, r := range s.rules {
			resp.Body = io.NopCloser(bytes.NewReader(seen))
			if cost, ok := r.settle(resp); ok {
				_ = t.Settle(min(max(cost, 0), leakyqueue.MaxCost), r.rule)
			}
		}
	})
}
