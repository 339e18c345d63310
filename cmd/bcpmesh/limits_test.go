package main_test

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

// Each row of docs/limits.md is a line of testdata/limits.txt: the row's first two cells, a
// tab, and the constants of the source that they tell in words, with their values. Who
// changes a constant sees here which row to change.
func TestLimitsAreThoseOfTheSource(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	stated, err := os.ReadFile("testdata/limits.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(stated)) {
		lines++
		row, constants, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !strings.Contains(string(page), "\n| "+row+" | ") {
			t.Errorf("the page has no row %s", row)
		}
		for _, stated := range strings.Split(constants, "; ") {
			name, want, ok := strings.Cut(stated, " = ")
			dot := strings.LastIndex(name, ".")
			if !ok {
				continue // the bound is not a constant
			}
			if got, err := constantOf(filepath.Join("../..", name[:dot]), name[dot+1:]); err != nil || got != want {
				t.Errorf("%s is %q, not %q (%v): change the row %s", name, got, want, err, row)
			}
		}
	}
	const heading = "\n| what | at most | beyond it |\n|---|"
	if rows := strings.Count(string(page), "\n| ") - strings.Count(string(page), heading); rows != lines || rows < 50 {
		t.Errorf("the page has %d rows, and %d lines say where they come from", rows, lines)
	}
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
