package headers

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
)

// maxReads bounds the waiting for a body that trickles: each Read may wait for the server once.
const maxReads = 16

// peek returns the beginning of a body, and puts a body in its place that begins with it.
func peek(resp *http.Response) string {
	size := int64(maxPeek)
	if 0 < resp.ContentLength && resp.ContentLength < size {
		size = resp.ContentLength
	}
	b := &peeked{rest: resp.Body}
	buffer := make([]byte, 0, size)
	for range maxReads {
		n, err := b.rest.Read(buffer[len(buffer):cap(buffer)])
		n = max(0, min(n, cap(buffer)-len(buffer))) // a Reader that lies must not take us down
		buffer = buffer[:len(buffer)+n]
		if err != nil {
			b.err = err
			break
		}
		if len(buffer) == cap(buffer) || wholeJSON(buffer) {
			break
		}
	}
	b.prefix.Reset(buffer)
	resp.Body = b
	return string(buffer)
}

// peeked is a body of which the beginning was read.
type peeked struct {
	prefix bytes.Reader
	err    error // which came after it
	rest   io.ReadCloser
	closed atomic.Bool // a body may be closed while it is read
}

func (b *peeked) Read(p []byte) (int, error) {
	switch {
	case b.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case b.prefix.Len() > 0:
		return b.prefix.Read(p)
	case b.err != nil:
		return 0, b.err
	}
	return b.rest.Read(p)
}

// Close closes the original, once.
func (b *peeked) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.rest.Close()
}
