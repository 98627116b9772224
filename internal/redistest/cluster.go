package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clusterConfig has nodes say their address: before they are met by others they don't know it.
const clusterConfig = config + `cluster-enabled yes
cluster-config-file nodes.conf
cluster-node-timeout 1000
cluster-announce-ip ` + loopback + `
`

// clusterWithin is for joining and for failovers, of which usual ones take three seconds.
const clusterWithin = 30 * time.Second

// Cluster is a Redis Cluster. A node that doesn't answer for a second is taken for dead. As long as a slot has no
// master, all nodes refuse all commands with CLUSTERDOWN, as Redis does unless it is told otherwise.
type Cluster struct {
	t     testing.TB
	nodes []*Server
	ids   map[*Server]string
}

// StartCluster starts a Cluster that ends with the test, of that many masters, at least 3, with as many slots
// each as the others, and that many replicas for each. It returns when all nodes say that all is well and agree on
// who has which slots, and the replicas are in sync.
//
// The test is skipped where there is no redis-server.
func StartCluster(t testing.TB, masters, replicasEach int) *Cluster {
	t.Helper()
	if masters < 3 || replicasEach < 0 {
		t.Fatalf("redistest: a Cluster of %d masters with %d replicas each, want at least 3 and 0", masters, replicasEach)
	}
	c := &Cluster{t: t, ids: map[*Server]string{}}
	for range masters * (1 + replicasEach) {
		c.nodes = append(c.nodes, start(t, clusterConfig))
	}
	for i, n := range c.nodes {
		id, _ := c.must(n, "CLUSTER", "MYID").(string)
		c.ids[n] = id
		// Otherwise all have epoch 0, and sort that out one by one.
		c.must(n, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for i, m := range c.nodes[:masters] {
		add := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE is new in 7.0
		for slot := i * slots / masters; slot < (i+1)*slots/masters; slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		c.must(m, add...)
	}
	for i, n := range c.nodes {
		for _, other := range c.nodes[:i] {
			c.must(n, "CLUSTER", "MEET", loopback, strconv.Itoa(other.port))
		}
	}
	for i, r := range c.nodes[masters:] {
		m := c.nodes[i%masters]
		await(t, "the replica has met its master", clusterWithin, func() error {
			_, err := r.Do("CLUSTER", "REPLICATE", c.ids[m])
			return err
		})
	}
	await(t, "the Cluster is complete", clusterWithin, func() error {
		for i, n := range c.nodes {
			fields, err := n.info("replication")
			if err != nil {
				return err
			}
			if i < masters && fields["connected_slaves"] != strconv.Itoa(replicasEach) ||
				i >= masters && fields["master_link_status"] != "up" {
				return fmt.Errorf("%s isn't replicated yet", n.Addr())
			}
		}
		return c.ok(replicasEach)
	})
	return c
}

// must is for what can only fail when the test is broken.
func (c *Cluster) must(n *Server, args ...string) any {
	c.t.Helper()
	reply, err := n.Do(args...)
	if err != nil {
		c.t.Fatalf("redistest: %s: %s %s: %v", n.Addr(), args[0], args[1], err)
	}
	return reply
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.nodes) }

// Nodes returns all nodes, the first masters before their replicas.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// WaitOK waits until all nodes that are alive say that all is well, and agree that each slot has a master which
// is alive. A master that was killed or halted just before has been replaced then.
func (c *Cluster) WaitOK() {
	c.t.Helper()
	await(c.t, "the Cluster is well", clusterWithin, func() error { return c.ok(0) })
}

// ok returns nil when all living nodes agree on living masters of all slots, with so many replicas at least.
func (c *Cluster) ok(replicas int) error {
	agreed := ""
	for _, n := range c.nodes {
		if !n.Alive() {
			continue
		}
		reply, err := n.Do("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		info := infoOf(reply)
		if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(slots) {
			return fmt.Errorf("%s: cluster_state %s, %s slots", n.Addr(), info["cluster_state"], info["cluster_slots_ok"])
		}
		ranges, err := c.ranges(n)
		if err != nil {
			return err
		}
		var seen strings.Builder
		for _, r := range ranges {
			if r.master == nil || !r.master.Alive() {
				return fmt.Errorf("%s: slot %d has no living master", n.Addr(), r.first)
			}
			if r.replicas < replicas {
				return fmt.Errorf("%s: %s has %d replicas", n.Addr(), r.master.Addr(), r.replicas)
			}
			fmt.Fprintln(&seen, r.first, r.last, r.master.Addr())
		}
		if agreed == "" {
			agreed = seen.String()
		}
		if agreed != seen.String() {
			return errors.New("the nodes don't agree on who has which slots")
		}
	}
	if agreed == "" {
		return errors.New("no node is alive")
	}
	return nil
}

// slotRange is a line of CLUSTER SLOTS.
type slotRange struct {
	first, last int
	master      *Server
	replicas    int
}

// ranges returns who has which slots, in the eyes of a node.
func (c *Cluster) ranges(n *Server) ([]slotRange, error) {
	reply, err := n.Do("CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	var ranges []slotRange
	list, _ := reply.([]any)
	for _, item := range list {
		line, _ := item.([]any)
		if len(line) < 3 {
			return nil, fmt.Errorf("%s: CLUSTER SLOTS: %v", n.Addr(), item)
		}
		first, _ := line[0].(int64)
		last, _ := line[1].(int64)
		master, _ := line[2].([]any)
		if len(master) < 3 {
			return nil, fmt.Errorf("%s: CLUSTER SLOTS: %v", n.Addr(), item)
		}
		ranges = append(ranges, slotRange{int(first), int(last), c.named(master[2]), len(line) - 3})
	}
	slices.SortFunc(ranges, func(a, b slotRange) int { return cmp.Compare(a.first, b.first) })
	return ranges, nil
}

// named returns the node with a name.
func (c *Cluster) named(id any) *Server {
	for _, n := range c.nodes {
		if c.ids[n] == id {
			return n
		}
	}
	return nil
}

// MasterOf returns the master that has a key's slot, in the eyes of most nodes that are alive. It may be dead:
// WaitOK waits until it isn't.
func (c *Cluster) MasterOf(key string) *Server {
	c.t.Helper()
	votes := map[*Server]int{}
	var most *Server
	for _, n := range c.nodes {
		if !n.Alive() {
			continue
		}
		ranges, err := c.ranges(n)
		if err != nil {
			continue
		}
		m := masterIn(ranges, Slot(key))
		if votes[m]++; m != nil && (most == nil || votes[m] > votes[most]) {
			most = m
		}
	}
	if most == nil {
		c.t.Fatalf("redistest: no node knows a master of slot %d", Slot(key))
	}
	return most
}

func masterIn(ranges []slotRange, slot int) *Server {
	for _, r := range ranges {
		if r.first <= slot && slot <= r.last {
			return r.master
		}
	}
	return nil
}

// KillMasterOf kills the master that has a key's slot, and returns it: it can be restarted. WaitOK waits until
// a replica has taken its place.
func (c *Cluster) KillMasterOf(key string) *Server {
	c.t.Helper()
	m := c.MasterOf(key)
	m.Kill()
	return m
}

// MoveSlot moves the slot of a key with all its keys from its master to another, while both serve it.
func (c *Cluster) MoveSlot(key string, to *Server) {
	c.t.Helper()
	m := c.StartMove(key, to)
	for m.Keys(100) > 0 {
	}
	m.Finish()
}

// Move is a slot's way from one master to another. Until Finish the old one has the slot, but sends those who
// ask for a key that it hasn't to the new one (ASK), and who asks for several of which it has only some gets
// TRYAGAIN.
type Move struct {
	c        *Cluster
	slot     string
	from, to *Server
}

// StartMove begins to move the slot of a key from its master to another one. No key moves yet.
func (c *Cluster) StartMove(key string, to *Server) *Move {
	c.t.Helper()
	m := &Move{c, strconv.Itoa(Slot(key)), c.MasterOf(key), to}
	c.must(to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.ids[m.from])
	c.must(m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.ids[to])
	return m
}

// Keys moves at most so many keys and returns how many there were to move: 0 when all are moved. One that the new
// master has, too, since somebody made it there, is replaced.
func (m *Move) Keys(most int) int {
	m.c.t.Helper()
	keys, _ := m.c.must(m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, strconv.Itoa(most)).([]any)
	if len(keys) == 0 {
		return 0
	}
	migrate := []string{"MIGRATE", loopback, strconv.Itoa(m.to.port), "", "0", "5000", "REPLACE", "KEYS"}
	for _, k := range keys {
		key, _ := k.(string)
		migrate = append(migrate, key)
	}
	m.c.must(m.from, migrate...)
	return len(keys)
}

// Finish gives the slot to the new master and waits until all living nodes know. All keys must be moved.
func (m *Move) Finish() {
	m.c.t.Helper()
	// The new master first: if it were the last, both would refuse the slot for a moment.
	for _, n := range []*Server{m.to, m.from} {
		m.c.must(n, "CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
	}
	m.c.WaitOK()
}
