package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each limit of docs/limits.md is a line of testdata/limits.txt: what is limited and how far, a
// tab, and the constants of the source that say so, with their values. Who changes a constant
// sees here which limit to change.
func TestLimitsAreThoseOfTheSource(t *testing.T) {
	page := must(os.ReadFile("../../docs/limits.md"))(t)
	stated := must(os.ReadFile("testdata/limits.txt"))(t)
	lines := 0
	for line := range strings.Lines(string(stated)) {
		lines++
		limit, constants, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		failIf(t, !strings.Contains(string(page), "\n- "+limit+". *"), "the page has no limit %s", limit)
		for _, stated := range strings.Split(constants, "; ") {
			name, want, ok := strings.Cut(stated, " = ")
			dot := strings.LastIndex(name, ".")
			if !ok {
				continue // the bound is not a constant
			}
			got, err := constantOf(filepath.Join("../..", name[:dot]), name[dot+1:])
			failIf(t, err != nil || got != want, "%s is %q, not %q (%v): change the limit %s", name, got, want, err, limit)
		}
	}
	limits := strings.Count(string(page), "\n- ")
	failIf(t, limits != lines || limits < 50, "the page has %d limits, and %d lines say where they come from", limits, lines)
}

// constantOf is what a constant of a folder's files is set to, as it is written.
func constantOf(folder, name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		for _, d := range parsed.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				if value.Names[0].Name == name && len(value.Values) == 1 {
					return types.ExprString(value.Values[0]), nil
				}
			}
		}
	}
	return "", fmt.Errorf("%s has no such constant", folder)
}
