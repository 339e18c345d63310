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
	nearMark       = regexp.MustCompile(`^(?i:\s*covers?\b[:,]?\s*)(?:[A-Z]+-[A-Z0-9]|P[0-9])`)
	testFunction   = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`)
)

// checklist gathers what may be named, what is, and what is wrong.
type checklist struct {
	root    fs.FS
	wanted  []string        // ids that must be covered, in the order of the file
	covered map[string]bool // all ids that a mark may name, and whether one does
	defects []string
}

func (c *checklist) failf(format string, args ...any) {
	c.defects = append(c.defects, fmt.Sprintf(format, args...))
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
	c := &checklist{root: root, covered: map[string]bool{}}
	if c.readIDs(); len(c.defects) > 0 {
		return c.defects
	}
	c.readMarks()
	for _, id := range c.wanted {
		if !c.covered[id] {
			c.failf("%s: no test covers it: write one with the mark `// covers %s`", id, id)
		}
	}
	return c.defects
}

func (c *checklist) readIDs() {
	for section, rules := range protocolSections {
		if rules == 0 {
			c.covered[section] = false
		}
		for n := range rules {
			c.covered[section+"."+strconv.Itoa(n+1)] = false
		}
	}
	for _, line := range c.lines(requirementsFile) {
		if m := requirementRow.FindStringSubmatch(line); m != nil {
			ids := expandRange(m[1])
			if ids == nil {
				c.failf("%s: %s is neither an id nor a range: write BCP-1 or BCP-1..BCP-9", requirementsFile, m[1])
				return
			}
			for _, id := range ids {
				if _, twice := c.covered[id]; twice {
					c.failf("%s: %s is listed twice: number the second one anew", requirementsFile, id)
				}
				c.covered[id] = false
				if !informationRow.MatchString(line) {
					c.wanted = append(c.wanted, id)
				}
			}
		} else if m := conflictRow.FindStringSubmatch(line); m != nil { // a test pins the reading, or one seed wins again unseen
			c.covered[m[1]] = false
			if !strings.HasSuffix(line, ": no requirement") {
				c.wanted = append(c.wanted, m[1])
			}
		}
	}
	if len(c.wanted) == 0 && len(c.defects) == 0 {
		c.failf("%s: no requirement found: a line reads `- BCP-1: …`", requirementsFile)
	}
	for _, line := range c.lines(attacksFile) {
		if m := attackRow.FindStringSubmatch(line); m != nil {
			c.covered[m[1]] = false
		}
	}
}

// expandRange returns the ids of "BCP-7" or "BCP-7..BCP-9", and none of anything else.
func expandRange(entry string) (ids []string) {
	first, last, isRange := strings.Cut(entry, "..")
	if !isRange {
		last = first
	}
	a, b := requirementID.FindStringSubmatch(first), requirementID.FindStringSubmatch(last)
	if a == nil || b == nil || a[1] != b[1] {
		return nil
	}
	from, errFrom := strconv.Atoi(a[2])
	to, errTo := strconv.Atoi(b[2])
	if errFrom != nil || errTo != nil || to-from > 1000 || isRange && from == to {
		return nil
	}
	for n := from; n <= to; n++ {
		ids = append(ids, a[1]+"-"+strconv.Itoa(n))
	}
	return ids
}

// readMarks collects the marks of all tests: comments of *_test.go files that hold at least one test, and the comment
// lines above the first file of testscripts and vectors (.txt and .txtar below a testdata folder).
func (c *checklist) readMarks() {
	err := fs.WalkDir(c.root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inTestdata := slices.Contains(strings.Split(path.Dir(name), "/"), "testdata")
		switch {
		case entry.IsDir():
			if name != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
		case strings.HasSuffix(name, "_test.go") && !inTestdata:
			c.marksOfGoFile(name)
		case (strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".txtar")) && inTestdata:
			for i, line := range c.lines(name) {
				if strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --") {
					break
				}
				if text, isComment := strings.CutPrefix(line, "#"); isComment {
					c.mark(text, fmt.Sprintf("%s:%d", name, i+1), "#")
				}
			}
		}
		return nil
	})
	if err != nil {
		c.failf("%v", err)
	}
}

func (c *checklist) marksOfGoFile(name string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, strings.Join(c.lines(name), "\n"), parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.failf("cannot be read for marks: %v", err)
		return
	}
	hasTest := slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Recv == nil && testFunction.MatchString(f.Name.Name) && f.Name.Name != "TestMain"
	})
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text, isLine := strings.CutPrefix(comment.Text, "//")
			where := fmt.Sprintf("%s:%d", name, files.Position(comment.Pos()).Line)
			if isLine && c.mark(text, where, "//") && !hasTest {
				c.failf("%s: the file has marks but no test: move them to the tests that cover the ids", where)
			}
		}
	}
}

// mark reads one comment line without its comment sign, and reports whether it is a mark. A line that is nearly one is a
// defect, so that no id gets lost by a slip of the pen; prose that merely begins with the word is not.
func (c *checklist) mark(text, where, sign string) bool {
	if !nearMark.MatchString(text) {
		return false
	}
	ids, ok := strings.CutPrefix(text, " covers ")
	for id := range strings.SplitSeq(ids, ", ") {
		_, known := c.covered[id]
		switch {
		case !ok || id == "" || strings.ContainsAny(id, " ,:;") || strings.Contains(id, ".."):
			c.failf("%s: a mark reads `%s covers BCP-34, P3.3, A-ORD`: one line, ids separated by comma and space, nothing behind", where, sign)
			return false
		case !known:
			c.failf("%s: mark names %q, which is no id of %s or %s and no rule of the protocol: correct the id",
				where, id, requirementsFile, attacksFile)
		default:
			c.covered[id] = true
		}
	}
	return true
}

func (c *checklist) lines(name string) []string {
	data, err := fs.ReadFile(c.root, name)
	if err != nil {
		c.failf("%v", err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
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
		tree := fstest.MapFS{}
		for name, text := range sound {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		tree[test.file] = &fstest.MapFile{Data: []byte(test.text)}
		expectDefect(t, test.name, checkRequirements(tree), test.want)
	}
	for _, name := range []string{requirementsFile, attacksFile} {
		tree := fstest.MapFS{}
		for other, text := range sound {
			if other != name {
				tree[other] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		defects := checkRequirements(tree)
		failIf(t, !slices.ContainsFunc(defects, func(d string) bool { return strings.Contains(d, name) }), "without %s: no defect names it: %q", name, defects)
	}
}

// expectDefect wants exactly one defect that contains want, or none at all where want is empty.
func expectDefect(t *testing.T, name string, defects []string, want string) {
	t.Helper()
	found := strings.Join(defects, "\n")
	failIf(t, want == "" && found != "" || want != "" && (len(defects) != 1 || !strings.Contains(found, want)), "%s: want one defect with %q, got:\n%s", name, want, found)
}
