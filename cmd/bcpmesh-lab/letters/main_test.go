package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode"
)

// The tables of package text are those that this program makes. With a Go of another Unicode there would be others.
func TestTablesAreGenerated(t *testing.T) {
	t.Chdir("../../../bcp/text")
	files := map[string][]byte{}
	for _, name := range []string{"tables.go", "tables.bin"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = content
	}
	if !strings.Contains(string(files["tables.go"]), `"`+unicode.Version+`"`) {
		return
	}
	source, data := generate()
	if !bytes.Equal(files["tables.go"], source) || !bytes.Equal(files["tables.bin"], data) {
		t.Error("bcp/text/tables.go or tables.bin is old: go generate ./bcp/text")
	}
}
