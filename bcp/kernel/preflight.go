package kernel

import (
	"cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Forecast is what the gate will say about one call of a plan, as far as that is
// certain before the plan runs.
type Forecast struct {
	Step string `json:"step"` // its id; in a when or an each it is as in loop/0/step
	Tool string `json:"tool"`
	Verdict
	// Certain says that nothing which content, tools or Readers may bring changes
	// the ruling.
	Certain bool `json:"certain"`
	// Arguments have the labels, by name.
	Arguments []Argument `json:"-"`

	step *Step
}

// Preflight judges every call of a checked plan before the first one is made:
// labels depend on the plan and the definitions alone, and where a rule reads a
// value that is not known yet, it is evaluated as far as it goes. A certain denial
// is never an allowed call later; where nothing is unknown, it is the verdict.
func (c *Checked) Preflight() []Forecast { return c.preflight(nil) }

func (c *Checked) preflight(own map[string][]compiledRule) []Forecast {
	var forecasts []Forecast
	for i := range c.view.plan.Steps {
		s := &c.view.plan.Steps[i]
		if s.Kind != ToolStep {
			continue
		}
		args, _ := c.view.arguments(s)
		call := c.buildCall(&c.view, s, args, own)
		v, certain := c.kernel.Gate().judge(&call)
		forecasts = append(forecasts, Forecast{s.id(), s.Tool, v, certain, args, s})
	}
	return forecasts
}

func (c *Checked) buildCall(v *view, s *Step, args []Argument, own map[string][]compiledRule) Call {
	f := &c.frame
	return Call{
		Tool: s.Tool, Arguments: args, Grant: f.Grant, Asker: f.Asker, Control: v.steered(s, f.control()), Steer: f.steer(v.steer(s)), Depth: f.Depth,
		own: own[s.Tool], steerHaze: v.steerHaze(s),
	}
}

// steer is what steers a step: in the frame, and around it.
func (f *Frame) steer(inner *Label) *Label {
	if f.Steer != nil && inner != nil {
		return new(f.Steer.join(inner))
	}
	return cmp.Or(inner, f.Steer)
}

// StepForecast is what is known of a step's value before the plan runs.
type StepForecast struct {
	ID    string   `json:"step"`
	Kind  StepKind `json:"kind"`
	Label Label    `json:"label"`
	Width Width    `json:"bits"` // of the label
	// Hazy says that a sub-run may still add to the label, and never take away.
	Hazy bool `json:"hazy,omitzero"`
	// Bits is what a when or an each costs.
	Bits bcp.Bits `json:"control_bits,omitzero"`
}

// Steps returns what is known of each step.
func (c *Checked) Steps() []StepForecast {
	steps := make([]StepForecast, len(c.view.nodes))
	for i := range steps {
		s, n := &c.view.plan.Steps[i], &c.view.nodes[i]
		steps[i] = StepForecast{ID: s.id(), Kind: s.Kind, Label: n.label, Width: n.label.Width(), Hazy: n.hazy != 0}
		if n.fork != nil {
			steps[i].Bits = n.fork.cost
		}
	}
	return steps
}
