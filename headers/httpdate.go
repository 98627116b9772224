package headers

import (
	"net/http"
	"strings"
	"time"
)

// maxDate bounds what is tried as a date: the longest real one, JavaScript's with the zone spelled
// out, has some seventy bytes.
const maxDate = 128

// baseTime is the moment that absolute times are relative to: the server's own Date, so that a wrong
// clock on either side cancels out, and the local clock only when the response has no usable Date.
type baseTime struct {
	header   http.Header
	now      time.Time
	resolved bool // the Date was read, if there is one; that is done once and only if needed
	at       time.Time
}

func (b *baseTime) time() time.Time {
	if b.resolved {
		return b.at
	}
	b.resolved, b.at = true, b.now
	for _, line := range dateLines(b.header) { // Riot sends two lines, express-rate-limit one that is no date
		if t, ok := parseDate(trim(line), b.now); ok {
			b.at = t
			break
		}
	}
	return b.at
}

// dateLines are the values of Date. Of several spellings that aren't canonical one has to be chosen,
// and not by the order of the map.
func dateLines(h http.Header) (lines []string) {
	if lines, ok := h["Date"]; ok {
		return lines
	}
	first := ""
	for name, values := range h {
		if strings.EqualFold(name, "Date") && (lines == nil || name < first) {
			lines, first = values, name
		}
	}
	return lines
}

// until is how long it is to t: 0 when that is past.
func (b *baseTime) until(t time.Time) time.Duration {
	return min(max(0, t.Sub(b.time())), MaxRetryAfter)
}

// parseTime reads a time that names its zone.
func parseTime(s string, base *baseTime) (time.Time, bool) {
	if len(s) > maxDate {
		return time.Time{}, false
	}
	if s != "" && isDigit(s[0]) {
		return parseRFC3339(s)
	}
	return parseDate(s, base.time())
}

// parseDate reads the three forms of RFC 9110 §5.6.7 and what servers make of them: a zone UTC or
// +0100, a one-digit day, any letter case, the leap second :60, the wrong weekday, and JavaScript's
// Date.toString. A date without a zone is asctime's, or none. near picks the century of a two-digit year.
func parseDate(s string, near time.Time) (time.Time, bool) {
	if len(s) > maxDate {
		return time.Time{}, false
	}
	if t, ok := parseIMFFixdate(s); ok {
		return t, true
	}
	if strings.HasSuffix(s, ")") {
		s, _, _ = strings.Cut(s, " (") // JavaScript's long name of the zone
	}
	n := strings.IndexAny(s, ", ")
	if n < 0 || !isWord(s[:n]) {
		return time.Time{}, false
	}
	comma := s[n] == ','
	s, offset, zoned := cutZone(trim(s[n+1:]))
	s, leap := cutLeapSecond(s)
	for i := range dateLayouts {
		form := &dateLayouts[i]
		if form.comma != comma || form.zoned != zoned {
			continue
		}
		t, err := time.Parse(form.layout, s)
		if err != nil {
			continue
		}
		if form.century {
			t = nearestCentury(t, near)
		}
		return t.Add(leap - offset), true
	}
	return time.Time{}, false
}

// parseIMFFixdate reads the form that all but few servers send, "Thu, 15 Jan 2026 12:00:00 GMT". Every
// response with an absolute time has at least one, and time.Parse takes five times as long.
func parseIMFFixdate(s string) (time.Time, bool) {
	const form = "www, 00 mmm 0000 00:00:00 GMT" // w: not looked at
	if len(s) != len(form) || s[3:5] != form[3:5] || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' ||
		s[19] != ':' || s[22] != ':' || s[25:] != form[25:] || !isWord(s[:3]) {
		return time.Time{}, false
	}
	for _, i := range [...]uint8{5, 6, 12, 13, 14, 15, 17, 18, 20, 21, 23, 24} {
		if !isDigit(s[i]) {
			return time.Time{}, false
		}
	}
	two := func(i int) int { return int(s[i]-'0')*10 + int(s[i+1]-'0') }
	month := strings.Index(months, s[8:11])
	day, hour, minute, second := two(5), two(17), two(20), two(23)
	if month < 0 || month%3 != 0 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(two(12)*100+two(14), time.Month(month/3+1), day, hour, minute, second, 0, time.UTC)
	return t, t.Day() == day // time.Date makes 30 February a day in March
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// dateLayouts are the forms of a date once the weekday in front and the zone behind are gone.
// time.Parse ignores the case of a month and takes any run of blanks for one.
var dateLayouts = [...]struct {
	layout  string
	comma   bool // a comma after the weekday
	zoned   bool // a zone at the end
	century bool // has to be guessed
}{
	{layout: "2 Jan 2006 15:04:05", comma: true, zoned: true},              // IMF-fixdate
	{layout: "2-Jan-06 15:04:05", comma: true, zoned: true, century: true}, // RFC 850
	{layout: "Jan 2 15:04:05 2006"},                                        // asctime
	{layout: "Jan 2 2006 15:04:05", zoned: true},                           // JavaScript
}

// cutZone cuts the zone off the end of s. Of the zones with names only GMT and its aliases are
// known: time.Parse takes any three letters, and silently as UTC.
func cutZone(s string) (rest string, offset time.Duration, ok bool) {
	n := strings.LastIndexByte(s, ' ')
	if n < 0 {
		return s, 0, false
	}
	zone := s[n+1:]
	if len(zone) > 3 && strings.EqualFold(zone[:3], "GMT") {
		zone = zone[3:]
	}
	switch {
	case strings.EqualFold(zone, "GMT"), strings.EqualFold(zone, "UTC"), strings.EqualFold(zone, "Z"):
	case zone != "" && (zone[0] == '+' || zone[0] == '-'):
		t, err := time.Parse("-0700", zone)
		if err != nil {
			return s, 0, false
		}
		_, seconds := t.Zone()
		offset = time.Duration(seconds) * time.Second
	default:
		return s, 0, false
	}
	return trim(s[:n]), offset, true
}

// cutLeapSecond makes the second :60, which RFC 9110 has and time.Parse has not, :59 and one more.
func cutLeapSecond(s string) (string, time.Duration) {
	n := strings.LastIndex(s, ":60")
	if n < 0 || n+3 < len(s) && s[n+3] != ' ' {
		return s, 0
	}
	return s[:n] + ":59" + s[n+3:], time.Second
}

// nearestCentury moves a two-digit year to within 50 years of near. RFC 9110 §5.6.7 asks for that;
// package time has a fixed pivot, at 1969.
func nearestCentury(t, near time.Time) time.Time {
	t = t.AddDate(near.Year()/100*100-t.Year()/100*100, 0, 0)
	switch {
	case t.After(near.AddDate(50, 0, 0)):
		return t.AddDate(-100, 0, 0)
	case t.Before(near.AddDate(-50, 0, 0)):
		return t.AddDate(100, 0, 0)
	}
	return t
}

// parseRFC3339 reads RFC 3339 with either case of T and Z, and without seconds as Jira documents it.
func parseRFC3339(s string) (time.Time, bool) {
	if len(s) < len("2006-01-02T15:04Z") || len(s) > maxDate || s[4] != '-' || s[10]|0x20 != 't' {
		return time.Time{}, false
	}
	s = strings.ToUpper(s)
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
