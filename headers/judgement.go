package headers

import (
	"strings"
	"time"
)

// judgement is what a response says of its refusal in so many words.
type judgement struct {
	said        bool
	inBody      bool
	cause       Cause // None, and said: it refuses for something else than a limit
	concurrency bool
	wait        time.Duration // what the vendor's documentation asks for
}

// or is what two words on one refusal come to: the one that says more.
func (j judgement) or(o judgement) judgement {
	if j.weight() < o.weight() {
		j, o = o, j
	}
	j.inBody = j.inBody || o.inBody
	j.concurrency = j.concurrency || o.concurrency
	j.wait = max(j.wait, o.wait)
	return j
}

// weight orders causes by how much they say: nearly every refusal names a limit somewhere.
func (j judgement) weight() int {
	switch {
	case !j.said:
		return 0
	case j.cause == Limited:
		return 1
	case j.cause == Overloaded:
		return 2
	}
	return 3
}

// The words of codes.
var (
	isLimit     = judgement{said: true, cause: Limited}
	isInFlight  = judgement{said: true, cause: Limited, concurrency: true}
	isOverload  = judgement{said: true, cause: Overloaded}
	isSomething = judgement{said: true, cause: None}
)

// fold makes spellings of one word equal: RATE_LIMIT_EXCEEDED, rateLimitExceeded and "Rate limit
// exceeded". A minus stays in front of a number. What is longer than a word is nothing.
func fold(s string) string {
	var room [maxName]byte
	return string(appendFold(room[:0], s))
}

// appendFold appends what fold makes of s.
func appendFold(to []byte, s string) []byte {
	if len(s) > maxName {
		return to
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'A' <= c && c <= 'Z':
			to = append(to, c|0x20)
		case isLetter(c), isDigit(c), c == '-' && i == 0:
			to = append(to, c)
		}
	}
	return to
}

// code returns what the tables know of a code.
func code(s string) judgement {
	var room [maxName]byte
	return codes[string(appendFold(room[:0], codeOf(s)))]
}

// codeOf cuts what stands around a code: com.amazonaws#ThrottlingException:http://…, or the address of a
// problem type, https://iana.org/assignments/http-problem-types#quota-exceeded.
func codeOf(s string) string {
	if strings.HasPrefix(s, "http") && strings.Contains(s, "://") {
		return s[strings.LastIndexAny(s, "/#")+1:]
	}
	s = s[strings.IndexByte(s, '#')+1:]
	s, _, _ = strings.Cut(s, ":")
	return s
}
