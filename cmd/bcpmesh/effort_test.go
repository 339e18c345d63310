package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What a TestMain leaves out with -short is there, and no step of CI leaves it out.
func TestLeftOutTestsExist(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	declared, leftOut := map[string]bool{}, map[string]token.Position{} // by folder and name
	files := token.NewFileSet()
	noError(t, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go") || path.Dir(name) == "mesh/meshtest/effort":
			return nil
		}
		file, err := parser.ParseFile(files, filepath.Join("../..", name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				declared[path.Join(path.Dir(name), f.Name.Name)] = true
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			if called, ok := call.Fun.(*ast.SelectorExpr); !ok || called.Sel.Name != "LeaveOut" {
				return true
			}
			for _, argument := range call.Args {
				literal, ok := argument.(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: name each test that is left out", files.Position(argument.Pos()))
					continue
				}
				test, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Error(err)
				}
				leftOut[path.Join(path.Dir(name), test)] = files.Position(literal.Pos())
			}
			return true
		})
		return nil
	}))
	for name, at := range leftOut {
		if !declared[name] {
			t.Errorf("%s: there is no test %s", at, name)
		}
	}
	if len(leftOut) < 20 {
		t.Errorf("only %d tests were found", len(leftOut))
	}
	for _, program := range []string{".ci/run", ".ci/nightly"} {
		text := must(fs.ReadFile(root, program))(t)
		for n, line := range strings.Split(string(text), "\n") {
			if code, _, _ := strings.Cut(line, "#"); strings.Contains(code, "-short") {
				t.Errorf("%s:%d: -short leaves tests out", program, n+1)
			}
		}
	}
}
