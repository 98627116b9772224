package redistest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/redistest"
)

// eventually is for what nobody waits for but the test.
func eventually(t *testing.T, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", within, what)
		}
	}
}

// setReplicated sets "key" and returns when so many replicas have it.
func setReplicated(t *testing.T, master *redistest.Server, value string, replicas int) {
	t.Helper()
	c := connect(t, master)
	if got := c.ask(t, "SET key "+value); got != "+OK" {
		t.Fatalf("SET: %q", got)
	}
	if got := c.ask(t, fmt.Sprintf("WAIT %d 5000", replicas)); got != fmt.Sprintf(":%d", replicas) {
		t.Fatalf("WAIT: %q", got)
	}
}

func role(srv *redistest.Server) string {
	reply, err := srv.Do("ROLE")
	if err != nil {
		return err.Error()
	}
	name, _ := reply.([]any)[0].(string)
	return name
}

func TestRealRedisSentinel(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := redistest.StartSentinel(t, 2)
	took := time.Since(began)
	t.Logf("started in %v", took)
	if took > 10*time.Second {
		t.Error("that is too long")
	}
	if len(s.Addrs()) != 3 || len(s.Sentinels()) != 3 || len(s.Servers()) != 3 {
		t.Fatalf("Sentinels at %v, %d servers", s.Addrs(), len(s.Servers()))
	}
	first := s.Master()
	setReplicated(t, first, "value", 2)
	for i, srv := range s.Servers() {
		if got, want := role(srv), []string{"master", "slave", "slave"}[i]; got != want {
			t.Errorf("server %d is a %s, want %s", i, got, want)
		}
	}

	began = time.Now()
	if killed := s.KillMaster(); killed != first || killed.Alive() {
		t.Error("KillMaster killed another")
	}
	second := s.WaitFailover()
	t.Logf("failed over in %v", time.Since(began))
	if second == first || second != s.Master() || role(second) != "master" {
		t.Errorf("after the failover of %s: %s, a %s", first.Addr(), second.Addr(), role(second))
	}
	want(t, second, "value", "GET", "key")
	want(t, second, "OK", "SET", "key", "again")

	// Who comes back becomes a replica of the new master.
	first.Restart()
	began = time.Now()
	eventually(t, "the old master is a replica", 30*time.Second, func() bool {
		reply, err := first.Do("GET", "key")
		return err == nil && reply == "again" && role(first) == "slave"
	})
	t.Logf("followed after %v", time.Since(began))
	if got := role(second); got != "master" {
		t.Errorf("the new master is a %s now", got)
	}
}

// TestRealRedisSentinelReplacesHungMaster has a master that comes back and doesn't know.
func TestRealRedisSentinelReplacesHungMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1)
	first := s.Master()
	began := time.Now()
	first.Stop()
	second := s.WaitFailover()
	t.Logf("failed over in %v", time.Since(began))
	first.Continue()
	if second == first {
		t.Error("no failover")
	}
	eventually(t, "the old master is a replica", 30*time.Second, func() bool { return role(first) == "slave" })
	first.Restart() // its role is in the file that Sentinel made it write
	if got := role(first); got != "slave" {
		t.Errorf("restarted, it is a %s", got)
	}
}

func TestRealRedisSentinelAddrs(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 0)
	var all []string
	for _, srv := range slices.Concat(s.Sentinels(), s.Servers()) {
		all = append(all, srv.Addr())
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 4 {
		t.Errorf("addresses: %v", all)
	}
	for _, srv := range s.Sentinels() {
		reply, err := srv.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.MasterName)
		if list, _ := reply.([]any); err != nil || len(list) != 2 || !strings.HasSuffix(s.Master().Addr(), ":"+list[1].(string)) {
			t.Errorf("%s: %v, %v; want %s", srv.Addr(), reply, err, s.Master().Addr())
		}
	}
}
