package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// infoOf returns the fields of a reply to INFO.
func infoOf(reply any) map[string]string {
	text, _ := reply.(string)
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

func (s *Server) info(section string) (map[string]string, error) {
	reply, err := s.Do("INFO", section)
	if err != nil {
		return nil, err
	}
	return infoOf(reply), nil
}

// CPU returns the processor time that the server has used since its start, for users and in the kernel. Redis
// updates it ten times a second, at every call of INFO in newer versions.
func (s *Server) CPU() time.Duration {
	s.t.Helper()
	fields, err := s.info("cpu")
	var seconds float64
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		if err == nil {
			var v float64
			v, err = strconv.ParseFloat(fields[name], 64)
			seconds += v
		}
	}
	if err != nil {
		s.t.Errorf("redistest: CPU time of %s: %v", s.Addr(), err)
	}
	return time.Duration(seconds * float64(time.Second))
}

// Commands returns how many commands the server has executed since its start, but for those that this package
// sent. What a script calls counts, too: [Server.ScriptCalls] doesn't count it. So does what Sentinels and
// the other nodes of an installation send.
func (s *Server) Commands() int64 {
	s.t.Helper()
	sent := s.sent.Load()
	if s.password != "" {
		sent++ // the AUTH before the INFO
	}
	reply, err := s.Do("INFO", "stats")
	var n int64
	if err == nil {
		n, err = strconv.ParseInt(infoOf(reply)["total_commands_processed"], 10, 64)
	}
	if err != nil {
		s.t.Errorf("redistest: commands of %s: %v", s.Addr(), err)
		return 0
	}
	return n - sent
}

// ScriptCalls returns how many scripts and functions the server was asked to run since its start, by
// EVAL, EVALSHA, FCALL and their variants that only read. An EVALSHA of a script that isn't there counts.
func (s *Server) ScriptCalls() int64 {
	s.t.Helper()
	fields, err := s.info("commandstats")
	var sum int64
	for _, name := range []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"} {
		stats, ok := fields["cmdstat_"+name] // calls=4,usec=…
		if !ok || err != nil {
			continue
		}
		var n int64
		_, err = fmt.Sscanf(stats, "calls=%d,", &n)
		sum += n
	}
	if err != nil {
		s.t.Errorf("redistest: script calls of %s: %v", s.Addr(), err)
	}
	return sum
}
