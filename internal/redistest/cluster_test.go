package redistest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outflow-go/outflow/internal/redistest"
)

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"":                     0,
		"123456789":            0x31c3, // the example of the specification
		"foo":                  12182,
		"{foo}.bar":            12182,
		"bar{foo}{zap}":        12182,
		"{user1000}.following": redistest.Slot("user1000"),
	} {
		if got := redistest.Slot(key); got != want {
			t.Errorf("slot of %q: %d, want %d", key, got, want)
		}
	}
}

func TestRealRedisClusterSlots(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := redistest.StartCluster(t, 3, 0)
	t.Logf("started in %v", time.Since(began))
	for i, key := range []string{"", "foo", "{}{foo}", "a{b", "{a}{b}", "a}{b}c", "{{b}}", "üß"} {
		want(t, c.Nodes()[i%3], int64(redistest.Slot(key)), "CLUSTER", "KEYSLOT", key)
	}
	served := map[*redistest.Server]int{}
	for i := range 300 {
		key := fmt.Sprint("key", i)
		m := c.MasterOf(key)
		served[m]++
		want(t, m, "OK", "SET", key, "value")
	}
	for m, n := range served {
		if n < 50 {
			t.Errorf("%s has %d of 300 keys", m.Addr(), n)
		}
	}
	if len(served) != 3 {
		t.Errorf("%d masters", len(served))
	}
}

func TestRealRedisClusterMovesSlot(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	from := c.MasterOf("{tag}")
	var to *redistest.Server
	for _, n := range c.Nodes() {
		if n != from {
			to = n
		}
	}
	const keys = 250
	for i := range keys {
		want(t, from, "OK", "SET", fmt.Sprint("{tag}", i), "value")
	}

	m := c.StartMove("{tag}", to)
	if n := m.Keys(100); n != 100 {
		t.Errorf("%d keys moved, want 100", n)
	}
	var stayed, asked int
	for i := range keys {
		switch reply, err := from.Do("GET", fmt.Sprint("{tag}", i)); {
		case err == nil && reply == "value":
			stayed++
		case err != nil && strings.HasPrefix(err.Error(), "ASK ") && strings.HasSuffix(err.Error(), to.Addr()):
			asked++
		default:
			t.Fatal(reply, err)
		}
	}
	if stayed != 150 || asked != 100 {
		t.Errorf("%d keys stayed, %d moved", stayed, asked)
	}
	if c.MasterOf("{tag}") != from {
		t.Error("the slot has moved already")
	}
	for m.Keys(100) > 0 {
	}
	m.Finish()

	if c.MasterOf("{tag}") != to {
		t.Error("the slot hasn't moved")
	}
	for i := range keys {
		want(t, to, "value", "GET", fmt.Sprint("{tag}", i))
	}
	if _, err := from.Do("GET", "{tag}"); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
		t.Errorf("the old master: %v", err)
	}

	c.MoveSlot("{tag}", from) // and back
	if c.MasterOf("{tag}") != from {
		t.Error("the slot hasn't moved back")
	}
	want(t, from, "value", "GET", "{tag}7")
	want(t, to, int64(0), "DBSIZE")
}

func TestRealRedisClusterFailsOver(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := redistest.StartCluster(t, 3, 1)
	took := time.Since(began)
	t.Logf("started in %v", took)
	if took > 10*time.Second {
		t.Error("that is too long")
	}
	if len(c.Addrs()) != 6 {
		t.Fatalf("nodes: %v", c.Addrs())
	}
	first := c.MasterOf("key")
	setReplicated(t, first, "value", 1)

	began = time.Now()
	if killed := c.KillMasterOf("key"); killed != first || killed.Alive() {
		t.Error("KillMasterOf killed another")
	}
	c.WaitOK()
	t.Logf("failed over in %v", time.Since(began))
	second := c.MasterOf("key")
	if second == first || role(second) != "master" {
		t.Errorf("after the failover of %s: %s, a %s", first.Addr(), second.Addr(), role(second))
	}
	want(t, second, "value", "GET", "key")

	first.Restart()
	eventually(t, "the old master is a replica", 30*time.Second, func() bool { return role(first) == "slave" })
	c.WaitOK()
	if c.MasterOf("key") != second {
		t.Error("the master changed again")
	}

	// The other way round, by a master that hangs.
	setReplicated(t, second, "again", 1)
	began = time.Now()
	second.Stop()
	c.WaitOK()
	t.Logf("failed over in %v", time.Since(began))
	if c.MasterOf("key") != first {
		t.Error("the replica hasn't taken over")
	}
	want(t, first, "again", "GET", "key")
	second.Continue()
	eventually(t, "the old master is a replica", 30*time.Second, func() bool { return role(second) == "slave" })
}
