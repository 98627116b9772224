package presets

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/outflow-go/outflow"
)

// Credential is a Key for upstreams that count by credential: the hash of the first of these headers that
// the request has, and "" for those that have none of them.
func Credential(headers ...string) outflow.Key {
	return outflow.KeyFunc(func(req *http.Request) string { return credential(req, headers...) })
}

func credential(req *http.Request, headers ...string) string {
	for _, name := range headers {
		if v := req.Header.Get(name); v != "" {
			return hash(v)
		}
	}
	return ""
}

// hash stands for a secret where it may be seen. A token has far more than 64 bits that can't be guessed, and
// 64 are enough to tell them apart.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:8])
}

// authorization is the credential of most upstreams.
func authorization(req *http.Request) string { return credential(req, "Authorization") }

// within is a Key of a credential's buckets, which of tells apart.
func within(of func(*http.Request) string) outflow.Key {
	return outflow.KeyFunc(func(req *http.Request) string { return authorization(req) + " " + of(req) })
}
