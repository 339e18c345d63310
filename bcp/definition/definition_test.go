package definition_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

func files(pairs ...string) map[string][]byte {
	m := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = []byte(pairs[i+1])
	}
	return m
}

func mustParse(t *testing.T, pairs ...string) (*bcp.Mesh, definition.Report) {
	t.Helper()
	mesh, report := definition.Parse(files(pairs...))
	stopIf(t, mesh == nil || !report.OK(), "does not load: %v", report.Errors)
	return mesh, report
}

// codes returns the codes of problems, in order.
func codes(problems []definition.Problem) []string {
	var result []string
	for _, p := range problems {
		result = append(result, p.Code)
	}
	return result
}

func readFile(name string) string { return string(must(os.ReadFile(name))) }

// The two definitions of the seed's "Agent Definition Examples" load unchanged.
//
// covers SUB-6, SUB-7, SUB-20, SUB-22, SUB-23, SUB-24, SUB-25, SUB-26, SUB-27, SUB-118, SUB-119, SUB-135, P1.2
func TestSeedExamplesLoad(t *testing.T) {
	t.Parallel()
	mesh, report := definition.Load(os.DirFS("testdata/seed"))
	stopIf(t, mesh == nil, "does not load: %v", report.Errors)
	for _, a := range mesh.Agents {
		content := readFile("testdata/seed/" + a.File)
		failIf(t, !strings.HasSuffix(content, "\n---\n"+a.Prompt),
			"%s: the prompt is not what stands behind the front matter, byte for byte", a.Name)
	}
	question := func(id, text string, words int, format bcp.Format) bcp.Question {
		return bcp.Question{ID: id, Question: text, MaxWords: words, ExpectedFormat: format}
	}
	want := bcp.Channel{
		ChannelKey:  bcp.ChannelKey{Controller: "main", Reader: "researcher"},
		MaxCategory: 2, Budget: 1000 * bcp.Bit, MaxCat2Queries: 10,
		MaxEscalations: 2, MaxJustificationWords: 50, MaxJustificationChars: 400, BaseCategory: 2, MaxRetries: 3, QueryTTL: 15 * time.Minute,
		WindowBudget: 10_000 * bcp.Bit, BudgetWindow: 24 * time.Hour, PushBudget: 1000 * bcp.Bit, AlertBits: 800 * bcp.Bit,
		MaxPendingApprovals: 20, ApprovalTTL: 24 * time.Hour, Approvers: []bcp.AgentName{"operator"},
		Subscriptions: []bcp.Subscription{
			{ID: "research-findings", Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{
				question("topic", "What is the topic?", 10, bcp.FormatShortText),
				question("finding", "What is the key finding?", 50, bcp.FormatShortText),
				question("relevance", "Relevance score", 1, bcp.FormatInteger),
			}}},
			{ID: "research-alerts", Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{
				{Name: "has_breaking_news", Type: bcp.TypeBoolean},
				{Name: "priority", Type: bcp.TypeEnum, Values: []string{"low", "medium", "high", "critical"}},
			}}},
		},
	}
	expect(t, cmp.Diff([]bcp.Channel{want}, mesh.Channels), "", "channel")
	reader, _ := mesh.Agent("researcher")
	reader.Prompt = ""
	wantReader := bcp.Agent{
		Name: "researcher", Network: "outbound", Encoding: bcp.JSON, BaseTaint: bcp.TaintHigh, MaxConnections: 2,
		Tools:         []string{"Read", "Write", "Grep", "Glob", "WebFetch", "WebSearch", "BCPRespond", "BCPPublish"},
		CronSchedules: []bcp.CronSchedule{{Schedule: "0 */2 * * *", Message: "Check for new research findings and publish any relevant results."}},
		File:          "agents/researcher.md", Reader: true,
	}
	expect(t, cmp.Diff(wantReader, reader), "", "reader")
}

// The seed's first example declares a subscription of 671 bits in a budget of
// 500: it loads, and the operator is told both figures.
//
// covers C-6, SUB-37, P4.6
func TestSeedFirstExampleWarns(t *testing.T) {
	t.Parallel()
	mesh, report := mustParse(t,
		"agents/main.md", "---\nname: main\n"+readFile("testdata/seed/first.yaml")+"---\n",
		"agents/researcher.md", "---\nname: researcher\nbcp_channels:\n  - peer: main\n    role: reader\n---\n",
	)
	got := len(mesh.Channels[0].Subscriptions)
	stopIf(t, got != 2, "%d subscriptions, want 2", got)
	for _, w := range report.Warnings {
		if w.Code == definition.CodeOverBudget {
			if w.Key != "bcp_channels[0].subscriptions[0]" || w.Line != 10 || w.Column != 9 ||
				!strings.Contains(w.Message, "costs 671 bits") || !strings.Contains(w.Message, "is 500:") {
				t.Errorf("warning %+v", w)
			}
			return
		}
	}
	t.Errorf("no warning of the budget: %v", report.Warnings)
}

// covers P1.2
func TestLoadReadsTheFolderAndNothingElse(t *testing.T) {
	t.Parallel()
	agent := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("---\nname: " + name + "\n---\n")}
	}
	folder := fstest.MapFS{
		"mesh.yaml":          {Data: []byte("name: office\n")},
		"agents/a.md":        agent("a"),
		"agents/.hidden.md":  {Data: []byte("\xff")},
		"agents/notes.txt":   {Data: []byte("\xff")},
		"agents/README.md":   {Data: []byte("# How to write these\n")},
		"agents/deep/b.md":   agent("b"),
		"README.md":          {Data: []byte("# A mesh\n")},
		"src/agents/evil.md": agent("evil"),
	}
	mesh, report := definition.Load(folder)
	failIf(t, mesh == nil || len(mesh.Agents) != 1 || mesh.Name != "office" || len(mesh.Files) != 2 || len(report.Warnings) != 0,
		"mesh %+v, report %+v", mesh, report)
	folder["stray.md"] = agent("stray")
	if mesh, report = definition.Load(folder); mesh == nil || len(mesh.Agents) != 1 {
		t.Errorf("mesh %+v", mesh)
	}
	diff := cmp.Diff([]string{definition.CodeIgnoredFile}, codes(report.Warnings))
	failIf(t, diff != "", "%v", diff)
}
