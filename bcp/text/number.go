package text

import (
	"regexp"
	"strconv"
)

var integer = regexp.MustCompile(`^(?:0|-?[1-9][0-9]*)$`)

// ParseInteger reads a decimal integer of 64 bits as PROTOCOL P2.2 writes it: an optional minus, no plus, no leading
// zero, no -0, no separators; only white space may stand around it. The error is ErrInteger.
func ParseInteger(src []byte) (int64, error) {
	var room [32]byte
	text, ok := plain(room[:], src)
	if !ok || !integer.Match(text) {
		return 0, ErrInteger
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, ErrInteger
	}
	return n, nil
}

// ParseBoolean reads true or false in any case with nothing but white space around it; yes, no, 1 and 0 are
// refused. The error is ErrBoolean.
func ParseBoolean(src []byte) (bool, error) {
	var room [16]byte
	text, ok := plain(room[:], src)
	switch {
	case ok && string(text) == "true":
		return true, nil
	case ok && string(text) == "false":
		return false, nil
	}
	return false, ErrBoolean
}
