package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outflow-go/outflow/faults"
	"github.com/outflow-go/outflow/internal/fleettest"
	"github.com/outflow-go/outflow/internal/redistest"
)

// silent is for a client that logs what the tests do to it.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	code := m.Run()
	fleettest.PrintTable(os.Stdout)
	os.Exit(code)
}

// start returns a Redis, a way to it, and a client that goes that way, tries once and waits for a second.
func start(t *testing.T) (*redistest.Server, *faults.Network, *redis.Client) {
	t.Helper()
	srv := redistest.Start(t)
	network := faults.Start(t, srv.Addr())
	client := redis.NewClient(&redis.Options{
		Addr: network.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		ReadTimeout: time.Second, WriteTimeout: time.Second, DialTimeout: time.Second,
		PoolSize: 1, DisableIdentity: true,
	})
	t.Cleanup(func() { client.Close() })
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return srv, network, client
}

func TestRealRedisDelay(t *testing.T) {
	_, network, client := start(t)
	trip := func() time.Duration {
		began := time.Now()
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		return time.Since(began)
	}
	if took := trip(); took > 50*time.Millisecond {
		t.Errorf("%v without a fault", took)
	}
	network.Delay(100*time.Millisecond, 0)
	for range 5 {
		if took := trip(); took < 100*time.Millisecond || took > 150*time.Millisecond {
			t.Errorf("%v with a delay of 100ms", took)
		} else {
			t.Log(took)
		}
	}
	network.Delay(50*time.Millisecond, 0)
	if took := trip(); took < 150*time.Millisecond || took > 200*time.Millisecond {
		t.Errorf("%v with another 50ms", took)
	}
	network.Heal()
	if took := trip(); took > 50*time.Millisecond {
		t.Errorf("%v after Heal", took)
	}
}

func TestRealRedisLosesConnections(t *testing.T) {
	srv, network, client := start(t)
	network.LoseConnections(0.1)
	const calls = 2000
	answered, failed := 0, 0
	for range calls {
		// A lost connection is EOF; the client has an error of its own when it was lost in the handshake.
		if err := client.Incr(t.Context(), "n").Err(); err != nil {
			failed++
		} else {
			answered++
		}
	}
	network.Heal()
	executed, err := client.Get(t.Context(), "n").Int()
	if err != nil {
		executed, err = client.Get(t.Context(), "n").Int() // the last one may have been lost
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("of %d calls %d failed, and %d of those were executed", calls, failed, executed-answered)
	if share := float64(failed) / calls; share < 0.06 || share > 0.30 {
		t.Errorf("%.3f of the calls failed, want 0.1 and somewhat more for the handshakes", share)
	}
	// Half of what was lost, less what was lost in the handshakes.
	if unknown := executed - answered; unknown < failed/10 || unknown > failed {
		t.Errorf("%d calls were executed and not answered", unknown)
	}
	if n := srv.Commands(); n < calls/2 {
		t.Errorf("%d commands arrived", n)
	}
	for range 50 {
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Error("after Heal: ", err)
		}
	}
}

func TestRealRedisResetsConnections(t *testing.T) {
	_, network, _ := start(t)
	network.ResetConnections(0.5)
	reset, alive := 0, 0
	for range 200 {
		switch err := pingOnce(network.Addr()); {
		case err == nil:
			alive++
		case errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF):
			reset++
		default:
			t.Error(err)
		}
	}
	t.Logf("%d were reset, %d lived", reset, alive)
	if reset < 60 || alive < 60 {
		t.Error("want half of each")
	}
}

func pingOnce(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	answer := make([]byte, len("+PONG\r\n"))
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if string(answer) != "+PONG\r\n" {
		return fmt.Errorf("answer %q", answer)
	}
	return nil
}

func TestRealRedisHangs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		hang     func(*faults.Network)
		executed int64
	}{
		{"both ways", (*faults.Network).Hang, 0},
		{"answers", (*faults.Network).HangAnswers, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv, network, client := start(t)
			tt.hang(network)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := client.Incr(ctx, "n").Err()
			if took := time.Since(began); err == nil || !timedOut(err) || took < 190*time.Millisecond || took > time.Second {
				t.Errorf("%v after %v, want a timeout after 200ms", err, took)
			}
			want := map[int64]any{0: nil, 1: "1"}[tt.executed]
			if got, err := srv.Do("GET", "n"); err != nil || got != want {
				t.Errorf("executed: %v, %v; want %v", got, err, want)
			}
			network.Heal()
			if n, err := client.Incr(t.Context(), "n").Result(); err != nil || n != tt.executed+1 {
				t.Errorf("after Heal: %d, %v", n, err)
			}
		})
	}
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout()
}

func TestRealRedisDown(t *testing.T) {
	_, network, client := start(t)
	network.Down()
	network.Down()
	// The first may still find its connection closed.
	client.Ping(t.Context())
	if err := client.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) && (err == nil || !strings.Contains(err.Error(), "refused")) {
		t.Errorf("%v, want a refused connection", err)
	}
	network.Heal()
	if err := pingOnce(network.Addr()); err != nil {
		t.Error("after Heal: ", err)
	}
	// The pool answers with the last dial's error until it has dialled by itself, which it does each second.
	began := time.Now()
	err := client.Ping(t.Context()).Err()
	for ; err != nil && time.Since(began) < 5*time.Second; err = client.Ping(t.Context()).Err() {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%v until the client noticed", time.Since(began))
	if err != nil {
		t.Error("after Heal: ", err)
	}
}

// TestRealRedisGone has the server die instead of the network.
func TestRealRedisGone(t *testing.T) {
	srv, _, client := start(t)
	srv.Kill()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a dead server answers")
	}
	srv.Restart()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error("after Restart: ", err)
	}
}
