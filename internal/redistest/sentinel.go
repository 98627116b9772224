package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// MasterName is what the Sentinels call the master that they watch.
const MasterName = "outflow"

const (
	sentinels = 3
	quorum    = 2

	// failoverWithin is for a machine that is loaded, and for an election that has to be repeated. Usual are
	// the 800 ms without an answer, and one or two seconds.
	failoverWithin = 30 * time.Second
)

// sentinelConfig is what a Sentinel writes into its own file when it has heard of the others and of replicas.
// Without it that takes some seconds. The election is repeated after twice the failover-timeout.
//
// A Sentinel sends the first PING to a master that is new to it after as long as it has between PINGs, a second or
// down-after-milliseconds if that is less, and counts from before. So with a second or less it takes many a new
// master for dead at once, and one failover is followed by the next.
const sentinelConfig = `port %%d
bind ` + loopback + `
protected-mode no
sentinel myid %[1]s
sentinel monitor ` + MasterName + ` ` + loopback + ` %[2]d %[3]d
sentinel down-after-milliseconds ` + MasterName + ` 1500
sentinel failover-timeout ` + MasterName + ` 3000
sentinel parallel-syncs ` + MasterName + ` 8
`

// Sentinels is a master with its replicas, and three Sentinels that watch them with a quorum of two.
type Sentinels struct {
	t         testing.TB
	sentinels []*Server
	servers   []*Server

	mu     sync.Mutex
	master *Server
}

// hurry makes a Sentinel do more often what it does every one, two or ten seconds, after which it is safe to take a
// master for dead sooner. Redis 6.2 can't. A Sentinel that is restarted forgets the first part and not the second.
//
// With a period between PINGs of less than a fifth of a second no replica is good enough to be promoted: its INFO,
// for which it is asked each second, may only be as old as five PINGs.
func hurry(sentinel *Server) error {
	_, err := sentinel.Do("SENTINEL", "DEBUG", "ping-period", "250", "info-period", "500", "publish-period", "250")
	if err == nil {
		_, err = sentinel.Do("SENTINEL", "SET", MasterName, "down-after-milliseconds", "800")
	}
	if _, refused := errors.AsType[ReplyError](err); refused {
		return nil
	}
	return err
}

// StartSentinel starts a master, its replicas and three Sentinels, which end with the test. It returns when
// the replicas are in sync and all Sentinels know everything about everyone. A master that doesn't answer
// for 800 ms is replaced; with Redis 6.2, for 1,500 ms.
//
// The test is skipped where there is no redis-server.
func StartSentinel(t testing.TB, replicas int) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t, master: Start(t)}
	s.servers = append(s.servers, s.master)
	for range replicas {
		s.servers = append(s.servers, start(t, config+fmt.Sprintf("replicaof %s %d\n", loopback, s.master.port)))
	}
	await(t, "the replicas are in sync", startWithin, s.inSync)

	var known strings.Builder
	for _, r := range s.servers[1:] {
		fmt.Fprintf(&known, "sentinel known-replica %s %s %d\n", MasterName, loopback, r.port)
	}
	for i := range sentinels {
		id := fmt.Sprintf("%040x", i+1)
		own := fmt.Sprintf(sentinelConfig, id, s.master.port, quorum)
		sentinel := start(t, own+known.String(), "--sentinel")
		if err := hurry(sentinel); err != nil {
			t.Fatalf("redistest: Sentinel at %s: %v", sentinel.Addr(), err)
		}
		s.sentinels = append(s.sentinels, sentinel)
		fmt.Fprintf(&known, "sentinel known-sentinel %s %s %d %s\n", MasterName, loopback, sentinel.port, id)
	}
	await(t, "the Sentinels agree", startWithin, s.agree)
	return s
}

// inSync returns nil when all replicas have what the master has.
func (s *Sentinels) inSync() error {
	for _, r := range s.servers[1:] {
		fields, err := r.info("replication")
		if err != nil {
			return err
		}
		if status := fields["master_link_status"]; status != "up" {
			return fmt.Errorf("%s: the link to the master is %q", r.Addr(), status)
		}
	}
	return nil
}

// agree returns nil when every Sentinel could do a failover.
func (s *Sentinels) agree() error {
	for _, sentinel := range s.sentinels {
		reply, err := sentinel.Do("SENTINEL", "MASTER", MasterName)
		if err != nil {
			return err
		}
		m := pairs(reply)
		if m["flags"] != "master" || m["num-slaves"] != fmt.Sprint(len(s.servers)-1) || m["num-other-sentinels"] != fmt.Sprint(sentinels-1) {
			return fmt.Errorf("%s: the master is %q, with %s replicas and %s other Sentinels", sentinel.Addr(), m["flags"], m["num-slaves"], m["num-other-sentinels"])
		}
		for _, kind := range []string{"REPLICAS", "SENTINELS"} {
			reply, err := sentinel.Do("SENTINEL", kind, MasterName)
			if err != nil {
				return err
			}
			list, _ := reply.([]any)
			for _, item := range list {
				m := pairs(item)
				// "sentinel", or "slave" whose INFO has been seen: without it no replica is promoted.
				if m["flags"] != "sentinel" && (m["flags"] != "slave" || m["master-link-status"] != "ok") {
					return fmt.Errorf("%s: %s is %q, its link to the master %q", sentinel.Addr(), m["name"], m["flags"], m["master-link-status"])
				}
			}
		}
		if _, err := sentinel.Do("SENTINEL", "CKQUORUM", MasterName); err != nil {
			return fmt.Errorf("%s: %w", sentinel.Addr(), err)
		}
	}
	return nil
}

// pairs returns the fields of a reply that lists names and values in turn.
func pairs(reply any) map[string]string {
	list, _ := reply.([]any)
	fields := map[string]string{}
	for pair := range slices.Chunk(list, 2) {
		if len(pair) == 2 {
			fields[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
		}
	}
	return fields
}

// Addrs returns the addresses of the Sentinels.
func (s *Sentinels) Addrs() []string { return addrs(s.sentinels) }

func addrs(servers []*Server) []string {
	var list []string
	for _, srv := range servers {
		list = append(list, srv.Addr())
	}
	return list
}

// Sentinels returns the Sentinels.
func (s *Sentinels) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Servers returns the servers that aren't Sentinels: the first master, then the others.
func (s *Sentinels) Servers() []*Server { return slices.Clone(s.servers) }

// Master returns the master that the start or the last WaitFailover found. It may be dead.
func (s *Sentinels) Master() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.master
}

// KillMaster kills what Master returns, and returns it as well: it can be restarted.
func (s *Sentinels) KillMaster() *Server {
	m := s.Master()
	m.Kill()
	return m
}

// WaitFailover waits until all Sentinels that are alive have another master than what Master returns, which
// says so itself, and returns it. That becomes what Master returns.
func (s *Sentinels) WaitFailover() *Server {
	s.t.Helper()
	old := s.Master()
	var promoted *Server
	await(s.t, "another master", failoverWithin, func() (err error) {
		promoted, err = s.named()
		if err == nil && promoted == old {
			err = fmt.Errorf("the Sentinels still have %s", old.Addr())
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.master = promoted
	return promoted
}

// named returns the master that all living Sentinels name, if it is one.
func (s *Sentinels) named() (*Server, error) {
	var agreed string
	for _, sentinel := range s.sentinels {
		if !sentinel.Alive() {
			continue
		}
		reply, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
		if err != nil {
			return nil, err
		}
		list, _ := reply.([]any)
		if len(list) != 2 {
			return nil, fmt.Errorf("%s answers %v", sentinel.Addr(), reply)
		}
		addr := fmt.Sprintf("%v:%v", list[0], list[1])
		if agreed != "" && agreed != addr {
			return nil, fmt.Errorf("the Sentinels have %s and %s", agreed, addr)
		}
		agreed = addr
	}
	i := slices.IndexFunc(s.servers, func(srv *Server) bool { return srv.Addr() == agreed })
	if i < 0 {
		return nil, fmt.Errorf("the Sentinels have %q", agreed)
	}
	m := s.servers[i]
	if !m.Alive() {
		return m, nil // as long as it is the old one
	}
	fields, err := m.info("replication")
	if err != nil {
		return nil, err
	}
	if fields["role"] != "master" {
		return nil, errors.New(agreed + " is a " + fields["role"])
	}
	return m, nil
}
