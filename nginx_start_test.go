package outflow_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// nginxConfig has one zone for everybody. A file is served, because "return" is answered before limit_req is
// asked. It runs as one process in the foreground.
const nginxConfig = `
daemon off;
master_process off;
pid nginx.pid;
events { worker_connections 512; }
http {
	access_log off;
	limit_req_zone $server_name zone=all:1m rate=100r/s;
	limit_req_status 429;
	limit_req_log_level info;
	keepalive_requests 1000000;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	server {
		listen %s;
		server_name upstream;
		root .;
		location / { limit_req zone=all%s; }
	}
}
`

// startNginx starts an nginx on a free port of 127.0.0.1, with a burst unless that is 0, until the test ends,
// and returns the URL of what it serves. Where there is no nginx the test is skipped.
func startNginx(t *testing.T, burst int) (url string) {
	t.Helper()
	nginx := findNginx(t)
	address := freeAddress(t)
	dir := t.TempDir()
	withBurst := ""
	if burst > 0 {
		withBurst = fmt.Sprintf(" burst=%d", burst)
	}
	for name, content := range map[string]string{
		"nginx.conf": fmt.Sprintf(nginxConfig, address, withBurst),
		"file":       "ok\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	// The shell ends it when its input ends, which is when the test does, however that comes about.
	cmd := exec.Command("sh", "-c", `"$@" & read -r _; kill $!; wait`, "sh", nginx, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	cmd.Stderr = t.Output()
	untilTheEnd, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		untilTheEnd.Close()
		if err := cmd.Wait(); err != nil {
			t.Log("nginx: ", err)
		}
	})
	awaitServer(t, address)
	return "http://" + address + "/file"
}

// freeAddress is one that nobody listened at a moment ago: nginx can't be given a port of its own choice, nor,
// as a single process, a socket.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// awaitServer returns when somebody listens at an address.
func awaitServer(t *testing.T, address string) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	giveUp := time.After(10 * time.Second)
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-again.C:
		case <-giveUp:
			t.Fatal("nginx doesn't listen: ", err)
		}
	}
}

func findNginx(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no nginx here; on Debian: apt-get install nginx-light")
	return ""
}
