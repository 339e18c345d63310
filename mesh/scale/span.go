package scale

import "time"

// Span is a duration that is text in JSON, such as 1.5ms.
type Span time.Duration

// MarshalText writes it as [time.Duration] does.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (s *Span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	*s = Span(d)
	return err
}

// String writes it as [time.Duration] does.
func (s Span) String() string { return time.Duration(s).String() }
