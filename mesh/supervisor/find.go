package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bcpmesh/bcpmesh/agents/process"
)

// Find says why a program cannot be started, in words for people, or returns nil. It
// uses Command and Dir of the program; environ is our own environment, as in [Config].
// It looks at the file and starts nothing: it does not check a program's needs, such as
// the interpreter of a script.
func Find(p Program, environ []string) error {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return errors.New("it names no program")
	}
	word, env := p.Command[0], process.Scrub(environ)
	file, err := process.LookUp(word, env)
	if err != nil {
		return fmt.Errorf("there is no program %q in PATH: install it, or write its path", word)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(p.Dir, file)
	}
	info, err := os.Stat(file)
	if err == nil {
		// A name without a slash would be looked up in our PATH.
		var absolute string
		if absolute, err = filepath.Abs(file); err == nil {
			_, err = exec.LookPath(absolute)
		}
	}
	switch {
	case info != nil && info.IsDir():
		return fmt.Errorf("%s is a folder", file)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %s: make it, or correct the path, which is relative to the folder of mesh.yaml", file)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is not executable: chmod +x %s", file, file)
	case err != nil:
		return fmt.Errorf("%s cannot be executed", file)
	}
	return nil
}
