package headers

import (
	"net/http"
	"strings"
	"time"
)

// maxPeek is how much of a body is looked at. What refuses a request says so at once; 4 KiB is also what
// net/http's Transport has read already, as a rule, when it hands a response over.
const maxPeek = 4 << 10

// Parse reads the signal of a response: of its status and header as [ParseHeader] does, and for refusals
// of the beginning of its body, of which at most 4 KiB are read. The body is given back whole: resp.Body is
// replaced by one that repeats what was read, an error too, and goes on with the original, which its Close
// closes. Where [LooksAtBody] says no, resp isn't touched.
//
// Reading waits for the server as long as the body's Read does, that is until the request's context ends.
// Parse stops at the end of a JSON document and after a few short reads, so a body that trickles doesn't
// hold it; one that never begins does. Who can't have that sets a deadline when LooksAtBody says yes.
func Parse(resp *http.Response, now time.Time) Signal {
	return (*Dialect)(nil).parse(resp, now)
}

func (d *Dialect) parse(resp *http.Response, now time.Time) Signal {
	if resp == nil {
		return Signal{}
	}
	if !LooksAtBody(resp) {
		return d.ParseHeader(resp.StatusCode, resp.Header, now)
	}
	r := reader{dialect: d, status: resp.StatusCode, base: baseTime{header: resp.Header, now: now}}
	r.readHeader(resp.Header)
	r.readBody(peek(resp))
	return r.signal()
}

// LooksAtBody reports whether [Parse] reads from the body: of a refusal (400, 401, 403, 418, 420, 429, 503,
// 529) if it may be JSON, XML or plain text, and of a success only where some API is known to put its
// refusals: a GraphQL endpoint, a few hosts, an upload to S3, or an answer of known length that doesn't say
// what it is.
func LooksAtBody(resp *http.Response) bool {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody || isEncoded(resp.Header) {
		return false
	}
	_, refusal := verdicts[resp.StatusCode]
	if !refusal && resp.StatusCode != http.StatusOK {
		return false
	}
	if _, writable := resp.Body.(interface{ Write([]byte) (int, error) }); writable {
		return false
	}
	media := mediaOf(resp.Header)
	switch {
	case media == otherMedia:
		return false
	case refusal:
		return true
	}
	return mayRefuseWithOK(resp, media)
}

// isEncoded reports whether a body is compressed, which net/http's Transport undoes if it asked for it.
func isEncoded(h http.Header) bool {
	for _, encoding := range h["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return true
		}
	}
	return false
}

// media is what a body may be, as far as it matters here.
type media uint8

const (
	otherMedia media = iota
	unsaidMedia
	jsonMedia
	xmlMedia
	textMedia
)

// mediaOf reads the Content-Type. A stream is of no use even if it is one of JSON documents.
func mediaOf(h http.Header) media {
	values := h["Content-Type"]
	if len(values) == 0 {
		return unsaidMedia
	}
	name, _, _ := strings.Cut(values[0], ";")
	name = trim(name)
	if name == "" {
		return unsaidMedia
	}
	kind, sub, _ := strings.Cut(name, "/")
	switch {
	case indexFold(sub, "ndjson") >= 0, indexFold(sub, "jsonl") >= 0, indexFold(sub, "stream") >= 0, hasSuffixFold(sub, "json-seq"):
		return otherMedia
	case indexFold(sub, "json") >= 0: // also AWS's application/x-amz-json-1.1
		return jsonMedia
	case hasSuffixFold(sub, "xml"):
		return xmlMedia
	case strings.EqualFold(kind, "text"), strings.EqualFold(sub, "javascript"):
		return textMedia
	}
	return otherMedia
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

// refusers are the APIs that refuse with status 200.
var refusers = [...]struct {
	host    string // and the hosts below it; "": any
	path    string // which the path ends in, but for an extension; "": any
	header  string // which the answer has; "": none
	media   media
	mutates bool // only for PUT and POST
}{
	{path: "/graphql", media: jsonMedia}, // Shopify, GitHub, Linear
	{host: "api.kraken.com", media: jsonMedia},
	{host: "api.monday.com", media: jsonMedia},
	{host: "slack.com", media: jsonMedia},
	{header: "X-Amz-Request-Id", media: xmlMedia, mutates: true}, // S3: CompleteMultipartUpload, CopyObject
}

// mayRefuseWithOK reports whether a success may be none.
func mayRefuseWithOK(resp *http.Response, m media) bool {
	if m == unsaidMedia { // which is rare, so looking costs little; but what has no end may be a stream
		return resp.ContentLength >= 0 || resp.Request == nil
	}
	if resp.Request == nil || resp.Request.URL == nil {
		return false
	}
	host, path := resp.Request.URL.Hostname(), resp.Request.URL.Path
	if i := strings.LastIndexByte(path, '.'); i > strings.LastIndexByte(path, '/') {
		path = path[:i]
	}
	for i := range refusers {
		row := &refusers[i]
		switch method := resp.Request.Method; {
		case row.media != m, row.mutates && method != http.MethodPut && method != http.MethodPost:
		case row.header != "" && len(resp.Header[row.header]) == 0:
		case row.path != "" && !hasSuffixFold(path, row.path):
		case row.host != "" && (!hasSuffixFold(host, row.host) || len(host) > len(row.host) && host[len(host)-len(row.host)-1] != '.'):
		default:
			return true
		}
	}
	return false
}
