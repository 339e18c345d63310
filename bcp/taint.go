package bcp

import "github.com/bcpmesh/bcpmesh/bcp/wire"

// Taint says how far an agent may be under the influence of hostile content.
// The zero value is unknown and counts as high (PROTOCOL P8.1).
type Taint uint8

// The levels.
const (
	TaintUnknown Taint = 0
	TaintLow     Taint = 1
	TaintMedium  Taint = 2
	TaintHigh    Taint = 3
)

var taintWords = []string{"", "low", "medium", "high"}

func (t Taint) String() string { return taintWords[t.level()] }

// MarshalText returns low, medium or high; unknown is high.
func (t Taint) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText accepts low, medium and high.
func (t *Taint) UnmarshalText(b []byte) error { return wire.ParseWord(taintWords, b, t) }

// StepDown is the taint of a validated answer of an agent with taint t: high
// becomes medium, medium and low become low (BCP-140 to BCP-142). It never
// looks at content.
func (t Taint) StepDown() Taint {
	if t.level() == TaintHigh {
		return TaintMedium
	}
	return TaintLow
}

// MaxTaint returns the greater of two levels.
func MaxTaint(a, b Taint) Taint { return max(a.level(), b.level()) }

// level maps unknown, and every number that is no level, to high.
func (t Taint) level() Taint {
	if t == TaintUnknown || t > TaintHigh {
		return TaintHigh
	}
	return t
}
