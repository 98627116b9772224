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

func TestVendorTablesAreReachable(t *testing.T) {
	for name, row := range ownFields {
		_, got, dimension, ok := identify([]byte(name))
		if saysNothing(http.CanonicalHeaderKey(name)) {
			t.Errorf("%q is passed over", name)
		}
		if !ok || got != row || string(dimension) != row.dimension || !mayMatter(name) || !mayMatter(http.CanonicalHeaderKey(name)) || len(name) > maxName {
			t.Errorf("%q: %+v %q %v", name, got, dimension, ok)
		}
	}
	for _, row := range prefixes {
		_, got, dimension, ok := identify([]byte(row.prefix + "1m"))
		if !ok || got != row.word || string(dimension) != row.name+"1m" || !mayMatter(row.prefix+"1m") {
			t.Errorf("%q: %+v %q %v", row.prefix, got, dimension, ok)
		}
	}
	for name, row := range common {
		g, w, dimension, ok := identify([]byte(strings.ToLower(name)))
		if !ok || name != http.CanonicalHeaderKey(name) || !reflect.DeepEqual(row, split{g, w, dimension}) || !mayMatter(name) {
			t.Errorf("%q: %+v", name, row)
		}
	}
	for name := range common {
		if saysNothing(name) {
			t.Errorf("%q is passed over", name)
		}
	}
	for name := range githubReal {
		if saysNothing(name) && (mayMatter(name) || http.CanonicalHeaderKey(name) != name) {
			t.Errorf("%q may matter", name)
		}
	}
	if len(common) != 19 {
		t.Errorf("%d common names", len(common))
	}
}

func TestPhraseTablesAreFolded(t *testing.T) {
	for _, table := range []any{waitKeys, codeKeys, messageKeys, codes, kinds, scopes, stocks} {
		for _, key := range reflect.ValueOf(table).MapKeys() {
			if key.String() != fold(key.String()) {
				t.Errorf("%q", key)
			}
		}
	}
	for path := range accepted {
		key := path[strings.LastIndexByte(path, '.')+1:]
		if foldPath(strings.Split(path, ".")) != path || !codeKeys[key] {
			t.Errorf("%q", path)
		}
	}
	for _, p := range phrases {
		if p.text != strings.ToLower(p.text) || p.text[0] == '{' {
			t.Errorf("%q", p.text)
		}
	}
}

func TestTablesAreInLowerCase(t *testing.T) {
	for _, table := range []any{families, words, dimensions, ownFields} {
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
