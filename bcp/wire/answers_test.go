package wire

import (
	"strings"
)

// The answers of the three categories as a Reader sends them.
var (
	category1 = []byte(`{"is_urgent":true,"sentiment":"neutral","confidence":3}`)
	category2 = []byte(`{"type":"bcp_response","query_id":"q_4f1c0a7be2d94c60","answers":[` +
		`{"id":"q_date","answer":"March 15, 2026"},` +
		`{"id":"q_person","answer":"Maria del Carmen Gonzalez"},` +
		`{"id":"q_topic","answer":"quarterly budget review with the finance team"}]}`)
	category3 = []byte(`{"summary":"` + strings.TrimSuffix(strings.Repeat("the vendor asks to move ", 20), " ") + `"}`)
)

// walkAll walks a document as its kinds come and returns the bytes of its
// strings.
func walkAll(s *Scanner, scratch []byte) (n int, err error) {
	switch s.Kind() {
	case KindObject:
		err = s.ObjectStart()
		for err == nil && s.More() {
			var key []byte
			if key, err = s.Key(scratch); err == nil {
				var m int
				m, err = walkAll(s, scratch)
				n += len(key) + m
			}
		}
	case KindArray:
		err = s.ArrayStart()
		for err == nil && s.More() {
			var m int
			m, err = walkAll(s, scratch)
			n += m
		}
	case KindString:
		var text []byte
		text, err = s.String(scratch)
		n = len(text)
	case KindNumber:
		_, err = s.Int64()
	default:
		_, err = s.Bool()
	}
	return n, err
}
