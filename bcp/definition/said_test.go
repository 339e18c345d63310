package definition_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// site has nothing that is called missing, gone or closed.
var site = definition.Site{
	Find: func(command []string, _ bcp.Sandbox) error {
		if command[0] == "missing" {
			return errors.New("there is no \x1b[2Jsuch program")
		}
		return nil
	},
	Open: func(m bcp.Model) error {
		if m.Model == "closed" {
			return errors.New("no key for " + m.Name)
		}
		return nil
	},
	Read: func(tool, path string) error {
		if path == "gone" || tool == "mailbox" && path == "documents" {
			return errors.New("no such file or directory")
		}
		return nil
	},
	Key: func(place, _ string) error {
		if place == "env:GONE" {
			return errors.New("the environment variable GONE is not set")
		}
		return nil
	},
}

// said lists what is said of a folder, a line each, and fails where a mesh comes with errors or none without.
func said(t *testing.T, folder map[string][]byte) (string, *bcp.Mesh) {
	t.Helper()
	mesh, report := site.Load(folderOf(folder))
	failIf(t, (mesh == nil) != (len(report.Errors) > 0), "mesh %v, errors %v", mesh != nil, report.Errors)
	var lines strings.Builder
	for i, p := range slices.Concat(report.Errors, report.Warnings) {
		kind := "error"
		if i >= len(report.Errors) {
			kind = "warning"
		}
		fmt.Fprintf(&lines, "%s %s (%s)\n", kind, p, p.Code)
	}
	return lines.String(), mesh
}

// facts writes what is not zero in a value, a line each.
func facts(b *strings.Builder, at string, v reflect.Value) {
	_, prints := v.Interface().(fmt.Stringer)
	switch kind := v.Kind(); {
	case v.IsZero():
	case prints || kind == reflect.Bool || v.CanInt() || v.CanUint():
		fmt.Fprintf(b, "%s: %v\n", at, v)
	case kind == reflect.String:
		fmt.Fprintf(b, "%s: %q\n", at, v)
	case kind == reflect.Pointer:
		fmt.Fprintf(b, "%s: %v\n", at, v.Elem())
	case kind == reflect.Struct:
		for i := range v.NumField() {
			facts(b, at+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case kind == reflect.Slice:
		for i := range v.Len() {
			if at := fmt.Sprintf("%s[%d]", at, i); v.Index(i).IsZero() {
				fmt.Fprintf(b, "%s: zero\n", at)
			} else {
				facts(b, at, v.Index(i))
			}
		}
	case kind == reflect.Map:
		fmt.Fprintf(b, "%s: %v\n", at, v) // in the order of its keys
	default:
		panic(at)
	}
}

// Every wrong input is told with its place, code and key, and what was expected; so is what an operator should look at.
//
// A file of testdata/said has the files of a folder, and then cases. A case is files that come to the folder, or lines of its
// files that become others (old, =>, new), each named FILE: CASE, and then what is said; before it perhaps all that the mesh is.
// The flag -update rewrites them.
//
// covers P1.2, P1.3, P1.4, P4.2, P4.6, P8.2, P9.5, P14.2, SUB-21, SUB-22, SUB-23, SUB-24, SUB-25, SUB-26, SUB-28, SUB-29, SUB-30
// covers SUB-31, SUB-32, SUB-33, SUB-34, SUB-35, SUB-36, SUB-39, SUB-41, C-27, BCP-1, KER-26, KER-79, KER-80, KER-81
// covers P7.5, P8.1, P9.2, P11.6, P15.1, ALF-3, ALF-9, ALF-28, ALF-29, ALF-78, BCP-29, BCP-30, SUB-38, DUAL-1, DUAL-3, DUAL-11, DUAL-35, DUAL-77
func TestSaid(t *testing.T) {
	t.Parallel()
	cases := 0
	for _, name := range must(filepath.Glob("testdata/said/*.txtar")) {
		archive := must(txtar.ParseFile(name))
		folder, changed := map[string][]byte{}, map[string][]byte{}
		for i := range archive.Files {
			part := &archive.Files[i]
			file, title, isCase := strings.Cut(part.Name, ": ")
			old, by, isEdit := bytes.Cut(part.Data, []byte("=>\n"))
			switch {
			case file == "says" || file == "is":
				got, mesh := said(t, changed)
				if file == "is" {
					stopIf(t, mesh == nil, "%s: %s: %s", name, archive.Files[i-1].Name, got)
					var lines strings.Builder
					mesh.Files = nil
					facts(&lines, "", reflect.ValueOf(*mesh))
					got = lines.String()
				} else {
					changed = maps.Clone(folder)
					cases++
				}
				if *update {
					part.Data = []byte(got)
				}
				diff := cmp.Diff(string(part.Data), got)
				failIf(t, diff != "", "%s: %s (-want +got):\n%s", name, archive.Files[i-1].Name, diff)
			case !isCase:
				folder[file], changed[file] = part.Data, part.Data
			case isEdit:
				stopIf(t, bytes.Count(changed[file], old) != 1, "%s: %s: the lines are there %d times", name, title, bytes.Count(changed[file], old))
				changed[file] = bytes.Replace(changed[file], old, by, 1)
			default:
				changed[file] = part.Data
			}
		}
		if *update {
			noError(t, os.WriteFile(name, txtar.Format(archive), 0o644))
		}
	}
	failIf(t, cases < 350, "%d cases", cases)
}

// So are bytes that stand in no file of testdata, and keys that are unlike any.
//
// covers P1.2
func TestSaidOfBytes(t *testing.T) {
	t.Parallel()
	deep := "vocabularies: " + strings.Repeat("[", 10_010) + "\n"
	for text, want := range map[string]string{
		deep:                          "mesh.yaml:1:10015: expected at most 12 levels of lists and mappings (too_deep)\n",
		"\ufeffname: a\n":             "mesh.yaml:1:1: expected UTF-8 without a byte order mark (encoding)\n",
		"name: a\n# \u00e9\xff\n":     "mesh.yaml:2:4: expected UTF-8 (encoding)\n",
		"name: a\x01b\n":              "mesh.yaml:1:8: expected text without control characters (encoding)\n",
		"!":                           "mesh.yaml:1:1: tags (!) are not allowed: put text that begins with ! in quotes (forbidden_yaml)\n",
		"name: office\nwhatever: 1\n": `mesh.yaml:2:1: whatever: unknown key "whatever" of mesh.yaml; expected one of name, time_zone, `,
	} {
		got, _ := said(t, files("mesh.yaml", text, "agents/a.md", "---\nname: a\n---\n"))
		failIf(t, !strings.HasPrefix(got, "error "+want) || strings.Count(got, "\n") != 1, "%.40q: %s", text, got)
	}
}
