package text

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Date is one calendar date of the proleptic Gregorian calendar, with or without a year. The zero value is no date.
type Date struct {
	Year    int // 1 to 9999; 0 without a year
	Month   int // 1 to 12
	Day     int // 1 to 31, within the month
	HasYear bool
}

// Append appends the delivered form to dst.
func (d Date) Append(dst []byte) []byte {
	if d.HasYear {
		return fmt.Appendf(dst, "%04d-%02d-%02d", d.Year, d.Month, d.Day)
	}
	return fmt.Appendf(dst, "--%02d-%02d", d.Month, d.Day)
}

const maxDateBytes = 48

// The parts of a date in words, and a year that may come last.
const (
	monthPart = `(?P<month>[a-z]+\.?)`
	dayPart   = `(?P<day>[0-9]{1,2})(?P<ordinal>st|nd|rd|th)?`
	yearPart  = `(?P<year>[0-9]{4})`
	lastYear  = `(?:(?: | ?, ?)` + yearPart + `)?`
)

// dateForms is the closed table of forms.
var dateForms = []*regexp.Regexp{
	regexp.MustCompile(`^(?:` + yearPart + `-|--)(?P<month>[0-9]{2})-(?P<day>[0-9]{2})$`),
	regexp.MustCompile(`^` + monthPart + ` ` + dayPart + lastYear + `$`),
	regexp.MustCompile(`^` + dayPart + ` (?:of )?` + monthPart + lastYear + `$`),
	regexp.MustCompile(`^` + yearPart + ` ` + monthPart + ` ` + dayPart + `$`),
}

// ParseDate reads one calendar date (PROTOCOL P3.2): 2026-03-15, --03-15, or the name of a month (whole, three letters,
// or Sept, with or without a full stop) with a day (plain or as an English ordinal) and perhaps a year of four digits, in the
// orders of dateForms: "March 15", "15 March 2026", "Mar. 15th, 2026", "15th of March". Case and white space do not matter; nothing else
// may stand around it. February 29 is a date without a year. The error is ErrDate.
func ParseDate(src []byte) (Date, error) {
	var room [maxDateBytes]byte
	text, ok := plain(room[:], src)
	if !ok {
		return Date{}, ErrDate
	}
	for _, form := range dateForms {
		found := form.FindSubmatch(text)
		if found == nil {
			continue
		}
		part := func(name string) string {
			if i := form.SubexpIndex(name); i >= 0 {
				return string(found[i])
			}
			return ""
		}
		var d Date
		d.Year, _ = strconv.Atoi(part("year"))
		d.Month = parseMonth(part("month"))
		d.Day, _ = strconv.Atoi(part("day"))
		d.HasYear = part("year") != ""
		if o := part("ordinal"); (o == "" || o == ordinal(d.Day)) && d.exists() {
			return d, nil
		}
	}
	return Date{}, ErrDate
}

// exists reports whether the calendar has the date.
func (d Date) exists() bool {
	year := 2000 // which has a February 29
	if d.HasYear {
		year = d.Year
	}
	t := time.Date(year, time.Month(d.Month), d.Day, 0, 0, 0, 0, time.UTC)
	return year >= 1 && t.Month() == time.Month(d.Month) && t.Day() == d.Day
}

// parseMonth reads a number, or a name in whole or short; it is 0 for anything else.
func parseMonth(s string) int {
	n, _ := strconv.Atoi(s)
	short, dotted := strings.CutSuffix(s, ".")
	for m := time.January; m <= time.December; m++ {
		if name := strings.ToLower(m.String()); short == name[:3] || short == name && !dotted || m == time.September && short == "sept" {
			n = int(m)
		}
	}
	return n
}

func ordinal(n int) string {
	if n%100/10 != 1 {
		switch n % 10 {
		case 1:
			return "st"
		case 2:
			return "nd"
		case 3:
			return "rd"
		}
	}
	return "th"
}
