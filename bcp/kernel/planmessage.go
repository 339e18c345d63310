package kernel

import (
	"bytes"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
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
func readPlanMessage(body []byte) (planMessage, error) {
	var m planMessage
	seen := map[string]bool{}
	scan := wire.NewEnvelope(body)
	if err := scan.ObjectStart(); err != nil {
		return m, err
	}
	for scan.More() {
		key, err := scan.Key()
		if err != nil || seen[string(key)] {
			return m, errValue
		}
		seen[string(key)] = true
		if err := m.read(&scan, body, string(key)); err != nil {
			return m, err
		}
	}
	return m, scan.End()
}

func (m *planMessage) read(scan *wire.Scanner, body []byte, key string) error {
	switch key {
	case "type":
		b, err := scan.String()
		if err != nil || string(b) != TypePlan {
			return errValue
		}
	case "plan_id":
		b, err := scan.String()
		m.id = string(b)
		return err
	case "refused", "unavailable":
		yes, err := scan.Bool()
		m.refused, m.away = m.refused || key == "refused", m.away || key == "unavailable"
		if err == nil && !yes {
			return errValue
		}
		return err
	case "plan":
		return m.readPlan(scan, body)
	default:
		return errValue
	}
	return nil
}

func (m *planMessage) readPlan(scan *wire.Scanner, body []byte) error {
	switch scan.Kind() {
	case wire.KindString:
		b, err := scan.String()
		m.plan = append([]byte{}, b...)
		return err
	case wire.KindNull:
		return scan.Null()
	default:
		b, err := scan.Opaque()
		m.plan = bytes.Clone(b)
		return err
	}
}
