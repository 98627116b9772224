package presets

import (
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// GitHub has the limits of api.github.com, by credential:
//
//   - "github content": 80 requests a minute, and 500 an hour, that make issues, comments and the like;
//   - "github code search": 10 a minute, and "github search": 30 a minute for the other searches;
//   - "github graphql points": 2,000 points a minute, at 5 for a mutation and 1 for any other request;
//   - "github graphql": 5,000 points an hour; a request counts as 1 here, and what it really cost is in the
//     headers of its answer;
//   - "github points": 900 points a minute for REST, at 1 for GET, HEAD and OPTIONS and 5 for the others;
//   - "github rest": 5,000 requests an hour;
//   - "github": 100 requests at once.
//
// The hourly limits are those of a user's token and of most installations. They are 15,000 for GitHub
// Enterprise Cloud, 1,000 (of each repository) for the GITHUB_TOKEN of Actions, and 60 without a
// credential:
//
//	p.Rule("github rest").Limits = []limit.Limit{limit.FixedWindow(15_000, time.Hour)}
//
// The secondary limits (all but the hourly ones and those of searches) are documented as subject to change
// without notice, and which requests make content isn't: that is our reading. All of a credential's
// requests pause when one is refused, since going on may get an integration banned: so the widest rule is
// the last.
func GitHub() Preset {
	key := Credential("Authorization")
	return Preset{
		Source:  "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api",
		Checked: "2026-11-21",
		Hosts:   []string{"api.github.com"},
		Rules: []outflow.Rule{
			{Name: "github content", Match: "POST api.github.com/", When: makesContent, Key: key,
				Limits: []limit.Limit{limit.SlidingWindow(80, time.Minute), limit.SlidingWindow(500, time.Hour)}},
			{Name: "github code search", Match: "GET api.github.com/search/code", Key: key, Limits: quota(10, time.Minute)},
			{Name: "github search", Match: "GET api.github.com/search/", When: notCodeSearch, Key: key, Limits: quota(30, time.Minute)},
			{Name: "github graphql points", Match: "POST api.github.com/graphql", Key: key, Cost: graphQLPoints, Limits: quota(2000, time.Minute)},
			{Name: "github graphql", Match: "POST api.github.com/graphql", Key: key, Limits: []limit.Limit{limit.FixedWindow(5000, time.Hour)}},
			{Name: "github points", Match: "api.github.com/", When: notGraphQL, Key: key, Cost: restPoints, Limits: quota(900, time.Minute)},
			{Name: "github rest", Match: "api.github.com/", When: countsAsREST, Key: key, Limits: []limit.Limit{limit.FixedWindow(5000, time.Hour)}},
			{Name: "github", Match: "api.github.com/", Key: key, Limits: []limit.Limit{limit.Concurrent(100)}},
		},
	}
}

func makesContent(req *http.Request) bool {
	switch path.Base(req.URL.Path) {
	case "issues", "pulls", "comments", "replies", "reviews", "discussions", "releases", "gists":
		return true
	}
	return false
}

func notCodeSearch(req *http.Request) bool { return req.URL.Path != "/search/code" }

func notGraphQL(req *http.Request) bool { return req.URL.Path != "/graphql" }

// countsAsREST is for the hourly limit, of which searches have their own, and which the question for it
// doesn't count towards.
func countsAsREST(req *http.Request) bool {
	return notGraphQL(req) && !strings.HasPrefix(req.URL.Path, "/search/") && req.URL.Path != "/rate_limit"
}

func restPoints(req *http.Request) int {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return 1
	}
	return 5
}

func graphQLPoints(req *http.Request) int {
	if strings.HasPrefix(strings.TrimSpace(lookUp(req, "query")), "mutation") {
		return 5
	}
	return 1
}
