package kernel

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// planMessage is what a planner answers.
type planMessage struct {
	id      string
	refused bool
	away    bool // the planner's model cannot be reached
	plan    []byte
}

// readPlanMessage reads the envelope of a plan, and leaves the plan as it is: what is
// wrong inside it is a fault of the plan.
func readPlanMessage(body []byte) (m planMessage, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return m, errValue
	}
	seen := map[string]bool{}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return m, err
		}
		key := token.String()
		value, err := dec.ReadValue()
		if err != nil || seen[key] || !m.set(key, value) {
			return m, errValue
		}
		seen[key] = true
	}
	if _, err = dec.ReadToken(); err == nil {
		if _, err = dec.ReadToken(); err == io.EOF {
			return m, nil
		}
	}
	return m, errValue
}

// set takes one member.
func (m *planMessage) set(key string, value jsontext.Value) bool {
	text, isText := "", value.Kind() == '"' && bytes.IndexByte(value, 0x7f) < 0
	if isText {
		b, _ := jsontext.AppendUnquote(nil, value) // it was judged
		text = string(b)
	}
	switch key {
	case "type":
		return isText && text == TypePlan
	case "plan_id":
		m.id = text
		return isText
	case "refused":
		m.refused = true
		return value.Kind() == 't'
	case "unavailable":
		m.away = true
		return value.Kind() == 't'
	case "plan":
		switch kind := value.Kind(); {
		case isText:
			m.plan = []byte(text)
		case kind == '{' || kind == '[':
			m.plan = bytes.Clone(value)
		default:
			return kind == 'n'
		}
		return true
	}
	return false
}
