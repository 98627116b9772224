package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// errNoRedis is for a machine without redis-server.
var errNoRedis = errors.New("there is no redis-server here: install Debian's package redis-server, say")

// findRedis returns the path of redis-server.
func findRedis() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errNoRedis
	}
	return path, nil
}

// A server is a redis-server of our own.
type server struct {
	address string
	admin   *redis.Client // for INFO, and not counted
	process *exec.Cmd
	dir     string
}

// startRedis starts one that keeps nothing, on a free port of 127.0.0.1.
func startRedis(ctx context.Context) (*server, error) {
	path, err := findRedis()
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		s, err := startRedisOnce(ctx, path)
		if err == nil || ctx.Err() != nil || try == 2 { // somebody else may have taken the port
			return s, err
		}
	}
}

func startRedisOnce(ctx context.Context, path string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	s := &server{address: address, dir: dir}
	s.process = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir, "--logfile", "log")
	s.process.SysProcAttr = diesWithUs()
	if err := s.process.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s.admin = redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	for end := time.Now().Add(5 * time.Second); ; {
		// Another server might have got the port: ours says its process' number.
		text, err := s.admin.Info(ctx, "server").Result()
		if err == nil && infoFields(text)["process_id"] == strconv.Itoa(s.process.Process.Pid) {
			return s, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			log, _ := os.ReadFile(dir + "/log")
			s.stop()
			return nil, fmt.Errorf("redis-server on %s: %w\n%s", address, errors.Join(err, ctx.Err()), log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *server) stop() {
	s.admin.Close()
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	os.RemoveAll(s.dir)
}

// client returns a new one with go-redis' defaults, whose round trips are counted.
func (s *server) client(trips *atomic.Int64) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: s.address})
	rdb.AddHook(tripCounter{trips})
	return rdb
}

// A redisCount is what Redis has done since it started.
type redisCount struct {
	commands int64
	cpu      time.Duration
	version  string
}

func (s *server) count(ctx context.Context) (redisCount, error) {
	var c redisCount
	text, err := s.admin.InfoMap(ctx, "server", "cpu", "commandstats").Result()
	if err != nil {
		return c, err
	}
	for _, section := range text {
		for name, value := range section {
			switch {
			case name == "redis_version":
				c.version = value
			case name == "used_cpu_user" || name == "used_cpu_sys":
				seconds, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return c, err
				}
				c.cpu += time.Duration(seconds * float64(time.Second))
			case strings.HasPrefix(name, "cmdstat_"):
				calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				n, err := strconv.ParseInt(calls, 10, 64)
				if err != nil {
					return c, err
				}
				c.commands += n
			}
		}
	}
	return c, nil
}

func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// tripCounter counts what a client writes.
type tripCounter struct{ trips *atomic.Int64 }

func (c tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.trips.Add(1)
		return next(ctx, cmd)
	}
}

func (c tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.trips.Add(1)
		return next(ctx, cmds)
	}
}
