package kernel

// Forecast is what the gate will say about one call of a plan, as far as that is
// certain before the plan runs.
type Forecast struct {
	Step    string // its id
	Tool    string
	Verdict Verdict
	// Certain says that nothing which content, tools or Readers may bring changes
	// the ruling.
	Certain bool
	// Labels are those of the arguments, by name.
	Arguments []Argument
}

// Preflight judges every call of a checked plan before the first one is made:
// labels depend on the plan and the definitions alone, and where a rule reads a
// value that is not known yet, it is evaluated as far as it goes. A certain denial
// is never an allowed call later; where nothing is unknown, it is the verdict.
func (c *Checked) Preflight() []Forecast { return c.preflight(nil) }

func (c *Checked) preflight(own map[string]*toolRules) []Forecast {
	var forecasts []Forecast
	for i := range c.view.plan.Steps {
		s := &c.view.plan.Steps[i]
		if s.Kind != ToolStep {
			continue
		}
		args, _ := c.view.arguments(s)
		call := c.buildCall(s, args, own)
		v, certain := c.kernel.Gate().judge(&call)
		forecasts = append(forecasts, Forecast{s.ID, s.Tool, v, certain, args})
	}
	return forecasts
}

func (c *Checked) buildCall(s *Step, args []Argument, own map[string]*toolRules) Call {
	f := &c.frame
	return Call{Tool: s.Tool, Arguments: args, Grant: f.Grant, Asker: f.Asker, Control: f.control(), Depth: f.Depth, own: own[s.Tool]}
}

// denied returns the first call that is certain to be denied.
func denied(forecasts []Forecast) (Forecast, bool) {
	for _, f := range forecasts {
		if f.Certain && f.Verdict.Ruling == Deny {
			return f, true
		}
	}
	return Forecast{}, false
}

// StepForecast is what is known of a step's value before the plan runs.
type StepForecast struct {
	ID    string
	Kind  StepKind
	Label Label
	// Hazy says that a sub-run may still add to the label, and never take away.
	Hazy bool
}

// Steps returns what is known of each step.
func (c *Checked) Steps() []StepForecast {
	steps := make([]StepForecast, len(c.view.nodes))
	for i := range steps {
		s, n := &c.view.plan.Steps[i], &c.view.nodes[i]
		steps[i] = StepForecast{s.ID, s.Kind, n.label, n.hazy != 0}
	}
	return steps
}
