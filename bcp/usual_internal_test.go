package bcp

// WithoutUsual returns the validator as it is where no answer is usual: the slow path.
func (v *Validator) WithoutUsual() *Validator {
	slow := *v
	slow.usual = nil
	return &slow
}

// Usual reports whether an answer is read in one pass.
func (v *Validator) Usual(raw []byte) bool {
	_, ok := v.usual.Match(raw)
	return ok
}
