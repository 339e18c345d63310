package wire

// Check judges a whole document without a schema: the rules of [Scanner], at most
// [MaxKeys] keys an object, and no null. Call it before a more lenient library decodes
// the same bytes (PROTOCOL P2.2, P2.3); that library must still be told to refuse unknown
// keys and to compare keys by exact case.
func Check(b []byte) error {
	s := NewScanner(b)
	if err := s.skip(); err != nil {
		return err
	}
	return s.End()
}
