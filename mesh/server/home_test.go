package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// No other file spells the names of the state folder: those that are words of the language only where a path is
// made of them.
func TestNamesHaveOneOwner(t *testing.T) {
	t.Parallel()
	const root = "../.."
	anywhere := []string{StateFolder, ReadyFile, ServerLock, GatewayLock}
	inPaths := []string{StreamFolder, GatewaysFolder}
	// Stock servers of a cluster have stores of their own, and no mesh's state. Definitions must not open the folder to an
	// agent, and the core imports no mesh.
	others := []string{filepath.Join(root, "mesh", "clustertest"), filepath.Join(root, "bcp", "definition")}
	files := 0
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if e.Name() == "testdata" || slices.Contains(others, name) || name != root && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == filepath.Join(root, "mesh", "server", "home.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		check := func(node ast.Node, names []string) {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return
			}
			if s, err := strconv.Unquote(literal.Value); err == nil && slices.Contains(names, s) {
				t.Errorf("%s spells %q: home.go of mesh/server has the name", set.Position(literal.Pos()), s)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			check(n, anywhere)
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Join" {
					for _, arg := range call.Args {
						check(arg, inPaths)
					}
				}
			}
			return true
		})
		return nil
	})
	stopIf(t, err != nil || files < 100, "looked at %d files: %v", files, err)
}
