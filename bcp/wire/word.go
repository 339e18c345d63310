package wire

import "errors"

// The words of an enumeration are a list with a place for each value. A value whose place is
// empty, or beyond the list, has no word.

// ErrWord says that there is no such word, or no word for a value.
var ErrWord = errors.New("not one of the words that are allowed here")

// Word returns the word of v, or "invalid".
func Word[T ~uint8](words []string, v T) string {
	if int(v) >= len(words) || words[v] == "" {
		return "invalid"
	}
	return words[v]
}

// MarshalWord returns the word of v, or [ErrWord].
func MarshalWord[T ~uint8](words []string, v T) ([]byte, error) {
	if int(v) >= len(words) || words[v] == "" {
		return nil, ErrWord
	}
	return []byte(words[v]), nil
}

// ParseWord sets v to the value whose word is exactly b, or returns [ErrWord].
func ParseWord[T ~uint8](words []string, b []byte, v *T) error {
	for i, w := range words {
		if w != "" && w == string(b) {
			*v = T(i)
			return nil
		}
	}
	return ErrWord
}
