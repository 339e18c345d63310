package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// What docs/limits.md says of a constant is what the source says.
func TestLimitsAreThoseOfTheSource(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	stated := regexp.MustCompile("`(accounts|agents/[a-z]+|bcp[a-z/]*|mesh[a-z/]*)`: |`([a-zA-Z]+) = ([^`]+)`").FindAllStringSubmatch(string(page), -1)
	folder, count := "", 0
	for _, m := range stated {
		if m[1] != "" {
			folder = m[1]
			continue
		}
		count++
		if got, err := constantOf(filepath.Join("..", "..", folder), m[2]); err != nil || got != m[3] {
			t.Errorf("%s: %s is %q, and the page says %q (%v)", folder, m[2], got, m[3], err)
		}
	}
	if count < 20 {
		t.Errorf("the page states %d constants", count)
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
