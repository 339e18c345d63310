package decode

import (
	"regexp"
	"strings"
	"time"
)

// zones are names of zones, as offsets. The time package would interpret them by this machine's
// own zone. Names that several zones have (IST) are not among them; those of North America are
// as in RFC 5322, 4.3.
var zones = map[string]string{
	"UT": "+0000", "GMT": "+0000", "Z": "+0000", "UTC": "+0000", "WET": "+0000",
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
	"AKST": "-0900", "AKDT": "-0800", "HST": "-1000", "AST": "-0400", "ADT": "-0300", "NST": "-0330", "NDT": "-0230", "BRT": "-0300",
	"WEST": "+0100", "BST": "+0100", "CET": "+0100", "MET": "+0100", "MEZ": "+0100", "CEST": "+0200", "MEST": "+0200", "MESZ": "+0200", "EET": "+0200", "SAST": "+0200",
	"EEST": "+0300", "MSK": "+0300", "PKT": "+0500", "HKT": "+0800", "SGT": "+0800", "AWST": "+0800", "JST": "+0900", "KST": "+0900",
	"AEST": "+1000", "AEDT": "+1100", "NZST": "+1200", "NZDT": "+1300",
}

var (
	remark  = regexp.MustCompile(`\([^()]*\)`)
	weekday = regexp.MustCompile(`(?i)^(mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?[, ]\s*`)
	isoForm = regexp.MustCompile(`(?i)^(\d{4}-\d\d-\d\d|\d{8})(?:[T ](\d\d:?\d\d(?::?\d\d(?:[.,]\d+)?)?))?(.*)$`)
	offset  = regexp.MustCompile(`^(?:GMT|UTC?)?([+-])(\d{1,2}):?(\d\d)?$`)
	clock   = regexp.MustCompile(`^\d{1,2}[:.]\d\d([:.]\d\d(\.\d+)?)?$`)
)

var days = []string{"2 Jan 2006", "2 January 2006", "2 Jan 06", "2-Jan-2006", "2-Jan-06", "Jan 2 2006", "January 2 2006", "2006 Jan 2", "2006/1/2"}

// Date parses a date as mails have it: RFC 5322 and its predecessors, RFC 850, that of
// the C library, RFC 3339 and ISO 8601; with names or offsets of zones, with or without seconds.
// It returns false if it is none, and exact false if its zone is not known or not said: then it
// is taken as UTC, and up to 14 hours wrong. The time is in its own zone, of the years 1970 to 9999 in UTC.
func Date(text string) (t time.Time, exact, ok bool) {
	text = text[:min(len(text), 200)]
	for before := ""; before != text; {
		before, text = text, remark.ReplaceAllString(text, " ")
	}
	if i := strings.IndexByte(text, '('); i >= 0 {
		text = text[:i]
	}
	text = weekday.ReplaceAllString(strings.Join(strings.Fields(text), " "), "")
	day, hours, zone := "", "", ""
	if iso := isoForm.FindStringSubmatch(text); iso != nil {
		day, hours, zone = iso[1], strings.ReplaceAll(iso[2], ",", "."), strings.TrimSpace(iso[3])
	} else {
		var words []string
		for word := range strings.FieldsSeq(strings.ReplaceAll(text, ",", " ")) {
			switch {
			case clock.MatchString(word) && hours == "":
				hours = word
				if strings.Count(word, ".") > 0 && !strings.Contains(word, ":") {
					hours = strings.ReplaceAll(word, ".", ":")
				}
			case hours != "" && (strings.EqualFold(word, "am") || strings.EqualFold(word, "pm")):
				hours += " " + strings.ToUpper(word)
			case hours != "" && zone == "" && strings.Trim(word, "0123456789") != "":
				zone = word
			default:
				words = append(words, word)
			}
		}
		day = strings.Replace(strings.Join(words, " "), "Sept ", "Sep ", 1)
	}
	shift, exact := shiftOf(zone)
	if zone != "" && shift == "" {
		return time.Time{}, false, false
	}
	if hours == "" {
		hours, exact = "00:00", exact || zone == "" // a day alone is what it says
	}
	for _, form := range append([]string{time.DateOnly, "20060102"}, days...) {
		for _, at := range []string{"15:04:05", "15:04", "150405", "1504", "3:04:05 PM", "3:04 PM"} {
			if t, err := time.Parse(form+" "+at+" -0700", day+" "+hours+" "+shift); err == nil {
				year := t.UTC().Year()
				if _, east := t.Zone(); east == 0 {
					t = t.UTC()
				} else { // not this machine's zone, which may have the same offset
					t = t.In(time.FixedZone("", east))
				}
				return t, exact, year >= 1970 && year <= 9999
			}
		}
	}
	return time.Time{}, false, false
}

// shiftOf returns the offset of a zone: "+0000" and false if it is not known, nothing if it is no zone.
func shiftOf(zone string) (shift string, exact bool) {
	zone = strings.ToUpper(zone)
	if shift, ok := zones[zone]; ok {
		return shift, true
	}
	if parts := offset.FindStringSubmatch(zone); parts != nil {
		hours, minutes := parts[2], parts[3]
		if len(hours) == 1 {
			hours = "0" + hours
		}
		if minutes == "" {
			minutes = "00"
		}
		return parts[1] + hours + minutes, true
	}
	if strings.Trim(zone, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return "+0000", false
	}
	return "", false
}
