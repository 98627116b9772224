package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/outflow-go/outflow/internal/redistest"
)

// changeWithin is how long a fault may take to be there. Toxiproxy interrupts each connection for it, and can't
// interrupt one whose reader doesn't read.
const changeWithin = 10 * time.Second

// Network is a way to a server, and what is wrong with it. Its methods may be called from any goroutine.
type Network struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
	addr  string

	mu     sync.Mutex
	toxics []string // the names of those that are there
	named  int
}

// Start opens a port of the loopback interface that leads to a server, until the test ends.
func Start(t testing.TB, upstream string) *Network {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var err error
	for range 10 {
		n := &Network{t: t, addr: redistest.FreeAddr(t)}
		n.proxy = toxiproxy.NewProxy(server, t.Name(), n.addr, upstream)
		if err = n.proxy.Start(); err == nil {
			t.Cleanup(n.proxy.Stop)
			return n
		}
	}
	t.Fatal("faults: ", err)
	return nil
}

// Addr returns the address that clients dial instead of the server's. It never changes.
func (n *Network) Addr() string { return n.addr }

// Delay makes each round trip longer, by delay ± jitter, half of it on each way.
func (n *Network) Delay(delay, jitter time.Duration) {
	n.t.Helper()
	n.add("latency", "upstream", 1, map[string]int64{"latency": (delay / 2).Milliseconds(), "jitter": (jitter / 2).Milliseconds()})
	n.add("latency", "downstream", 1, map[string]int64{"latency": (delay - delay/2).Milliseconds(), "jitter": (jitter / 2).Milliseconds()})
}

// LoseConnections closes connections: each message on one closes it, with half of that probability when it is on its
// way to the server, which then never gets it, and with half when it is on its way back, so that a command has
// been executed and nobody knows. A round trip ends in a lost connection with that probability.
//
// What a message is, is the network's choice: two that follow each other closely can be taken for one.
func (n *Network) LoseConnections(probability float64) {
	n.t.Helper()
	n.add(lossType, "upstream", 1, loss{oneWay(probability)})
	n.add(lossType, "downstream", 1, loss{oneWay(probability)})
}

// ResetConnections resets a share of the connections (RST, where LoseConnections has FIN) at their first message:
// those that are made from now on, each with that probability, and never those that survived.
//
// A pool of connections soon has nothing but survivors. This is toxiproxy's reset_peer with a toxicity.
func (n *Network) ResetConnections(probability float64) {
	n.t.Helper()
	n.add("reset_peer", "upstream", oneWay(probability), map[string]int64{"timeout": 0})
	n.add("reset_peer", "downstream", oneWay(probability), map[string]int64{"timeout": 0})
}

// oneWay is the probability in each direction, if that of both together is given.
func oneWay(probability float64) float64 { return 1 - math.Sqrt(1-probability) }

// Hang lets nothing through in either direction, while connections stay and new ones are accepted: what is sent is
// lost. That is a partition, or a peer that has lost its power. Heal closes the connections that hung.
func (n *Network) Hang() {
	n.t.Helper()
	n.add("timeout", "upstream", 1, map[string]int64{"timeout": 0})
	n.add("timeout", "downstream", 1, map[string]int64{"timeout": 0})
}

// HangAnswers is Hang only on the way back: commands are executed and nobody knows.
func (n *Network) HangAnswers() {
	n.t.Helper()
	n.add("timeout", "downstream", 1, map[string]int64{"timeout": 0})
}

// Heal takes all faults away, and undoes Down.
func (n *Network) Heal() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range n.toxics {
		n.change("heal", func() error { return n.proxy.Toxics.RemoveToxic(n.t.Context(), name) })
	}
	n.toxics = nil
	n.change("up", func() error {
		if err := n.proxy.Start(); !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
			return err
		}
		return nil
	})
}

// Down closes all connections and refuses new ones until Heal.
func (n *Network) Down() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.change("down", func() error { n.proxy.Stop(); return nil })
}

// add adds a toxic to those that are there.
func (n *Network) add(kind, direction string, toxicity float64, attributes any) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.named++
	name := fmt.Sprintf("%d %s %s", n.named, kind, direction)
	toxic, err := json.Marshal(map[string]any{
		"name": name, "type": kind, "stream": direction, "toxicity": toxicity, "attributes": attributes,
	})
	if err != nil {
		n.t.Error("faults: ", err)
		return
	}
	n.change(kind, func() error {
		_, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(string(toxic)))
		return err
	})
	n.toxics = append(n.toxics, name)
}

// change returns when a fault is there, or when it seems that it will never be.
func (n *Network) change(what string, change func() error) {
	n.t.Helper()
	done := make(chan error, 1)
	go func() { done <- change() }()
	timer := time.NewTimer(changeWithin)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			n.t.Errorf("faults: %s: %v", what, err)
		}
	case <-timer.C:
		n.t.Errorf("faults: %s: toxiproxy hangs", what)
	}
}
