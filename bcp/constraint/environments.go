package constraint

import (
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
)

// environments keeps an environment for each set of names, such as those of a spec or a
// tool: making one costs more than compiling most expressions. It may be used
// concurrently.
type environments struct {
	mu   sync.Mutex
	made map[string]*cel.Env
}

// maxEnvironments bounds those that are kept.
const maxEnvironments = 256

// find returns the environment of a key, which it makes if there is none.
func (e *environments) find(key string, create func() (*cel.Env, error)) (*cel.Env, error) {
	e.mu.Lock()
	made := e.made[key]
	e.mu.Unlock()
	if made != nil {
		return made, nil
	}
	made, err := create()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made == nil || len(e.made) >= maxEnvironments {
		e.made = make(map[string]*cel.Env)
	}
	e.made[key] = made
	return made, nil
}

// keyOf spells names and kinds; no name has a zero byte.
func keyOf[T any](names []T, of func(*T) (string, byte)) string {
	var b strings.Builder
	for i := range names {
		name, kind := of(&names[i])
		b.WriteString(name)
		b.Write([]byte{0, kind})
	}
	return b.String()
}
