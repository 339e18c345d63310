package main

import (
	"bytes"
	_ "embed"
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
)

// What may be imported is in testdata/imports.txt, which says how it is read; the check parses the source, whatever its
// build tags say, so that an import under any tag counts.
//
//go:embed testdata/imports.txt
var rulesText string

const rulesFile = "testdata/imports.txt"

const modulePath = "github.com/bcpmesh/bcpmesh"

// A rule says what the non-test files of one folder may do. Nothing is allowed but what it names.
type rule struct {
	folder                              string
	core, program, testSupport, foreign bool     // its qualities
	internal                            []string // folders of this module
	external                            []string // import paths of other modules, each with what lies below it; "*" is any
}

// An exception allows one thing to one file. One that is not needed fails.
type exception struct{ file, what, reason string }

var (
	rules      []rule
	exceptions []exception
	onlyIn     = map[string][]string{} // folders that alone may import a module, also where a rule says "*"
	wordLists  = map[string][]string{} // what a name of the file stands for
	misread    []string                // lines of the file that say nothing
)

func init() {
	for line := range strings.Lines(strings.ReplaceAll(rulesText, "\n\t", " ")) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if name, list, ok := strings.Cut(line, " = "); ok {
			wordLists[name] = strings.Fields(list)
			continue
		}
		head, list, ok := strings.Cut(line, ":")
		about := strings.Fields(head)
		switch {
		case !ok:
			misread = append(misread, fmt.Sprintf("%s: a line without a colon: %s", rulesFile, line))
		case about[0] == "only":
			onlyIn[spelled(about[1:])[0]] = strings.Fields(list)
		case len(about) > 2 && about[1] == "may":
			for _, what := range spelled(about[2:]) {
				exceptions = append(exceptions, exception{about[0], what, strings.TrimSpace(list)})
			}
		default:
			rules = append(rules, readRule(about[0], about[1:], spelled(strings.Fields(list))))
		}
	}
}

// spelled puts what they stand for in place of names.
func spelled(words []string) []string {
	var all []string
	for _, word := range words {
		if list, named := wordLists[word]; named {
			all = append(all, list...)
		} else {
			all = append(all, word)
		}
	}
	return all
}

func readRule(folder string, qualities, allowed []string) rule {
	r := rule{folder: folder}
	for _, quality := range qualities {
		switch quality {
		case "core":
			r.core = true
		case "program":
			r.program = true
		case "support":
			r.testSupport = true
		case "foreign":
			r.foreign = true
		default:
			misread = append(misread, fmt.Sprintf("%s: %s: there is no quality %q", rulesFile, folder, quality))
		}
	}
	for _, word := range allowed {
		if isStandard(word) && word != "*" {
			r.internal = append(r.internal, word)
		} else {
			r.external = append(r.external, word)
		}
	}
	return r
}

// mustBeCore are the folders, with all below them, whose rules say core (or testSupport).
var mustBeCore = []string{"bcp", "subjects", "jetstream/verify"}

// Names that a package may not touch although it may import what they belong to.
var (
	coreForbidden = map[string][]string{
		"time":    {"After", "AfterFunc", "LoadLocation", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
		"strconv": {"AppendFloat", "FormatFloat", "ParseFloat"},
	}
	libraryForbidden = map[string][]string{
		"fmt": {"Print", "Printf", "Println"},
		"os":  {"Args", "Environ", "Exit", "Getenv", "LookupEnv", "Stderr", "Stdin", "Stdout"},
	}
	// durableWrites are for the one package that does them whole, and for tests.
	durableFolder   = "accounts/disk"
	durableWrites   = map[string][]string{"os": {"CreateTemp", "Rename"}}
	nowhereImported = []string{"log", "log/slog", "unsafe", "plugin"}
	integerLimit    = regexp.MustCompile(`^(Max|Min)(Int|Uint)[0-9]*$`)
)

// shapelessNames say nothing about what a package decides or keeps.
var shapelessNames = []string{"common", "helper", "helpers", "misc", "model", "models", "pkg", "shared", "type", "types", "util", "utils"}

// maxLines is the length that no Go file may reach.
const maxLines = 1000

// Among others: the dispatcher alone publishes calls.
//
// covers KER-29, KER-61
func TestLayering(t *testing.T) {
	t.Parallel()
	report(t, append(checkLayering(os.DirFS("../.."), rules, exceptions), misread...))
}

// layering gathers what is wrong with one tree.
type layering struct {
	rules   map[string]rule
	allowed map[exception]bool // file and what, without the reason: whether it was needed
	defects []string
}

// checkLayering parses every Go file below root and returns one line for each break of the rules.
func checkLayering(root fs.FS, table []rule, allowed []exception) []string {
	l := &layering{rules: map[string]rule{}, allowed: map[exception]bool{}}
	l.checkTable(table)
	for _, e := range allowed {
		if e.reason == "" {
			l.failf("exception for %s (%s): give a reason", e.file, e.what)
		}
		l.allowed[exception{file: e.file, what: e.what}] = false
	}
	found := map[string]bool{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			if folder := path.Dir(name); !found[folder] {
				found[folder] = true
				l.checkFolder(folder)
			}
			l.checkFile(root, name)
		}
		return nil
	})
	if err != nil {
		l.failf("%v", err)
	}
	for _, r := range table {
		if !found[r.folder] {
			l.failf("the rule for %s has no package: delete it", r.folder)
		}
	}
	for e, needed := range l.allowed {
		if !needed {
			l.failf("the exception for %s (%s) is not needed: delete it", e.file, e.what)
		}
	}
	return l.defects
}

func (l *layering) failf(format string, args ...any) {
	l.defects = append(l.defects, fmt.Sprintf(format, args...))
}

// checkTable judges the rules themselves.
func (l *layering) checkTable(table []rule) {
	for _, r := range table {
		if _, twice := l.rules[r.folder]; twice {
			l.failf("there are two rules for %s: keep one", r.folder)
		}
		l.rules[r.folder] = r
	}
	for _, r := range table {
		for _, folder := range mustBeCore {
			if within(r.folder, folder) && !r.core && !r.testSupport {
				l.failf("the rule for %s must say core: what decides has no effects", r.folder)
			}
		}
		for _, to := range r.internal {
			target, ok := l.rules[to]
			switch {
			case !ok:
				l.failf("the rule for %s allows %s, which has no rule: delete it there or write one", r.folder, to)
			case target.testSupport && !r.testSupport:
				l.failf("the rule for %s allows %s, which is for tests alone: delete it there", r.folder, to)
			case r.core && !target.core:
				l.failf("the rule for %s allows %s, which has effects: a core package imports core packages only", r.folder, to)
			}
		}
	}
}

func (l *layering) checkFolder(folder string) {
	if _, ok := l.rules[folder]; !ok {
		l.failf("%s: no rule: add one to cmd/bcpmesh/%s", folder, rulesFile)
	}
	for _, part := range strings.Split(folder, "/") {
		if slices.Contains(shapelessNames, part) {
			l.failf("%s: %q says nothing: name the package for what it decides or keeps", folder, part)
		}
		if strings.HasPrefix(part, "_") {
			l.failf("%s: a folder with an underscore hides from the compiler: rename it", folder)
		}
	}
}

func (l *layering) checkFile(root fs.FS, name string) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		l.failf("%v", err)
		return
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		l.failf("%v", err)
		return
	}
	if lines := bytes.Count(source, []byte("\n")); lines >= maxLines && !ast.IsGenerated(file) {
		l.failf("%s: %d lines: split it by noun, below %d", name, lines, maxLines)
	}
	f := &sourceFile{layering: l, name: name, rule: l.rules[path.Dir(name)], files: files, imports: map[string]string{}}
	isTest := strings.HasSuffix(name, "_test.go")
	for _, spec := range file.Imports {
		f.checkImport(spec, isTest)
	}
	if !isTest {
		ast.Inspect(file, f.checkNode)
	}
}

// sourceFile is one file that is being checked.
type sourceFile struct {
	*layering
	name    string
	rule    rule
	files   *token.FileSet
	imports map[string]string // local name to import path
}

func (f *sourceFile) at(node ast.Node) string {
	return fmt.Sprintf("%s:%d", f.name, f.files.Position(node.Pos()).Line)
}

// excepted reports whether this file may do what, and notes that it did.
func (f *sourceFile) excepted(what string) bool {
	e := exception{file: f.name, what: what}
	_, ok := f.allowed[e]
	if ok {
		f.allowed[e] = true
	}
	return ok
}

func (f *sourceFile) checkImport(spec *ast.ImportSpec, isTest bool) {
	imported, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		f.failf("%s: %v", f.at(spec), err)
		return
	}
	local := localName(imported)
	if spec.Name != nil {
		local = spec.Name.Name
	}
	f.imports[local] = imported
	if (imported == "github.com/nats-io/nats.go/jetstream") != (local == "natsjs") {
		f.failf("%s: %s is imported as %s: natsjs is the name of the upstream package, always and alone", f.at(spec), imported, local)
	}
	if isTest {
		return
	}
	if local == "." {
		f.failf("%s: dot import of %s hides where names come from: give it a name", f.at(spec), imported)
	}
	folder := path.Dir(f.name)
	inModule, isInternal := strings.CutPrefix(imported, modulePath+"/")
	switch {
	case isInternal:
		if !slices.Contains(f.rule.internal, inModule) && !f.excepted(inModule) {
			f.failf("%s: %s may not import %s: move the code to where the import is allowed, or change the rule with a reason", f.at(spec), folder, inModule)
		}
	case isStandard(imported):
		if slices.Contains(nowhereImported, imported) && !f.excepted(imported) {
			f.failf("%s: %s is imported nowhere in this module (logging is hclog)", f.at(spec), imported)
		} else if f.rule.core && !slices.Contains(wordLists["coreStandard"], imported) && !f.excepted(imported) {
			f.failf("%s: core package %s may not import %s: take the value as an argument instead", f.at(spec), folder, imported)
		}
	default:
		f.checkExternal(spec, folder, imported)
	}
}

func (f *sourceFile) checkExternal(spec *ast.ImportSpec, folder, imported string) {
	for module, folders := range onlyIn {
		if within(imported, module) && !slices.Contains(folders, folder) {
			f.failf("%s: only %s imports %s", f.at(spec), strings.Join(folders, ", "), module)
			return
		}
	}
	if !slices.ContainsFunc(f.rule.external, func(allowed string) bool { return allowed == "*" || within(imported, allowed) }) && !f.excepted(imported) {
		f.failf("%s: %s may not import %s: use what its rule allows, or change the rule with a reason", f.at(spec), folder, imported)
	}
}

// callSubject names what a call is published on. Whoever only gives the right to it is in
// package accounts.
const callSubject = modulePath + "/subjects.Call"

// checkNode judges what a file does beyond its imports.
func (f *sourceFile) checkNode(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.BasicLit:
		f.checkLiteral(n)
	case *ast.SelectorExpr:
		f.checkSelector(n)
		ast.Inspect(n.X, f.checkNode)
		return false
	case *ast.GoStmt:
		f.forbidInCore(n, "go", "starts a goroutine")
	case *ast.FuncDecl:
		if n.Recv == nil && n.Name.Name == "init" {
			f.forbidInCore(n, "init", "has an init function")
		}
	case *ast.Ident:
		switch n.Name {
		case "float32", "float64", "complex64", "complex128":
			f.forbidInCore(n, n.Name, "uses "+n.Name)
		}
	case *ast.CallExpr:
		if called, ok := n.Fun.(*ast.Ident); ok && (called.Name == "print" || called.Name == "println") {
			f.failf("%s: %s writes to stderr: log through hclog, or return a value", f.at(n), called.Name)
		}
	}
	return true
}

func (f *sourceFile) forbidInCore(node ast.Node, what, does string) {
	if f.rule.core && !f.excepted(what) {
		f.failf("%s: core package %s %s: a core package has no clock, goroutine, init or float", f.at(node), path.Dir(f.name), does)
	}
}

func (f *sourceFile) checkLiteral(literal *ast.BasicLit) {
	if literal.Kind == token.FLOAT || literal.Kind == token.IMAG {
		f.forbidInCore(literal, literal.Value, "has the float literal "+literal.Value)
	}
	if literal.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		f.failf("%s: %v", f.at(literal), err)
		return
	}
	folder := path.Dir(f.name)
	if strings.Contains(text, "bcp.v1") && folder != "subjects" && !f.rule.foreign {
		f.failf("%s: a subject literal: build and parse subjects in package subjects", f.at(literal))
	}
	if strings.Contains(text, "BCP_") && folder != "subjects" && !within(folder, "jetstream") && !f.rule.foreign {
		f.failf("%s: a stream literal: name streams in package jetstream", f.at(literal))
	}
}

func (f *sourceFile) checkSelector(selector *ast.SelectorExpr) {
	qualifier, ok := selector.X.(*ast.Ident)
	if !ok {
		return
	}
	imported, name := f.imports[qualifier.Name], selector.Sel.Name
	if imported == "" {
		return
	}
	qualified := imported + "." + name
	if slices.Contains(coreForbidden[imported], name) || imported == "math" && !integerLimit.MatchString(name) {
		f.forbidInCore(selector, qualified, "uses "+qualified)
	}
	if qualified == callSubject && f.rule.folder != "accounts" && !f.excepted(qualified) {
		f.failf("%s: only mesh/gateway/dispatch.go calls tools: have it make the call", f.at(selector))
	}
	if !f.rule.testSupport && f.rule.folder != durableFolder && slices.Contains(durableWrites[imported], name) {
		f.failf("%s: %s leaves half of a file after a crash, or none: write it with %s", f.at(selector), qualified, durableFolder)
	}
	if !f.rule.program && !f.rule.testSupport && slices.Contains(libraryForbidden[imported], name) {
		f.failf("%s: %s in a library: only a program prints, exits and reads its environment; pass the value in", f.at(selector), qualified)
	}
}

// within reports whether name is parent or lies below it.
func within(name, parent string) bool { return name == parent || strings.HasPrefix(name, parent+"/") }

// isStandard reports whether a path belongs to the standard library: its first part has no dot.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// localName is the name under which a file knows an import that it does not rename: the last part of the path, without
// its major version. It is a guess that holds for the standard library, where it matters.
func localName(imported string) string {
	name := path.Base(imported)
	if majorVersion.MatchString(name) {
		name = path.Base(path.Dir(imported))
	}
	return name
}
