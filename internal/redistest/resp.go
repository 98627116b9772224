package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// ReplyError is an error that Redis answered, such as "NOAUTH Authentication required.".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// maxReply is far above anything that a test asks for.
const maxReply = 64 << 20

var errReply = errors.New("not a reply of RESP2")

// conn is one connection to a Redis. Any error but a ReplyError ends its use.
type conn struct {
	c net.Conn
	r *bufio.Reader
}

// dial has until the deadline for everything that is done with the connection.
func dial(addr string, deadline time.Time) (*conn, error) {
	c, err := (&net.Dialer{Deadline: deadline}).Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(deadline); err != nil {
		c.Close()
		return nil, err
	}
	return &conn{c: c, r: bufio.NewReader(c)}, nil
}

func (c *conn) close() { c.c.Close() }

// do returns a string, an int64, nil or a []any of these and of ReplyErrors.
func (c *conn) do(args ...string) (any, error) {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := c.c.Write(b); err != nil {
		return nil, err
	}
	reply, err := c.read()
	if err != nil {
		return nil, err
	}
	if e, ok := reply.(ReplyError); ok {
		return nil, e
	}
	return reply, nil
}

func (c *conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%w: %q", errReply, line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ReplyError(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errReply, line)
	}
	switch {
	case kind == ':':
		return n, nil
	case (kind == '$' || kind == '*') && n == -1:
		return nil, nil
	case n < 0 || n > maxReply:
		return nil, fmt.Errorf("%w: %q", errReply, line)
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		var list []any
		for range n {
			v, err := c.read()
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, fmt.Errorf("%w: %q", errReply, line)
}
