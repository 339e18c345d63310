package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// The checklist of this project is docs/REQUIREMENTS.md. A test says which of its statements it protects in one line
// above it, `// covers BCP-34, P3.3, A-ORD`. The check in this file keeps the two in step and knows every id that a mark
// may name.

const (
	requirementsFile = "docs/REQUIREMENTS.md"
	attacksFile      = "docs/ATTACKS.md"
)

// protocolSections says how many numbered rules each section of the protocol has. A section with none is named bare.
var protocolSections = map[string]int{
	"P0": 0, "P1": 5, "P2": 8, "P3": 12, "P4": 7, "P5": 0, "P6": 4, "P7": 10, "P8": 3, "P9": 6, "P10": 0, "P11": 7, "P12": 5, "P13": 6, "P14": 4, "P15": 6, "P16": 3,
}

var (
	requirementRow = regexp.MustCompile(`^- ((?:BCP|SUB|ALF|DUAL|KER)-[1-9][0-9.A-Z-]*)(?: \(none\))?: `) // an id, or a range of them
	informationRow = regexp.MustCompile(`^- [A-Z]+-[0-9]+ \(none\): INFO/LIMIT: `)                        // says nothing that could be seen
	conflictRow    = regexp.MustCompile(`^- (C-[1-9][0-9]*) `)
	attackRow      = regexp.MustCompile(`^- (A-[A-Z0-9]+): `)
	requirementID  = regexp.MustCompile(`^(BCP|SUB|ALF|DUAL|KER)-([1-9][0-9]*)$`)
	markLine       = regexp.MustCompile(`^covers (\S.*)$`)
	nearMark       = regexp.MustCompile(`^(?i:\s*covers?\b[:,]?\s*)(?:[A-Z]+-[A-Z0-9]|P[0-9])`)
	testFunction   = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`)
)

// mark is one id that a test names, and where.
type mark struct{ id, where string }

// knownIDs are all ids that a mark may name; wanted, in the order of the file, are those that must be covered.
type knownIDs struct {
	wanted []string
	all    map[string]bool
}

func TestRequirementsAreCovered(t *testing.T) {
	t.Parallel()
	report(t, checkRequirements(os.DirFS("../..")))
}

func report(t *testing.T, defects []string) {
	t.Helper()
	for _, d := range defects {
		t.Error(d)
	}
}

// checkRequirements reads the two documents and every test below root, and returns one line for each defect.
func checkRequirements(root fs.FS) []string {
	var defects []string
	known, err := readKnownIDs(root)
	if err != nil {
		return []string{err.Error()}
	}
	marks, more := readMarks(root)
	defects = append(defects, more...)
	covered := map[string]bool{}
	for _, m := range marks {
		if !known.all[m.id] {
			defects = append(defects, fmt.Sprintf("%s: mark names %q, which is no id of %s or %s and no rule of the protocol: correct the id",
				m.where, m.id, requirementsFile, attacksFile))
			continue
		}
		covered[m.id] = true
	}
	for _, id := range known.wanted {
		if !covered[id] {
			defects = append(defects, fmt.Sprintf("%s: no test covers it: write one with the mark `// covers %s`", id, id))
		}
	}
	return defects
}

func readKnownIDs(root fs.FS) (knownIDs, error) {
	known := knownIDs{all: map[string]bool{}}
	for section, rules := range protocolSections {
		if rules == 0 {
			known.all[section] = true
		}
		for n := range rules {
			known.all[section+"."+strconv.Itoa(n+1)] = true
		}
	}
	requirements, err := readLines(root, requirementsFile)
	if err != nil {
		return known, err
	}
	for _, line := range requirements {
		if m := requirementRow.FindStringSubmatch(line); m != nil {
			ids, ok := expandRange(m[1])
			if !ok {
				return known, fmt.Errorf("%s: %s is neither an id nor a range: write BCP-1 or BCP-1..BCP-9", requirementsFile, m[1])
			}
			for _, id := range ids {
				if known.all[id] {
					return known, fmt.Errorf("%s: %s is listed twice: number the second one anew", requirementsFile, id)
				}
				known.all[id] = true
				if !informationRow.MatchString(line) {
					known.wanted = append(known.wanted, id)
				}
			}
		} else if m := conflictRow.FindStringSubmatch(line); m != nil { // a test pins the reading, or one seed wins again unseen
			known.all[m[1]] = true
			if !strings.HasSuffix(line, ": no requirement") {
				known.wanted = append(known.wanted, m[1])
			}
		}
	}
	if len(known.wanted) == 0 {
		return known, fmt.Errorf("%s: no requirement found: a line reads `- BCP-1: …`", requirementsFile)
	}
	attacks, err := readLines(root, attacksFile)
	if err != nil {
		return known, err
	}
	for _, line := range attacks {
		if m := attackRow.FindStringSubmatch(line); m != nil {
			known.all[m[1]] = true
		}
	}
	return known, nil
}

// expandRange returns the ids of "BCP-7" or "BCP-7..BCP-9".
func expandRange(entry string) ([]string, bool) {
	first, last, isRange := strings.Cut(entry, "..")
	if !isRange {
		last = first
	}
	a, b := requirementID.FindStringSubmatch(first), requirementID.FindStringSubmatch(last)
	if a == nil || b == nil || a[1] != b[1] {
		return nil, false
	}
	from, errFrom := strconv.Atoi(a[2])
	to, errTo := strconv.Atoi(b[2])
	if errFrom != nil || errTo != nil || from > to || to-from > 1000 || isRange && from == to {
		return nil, false
	}
	var ids []string
	for n := from; n <= to; n++ {
		ids = append(ids, a[1]+"-"+strconv.Itoa(n))
	}
	return ids, true
}

// readMarks collects the marks of all tests: comments of *_test.go files that hold at least one test, and the comment
// lines above the first file of testscripts and vectors (.txt and .txtar below a testdata folder).
func readMarks(root fs.FS) (marks []mark, defects []string) {
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inTestdata := slices.Contains(strings.Split(path.Dir(name), "/"), "testdata")
		switch {
		case entry.IsDir():
			if name != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		case strings.HasSuffix(name, "_test.go") && !inTestdata:
			m, d := marksOfGoFile(root, name)
			marks, defects = append(marks, m...), append(defects, d...)
		case (strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".txtar")) && inTestdata:
			m, d := marksOfScript(root, name)
			marks, defects = append(marks, m...), append(defects, d...)
		}
		return nil
	})
	if err != nil {
		defects = append(defects, err.Error())
	}
	return marks, defects
}

func marksOfGoFile(root fs.FS, name string) (marks []mark, defects []string) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, []string{err.Error()}
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, []string{"cannot be read for marks: " + err.Error()}
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text, isLine := strings.CutPrefix(comment.Text, "//")
			if !isLine {
				continue
			}
			where := fmt.Sprintf("%s:%d", name, files.Position(comment.Pos()).Line)
			m, d := parseMark(text, where, "//")
			marks, defects = append(marks, m...), append(defects, d...)
		}
	}
	hasTest := slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Recv == nil && testFunction.MatchString(f.Name.Name) && f.Name.Name != "TestMain"
	})
	if len(marks) > 0 && !hasTest {
		defects = append(defects, marks[0].where+": the file has marks but no test: move them to the tests that cover the ids")
		marks = nil
	}
	return marks, defects
}

func marksOfScript(root fs.FS, name string) (marks []mark, defects []string) {
	lines, err := readLines(root, name)
	if err != nil {
		return nil, []string{err.Error()}
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --") {
			break
		}
		if text, isComment := strings.CutPrefix(line, "#"); isComment {
			m, d := parseMark(text, fmt.Sprintf("%s:%d", name, i+1), "#")
			marks, defects = append(marks, m...), append(defects, d...)
		}
	}
	return marks, defects
}

// parseMark reads one comment line without its comment sign. A line that is nearly a mark is a defect, so that no id
// gets lost by a slip of the pen; prose that merely begins with the word is not.
func parseMark(text, where, sign string) ([]mark, []string) {
	malformed := []string{fmt.Sprintf("%s: a mark reads `%s covers BCP-34, P3.3, A-ORD`: one line, ids separated by comma and space, nothing behind", where, sign)}
	m := markLine.FindStringSubmatch(strings.TrimPrefix(text, " "))
	if m == nil || !strings.HasPrefix(text, " ") || !nearMark.MatchString(text) {
		if nearMark.MatchString(text) {
			return nil, malformed
		}
		return nil, nil
	}
	var marks []mark
	for _, id := range strings.Split(m[1], ", ") {
		if id == "" || strings.ContainsAny(id, " ,:;") || strings.Contains(id, "..") {
			return nil, malformed
		}
		marks = append(marks, mark{id, where})
	}
	return marks, nil
}

func readLines(root fs.FS, name string) ([]string, error) {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), nil
}

// A gate that was never seen red is none: every kind of defect is planted into a small sound tree.
func TestRequirementsCheckSeesEachDefect(t *testing.T) {
	t.Parallel()
	sound := map[string]string{
		requirementsFile:          "- BCP-1..BCP-2: one, two\n- SUB-7 (none): INFO/LIMIT: a plan\n- C-1 topic\n",
		attacksFile:               "- A-ORD: permutes\n",
		"bcp/a_test.go":           "package bcp\n\n// covers BCP-1, P3.10, P0, A-ORD, C-1\nfunc TestA(t *testing.T) {}\n",
		"cmd/x/testdata/s.txtar":  "# covers BCP-2, P11.5\nexec true\n-- f --\n# covers BCP-999\n",
		"bcp/prose_test.go":       "package bcp\n\n// What this file\n// covers is not an id.\nvar raw = `\n// covers BCP-998\n`\n",
		"bcp/testdata/x_test.go":  "// covers BCP-997",
		".hidden/h_test.go":       "no Go at all",
		"bcp/notatestdatanote.md": "# covers BCP-996",
	}
	tests := []struct {
		name, file, text string
		want             string // part of the one defect; empty where none may be found
	}{
		{"sound", "bcp/b_test.go", "package bcp\n", ""},
		{"no test", requirementsFile, "- BCP-1..BCP-3: one, two\n- C-1 topic\n", "BCP-3: no test covers it"},
		{"range backwards", requirementsFile, "- BCP-9..BCP-3: MUST\n", "BCP-9..BCP-3 is neither an id nor a range"},
		{"a conflict that no test pins", requirementsFile, "- BCP-1..BCP-2: one, two\n- C-1 topic\n- C-2 topic\n", "C-2: no test covers it"},
		{"unknown requirement", "bcp/b_test.go", "package bcp\n\n// covers BCP-3\nfunc TestB() {}\n", `"BCP-3", which is no id`},
		{"unknown section", "bcp/b_test.go", "package bcp\n\n// covers P16\nfunc TestB() {}\n", `"P16", which is no id`},
		{"unknown id in a script", "cmd/x/testdata/t.txt", "# covers KER-1\n", `"KER-1", which is no id`},
		{"comma without space", "bcp/b_test.go", "package bcp\n\n// covers BCP-1,BCP-2\nfunc TestB() {}\n", "b_test.go:3: a mark reads"},
		{"colon", "bcp/b_test.go", "package bcp\n\n// covers: BCP-1\nfunc TestB() {}\n", "b_test.go:3: a mark reads"},
		{"range in a mark", "bcp/b_test.go", "package bcp\n\n// covers BCP-1..BCP-2\nfunc TestB() {}\n", "b_test.go:3: a mark reads"},
		{"marks without a test", "bcp/b_test.go", "package bcp\n\n// covers BCP-1\nfunc helper() {}\n", "marks but no test"},
		{"unreadable test", "bcp/b_test.go", "package", "cannot be read for marks"},
		{"requirement twice", requirementsFile, "- BCP-1: MUST\n- BCP-1: MUST\n", "BCP-1 is listed twice"},
		{"no requirements", requirementsFile, "nothing\n", "no requirement found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tree := fstest.MapFS{}
			for name, text := range sound {
				tree[name] = &fstest.MapFile{Data: []byte(text)}
			}
			tree[test.file] = &fstest.MapFile{Data: []byte(test.text)}
			expectDefect(t, checkRequirements(tree), test.want)
		})
	}
	t.Run("missing documents", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{requirementsFile, attacksFile} {
			tree := fstest.MapFS{}
			for other, text := range sound {
				if other != name {
					tree[other] = &fstest.MapFile{Data: []byte(text)}
				}
			}
			if defects := checkRequirements(tree); !slices.ContainsFunc(defects, func(d string) bool { return strings.Contains(d, name) }) {
				t.Errorf("without %s: no defect names it: %q", name, defects)
			}
		}
	})
}

// expectDefect wants exactly one defect that contains want, or none at all where want is empty.
func expectDefect(t *testing.T, defects []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(defects) > 0:
		t.Errorf("a sound tree was refused:\n%s", strings.Join(defects, "\n"))
	case want != "" && (len(defects) != 1 || !strings.Contains(defects[0], want)):
		t.Errorf("want one defect with %q, got %d:\n%s", want, len(defects), strings.Join(defects, "\n"))
	}
}
