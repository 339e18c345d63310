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
