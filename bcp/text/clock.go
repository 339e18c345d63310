package text

import (
	"fmt"
	"time"
)

// Time is a time of day. The zero value is midnight.
type Time struct {
	Hour   int // 0 to 23
	Minute int // 0 to 59
}

// Append appends the delivered form to dst.
func (t Time) Append(dst []byte) []byte { return fmt.Appendf(dst, "%02d:%02d", t.Hour, t.Minute) }

// ParseTime reads a time of the form 15:04, two digits each, with nothing but white space around it (PROTOCOL P3.2).
// The error is ErrTime.
func ParseTime(src []byte) (Time, error) {
	var room [16]byte
	text, ok := plain(room[:], src)
	if !ok || len(text) != len("15:04") {
		return Time{}, ErrTime
	}
	t, err := time.Parse("15:04", string(text))
	if err != nil {
		return Time{}, ErrTime
	}
	return Time{t.Hour(), t.Minute()}, nil
}
