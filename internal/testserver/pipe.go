package testserver

import (
	"context"
	"net"
	"sync"
)

// pipeURL has a name that no resolver knows: a request that leaves by another Transport fails.
const pipeURL = "http://upstream.test"

// Pipe serves HTTP/1.1 over net.Pipe until tb ends: no socket, so it works in a testing/synctest
// bubble, and inside one that is where it must be called.
func (u *Upstream) Pipe(tb TB) *Server {
	tb.Helper()
	return u.pipe(tb, protocols{http1: true})
}

// PipeHTTP2 is Pipe with HTTP/2, unencrypted and without an upgrade from HTTP/1.1.
func (u *Upstream) PipeHTTP2(tb TB) *Server {
	tb.Helper()
	return u.pipe(tb, protocols{unencryptedHTTP2: true})
}

func (u *Upstream) pipe(tb TB, p protocols) *Server {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := u.serve(l, l.dial, p)
	s.URL = pipeURL
	tb.Cleanup(s.Close)
	return s
}

// pipeListener hands one end of a net.Pipe to whoever accepts, the other to whoever dials.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	server, client := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		// What http.Server.Serve expects after Close.
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
