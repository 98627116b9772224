package headers

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A row that the code can't reach is worse than no row.
func TestTablesAreReachable(t *testing.T) {
	for _, hint := range hints {
		if !mayMatter(hint.name) || hint.name != strings.ToLower(hint.name) || len(hint.name) > maxName {
			t.Errorf("hint %q can't be found", hint.name)
		}
	}
	for prefix, f := range families {
		for text, w := range words {
			if len(text) > longestWord {
				t.Fatalf("longestWord is too short for %q", text)
			}
			for _, marker := range []string{"ratelimit", "rate-limit"} {
				name := prefix + marker + "-" + text
				g, got, dimension, ok := identify([]byte(name))
				if !ok || g != f.generation || got != w || string(dimension) != w.dimension {
					t.Errorf("%q: %v %+v %q %v", name, g, got, dimension, ok)
				}
				if !mayMatter(name) || !mayMatter(strings.ToUpper(name)) || !mayMatter(http.CanonicalHeaderKey(name)) {
					t.Errorf("%q is passed over", name)
				}
				if w.alone {
					continue
				}
				for d := range dimensions {
					for _, name := range []string{prefix + marker + "-" + d + "-" + text, prefix + marker + "-" + text + "-" + d} {
						if g, got, dimension, ok := identify([]byte(name)); !ok || g != f.generation || got != w || string(dimension) != d {
							t.Errorf("%q: %v %+v %q %v", name, g, got, dimension, ok)
						}
					}
				}
			}
		}
	}
}

func TestTablesAreInLowerCase(t *testing.T) {
	for _, table := range []any{families, words, dimensions} {
		for _, key := range reflect.ValueOf(table).MapKeys() {
			if key.String() != strings.ToLower(key.String()) {
				t.Errorf("%q", key)
			}
		}
	}
}

func TestEpochBandsAreDisjoint(t *testing.T) {
	end := int64(maxDelta / time.Second)
	for _, scale := range epochScales {
		if scale.from <= end || scale.until <= scale.from {
			t.Errorf("%+v after %d", scale, end)
		}
		end = scale.until
	}
}

func TestMayMatter(t *testing.T) {
	for name, want := range map[string]bool{
		"X-RateLimit-Limit": true, "x-rAtElImIt": true, "RETRY-AFTER": true, "X-Retry-In": true, "limit": true, "retry": true,
		"": false, "Date": false, "limi": false, "Li-mit": false, "Content-Type": false, "retr": false,
	} {
		if mayMatter(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}
