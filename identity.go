package outflow

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/outflow-go/outflow/headers"
	"github.com/outflow-go/outflow/leakyqueue"
)

// keyIn is a Key in a pattern.
type keyIn struct {
	Key
	wildcard int // its index
}

func (k Key) in(p pattern) (keyIn, error) {
	in := keyIn{Key: k}
	switch k.kind {
	case pathValueKey:
		if in.wildcard = p.wildcard(k.wildcard); in.wildcard < 0 {
			return in, fmt.Errorf("PathValue(%q): no such wildcard in Match", k.wildcard)
		}
	case funcKey:
		if k.fn == nil {
			return in, errors.New("KeyFunc(nil): want a function")
		}
	}
	return in, nil
}

// identify returns the upstream's name of what it counted a request in, together with what tells apart what it
// counts apart under that name; "": it didn't say.
func (t *Transport) identify(req *http.Request, key leakyqueue.Key, s *headers.Signal) string {
	if s.Bucket == "" && len(s.Quotas) == 0 {
		return ""
	}
	host := hostOf(req.URL)
	if s.Bucket == "" {
		if len(s.Quotas) == 1 && s.Quotas[0].Partition != "" {
			return host + "\x00" + s.Quotas[0].Name + "\x00" + s.Quotas[0].Partition
		}
		return ""
	}
	return host + "\x00" + s.Bucket + "\x00" + t.identityOf(req, key)
}

func (t *Transport) identityOf(req *http.Request, key leakyqueue.Key) string {
	for i := range t.rules {
		r := &t.rules[i]
		if r.rule != key.Rule {
			continue
		}
		switch r.identity.kind {
		case pathValueKey:
			value, _ := r.pattern.match(req, r.identity.wildcard)
			return value
		case hostKey:
			return hostOf(req.URL)
		case funcKey:
			return r.identity.fn(req)
		}
	}
	return key.Value
}
