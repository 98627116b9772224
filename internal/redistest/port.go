package redistest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports are below those that Linux and macOS give to whoever dials. A client that redials a dead server at
// one of those can get that very port for its own end, and then it talks to itself; and a server that
// restarts can find its port taken. The bus of a Cluster node has its port 10,000 higher, and isn't there either.
const (
	minPort   = 10_000
	maxPort   = 21_999
	busOffset = 10_000
)

const loopback = "127.0.0.1"

var (
	portsMu sync.Mutex
	ports   = map[int]bool{} // those that this process has used, guarded by portsMu
)

// freePort returns one that nobody listened at a moment ago, nor at the bus' port above it, and that no other
// server of this process has or had. Another process may still be faster: whoever starts a server tries again.
func freePort() (int, bool) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := minPort + rand.IntN(maxPort-minPort+1)
		if !ports[port] && free(port) && free(port+busOffset) {
			ports[port] = true
			return port, true
		}
	}
	return 0, false
}

// FreeAddr returns an address of the loopback interface that nobody listened at a moment ago, and that nobody's
// own end of a connection takes by chance. Another process may be faster.
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, ok := freePort()
	if !ok {
		t.Fatalf("redistest: no free port between %d and %d", minPort, maxPort)
	}
	return address(port)
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
