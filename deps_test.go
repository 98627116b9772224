package outflow_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/outflow-go/outflow"

// A depRule says what the code of one package, tests aside, may import.
type depRule struct {
	ours   []string // our packages, by their path in the module
	others []string // other modules, with all their packages

	// never names what may not even be linked, through however many imports. A package of ours or of
	// another module includes those below it.
	never []string

	// fixture frees a package that only tests, examples and benchmarks import from notInLibrary.
	fixture bool
}

// depRules is "who may import whom" of the architecture, by path in the module; "" is the root package.
// A new package gets a row here in the change that adds it.
var depRules = map[string]depRule{
	"limit":      {others: []string{"golang.org/x/time"}, never: []string{"net/http"}},
	"headers":    {others: []string{"github.com/dunglas/httpsfv"}},
	"backoff":    {others: []string{"github.com/cenkalti/backoff/v4"}, never: []string{"net/http"}},
	"leakyqueue": {ours: []string{"limit"}, others: []string{"golang.org/x/time"}, never: []string{"net/http"}},
	"shared":     {ours: []string{"limit", "leakyqueue"}, others: []string{"github.com/redis/go-redis/v9"}},
	"": {
		ours: []string{"limit", "leakyqueue", "headers", "backoff"},
		others: []string{
			"github.com/cenkalti/backoff/v4",
			"github.com/hashicorp/go-retryablehttp",
			"golang.org/x/time",
		},
		// A program without Redis doesn't link a client for it.
		never: []string{module + "/shared", "github.com/redis/go-redis"},
	},
	"presets": {ours: []string{"", "limit"}, never: []string{module + "/shared"}},
	// The independent witness: it shares no code with what it tests.
	"internal/testserver": {fixture: true},
	// What the tests ask Redis about shouldn't depend on the client that they test.
	"internal/redistest": {fixture: true},
	"internal/fleettest": {ours: []string{"limit", "leakyqueue", "shared"}, others: []string{"github.com/redis/go-redis/v9"}, fixture: true},
}

// notInLibrary is what code that others link has no use for: it takes its input as arguments, and
// reports by what it returns or to the logger it was given.
var notInLibrary = []string{"testing", "os", "log"}

// listedPackage has the fields of "go list -json" that the rules look at.
type listedPackage struct {
	ImportPath string
	Dir        string
	Imports    []string // of the code, tests aside
	Deps       []string // the same, with the imports of imports
}

func TestDeps(t *testing.T) {
	packages := listPackages(t)
	if len(packages) == 0 {
		t.Fatal("go list found no package")
	}
	for _, p := range packages {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		rule, ok := depRules[name]
		if !ok {
			t.Errorf("package %q has no row in depRules", name)
			continue
		}
		for _, complaint := range rule.check(p) {
			t.Errorf("package %q imports %s", name, complaint)
		}
	}
}

// check returns a complaint for each import of p that the rule forbids.
func (r depRule) check(p listedPackage) []string {
	var complaints []string
	for _, path := range p.Imports {
		switch {
		case within(module, path):
			if !slices.Contains(r.ours, strings.TrimPrefix(strings.TrimPrefix(path, module), "/")) {
				complaints = append(complaints, path+", which its row doesn't allow")
			}
		case !inStdlib(path):
			if !slices.ContainsFunc(r.others, func(allowed string) bool { return within(allowed, path) }) {
				complaints = append(complaints, path+", of a module that its row doesn't have")
			}
		case !r.fixture && slices.ContainsFunc(notInLibrary, func(banned string) bool { return within(banned, path) }) && path != "log/slog":
			complaints = append(complaints, path+", which isn't for library code")
		}
	}
	for _, path := range p.Deps {
		for _, banned := range r.never {
			if path == banned || !inStdlib(path) && within(banned, path) {
				complaints = append(complaints, path+", which may not even be linked")
			}
		}
		// No library that we link may drag the testing package into its users' programs either.
		if path == "testing" && !r.fixture && !slices.Contains(p.Imports, path) {
			complaints = append(complaints, "testing, through another package")
		}
	}
	return complaints
}

// within reports whether the package at path is the one at root or below it.
func within(root, path string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// inStdlib goes by the first element of the path, which is a host in every other module.
func inStdlib(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command isn't here")
	}
	// With -e a package that doesn't compile is listed all the same: that is for its own tests to say.
	cmd := exec.CommandContext(t.Context(), goTool, "list", "-e", "-json=ImportPath,Dir,Imports,Deps", "./...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	var packages []listedPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatal(err)
		}
		packages = append(packages, p)
		// "go test" reuses a result until a file changes that it saw the test read, and it doesn't see
		// what go list reads. The parent is for a package that is added.
		for _, dir := range []string{p.Dir, filepath.Dir(p.Dir)} {
			if _, err := os.ReadDir(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDepRulesBite breaks each kind of rule once.
func TestDepRulesBite(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pkg     string
		imports []string
		deps    []string // beyond imports
		want    string   // "": allowed
	}{
		{"stdlib", "limit", []string{"fmt", "log/slog"}, []string{"os", "log"}, ""},
		{"ours, allowed", "leakyqueue", []string{module + "/limit"}, nil, ""},
		{"ours, not allowed", "leakyqueue", []string{module + "/headers"}, nil, "its row doesn't allow"},
		{"the leaf imports the root", "headers", []string{module}, nil, "its row doesn't allow"},
		{"other module, allowed", "shared", []string{"github.com/redis/go-redis/v9/push"}, nil, ""},
		{"other module, not allowed", "headers", []string{"github.com/redis/go-redis/v9"}, nil, "its row doesn't have"},
		{"other module of nearly the name", "headers", []string{"github.com/dunglas/httpsfvx"}, nil, "its row doesn't have"},
		{"net/http in the queue", "leakyqueue", []string{"net/http"}, nil, "even be linked"},
		{"net/http below the queue", "leakyqueue", nil, []string{"net/http"}, "even be linked"},
		{"net/http's own packages", "leakyqueue", nil, []string{"net/http/internal"}, ""},
		{"net/http in the root", "", []string{"net/http"}, []string{"log", "os"}, ""},
		{"the root links go-redis", "", nil, []string{"github.com/redis/go-redis/v9/internal"}, "even be linked"},
		{"the root links shared", "", nil, []string{module + "/shared/script"}, "even be linked"},
		{"os", "backoff", []string{"os"}, nil, "library code"},
		{"below os", "backoff", []string{"os/signal"}, nil, "library code"},
		{"log", "headers", []string{"log"}, nil, "library code"},
		{"testing", "shared", []string{"testing"}, nil, "library code"},
		{"testing through another", "shared", nil, []string{"testing"}, "testing, through"},
		{"fixture", "internal/testserver", []string{"testing", "os", "log", "net/http"}, nil, ""},
		{"fixture with code of ours", "internal/testserver", []string{module + "/limit"}, nil, "its row doesn't allow"},
		{"fixture with another module", "internal/testserver", []string{"golang.org/x/net/http2"}, nil, "its row doesn't have"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule, ok := depRules[tt.pkg]
			if !ok {
				t.Fatalf("package %q has no row", tt.pkg)
			}
			got := rule.check(listedPackage{Imports: tt.imports, Deps: slices.Concat(tt.imports, tt.deps)})
			switch {
			case tt.want == "" && len(got) != 0:
				t.Errorf("complaints: %q", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("complaints: %q, want one with %q", got, tt.want)
			}
		})
	}
}
