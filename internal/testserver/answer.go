package testserver

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// The handlers below are what an upstream answers with: see Upstream.Answering, Policy.RefuseWith
// and Script. All but Echo read the request's body to its end first, so that a client that goes away
// is noticed.

// OK reads the request and answers 200 with a line of text.
func OK() http.Handler { return Reply(http.StatusOK, "ok\n") }

// Reply answers with a status, a body and headers, given as names and values in turn.
func Reply(status int, body string, namesAndValues ...string) http.Handler {
	pairs(namesAndValues)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		set(w.Header(), namesAndValues)
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// Echo answers 200 with the request's body, piece by piece as it arrives.
func Echo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		// HTTP/1.1 can't read and write at once unless it is told to; HTTP/2 always can, and says so
		// by an error that means nothing here.
		_ = control.EnableFullDuplex()
		buf := make([]byte, 16<<10)
		for {
			n, err := r.Body.Read(buf)
			if n > 0 {
				if _, err := w.Write(buf[:n]); err != nil {
					return
				}
				_ = control.Flush()
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	})
}

// After answers as h does, once d has passed since the request was read, unless the client goes away
// before: an upstream that takes its time.
func After(d time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		if !pause(r, d) {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	})
}

// Trickle answers 200 at once, and then sends n chunks of the body, each an interval after the one
// before. A negative n never ends, until the client goes away.
func Trickle(n int, chunk string, interval time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		control := http.NewResponseController(w)
		w.WriteHeader(http.StatusOK)
		if control.Flush() != nil {
			return
		}
		for i := 0; n < 0 || i < n; i++ {
			if !pause(r, interval) {
				return
			}
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
			if control.Flush() != nil {
				return
			}
		}
	})
}

// Stall answers with headers and then with nothing, until the client goes away.
func Stall(status int, namesAndValues ...string) http.Handler {
	pairs(namesAndValues)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		set(w.Header(), namesAndValues)
		w.WriteHeader(status)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

// Hang reads the request and answers nothing, until the client goes away.
func Hang() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		readAll(r)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
}

// Cut reads the request, which may well have been carried out, and closes the connection without an
// answer; on HTTP/2 it resets the stream.
func Cut() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		readAll(r)
		panic(http.ErrAbortHandler)
	})
}

// CutBody answers 200, promises one byte more than body, sends body, and then does as Cut does.
func CutBody(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
		io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

func readAll(r *http.Request) { io.Copy(io.Discard, r.Body) }

// pause waits, and reports false if the client went away first.
func pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
