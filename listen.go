package outflow

import (
	"io"
	"net/http"
	"time"

	"github.com/outflow-go/outflow/headers"
)

// listenTime bounds how long the beginning of a refusal's body is waited for: those who wait are to hear of a
// refusal, whatever its body does.
const listenTime = 100 * time.Millisecond

// listen reads what a response says about limits: in its body, too, if its header leaves something open. The
// body stays whole.
func listen(resp *http.Response, now time.Time) headers.Signal {
	signal := headers.ParseHeader(resp.StatusCode, resp.Header, now)
	if signal.Cause != headers.None && signal.RetryAfter > 0 || !headers.LooksAtBody(resp) {
		return signal
	}
	b := &overheard{Closer: resp.Body, done: make(chan struct{}), response: *resp}
	go b.listen(now)
	timer := time.NewTimer(listenTime)
	defer timer.Stop()
	select {
	case <-b.done:
		resp.Body = b.response.Body
		if b.panicked != nil {
			panic(b.panicked)
		}
		return b.signal
	case <-timer.C:
		resp.Body = b
		return signal
	}
}

// overheard is a body of which the beginning is still being read.
type overheard struct {
	io.Closer // of the original, which ends that

	done     chan struct{} // closed when the rest is there
	response http.Response
	signal   headers.Signal
	panicked any
}

func (b *overheard) listen(now time.Time) {
	defer close(b.done)
	defer func() { b.panicked = recover() }()
	b.signal = headers.Parse(&b.response, now)
}

func (b *overheard) Read(p []byte) (int, error) {
	<-b.done
	if b.panicked != nil {
		panic(b.panicked)
	}
	return b.response.Body.Read(p)
}
