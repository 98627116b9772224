package testserver

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// TB is what the package needs of a *testing.T or *testing.B.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// A Server is an upstream being served.
type Server struct {
	// URL is the base URL, without a slash at its end.
	URL string

	// Transport takes every request to this upstream, whatever host its URL names, so that tests can
	// use the hosts that their rules are about. It keeps as many idle connections as were needed.
	Transport *http.Transport

	server *http.Server
	opened atomic.Int64

	closed      sync.Once
	connections sync.WaitGroup // goroutines of the server, one for each connection
	handlers    sync.WaitGroup // handlers that run; on HTTP/2 a connection doesn't wait for its own
	accepting   sync.WaitGroup
}

// Client returns an http.Client over the Transport.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport} }

// Opened returns how many connections were opened since the start: no more than before means that
// one was used again.
func (s *Server) Opened() int { return int(s.opened.Load()) }

// Close closes all connections, which ends the requests in flight, and returns when all handlers have
// returned. Closing again does nothing.
func (s *Server) Close() {
	s.closed.Do(func() {
		s.Transport.CloseIdleConnections()
		s.server.Close()
		s.accepting.Wait()
		s.connections.Wait()
		s.handlers.Wait()
		// Those that came back to the pool in the meantime.
		s.Transport.CloseIdleConnections()
	})
}

// TCP serves HTTP/1.1 on a free port of 127.0.0.1 until tb ends.
func (u *Upstream) TCP(tb TB) *Server {
	tb.Helper()
	return started(tb, u.StartTCP)
}

// StartTCP is TCP for a program that isn't a test: the caller closes the server.
func (u *Upstream) StartTCP() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := u.serve(l, dialTCP(l), protocols{http1: true})
	s.URL = "http://" + l.Addr().String()
	return s, nil
}

// TLS serves HTTP/2 over TLS on a free port of 127.0.0.1 until tb ends. The Transport trusts its
// certificate, whatever host a URL names.
func (u *Upstream) TLS(tb TB) *Server {
	tb.Helper()
	return started(tb, func() (*Server, error) {
		cert, roots, err := certificate()
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		s := u.serve(
			tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}),
			dialTCP(l),
			protocols{http2: true},
		)
		s.Transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: certificateName}
		s.URL = "https://" + l.Addr().String()
		return s, nil
	})
}

func started(tb TB, start func() (*Server, error)) *Server {
	tb.Helper()
	s, err := start()
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	tb.Cleanup(s.Close)
	return s
}

func dialTCP(l net.Listener) func(context.Context, string, string) (net.Conn, error) {
	addr := l.Addr().String()
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

type protocols struct{ http1, http2, unencryptedHTTP2 bool }

func (p protocols) set() *http.Protocols {
	var enabled http.Protocols
	enabled.SetHTTP1(p.http1)
	enabled.SetHTTP2(p.http2)
	enabled.SetUnencryptedHTTP2(p.unencryptedHTTP2)
	return &enabled
}

// serve starts a server on l, and makes the Transport that reaches it by dial.
func (u *Upstream) serve(l net.Listener, dial func(context.Context, string, string) (net.Conn, error), p protocols) *Server {
	s := &Server{Transport: &http.Transport{
		DialContext:         dial,
		Protocols:           p.set(),
		MaxIdleConnsPerHost: 1 << 20,
	}}
	s.server = &http.Server{
		Handler:   s.tracked(u),
		Protocols: p.set(),
		ConnState: s.track,
		// A handler that cuts its connection isn't worth a line in a test's output.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.accepting.Go(func() {
		// It returns when the listener is closed, with an error that says so.
		_ = s.server.Serve(l)
	})
	return s
}

// tracked lets Close wait for handlers.
func (s *Server) tracked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		h.ServeHTTP(w, r)
	})
}

// track lets Close wait for connections.
func (s *Server) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.opened.Add(1)
		s.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.connections.Done()
	}
}
