package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	startWithin = 10 * time.Second // a loaded machine; 30 ms is usual
	replyWithin = 5 * time.Second
	pollEvery   = 5 * time.Millisecond
)

// config is what every server starts with. Arguments on the command line come after it and win.
// Replicas are synchronised at once, instead of after the 5 s in which others could ask for the same. They are
// pinged each second instead of every tenth: CLUSTER SLOTS of Redis 7 has no replica that got nothing yet.
const config = `port %d
bind ` + loopback + `
protected-mode no
save ""
appendonly no
repl-diskless-sync-delay 0
repl-ping-replica-period 1
always-show-logo no
`

// Server is a redis-server process, which may be dead or halted at times.
type Server struct {
	t        testing.TB
	path     string
	dir      string
	port     int
	args     []string
	password string

	sent atomic.Int64 // commands, by this package, since the start

	mu     sync.Mutex // guards the fields below; nobody waits for an answer with it but who starts a process
	proc   *process   // never nil
	frozen bool
}

// Start starts a redis-server on a free port of the loopback interface, which ends with the test. It persists
// nothing and has no protected mode. The arguments are redis-server's ("--maxmemory", "1mb"); they may
// set "--requirepass", but not the port.
//
// The test is skipped where there is no redis-server.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, config, args...)
}

// start is Start with a configuration that may contain %d, for the port.
func start(t testing.TB, config string, args ...string) *Server {
	t.Helper()
	path := need(t)
	for range 10 {
		port, ok := freePort()
		if !ok {
			t.Fatalf("redistest: no free port between %d and %d", minPort, maxPort)
		}
		s := &Server{t: t, path: path, dir: t.TempDir(), port: port, args: args, password: passwordIn(args)}
		if err := os.WriteFile(filepath.Join(s.dir, "redis.conf"), fmt.Appendf(nil, config, port), 0o600); err != nil {
			t.Fatal("redistest: ", err)
		}
		s.mu.Lock()
		err := s.launchLocked()
		s.mu.Unlock()
		if errors.Is(err, errPortTaken) {
			continue
		}
		if err != nil {
			t.Fatalf("redistest: %s: %v\n%s", s.Addr(), err, s.log())
		}
		t.Cleanup(s.cleanup)
		return s
	}
	t.Fatal("redistest: ten free ports were taken before a redis-server could listen there")
	return nil
}

func (s *Server) cleanup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
	if s.t.Failed() {
		s.t.Logf("redistest: the last that %s logged:\n%s", s.Addr(), s.log())
	}
}

func passwordIn(args []string) string {
	for i, arg := range args {
		if arg == "--requirepass" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

var errPortTaken = errors.New("port taken")

// launchLocked returns when the server answers, or no process is left.
func (s *Server) launchLocked() error {
	// A replica keeps what it was last sent, and every server loads what it finds.
	if err := os.Remove(filepath.Join(s.dir, "dump.rdb")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Remove(s.logFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	proc, err := startProcess(s.path, s.dir, s.logFile(), append([]string{"redis.conf"}, s.args...))
	if err != nil {
		return err
	}
	s.proc, s.frozen = proc, false
	s.sent.Store(0)
	deadline := time.Now().Add(startWithin)
	for {
		err := s.answersLocked(deadline)
		switch {
		case err == nil:
			return nil
		case proc.hasExited():
			if strings.Contains(s.log(), "Address already in use") {
				return errPortTaken
			}
			return errors.New("ended at once")
		case time.Now().After(deadline):
			proc.kill()
			return fmt.Errorf("no answer in %v: %w", startWithin, err)
		}
		time.Sleep(pollEvery)
	}
}

// answersLocked returns nil when it is our process that answers at the port: what was there before us
// may be a Redis, too.
func (s *Server) answersLocked(deadline time.Time) error {
	if reply, err := s.do(deadline, "PING"); err != nil || reply != "PONG" {
		return fmt.Errorf("PING: %v, %w", reply, err)
	}
	reply, err := s.do(deadline, "INFO", "server")
	if err != nil {
		return err
	}
	if pid := infoOf(reply)["process_id"]; pid != strconv.Itoa(s.proc.Pid) {
		return fmt.Errorf("process %s answers instead of %d", pid, s.proc.Pid)
	}
	return nil
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// log returns the end of what the server printed since its last start.
func (s *Server) log() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	const most = 2048
	if len(b) > most {
		b = append([]byte("…"), b[len(b)-most:]...)
	}
	return string(b)
}

// Addr returns the address that clients dial, as "127.0.0.1:12345". It never changes.
func (s *Server) Addr() string { return address(s.port) }

// Kill kills the server with SIGKILL, and returns when it is gone. A dead one stays dead.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
}

// Restart starts the server again, with nothing in its memory, and returns when it answers. If it is alive
// it is killed first.
//
// What Sentinel or a Cluster made of it is kept: roles, slots, and its name in the Cluster.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
	err := s.launchLocked()
	for deadline := time.Now().Add(startWithin); errors.Is(err, errPortTaken) && time.Now().Before(deadline); {
		time.Sleep(pollEvery)
		err = s.launchLocked()
	}
	if err != nil {
		s.t.Errorf("redistest: restart of %s: %v\n%s", s.Addr(), err, s.log())
	}
}

// Stop halts the server with SIGSTOP: connections stay, new ones are accepted by the kernel, and nothing is
// answered until [Server.Continue]. It returns when the server has come to a halt.
func (s *Server) Stop() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proc.halt(); err != nil {
		s.t.Errorf("redistest: stop of %s: %v", s.Addr(), err)
		return
	}
	s.frozen = true
	for deadline := time.Now().Add(replyWithin); !halted(s.proc.Pid); time.Sleep(50 * time.Microsecond) {
		if s.proc.hasExited() || time.Now().After(deadline) {
			s.t.Errorf("redistest: stop of %s: it doesn't halt", s.Addr())
			return
		}
	}
}

// Continue lets a server go on that was halted. It finds everything that was sent to it meanwhile.
func (s *Server) Continue() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proc.resume(); err != nil {
		s.t.Errorf("redistest: continue of %s: %v", s.Addr(), err)
		return
	}
	s.frozen = false
}

// Alive reports whether the server runs and isn't halted.
func (s *Server) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.proc.hasExited() && !s.frozen
}

// Do sends a command on a connection of its own and returns the reply: a string, an int64, nil, or a []any of
// these. What Redis answers as an error is a [ReplyError]. A server that doesn't answer has five seconds.
// WAIT is of no use here, since it is about what was written on the same connection.
func (s *Server) Do(args ...string) (any, error) {
	return s.do(time.Now().Add(replyWithin), args...)
}

func (s *Server) do(deadline time.Time, args ...string) (any, error) {
	c, err := dial(s.Addr(), deadline)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if s.password != "" {
		if _, err := c.do("AUTH", s.password); err != nil {
			return nil, err
		}
		s.sent.Add(1)
	}
	reply, err := c.do(args...)
	// Redis counts what fails as well, unless there is no such command.
	if _, refused := errors.AsType[ReplyError](err); err == nil || refused {
		s.sent.Add(1)
	}
	return reply, err
}

// Flush deletes all keys. Scripts stay: that is Do("SCRIPT", "FLUSH").
func (s *Server) Flush() {
	s.t.Helper()
	if _, err := s.Do("FLUSHALL"); err != nil {
		s.t.Errorf("redistest: flush of %s: %v", s.Addr(), err)
	}
}
