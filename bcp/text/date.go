package text

// Date is one calendar date of the proleptic Gregorian calendar, with or without a year. The zero value is no date.
type Date struct {
	Year    int // 1 to 9999; 0 without a year
	Month   int // 1 to 12
	Day     int // 1 to 31, within the month
	HasYear bool
}

// String is the delivered form: 2026-03-15, or --03-15 without a year.
func (d Date) String() string { return string(d.Append(nil)) }

// Append appends the delivered form to dst.
func (d Date) Append(dst []byte) []byte {
	if d.HasYear {
		dst = appendTwo(appendTwo(dst, d.Year/100), d.Year%100)
	} else {
		dst = append(dst, '-')
	}
	return appendTwo(append(appendTwo(append(dst, '-'), d.Month), '-'), d.Day)
}

// appendTwo appends a number below 100 in two digits.
func appendTwo(dst []byte, n int) []byte { return append(dst, '0'+byte(n/10%10), '0'+byte(n%10)) }

const maxDateBytes = 48

// isLayout is the closed table of layouts in words: M a month, D a day, Y a year of four digits, O the word of.
func isLayout(words []byte) bool {
	switch string(words) {
	case "MD", "MDY", "MD,Y",
		"DM", "DMY", "DM,Y",
		"DOM", "DOMY", "DOM,Y",
		"YMD":
		return true
	}
	return false
}

var monthNames = [...]string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}

// ParseDate reads one calendar date (PROTOCOL P3.2): 2026-03-15, --03-15, or the name of a month (whole, three letters,
// or Sept, with or without a full stop) with a day (plain or as an English ordinal) and perhaps a year of four digits, in the
// orders of isLayout: "March 15", "15 March 2026", "Mar. 15th, 2026", "15th of March". Case and white space do not matter; nothing else may
// stand around it. February 29 is a date without a year. The error is ErrDate.
func ParseDate(src []byte) (Date, error) {
	var room [maxDateBytes]byte
	text, ok := plain(room[:], src)
	if !ok {
		return Date{}, ErrDate
	}
	d, ok := isoDate(text)
	if !ok {
		d, ok = wordDate(text)
	}
	if !ok || d.Month < 1 || d.Month > 12 || d.Day < 1 || d.Day > daysIn(d) || d.HasYear && d.Year < 1 {
		return Date{}, ErrDate
	}
	return d, nil
}

func daysIn(d Date) int {
	switch d.Month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if !d.HasYear || d.Year%4 == 0 && (d.Year%100 != 0 || d.Year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// digits reads text made of decimal digits only.
func digits(text []byte) (int, bool) {
	n := 0
	for _, b := range text {
		if b-'0' >= 10 {
			return 0, false
		}
		n = n*10 + int(b-'0')
	}
	return n, len(text) > 0 && len(text) <= 4
}

func isoDate(text []byte) (d Date, ok bool) {
	var rest []byte
	switch {
	case len(text) == 10 && text[4] == '-':
		if d.Year, ok = digits(text[:4]); !ok {
			return d, false
		}
		d.HasYear = true
		rest = text[5:]
	case len(text) == 7 && text[0] == '-' && text[1] == '-':
		rest = text[2:]
	default:
		return d, false
	}
	var month, day bool
	d.Month, month = digits(rest[:2])
	d.Day, day = digits(rest[3:])
	return d, month && day && rest[2] == '-'
}

func wordDate(text []byte) (d Date, ok bool) {
	var layout [6]byte
	n := 0
	for i := 0; i < len(text); {
		if text[i] == ' ' {
			i++
			continue
		}
		if n == len(layout) {
			return d, false
		}
		begun := i
		if text[i] == ',' {
			layout[n] = ','
			n++
			i++
			continue
		}
		for i < len(text) && text[i] != ' ' && text[i] != ',' {
			i++
		}
		kind := d.word(text[begun:i])
		if kind == 0 {
			return d, false
		}
		layout[n] = kind
		n++
	}
	return d, isLayout(layout[:n])
}

// word reads one word of a date and says what it is; 0 for anything else.
func (d *Date) word(w []byte) byte {
	if v, ok := digits(w); ok {
		switch len(w) {
		case 4:
			d.Year, d.HasYear = v, true
			return 'Y'
		case 1, 2:
			d.Day = v
			return 'D'
		}
		return 0
	}
	if string(w) == "of" {
		return 'O'
	}
	if n := len(w); n > 2 && n < 5 && w[0]-'0' < 10 {
		v, ok := digits(w[:n-2])
		if ok && string(w[n-2:]) == ordinal(v) {
			d.Day = v
			return 'D'
		}
		return 0
	}
	if n := len(w); n > 3 && w[n-1] == '.' {
		if w = w[:n-1]; n > 4 && string(w) != "sept" {
			return 0
		}
	}
	for i, name := range monthNames {
		if w[0] == name[0] && (string(w) == name || string(w) == name[:3]) || i == 8 && string(w) == "sept" {
			d.Month = i + 1
			return 'M'
		}
	}
	return 0
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
