package presets

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// A usage is how many tokens an answer says that it took; 0: it doesn't say.
type usage struct{ input, output, total int }

// A report is where the APIs have their usage, in an answer or in an event of a stream.
type report struct {
	Usage    *tokens // OpenAI's, and Anthropic's, of which a stream's last has the output
	Response struct{ Usage *tokens }
	Message  struct{ Usage *tokens } // Anthropic's, in the first event of a stream
}

type tokens struct {
	Input         int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	Output        int `json:"output_tokens"`
	Total         int `json:"total_tokens"`
}

// usageOf reads what an answer took from its body, or from the events of a stream. Not ok: it was none.
func usageOf(resp *http.Response) (u usage, ok bool) {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return usage{}, false
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		var r report
		if json.NewDecoder(resp.Body).Decode(&r) != nil {
			return usage{}, false
		}
		return u, u.add(r)
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if data, is := bytes.CutPrefix(line, []byte("data:")); is && bytes.Contains(data, []byte(`"usage"`)) {
			var r report
			if json.Unmarshal(data, &r) == nil {
				ok = u.add(r) || ok
			}
		}
		if err == io.EOF {
			return u, ok
		}
		if err != nil {
			return u, false
		}
	}
}

// add takes over what the report has: a later one's figures include those of the earlier ones.
func (u *usage) add(r report) bool {
	for _, t := range []*tokens{r.Usage, r.Response.Usage, r.Message.Usage} {
		if t == nil {
			continue
		}
		if n := t.Input + t.CacheCreation; n > 0 {
			u.input = n
		}
		// What the first event says of the output is only its beginning.
		if t != r.Message.Usage && t.Output > 0 {
			u.output = t.Output
		}
		if t.Total > 0 {
			u.total = t.Total
		}
	}
	return r.Usage != nil || r.Response.Usage != nil || r.Message.Usage != nil
}
