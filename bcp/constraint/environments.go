package constraint

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
)

// named is a name that expressions may use, and its type.
type named struct {
	name string
	of   *cel.Type // nil: no type of ours
}

// environments extend a language by names, such as those of a spec or a tool. One is kept
// for each set of names: making it costs more than compiling most expressions. It may be
// used concurrently.
type environments struct {
	language func() (*cel.Env, error)

	mu   sync.Mutex
	made map[string]*cel.Env
}

// maxEnvironments bounds those that are kept.
const maxEnvironments = 256

// with returns the environment of names.
func (e *environments) with(names []named) (*cel.Env, error) {
	options := make([]cel.EnvOption, len(names))
	var key strings.Builder
	for i, n := range names {
		if n.of == nil || n.name == "" {
			return nil, fmt.Errorf("variable %d has no name or no kind", i+1)
		}
		options[i] = cel.Variable(n.name, n.of)
		key.WriteString(n.name + "\x00" + n.of.String() + "\x00") // neither has a zero byte
	}
	e.mu.Lock()
	made := e.made[key.String()]
	e.mu.Unlock()
	if made != nil {
		return made, nil
	}
	language, err := e.language()
	if err != nil {
		return nil, errors.New("the language cannot be set up")
	}
	if made, err = language.Extend(options...); err != nil {
		return nil, errors.New("a name cannot be used in an expression")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made == nil || len(e.made) >= maxEnvironments {
		e.made = make(map[string]*cel.Env)
	}
	e.made[key.String()] = made
	return made, nil
}
