package main_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The layering check was seen red for every kind of break: each is planted into a tree that has all packages of the
// table and is otherwise sound.
func TestLayeringCheckSeesEachBreak(t *testing.T) {
	t.Parallel()
	const upstream = `"github.com/nats-io/nats.go/jetstream"`
	ours := func(folder string) string { return fmt.Sprintf("import %q\n", modulePath+"/"+folder) }
	tests := []struct {
		name, file, text string
		want             string // part of the one defect; empty where none may be found
	}{
		{"sound", "bcp/a.go", "import \"time\"\nimport \"math\"\nvar d = time.Second * math.MaxInt8\nvar t time.Time\n", ""},
		{"allowed internal", "subjects/a.go", ours("bcp"), ""},
		{"allowed external", "bcp/text/a.go", "import \"golang.org/x/text/unicode/norm\"\n", ""},
		{"tests are free", "bcp/a_test.go", ours("mesh/meshtest") + "import \"net\"\nimport \"time\"\nvar n = time.Now\nvar s = \"bcp.v1.ask\"\nfunc f() { go f() }\n", ""},
		{"testdata is not ours", "bcp/testdata/util/a.go", "no Go", ""},

		{"core imports effects", "bcp/a.go", ours("accounts"), "bcp may not import accounts"},
		{"agents import mesh", "agents/a.go", ours("mesh"), "agents may not import mesh"},
		{"agents import jetstream", "agents/a.go", ours("jetstream"), "agents may not import jetstream"},
		{"agents import accounts", "agents/a.go", ours("accounts"), "agents may not import accounts"},
		{"mesh imports agents", "mesh/a.go", ours("agents"), "mesh may not import agents"},
		{"production imports test support", "mesh/gateway/a.go", ours("mesh/meshtest"), "mesh/gateway may not import mesh/meshtest"},
		{"own prefix of another module", "bcp/a.go", "import \"github.com/bcpmesh/bcpmeshed/x\"\n", "bcp may not import github.com/bcpmesh/bcpmeshed/x"},
		{"core imports NATS", "subjects/a.go", "import \"github.com/nats-io/nats.go\"\n", "subjects may not import github.com/nats-io/nats.go"},
		{"prefix is no parent", "bcp/a.go", "import \"golang.org/x/textual\"\n", "may not import golang.org/x/textual"},
		{"server outside mesh/server", "mesh/gateway/a.go", "import \"github.com/nats-io/nats-server/v2/server\"\n", "only cmd/bcpmesh-lab/internal/bench, mesh/server imports"},
		{"server in a program", "cmd/bcpmesh/a.go", "import \"github.com/nats-io/nats-server/v2/server\"\n", "only cmd/bcpmesh-lab/internal/bench, mesh/server imports"},
		{"CEL in a program", "cmd/bcpmesh/a.go", "import \"cel.dev/cel-go/cel\"\n", "only bcp/constraint, cmd/bcpmesh-lab/agentdojo/score imports"},
		{"under a build tag", "bcp/a_windows.go", ours("mesh"), "bcp may not import mesh"},

		{"core imports net", "bcp/a.go", "import \"net\"\n", "may not import net:"},
		{"core imports os", "bcp/definition/a.go", "import \"os\"\n", "may not import os:"},
		{"core imports math/rand/v2", "bcp/a.go", "import \"math/rand/v2\"\n", "may not import math/rand/v2"},
		{"core imports crypto/rand", "bcp/a.go", "import \"crypto/rand\"\n", "may not import crypto/rand"},
		{"core imports syscall", "subjects/a.go", "import \"syscall\"\n", "may not import syscall"},
		{"core imports runtime", "bcp/a.go", "import \"runtime\"\n", "may not import runtime"},
		{"core imports encoding/json", "bcp/a.go", "import \"encoding/json\"\n", "may not import encoding/json"},
		{"log", "accounts/a.go", "import \"log\"\n", "log is imported nowhere"},
		{"slog", "cmd/bcpmesh/a.go", "import \"log/slog\"\n", "log/slog is imported nowhere"},
		{"unsafe", "mesh/a.go", "import \"unsafe\"\n", "unsafe is imported nowhere"},
		{"dot import", "accounts/a.go", "import . \"strings\"\n", "dot import of strings"},

		{"renames by itself", "mesh/a.go", "import \"os\"\nfunc f() { os.Rename(a, b) }\n", "os.Rename leaves half of a file"},
		{"a program renames by itself", "cmd/bcpmesh/a.go", "import \"os\"\nfunc f() { os.Rename(a, b) }\n", "os.Rename leaves half of a file"},
		{"renames where it may", "accounts/durable/a.go", "import \"os\"\nfunc f() { os.Rename(a, b) }\n", ""},

		{"a call beside the dispatcher", "mesh/gateway/a.go", ours("subjects") + "var s = subjects.Call(a, b, c)\n", "only mesh/gateway/dispatch.go calls tools"},
		{"a call of the mesh", "mesh/a.go", ours("subjects") + "var call = subjects.Call\n", "only mesh/gateway/dispatch.go calls tools"},
		{"the right to call", "accounts/a.go", ours("subjects") + "var s = subjects.Call(a, b, c)\n", ""},

		{"clock", "bcp/a.go", "import \"time\"\nvar now = time.Now\n", "uses time.Now"},
		{"clock under another name", "bcp/a.go", "import t \"time\"\nfunc f() { t.Sleep(1) }\n", "uses time.Sleep"},
		{"clock in a chain", "bcp/a.go", "import \"time\"\nfunc f() { _ = time.Now().UTC().Unix() }\n", "uses time.Now"},
		{"time zone files", "bcp/a.go", "import \"time\"\nfunc f() { time.LoadLocation(\"UTC\") }\n", "uses time.LoadLocation"},
		{"goroutine", "bcp/wire/a.go", "func f() { go f() }\n", "starts a goroutine"},
		{"init", "subjects/a.go", "func init() {}\n", "has an init function"},
		{"init is a method elsewhere", "subjects/a.go", "type t int\nfunc (t) init() {}\n", ""},
		{"float type", "bcp/a.go", "type bits float64\n", "uses float64"},
		{"float in a signature", "bcp/text/a.go", "func f(x []float32) {}\n", "uses float32"},
		{"float literal", "bcp/a.go", "const half = 0.5\n", "float literal 0.5"},
		{"float function", "bcp/a.go", "import \"math\"\nvar f = math.Log2\n", "uses math.Log2"},
		{"float parser", "bcp/a.go", "import \"strconv\"\nvar f = strconv.ParseFloat\n", "uses strconv.ParseFloat"},
		{"floats outside the core", "mesh/a.go", "import \"time\"\nvar f float64 = 0.5\nvar n = time.Now\n", ""},

		{"printing library", "accounts/a.go", "import \"fmt\"\nfunc f() { fmt.Println() }\n", "fmt.Println in a library"},
		{"library reads the environment", "mesh/a.go", "import \"os\"\nvar home = os.Getenv(\"HOME\")\n", "os.Getenv in a library"},
		{"program prints", "cmd/bcpmesh/a.go", "import \"fmt\"\nfunc f() { fmt.Println() }\n", ""},
		{"built-in print", "mesh/a.go", "func f() { println() }\n", "println writes to stderr"},

		{"subject literal", "mesh/gateway/a.go", "const s = \"bcp.v1.ask.main.mail\"\n", "a subject literal"},
		{"subject literal in jetstream", "jetstream/a.go", "const s = `bcp.v1.commit.0`\n", "a subject literal"},
		{"subject literal at home", "subjects/a.go", "const s = \"bcp.v1\"\n", ""},
		{"stream literal", "mesh/a.go", "const s = \"BCP_COMMIT\"\n", "a stream literal"},
		{"stream literal at home", "jetstream/a.go", "const s = \"BCP_COMMIT\"\n", ""},

		{"upstream without its name", "jetstream/a.go", "import " + upstream + "\n", "natsjs is the name of the upstream package"},
		{"upstream under another name", "jetstream/a_test.go", "import js " + upstream + "\n", "natsjs is the name of the upstream package"},
		{"upstream under its name", "jetstream/a.go", "import natsjs " + upstream + "\n", ""},
		{"our package under the upstream name", "mesh/a.go", "import natsjs \"" + modulePath + "/jetstream\"\n", "natsjs is the name of the upstream package"},

		{"as long as may be", "bcp/a.go", strings.Repeat("\n", 998), ""},
		{"too long", "bcp/a.go", strings.Repeat("\n", 999), "1000 lines"},
		{"too long a test", "bcp/a_test.go", strings.Repeat("\n", 999), "1000 lines"},
		{"too long, generated it says too late", "bcp/a.go", "\n// Code generated by gen.go; DO NOT EDIT.\n" + strings.Repeat("\n", 2000), "2003 lines"},
		{"does not parse", "bcp/a.go", "func", "a.go:"},
		{"package without a rule", "webshop/a.go", "", "webshop: no rule"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tree := soundTree(rules)
			plant(tree, test.file, test.text)
			expectDefect(t, checkLayering(tree, rules, nil), test.want)
		})
	}
	t.Run("what generators write", func(t *testing.T) {
		t.Parallel()
		tree := soundTree(rules)
		tree["bcp/tables.go"] = &fstest.MapFile{Data: []byte("// Code generated by gen.go; DO NOT EDIT.\n\npackage bcp\n" + strings.Repeat("\n", 2000))}
		expectDefect(t, checkLayering(tree, rules, nil), "")
	})
	for _, folder := range []string{"mesh/util", "helpers", "bcp/types", "bcp/common", "agents/models", "pkg/x", "examples/_old"} {
		t.Run("folder "+folder, func(t *testing.T) {
			t.Parallel()
			table := append(slices.Clone(rules), rule{folder: folder, core: within(folder, "bcp")})
			if defects := checkLayering(soundTree(table), table, nil); len(defects) != 1 || !strings.HasPrefix(defects[0], folder+": ") {
				t.Errorf("want one defect about %s, got %q", folder, defects)
			}
		})
	}
}

func TestLayeringCheckJudgesItsTable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		add  []rule
		want string
	}{
		{"two rules", []rule{{folder: "bcp", core: true}}, "two rules for bcp"},
		{"core without core", []rule{{folder: "bcp/planted"}}, "bcp/planted must say core"},
		{"verifier without core", []rule{{folder: "jetstream/verify/proof"}}, "jetstream/verify/proof must say core"},
		{"allows what has no rule", []rule{{folder: "mesh/barn", internal: []string{"attic"}}}, "allows attic, which has no rule"},
		{"allows test support", []rule{{folder: "mesh/barn", internal: []string{"mesh/meshtest"}}}, "which is for tests alone"},
		{"core allows effects", []rule{{folder: "bcp/planted", core: true, internal: []string{"accounts"}}}, "which has effects"},
		{"loop", []rule{{folder: "mesh/barn", internal: []string{"mesh/attic"}}, {folder: "mesh/attic", internal: []string{"mesh/barn"}}}, "the rules allow a loop: mesh/attic, mesh/barn, mesh/attic"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			table := append(slices.Clone(rules), test.add...)
			expectDefect(t, checkLayering(soundTree(table), table, nil), test.want)
		})
	}
	t.Run("stale rule", func(t *testing.T) {
		t.Parallel()
		table := append(slices.Clone(rules), rule{folder: "mesh/barn"})
		expectDefect(t, checkLayering(soundTree(rules), table, nil), "the rule for mesh/barn has no package")
	})
}

func TestLayeringCheckWantsEachException(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		exception  exception
		want       string
	}{
		{"needed", "type x float64\n", exception{"bcp/a.go", "float64", "a reason"}, ""},
		{"an import", "import \"io/fs\"\n", exception{"bcp/a.go", "io/fs", "a reason"}, ""},
		{"a name", "import \"time\"\nvar n = time.LoadLocation\n", exception{"bcp/a.go", "time.LoadLocation", "a reason"}, ""},
		{"not needed", "", exception{"bcp/a.go", "float64", "a reason"}, "is not needed"},
		{"without a reason", "type x float64\n", exception{"bcp/a.go", "float64", ""}, "give a reason"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tree := soundTree(rules)
			plant(tree, "bcp/a.go", test.text)
			expectDefect(t, checkLayering(tree, rules, []exception{test.exception}), test.want)
		})
	}
	t.Run("for another file", func(t *testing.T) {
		t.Parallel()
		tree := soundTree(rules)
		plant(tree, "bcp/a.go", "type x float64\n")
		defects := checkLayering(tree, rules, []exception{{"bcp/b.go", "float64", "a reason"}})
		if len(defects) != 2 {
			t.Errorf("want the float and the stale exception, got %q", defects)
		}
	})
}

// soundTree has an empty file for every rule.
func soundTree(table []rule) fstest.MapFS {
	tree := fstest.MapFS{}
	for _, r := range table {
		plant(tree, r.folder+"/doc.go", "")
	}
	return tree
}

// plant writes a file that begins with a package clause in its first line.
func plant(tree fstest.MapFS, file, text string) {
	tree[file] = &fstest.MapFile{Data: []byte("package " + strings.Trim(strings.ReplaceAll(path.Base(path.Dir(file)), "-", ""), "_") + "\n" + text)}
}
