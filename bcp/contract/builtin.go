package contract

import (
	_ "embed"
)

// The draft's contracts of a planner and a processor, byte for byte, and ours of an
// orchestrator.
var (
	//go:embed contracts/planner-v1.json
	plannerV1 string
	//go:embed contracts/processor-v1.json
	processorV1 string
	//go:embed contracts/orchestrator-v1.json
	orchestratorV1 string
)

// Builtin is a contract that every mesh has.
type Builtin struct {
	Name, Bytes string
}

// Builtins returns the built-in contracts.
func Builtins() []Builtin {
	return []Builtin{{"planner-v1", plannerV1}, {"processor-v1", processorV1}, {"orchestrator-v1", orchestratorV1}}
}

// ParseBuiltin returns the built-in contract of a name.
func ParseBuiltin(name string) (Contract, bool) {
	for _, b := range Builtins() {
		if b.Name == name {
			c, defects := Parse([]byte(b.Bytes))
			return c, len(defects) == 0
		}
	}
	return Contract{}, false
}
