package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/process"
)

// Find says why a program cannot be started, in words for people, or returns nil. It
// uses Command and Dir of the program; environ is our own environment, as in [Config].
// It looks at files and starts nothing: beyond the file and the interpreter of a
// script it does not check a program's needs.
func Find(p Program, environ []string) error {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return errors.New("it names no program")
	}
	word, env := p.Command[0], process.Scrub(environ)
	file, err := process.LookUp(word, env)
	if err != nil {
		return fmt.Errorf("there is no program %q in PATH: install it, or write its path", word)
	}
	file = fromFolder(file, p.Dir)
	if err := executable(file); err != nil {
		return describe(err, file)
	}
	interpreter, argument := readInterpreter(file)
	switch {
	case interpreter == "":
		return nil
	case strings.HasSuffix(interpreter+argument, "\r"):
		return fmt.Errorf("the first line of %s ends with a carriage return: write its lines with line feeds alone", file)
	case executable(fromFolder(interpreter, p.Dir)) != nil:
		return fmt.Errorf("%s is to be run by %q, as its first line says, which cannot be started", file, interpreter)
	}
	if filepath.Base(interpreter) == "env" && argument != "" && !strings.HasPrefix(argument, "-") && !strings.ContainsAny(argument, " \t=/") {
		if _, err := process.LookUp(argument, env); err != nil {
			return fmt.Errorf("%s is to be run by %q, as its first line says, and there is no such program in PATH", file, argument)
		}
	}
	return nil
}

func fromFolder(file, folder string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(folder, file)
}

// executable says why a file cannot be executed.
func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errFolder
	}
	// A name without a slash would be looked up in our PATH.
	absolute, err := filepath.Abs(file)
	if err == nil {
		_, err = exec.LookPath(absolute)
	}
	return err
}

var errFolder = errors.New("it is a folder")

func describe(err error, file string) error {
	switch {
	case errors.Is(err, errFolder):
		return fmt.Errorf("%s is a folder", file)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %s: make it, or correct the path, which is relative to the folder of mesh.yaml", file)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is not executable: chmod +x %s", file, file)
	}
	return fmt.Errorf("%s cannot be executed", file)
}

// readInterpreter reads the first line of a script: the program that runs it, and the
// rest of the line. Other files have none.
func readInterpreter(file string) (interpreter, argument string) {
	f, err := os.Open(file)
	if err != nil {
		return "", "" // it may be executed and not read
	}
	defer f.Close()
	// As much as kernels look at.
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	rest, isScript := strings.CutPrefix(line, "#!")
	if !isScript || err != nil && !errors.Is(err, io.EOF) {
		return "", ""
	}
	interpreter, argument, _ = strings.Cut(strings.Trim(rest, " \t\n"), " ")
	return interpreter, strings.Trim(argument, " \t")
}
