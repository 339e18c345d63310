package bcp

// Compiler compiles the specs of one mesh's subscriptions, equal ones once: meshes
// are written by programs, and many channels say the same. What it returned is
// shared, as a [Validator] may be. The zero value is ready; it is for one goroutine,
// and for settings with the same vocabularies, rules and constraints.
type Compiler struct {
	known map[subscribedSpec]*Validator
}

// subscribedSpec is all that a subscription's validator depends on, but for what the
// compiler is for.
type subscribedSpec struct {
	spec                        string // canonical JSON
	onAnomaly                   OnAnomaly
	preserveCase                bool
	releaseSlots, approvalSlots uint64
	subscriptions               int
	publishWhen                 string
}

// Compile is [Compile]. What is refused is refused again each time.
func (c *Compiler) Compile(spec Spec, settings Settings) (*Validator, error) {
	text, err := encodeJSON(spec)
	if err != nil {
		return nil, err
	}
	key := subscribedSpec{string(text), settings.OnAnomaly, settings.PreserveCase, settings.ReleaseSlots, settings.ApprovalSlots,
		settings.Subscriptions, settings.PublishWhen}
	if v := c.known[key]; v != nil {
		return v, nil
	}
	v, err := Compile(spec, settings)
	if err != nil {
		return nil, err
	}
	if c.known == nil {
		c.known = make(map[subscribedSpec]*Validator)
	}
	c.known[key] = v
	return v, nil
}
