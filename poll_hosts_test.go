package outflow_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/internal/testserver"
)

// Where Poll goes, and what it takes along.

// What went with each request, by host and path.
type sent struct{ where, auth, key, cookie, rest string }

// hosts is an upstream of many hosts: an answer for each host and path, and what it was sent.
type hosts struct {
	mu      sync.Mutex
	answers map[string]http.Handler
	sent    []sent
}

func (h *hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var rest []string
	for _, name := range []string{"Content-Type", "Idempotency-Key", "If-Match", "Prefer", "Accept"} {
		if v := r.Header.Get(name); v != "" {
			rest = append(rest, v)
		}
	}
	where := r.Host + r.URL.Path
	h.mu.Lock()
	h.sent = append(h.sent, sent{where, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("Cookie"), strings.Join(rest, " ")})
	answer := h.answers[where]
	h.mu.Unlock()
	if answer == nil {
		answer = testserver.OK()
	}
	answer.ServeHTTP(w, r)
}

func TestPollCarriesCredentialsOnlyHome(t *testing.T) {
	const home, away = "api.test", "evil.test"
	secret := func(where string) sent {
		return sent{where: where, auth: "secret", key: "key", cookie: "a=1", rest: "application/json"}
	}
	first := secret(home + "/start")
	first.rest = "text/plain once \"v1\" respond-async application/json"
	for _, tt := range []struct {
		name    string
		answers map[string]http.Handler
		want    []sent
	}{
		{"the same host", map[string]http.Handler{
			home + "/start": accepted("/op", "1"), home + "/op": accepted("http://API.test:80/op/2", "1"),
		}, []sent{secret(home + "/op"), secret(home + "/op/2")}},
		{"another host", map[string]http.Handler{
			home + "/start": accepted("http://"+away+"/op", "1"),
		}, []sent{{where: away + "/op"}}},
		{"a host below", map[string]http.Handler{
			home + "/start": accepted("http://eu."+home+"/op", "1"),
		}, []sent{{where: "eu." + home + "/op"}}},
		{"another port", map[string]http.Handler{
			home + "/start": accepted("http://"+home+":8080/op", "1"),
		}, []sent{{where: home + ":8080/op"}}},
		{"away and home again", map[string]http.Handler{
			home + "/start": accepted("/op", "1"), home + "/op": accepted("//"+away+"/op", "1"),
			away + "/op": accepted("http://"+home+"/delete-everything", "1"),
		}, []sent{secret(home + "/op"), {where: away + "/op"}, {where: home + "/delete-everything"}}},
		{"a redirect away, and home again", map[string]http.Handler{
			home + "/start": accepted("/op", "1"), home + "/op": testserver.Reply(307, "", "Location", "http://"+away+"/op"),
			away + "/op": accepted("http://"+home+"/delete-everything", "1"),
		}, []sent{
			secret(home + "/op"),
			// What a redirect carries is the client's business: not the credentials it knows to be ones.
			{where: away + "/op", key: "key", rest: "application/json"},
			{where: home + "/delete-everything"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overEachProtocol(t, func(t *testing.T, serve serveFunc) {
				upstream := &hosts{answers: tt.answers}
				client := serve(testserver.New().Answering(upstream)).Client()
				req := newRequest(t.Context(), t, "POST", "http://"+home+"/start", strings.NewReader("work"))
				req.Header = http.Header{
					"Authorization": {"secret"}, "x-api-key": {"key"}, "Cookie": {"a=1"}, "Accept": {"application/json"},
					"Content-Type": {"text/plain"}, "Idempotency-Key": {"once"}, "If-Match": {`"v1"`}, "Prefer": {"respond-async"},
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if resp, err = outflow.Poll(t.Context(), client, resp, outflow.PollConfig{}); err != nil {
					t.Fatal(err)
				}
				read(t, resp)
				if got, want := upstream.sent, append([]sent{first}, tt.want...); !slices.EqualFunc(got, want, equalFold) {
					t.Errorf("sent\n%+v, want\n%+v", got, want)
				}
			})
		})
	}
}

// equalFold takes hosts for what they are.
func equalFold(a, b sent) bool {
	a.where = strings.Replace(strings.ToLower(a.where), ":80/", "/", 1)
	return a == b
}

// Cookies are the jar's, where there is one, and not twice.
func TestPollLeavesCookiesToTheJar(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		upstream := &hosts{answers: map[string]http.Handler{
			"api.test/login": testserver.Reply(200, "", "Set-Cookie", "session=1"),
			"api.test/start": testserver.Reply(202, "", "Location", "/op", "Set-Cookie", "session=2"),
		}}
		client := serve(testserver.New().Answering(upstream)).Client()
		client.Jar, _ = cookiejar.New(nil)
		read(t, begin(t, client, "http://api.test/login"))
		resp, err := outflow.Poll(t.Context(), client, begin(t, client, "http://api.test/start"), outflow.PollConfig{})
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		var cookies []string
		for _, s := range upstream.sent {
			cookies = append(cookies, s.cookie)
		}
		if want := []string{"", "session=1", "session=2"}; !slices.Equal(cookies, want) {
			t.Errorf("cookies %q, want %q", cookies, want)
		}
	})
}

// A virtual host stays one.
func TestPollKeepsTheHostHeader(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, serve serveFunc) {
		up := testserver.New(testserver.Script(accepted("/op", "1"), accepted("http://other.test/op", "1")))
		srv := serve(up)
		req := newRequest(t.Context(), t, "POST", srv.URL, nil)
		req.Host = "virtual.test"
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err = outflow.Poll(t.Context(), srv.Client(), resp, outflow.PollConfig{}); err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		as := up.Arrivals()
		if as[1].Host != "virtual.test" || as[2].Host != "other.test" {
			t.Errorf("hosts %q and %q", as[1].Host, as[2].Host)
		}
	})
}

func TestPollRefusesWhereNotToGo(t *testing.T) {
	for _, tt := range []struct{ first, location, want string }{
		{"http://api.test/", "", "has no Location"},
		{"http://api.test/", "http://[::1", "isn't a URL"},
		{"http://api.test/", "file:///etc/passwd", "isn't an http or https URL"},
		{"http://api.test/", "http:///op", "isn't an http or https URL"},
		{"https://api.test/", "http://api.test/op?secret", `"http://api.test/op" leads from https to http`},
	} {
		synctest.Test(t, func(t *testing.T) {
			closed := false
			body := &countedBody{ReadCloser: io.NopCloser(strings.NewReader("accepted")), closed: func() { closed = true }}
			resp := &http.Response{
				StatusCode: 202, Header: http.Header{}, Body: body, Request: newRequest(t.Context(), t, "POST", tt.first, nil),
			}
			resp.Header.Set("Location", tt.location)
			client := &http.Client{Transport: baseFunc(func(req *http.Request) (*http.Response, error) {
				t.Errorf("polled %v", req.URL)
				return nil, errors.New("polled")
			})}
			last, err := outflow.Poll(t.Context(), client, resp, outflow.PollConfig{})
			failed, ok := errors.AsType[*outflow.PollError](err)
			if last != nil || !ok || failed.Polls != 0 || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Location %q: %v, %v", tt.location, last, err)
			}
			if !closed {
				t.Errorf("Location %q: the body is open", tt.location)
			}
		})
	}
}

// schemes answers by URL, and records the URLs with what Authorization they were sent.
func schemes(sent *[]string, answers map[string][2]any) *http.Client {
	return &http.Client{Transport: baseFunc(func(req *http.Request) (*http.Response, error) {
		*sent = append(*sent, req.URL.String()+" "+req.Header.Get("Authorization"))
		resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}
		if a, ok := answers[req.URL.String()]; ok {
			resp.StatusCode = a[0].(int)
			resp.Header.Set("Location", a[1].(string))
		}
		return resp, nil
	})}
}

func TestPollBetweenSchemes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers map[string][2]any
		want    []string
		err     string
	}{
		{"from http to https", map[string][2]any{
			"http://api.test/start": {202, "https://api.test/op"},
		}, []string{"http://api.test/start secret", "https://api.test/op "}, ""},
		// The first hop is the client's doing; from there on it is ours.
		{"after a redirect to http", map[string][2]any{
			"https://api.test/start": {202, "/op"},
			"https://api.test/op":    {307, "http://api.test/op"},
			"http://api.test/op":     {202, "/op/2"},
		}, []string{"https://api.test/start secret", "https://api.test/op secret", "http://api.test/op secret"}, "from https to http"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []string
				client := schemes(&sent, tt.answers)
				req := newRequest(t.Context(), t, "POST", strings.TrimSuffix(tt.want[0], " secret"), nil)
				req.Header.Set("Authorization", "secret")
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, err = outflow.Poll(t.Context(), client, resp, outflow.PollConfig{})
				if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				if !slices.Equal(sent, tt.want) {
					t.Errorf("sent %q, want %q", sent, tt.want)
				}
			})
		})
	}
}
