package text

// Time is a time of day. The zero value is midnight.
type Time struct {
	Hour   int // 0 to 23
	Minute int // 0 to 59
}

// String is the delivered form, 15:04.
func (t Time) String() string { return string(t.Append(nil)) }

// Append appends the delivered form to dst.
func (t Time) Append(dst []byte) []byte {
	return appendTwo(append(appendTwo(dst, t.Hour), ':'), t.Minute)
}

// ParseTime reads a time of the form 15:04, two digits each, with nothing but white space around it (PROTOCOL P3.2).
// The error is ErrTime.
func ParseTime(src []byte) (Time, error) {
	var room [16]byte
	text, ok := plain(room[:], src)
	if !ok || len(text) != 5 || text[2] != ':' {
		return Time{}, ErrTime
	}
	hour, okHour := digits(text[:2])
	minute, okMinute := digits(text[3:])
	if !okHour || !okMinute || hour > 23 || minute > 59 {
		return Time{}, ErrTime
	}
	return Time{hour, minute}, nil
}
