package text

// spell checks that a script may join the current run.
func (s *scanner) spell(script uint8) error {
	switch {
	case script == 0 || script == s.script:
	case s.script == 0:
		s.script = script
		s.foreign = s.foreign || script != scriptLatin
	case !(s.script == scriptHan && besideHan(script) || script == scriptHan && besideHan(s.script)):
		return ErrMixedScript
	case s.script == scriptHan:
		s.script = script
	}
	return nil
}

func besideHan(script uint8) bool {
	return script == scriptHiragana || script == scriptKatakana || script == scriptBopomofo || script == scriptHangul
}

// ideographic scripts divide words at every border under UAX #29 in ordinary text without spaces.
func ideographic(script uint8) bool {
	return script == scriptHan || script == scriptHiragana || script == scriptKatakana
}
