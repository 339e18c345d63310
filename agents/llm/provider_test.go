package llm

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

func fenced(t *testing.T, text string) Data {
	t.Helper()
	f := must(guard.Fence(text, guard.Web))
	return Data{f}
}

// covers ALF-22
func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	ask := Turn{Role: User, Parts: []Part{Constant("do"), fenced(t, "x")}}
	tool := Tool{Name: "t", Description: Constant("d")}
	good := Request{
		Model: "m", System: []Part{FromOperator("rules")}, Tools: []Tool{tool}, Force: "t",
		Turns: []Turn{ask, {Role: Model, Parts: []Part{NewSaid("")}, Calls: []Call{{}}}, {Role: User, Results: []Result{{Parts: []Part{Constant("ok"), fenced(t, "y")}}}}},
	}
	noError(t, good.Check())
	for name, change := range map[string]func(r *Request){
		"no model":                   func(r *Request) { r.Model = "" },
		"fenced system text":         func(r *Request) { r.System = []Part{fenced(t, "x")} },
		"the model's own as a rule":  func(r *Request) { r.System = []Part{NewSaid("x")} },
		"an empty rule":              func(r *Request) { r.System = []Part{Instruction{}} },
		"a forced tool that is none": func(r *Request) { r.Force = "u" },
		"a tool twice":               func(r *Request) { r.Tools = []Tool{tool, tool} },
		"no role":                    func(r *Request) { r.Turns = []Turn{{}} },
		"an unknown role":            func(r *Request) { r.Turns = []Turn{{Role: 3}} },
		"data that is not fenced":    func(r *Request) { r.Turns = []Turn{{Role: User, Parts: []Part{Data{}}}} },
		"a result that is not fenced": func(r *Request) {
			r.Turns = []Turn{{Role: User, Results: []Result{{Parts: []Part{Data{}}}}}}
		},
		"a result of the model's own": func(r *Request) { r.Turns = []Turn{{Role: User, Results: []Result{{Parts: []Part{NewSaid("x")}}}}} },
		"an empty instruction":        func(r *Request) { r.Turns = []Turn{{Role: User, Parts: []Part{Instruction{}}}} },
		"no part":                     func(r *Request) { r.Turns = []Turn{{Role: User, Parts: []Part{nil}}} },
		"the user calls":              func(r *Request) { r.Turns = []Turn{{Role: User, Calls: []Call{{}}}} },
		"the model has results":       func(r *Request) { r.Turns = []Turn{{Role: Model, Results: []Result{{}}}} },
		"the model instructs":         func(r *Request) { r.Turns = []Turn{{Role: Model, Parts: []Part{Constant("x")}}} },
		"the user said":               func(r *Request) { r.Turns = []Turn{{Role: User, Parts: []Part{NewSaid("x")}}} },
	} {
		r := good
		change(&r)
		failIf(t, r.Check() == nil, "%s is sent", name)
		script := &Script{Turns: make([]ScriptTurn, 1)}
		_, err := script.Do(t.Context(), &r)
		failIf(t, err == nil || len(script.Requests) > 0, "%s: the script answers it", name)
	}
}

// A string that is no constant does not compile into a prompt.
//
// covers ALF-22
func TestStringsAreNoParts(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(files, "gc", compiled(t)), Error: func(error) {}}
	for body, want := range map[string]bool{
		`_ = []llm.Part{llm.Constant("do"), llm.FromOperator(text), llm.Data{Fenced: fenced}}`: true,
		`_ = []llm.Part{text}`:                     false,
		`_ = []llm.Part{"do"}`:                     false,
		`_ = llm.Constant(text)`:                   false,
		`_ = llm.Instruction{text}`:                false,
		`_ = llm.Data{Fenced: text}`:               false,
		`_ = guard.Fenced{text: text}`:             false,
		`type mine struct{}; _ = llm.Part(mine{})`: false,
	} {
		source := "package p\nimport (\"github.com/bcpmesh/bcpmesh/agents/llm\"; \"github.com/bcpmesh/bcpmesh/bcp/guard\")\nfunc f(text string, fenced guard.Fenced) { _ = fenced; var _ llm.Part; " + body + " }"
		file, err := parser.ParseFile(files, "p.go", source, 0)
		noError(t, err)
		_, err = config.Check("p", files, []*ast.File{file}, nil)
		failIf(t, (err == nil) != want, "%s: %v", body, err)
	}
}

// compiled finds what the compiler exports of a package.
func compiled(t *testing.T) importer.Lookup {
	t.Helper()
	out := must(exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", ".").Output())
	return func(path string) (io.ReadCloser, error) {
		for line := range strings.Lines(string(out)) {
			if name, file, _ := strings.Cut(strings.TrimSpace(line), "="); name == path {
				return os.Open(file)
			}
		}
		return nil, fs.ErrNotExist
	}
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var failIf, noError, stopIf = bcptest.FailIf, bcptest.NoError, bcptest.StopIf
