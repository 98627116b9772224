package shared

import (
	"strings"

	"github.com/outflow-go/outflow/leakyqueue"
	"github.com/outflow-go/outflow/limit"
)

// tag is the hash tag of a group's keys: on a Cluster all keys that have it are on one node.
func (s *Store) tag(b leakyqueue.Shared) string {
	tag := b.Group
	if s.cfg.Spread {
		tag = bucketName(b)
	}
	if tag == "" {
		return "-" // an empty one is none
	}
	return noBraces.Replace(tag)
}

// probeKey is a key of a group that there isn't: to ask for it tells whether the group can be reached.
func (s *Store) probeKey(tag string) string { return s.cfg.Prefix + ":{" + tag + "}:probe" }

// bucketLocked is what the scripts need to know of a bucket whose limits can be shared.
func (s *Store) bucketLocked(b leakyqueue.Shared) *bucketKeys {
	keys, err := s.compile(b, s.share)
	if err != nil {
		panic("shared: a bucket whose limits weren't checked: " + err.Error())
	}
	return keys
}

// compile has the limits be a share of those that are declared.
func (s *Store) compile(b leakyqueue.Shared, share float64) (*bucketKeys, error) {
	limits := make([]limit.Limit, len(b.Limits))
	for i, l := range b.Limits {
		limits[i] = l.Scaled(share)
	}
	return newNamedBucket(s.cfg.Prefix+":", s.tag(b), bucketName(b), b.Key, s.cfg.Version, limits...)
}

// noBraces has a text be in a hash tag, or before one.
var noBraces = strings.NewReplacer("{", "(", "}", ")", "\n", " ")

// bucketName is what a bucket is called among those of a Store. Rules and keys are told apart by their lengths, not by a
// separator that either may contain.
func bucketName(b leakyqueue.Shared) string {
	if b.Key == "" {
		return b.Rule
	}
	return b.Rule + "\x1f" + b.Key
}
