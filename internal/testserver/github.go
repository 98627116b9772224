package testserver

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// GitHubLimits are what a [GitHub] enforces. Zero fields are as documented.
type GitHubLimits struct {
	Primary    int // requests per hour; 0: 5,000, which is what a user has
	Points     int // of REST requests, per minute; 0: 900
	Concurrent int // requests at a time; 0: 100

	// Of a refusal by a secondary limit, which is one of the last two: its status, 403 or 429; 0: 403. And its
	// Retry-After; "": it has none, and the client is to wait for at least a minute.
	Status     int
	RetryAfter string
}

// GitHub is GitHub's REST API, with its primary limit and two of its secondary ones. Requests count by
// Authorization. Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api,
// as of github/docs@21143d5, read in November 2026.
//
// What is documented: the numbers, the points (1 for GET, HEAD and OPTIONS, 5 for the methods that change
// something), the headers, that each answer has those of the primary limit, and the status and form of both
// refusals. The bodies are those that clients report, for the secondary limit in
// https://github.com/apache/devlake/issues/1322; that a Retry-After was 60 in google/go-github's tests.
//
// What isn't documented is how the minute and the hour are counted. Here both begin with the first request
// after the ones before. "To a single endpoint" is taken strictly: all endpoints count together.
func GitHub(l GitHubLimits) *Upstream {
	caller := HeaderValue("Authorization")
	points := func(r *http.Request) int {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			return 1
		default:
			return 5
		}
	}
	secondary := func(p *Policy) *Policy {
		return p.By(caller).RetryAfter(l.RetryAfter).RefuseWith(gitHubError(cmp.Or(l.Status, http.StatusForbidden),
			"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
			"#about-secondary-rate-limits"))
	}
	primary := Window(cmp.Or(l.Primary, 5000), time.Hour).FromFirst().By(caller).Advertise(gitHubCore).
		RefuseWith(gitHubError(http.StatusForbidden, "API rate limit exceeded for user ID 1.", "#about-primary-rate-limits"))
	return New(
		secondary(Concurrency(cmp.Or(l.Concurrent, 100))),
		secondary(Window(cmp.Or(l.Points, 900), time.Minute).FromFirst().Cost(points)),
		primary,
	).Answering(Reply(http.StatusOK, "[]", "Content-Type", "application/json; charset=utf-8"))
}

// gitHubCore writes what is left of the primary limit of resource core.
func gitHubCore(h http.Header, q Quota) {
	XRateLimit(h, q)
	h.Set("X-RateLimit-Used", strconv.FormatInt(q.Limit-q.Remaining, 10))
	h.Set("X-RateLimit-Resource", "core")
}

func gitHubError(status int, message, section string) http.Handler {
	return jsonReply(status, map[string]any{
		"message":           message,
		"documentation_url": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api" + section,
	})
}

// jsonReply answers with a status and a value as JSON.
func jsonReply(status int, value any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // of the vendor's own values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, string(text)+"\n")
	})
}
