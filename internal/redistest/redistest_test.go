package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outflow-go/outflow/internal/redistest"
)

// beTheParent makes the test binary a program that starts a redis-server and waits.
const beTheParent = "REDISTEST_BE_THE_PARENT"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFind(t *testing.T) {
	path, ok := redistest.Find()
	if !ok {
		t.Skip("there is no redis-server here")
	}
	if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), "v=") {
		t.Errorf("%s --version: %q, %v", path, out, err)
	}
}

func TestRealRedisAnswers(t *testing.T) {
	srv := redistest.Start(t)
	want(t, srv, "OK", "SET", "key", "a\r\nb")
	want(t, srv, "a\r\nb", "GET", "key")
	want(t, srv, nil, "GET", "none")
	want(t, srv, int64(1), "DEL", "key")
	want(t, srv, []any{int64(1), "two", nil, []any{"OK"}}, "EVAL", `return {1, "two", false, {redis.status_reply("OK")}}`, "0")
	if reply, err := srv.Do("EVALSHA", strings.Repeat("0", 40), "0"); err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT ") {
		t.Errorf("EVALSHA of no script: %v, %v", reply, err)
	}
}

func TestRealRedisPersistsNothing(t *testing.T) {
	srv := redistest.Start(t)
	for name, value := range map[string]string{"save": "", "appendonly": "no", "protected-mode": "no"} {
		want(t, srv, []any{name, value}, "CONFIG", "GET", name)
	}
	reply, err := srv.Do("CONFIG", "GET", "dir")
	if err != nil {
		t.Fatal(err)
	}
	dir := reply.([]any)[1].(string)
	if inside, _ := os.Getwd(); dir == inside || !strings.HasPrefix(dir, os.TempDir()) {
		t.Errorf("works in %s", dir)
	}
	host, _, _ := net.SplitHostPort(srv.Addr())
	if !net.ParseIP(host).IsLoopback() {
		t.Errorf("listens at %s", srv.Addr())
	}
}

func TestRealRedisTakesArguments(t *testing.T) {
	srv := redistest.Start(t, "--maxmemory", "3mb", "--requirepass", "secret")
	want(t, srv, []any{"maxmemory", "3145728"}, "CONFIG", "GET", "maxmemory")
	srv.Restart()
	want(t, srv, []any{"maxmemory", "3145728"}, "CONFIG", "GET", "maxmemory")
	if n := srv.Commands(); n != 0 {
		t.Errorf("%d commands of others", n)
	}

	c := connect(t, srv)
	if got := c.ask(t, "PING"); !strings.HasPrefix(got, "-NOAUTH ") {
		t.Errorf("without a password: %q", got)
	}
}

func TestRealRedisRestartsEmpty(t *testing.T) {
	srv := redistest.Start(t)
	want(t, srv, "OK", "SET", "key", "value")
	want(t, srv, "OK", "SAVE") // even then
	addr := srv.Addr()

	srv.Kill()
	if srv.Alive() {
		t.Error("alive after Kill")
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("listens after Kill")
	}
	srv.Kill() // is dead already
	srv.Restart()
	if !srv.Alive() || srv.Addr() != addr {
		t.Errorf("after Restart: alive %t at %s, want at %s", srv.Alive(), srv.Addr(), addr)
	}
	want(t, srv, nil, "GET", "key")

	want(t, srv, "OK", "SET", "key", "value")
	srv.Restart() // kills by itself
	want(t, srv, nil, "GET", "key")
}

func TestRealRedisStopsAndContinues(t *testing.T) {
	srv := redistest.Start(t)
	c := connect(t, srv)
	srv.Stop()
	if srv.Alive() {
		t.Error("alive while halted")
	}
	c.send(t, "INCR n")
	if line, ok := c.read(100 * time.Millisecond); ok {
		t.Errorf("halted, it answers %q", line)
	}
	// A call that waits for the halted server doesn't keep others from continuing it.
	waiting := make(chan error)
	go func() {
		_, err := srv.Do("INCR", "n")
		waiting <- err
	}()
	late, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Error("halted, its kernel accepts nobody: ", err)
	} else {
		late.Close()
	}
	srv.Continue()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if line, ok := c.read(5 * time.Second); !ok || !strings.HasPrefix(line, ":") {
		t.Errorf("continued, it answers %q, %t", line, ok)
	}
	want(t, srv, "2", "GET", "n")

	srv.Stop()
	srv.Restart() // a halted one can be killed as well
	want(t, srv, nil, "GET", "n")
	srv.Stop() // and so it can when the test ends
}

func TestRealRedisFlush(t *testing.T) {
	srv := redistest.Start(t)
	sha, err := srv.Do("SCRIPT", "LOAD", "return 1")
	if err != nil {
		t.Fatal(err)
	}
	want(t, srv, "OK", "SET", "key", "value")
	srv.Flush()
	want(t, srv, int64(0), "DBSIZE")
	want(t, srv, int64(1), "EVALSHA", sha.(string), "0")
}

func TestRealRedisCounts(t *testing.T) {
	srv := redistest.Start(t)
	c := connect(t, srv)
	base, scripts, cpu := srv.Commands(), srv.ScriptCalls(), srv.CPU()
	if base != 0 || scripts != 0 {
		t.Errorf("at the start: %d commands, %d scripts", base, scripts)
	}
	for range 7 {
		c.ask(t, "INCR n")
	}
	c.ask(t, "EVAL return{} 0")
	c.ask(t, "EVALSHA 0000000000000000000000000000000000000000 0")
	if n := srv.Commands(); n != 9 {
		t.Errorf("%d commands, want 9", n)
	}
	if n := srv.ScriptCalls(); n != 2 {
		t.Errorf("%d scripts, want 2", n)
	}
	c.ask(t, "EVAL redis.call('INCR','n');return{} 0")
	if n := srv.Commands(); n != 11 { // the script and what it called
		t.Errorf("%d commands, want 11", n)
	}
	if n := srv.ScriptCalls(); n != 3 {
		t.Errorf("%d scripts, want 3", n)
	}

	want(t, srv, nil, "EVAL", `for i = 1, 2e7 do end`, "0")
	time.Sleep(150 * time.Millisecond) // older versions look at the clock ten times a second
	if used := srv.CPU() - cpu; used < 20*time.Millisecond || used > time.Minute {
		t.Errorf("%v of CPU for a loop", used)
	}
	srv.Restart()
	if n, s := srv.Commands(), srv.ScriptCalls(); n != 0 || s != 0 {
		t.Errorf("after a restart: %d commands, %d scripts", n, s)
	}
}

func TestRealRedisRestartWaitsForItsPort(t *testing.T) {
	srv := redistest.Start(t)
	srv.Kill()
	l, err := net.Listen("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(300*time.Millisecond, func() { l.Close() })
	defer timer.Stop()
	srv.Restart()
	want(t, srv, "PONG", "PING")
}

func TestRealRedisStartsFast(t *testing.T) {
	for range 5 {
		began := time.Now()
		redistest.Start(t)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%v", took)
		} else {
			t.Log(took)
		}
	}
}

// TestRealRedisDiesWithItsParent kills a process that has started a server.
func TestRealRedisDiesWithItsParent(t *testing.T) {
	if os.Getenv(beTheParent) != "" {
		srv := redistest.Start(t)
		fmt.Printf("\nserver at %s\n", srv.Addr())
		io.Copy(io.Discard, os.Stdin)
		return
	}
	if _, ok := redistest.Find(); !ok {
		t.Skip("there is no redis-server here")
	}
	if !diesWithParent {
		t.Skip("only Linux tells a child that its parent died")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestRealRedisDiesWithItsParent$", "-test.v", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), beTheParent+"=1")
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var addr string
	for lines := bufio.NewScanner(stdout); addr == "" && lines.Scan(); {
		addr, _ = strings.CutPrefix(lines.Text(), "server at ")
		if addr == lines.Text() {
			addr = ""
		}
	}
	if addr == "" {
		t.Error("the parent said no address")
	} else if c, err := net.Dial("tcp", addr); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	cmd.Process.Kill()
	cmd.Wait()
	for deadline := time.Now().Add(5 * time.Second); addr != ""; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		c.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server outlives its parent")
		}
	}
}

// want sends a command and compares the reply.
func want(t *testing.T, srv *redistest.Server, reply any, args ...string) {
	t.Helper()
	got, err := srv.Do(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", reply) {
		t.Errorf("%q: %#v, want %#v", args, got, reply)
	}
}

// client is one connection and shares no code with what is tested.
type client struct {
	net.Conn
	lines *bufio.Reader
}

func connect(t *testing.T, srv *redistest.Server) *client {
	t.Helper()
	c, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{c, bufio.NewReader(c)}
}

func (c *client) send(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func (c *client) read(within time.Duration) (line string, ok bool) {
	c.SetReadDeadline(time.Now().Add(within))
	line, err := c.lines.ReadString('\n')
	return strings.TrimSpace(line), err == nil
}

// ask is for commands with an answer of one line.
func (c *client) ask(t *testing.T, command string) string {
	t.Helper()
	c.send(t, command)
	line, ok := c.read(5 * time.Second)
	if !ok {
		t.Fatalf("%s: no answer", command)
	}
	return line
}
