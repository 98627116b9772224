package outflow_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outflow-go/outflow"
)

// slowBody says its parts one by one, each after a while. Close ends a Read, as in net/http.
type slowBody struct {
	parts  []string
	every  time.Duration // 0: at once; negative: never
	panics bool
	once   sync.Once
	closed chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.panics {
		panic("the body is broken")
	}
	after := make(<-chan time.Time)
	if b.every >= 0 {
		after = time.After(b.every)
	}
	select {
	case <-after:
	case <-b.closed:
		return 0, errors.New("closed")
	}
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.parts[0])
	if b.parts[0] = b.parts[0][n:]; b.parts[0] == "" {
		b.parts = b.parts[1:]
	}
	return n, nil
}

func (b *slowBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func refusalWith(b *slowBody) *http.Response {
	b.closed = make(chan struct{})
	return &http.Response{StatusCode: 429, ProtoMajor: 1, ContentLength: -1, Body: b,
		Header: http.Header{"Content-Type": {"application/json"}}}
}

// A refusal is heard by those who wait whatever its body does, and the caller has that whole.
func TestRefusalsAreHeardWhateverTheirBodiesDo(t *testing.T) {
	whole := `{"error":{"code":429,"message":"` + strings.Repeat("x", 100) + `"}}`
	for _, tt := range []struct {
		name string
		body *slowBody
		want string
		err  bool
	}{
		{name: "at once", body: &slowBody{parts: []string{whole}}, want: whole},
		{name: "a trickle", body: &slowBody{parts: strings.SplitAfter(whole, ""), every: 20 * time.Millisecond}, want: whole},
		{name: "a stall", body: &slowBody{every: -1}, err: true},
		{name: "nothing", body: &slowBody{}, want: ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTransport(t, outflow.Config{Retry: outflow.Retry{MaxAttempts: 1},
					Base: baseFunc(func(*http.Request) (*http.Response, error) { return refusalWith(tt.body), nil })})
				start := time.Now()
				resp, err := tr.RoundTrip(newRequest(t.Context(), t, http.MethodGet, "http://api.test/", nil))
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d > 100*time.Millisecond {
					t.Errorf("the answer was there after %v, want at most 100ms", d)
				}
				if tr.Stats().Limited != 1 {
					t.Error("nobody has heard of the refusal")
				}
				if tt.err {
					time.AfterFunc(time.Minute, func() { resp.Body.Close() })
				}
				got, err := io.ReadAll(resp.Body)
				if string(got) != tt.want || (err != nil) != tt.err {
					t.Errorf("the body is %q, %v; want %q", got, err, tt.want)
				}
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Attempts that end with a panic or an error of Base, or in a body's, aren't in flight: as many as want to may leave after
// any number of them.
func TestNothingStaysInFlight(t *testing.T) {
	for _, tt := range []struct {
		name string
		base func(*http.Request) (*http.Response, error)
	}{
		{"a panic", func(*http.Request) (*http.Response, error) { panic("broken") }},
		{"an error", func(*http.Request) (*http.Response, error) { return nil, errors.New("broken") }},
		{"neither", func(*http.Request) (*http.Response, error) { return nil, nil }},
		{"a panic in the refusal's body", func(*http.Request) (*http.Response, error) { return refusalWith(&slowBody{panics: true}), nil }},
		{"not found", func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 404, Body: http.NoBody, Header: http.Header{"X": {"y"}}}, nil
		}},
		{"a redirect", func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 302, Body: http.NoBody, Header: http.Header{"Location": {"/"}}}, nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTransport(t, outflow.Config{Retry: outflow.Retry{MaxAttempts: 1}, Base: baseFunc(tt.base)})
				for range 50 {
					start := time.Now()
					func() {
						defer func() { _ = recover() }()
						resp, err := tr.RoundTrip(newRequest(t.Context(), t, http.MethodGet, "http://api.test/", nil))
						if err == nil {
							resp.Body.Close()
						}
					}()
					if d := time.Since(start); d > 0 {
						t.Fatalf("a request took %v while nothing else was in flight", d)
					}
				}
			})
		})
	}
}
