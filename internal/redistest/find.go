package redistest

import (
	"os/exec"
	"testing"
)

// Find returns the path of redis-server and whether there is one: in PATH, /usr/bin or /usr/local/bin.
func Find() (path string, ok bool) {
	for _, name := range []string{"redis-server", "/usr/bin/redis-server", "/usr/local/bin/redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// need is Find for those who can't do without.
func need(t testing.TB) string {
	t.Helper()
	path, ok := Find()
	if !ok {
		t.Skip("there is no redis-server here; on Debian: apt-get install redis-server")
	}
	return path
}
