package definition_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

const boolSub = "category: 1, fields: [{name: f, type: boolean}]"

// controller returns an agent with one controller entry of further keys.
func controller(name, peer, keys string) string {
	return fmt.Sprintf("---\nname: %s\nbcp_channels: [{peer: %s, role: controller, %s}]\n---\n", name, peer, keys)
}

func reader(name, keys string, peers ...string) string {
	var entries []string
	for _, peer := range peers {
		entries = append(entries, "{peer: "+peer+", role: reader"+keys+"}")
	}
	return fmt.Sprintf("---\nname: %s\nbcp_channels: [%s]\n---\n", name, strings.Join(entries, ", "))
}

// Of what both ends say the smaller value holds; what the reader leaves out
// does not limit.
//
// covers P1.3, SUB-24, SUB-25, SUB-26
func TestSmallerValueHolds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		controller, reader string
		category           bcp.Category
		budget             bcp.Bits
		queries            int
	}{
		{"max_category: 3, budget_bits: 100", "", 3, 100 * bcp.Bit, -1},
		{"max_category: 3, budget_bits: 100", ", max_category: 2", 2, 100 * bcp.Bit, -1},
		{"max_category: 1, budget_bits: 100", ", max_category: 2", 1, 100 * bcp.Bit, -1},
		{"max_category: 1, budget_bits: 100", ", budget_bits: 99.5", 1, 99*bcp.Bit + bcp.Bit/2, -1},
		{"max_category: 1, budget_bits: 100", ", budget_bits: 1000", 1, 100 * bcp.Bit, -1},
		{"max_category: 1, budget_bits: 100", ", budget_bits: 0", 1, 0, -1},
		{"max_category: 1, budget_bits: 100, max_cat2_queries: 0", "", 1, 100 * bcp.Bit, 0},
		{"max_category: 1, budget_bits: 100", ", max_cat2_queries: 4", 1, 100 * bcp.Bit, 4},
		{"max_category: 1, budget_bits: 100, max_cat2_queries: 5", ", max_cat2_queries: 4", 1, 100 * bcp.Bit, 4},
		{"max_category: 1, budget_bits: 100, max_cat2_queries: 3", ", max_cat2_queries: 4", 1, 100 * bcp.Bit, 3},
	}
	for _, tt := range tests {
		mesh, _ := mustParse(t, "c.md", controller("c", "r", tt.controller), "r.md", reader("r", tt.reader, "c"))
		ch, ok := mesh.Channel(bcp.ChannelKey{Controller: "c", Reader: "r"})
		if !ok || ch.MaxCategory != tt.category || ch.Budget != tt.budget || ch.MaxCat2Queries != tt.queries ||
			ch.WindowBudget != 10*tt.budget || ch.PushBudget != tt.budget || ch.AlertBits != tt.budget/5*4 {
			t.Errorf("%q and %q: %+v", tt.controller, tt.reader, ch)
		}
	}
}

// Every key of mesh.yaml and of an agent reaches the mesh.
//
// covers P1.3, P4.6, P11.6
func TestAllMeshAndAgentKeys(t *testing.T) {
	t.Parallel()
	mesh, _ := mustParse(t,
		"mesh.yaml", "---\nname: office\ntime_zone: Europe/Berlin\nidle_timeout: 1h\nvocabularies: {colour: [Red, blue-green, ÉCRU]}\napprovers: [ann]\n"+
			"auditors: [ann, bob]\norigin: https://mesh.example.org\nrequire_witness: 24h\nsync: 2s\nraw_retention: 1d12h\nmax_refusals: 2/s\nmax_disk_mb: 64\n",
		"agents/a.md", "---\nname: a\ndescription: |\n  two\n  lines\nmodel: m\ntools: [A, B]\nnetwork: none\ncommand: [run, --fast, \"\"]\nsandbox: none\nencoding: msgpack\n"+
			"base_taint: medium\nmax_connections: 1\nshare_queries: true\ntotal_budget_bits: 12.5\ncron_schedules: [{schedule: 5 4 * * mon, message: wake}]\n---\nprompt\r\n---\n",
	)
	mesh.Files = nil
	want := &bcp.Mesh{
		Name: "office", IdleTimeout: time.Hour, Vocabularies: map[string][]string{"colour": {"blue-green", "red", "écru"}},
		Approvers: []bcp.AgentName{"ann"}, Auditors: []bcp.AgentName{"ann", "bob"}, Origin: "https://mesh.example.org", RequireWitness: 24 * time.Hour, Replicas: 1, SyncInterval: 2 * time.Second,
		RawRetention: 36 * time.Hour, MaxRefusals: 120, MaxDisk: 64 << 20,
		Agents: []bcp.Agent{{
			Name: "a", Description: "two\nlines\n", Model: "m", Tools: []string{"A", "B"}, Network: "none", Command: []string{"run", "--fast", ""}, Sandbox: bcp.SandboxNone,
			Encoding: bcp.MessagePack, BaseTaint: bcp.TaintMedium, MaxConnections: 1, ShareQueries: true, TotalBudget: 12*bcp.Bit + bcp.Bit/2,
			CronSchedules: []bcp.CronSchedule{{Schedule: "5 4 * * mon", Message: "wake"}}, Prompt: "prompt\r\n---\n", File: "agents/a.md",
		}},
	}
	zone := must(time.LoadLocation("Europe/Berlin"))
	want.TimeZone = zone
	diff := cmp.Diff(want, mesh, compareZones)
	failIf(t, diff != "", "%v", diff)
}

// Every key of a channel reaches the mesh, and its text as it is written.
//
// covers P1.2, P1.3
func TestAllChannelKeys(t *testing.T) {
	t.Parallel()
	mesh, _ := mustParse(t, "mesh.yaml", "approvers: [ann, bob]\nvocabularies: {why: [cost]}\n", "r.md", reader("r", "", "c"), "c.md", controller("c", "r", `max_category: 3, budget_bits: 12.5, max_cat2_queries: 7,
  max_escalations: 4, max_justification_words: 9, max_justification_chars: 99, justification_vocabulary: why, base_category: 1, max_retries: 5, query_ttl: 61s, window_budget_bits: 0.000000001,
  budget_window: 1h1m, budget_renew: 2d, push_budget_bits: 3, capacity_budget_bits: 4, alert_bits: 5, release_interval: 2m5s, on_anomaly: flag, preserve_case: true, max_pending_approvals: 6, approvers: [bob],
  approval_ttl: 3h, subscriptions: [{id: A-0, category: 3, max_words: 11, directive: "x: 'é' #{\t漢}\n| > %"}]`))
	want := bcp.Channel{
		ChannelKey: bcp.ChannelKey{Controller: "c", Reader: "r"}, MaxCategory: 3, Budget: 12*bcp.Bit + bcp.Bit/2, MaxCat2Queries: 7, MaxEscalations: 4, MaxJustificationWords: 9, MaxJustificationChars: 99,
		JustificationVocabulary: "why", BaseCategory: 1, MaxRetries: 5, QueryTTL: 61 * time.Second, WindowBudget: 1, BudgetWindow: 61 * time.Minute, BudgetRenew: 48 * time.Hour, PushBudget: 3 * bcp.Bit,
		CapacityBudget: 4 * bcp.Bit, AlertBits: 5 * bcp.Bit, ReleaseInterval: 125 * time.Second, OnAnomaly: bcp.AnomalyFlag, PreserveCase: true, MaxPendingApprovals: 6, Approvers: []bcp.AgentName{"bob"},
		ApprovalTTL: 3 * time.Hour, Subscriptions: []bcp.Subscription{{ID: "A-0", Spec: bcp.Spec{Category: 3, MaxWords: 11, Directive: "x: 'é' #{\t漢}\n| > %"}}},
	}
	diff := cmp.Diff([]bcp.Channel{want}, mesh.Channels)
	failIf(t, diff != "", "%v", diff)
}

// Ids are unique within a channel, not within a mesh.
//
// covers C-8, SUB-40, P1.1
func TestSameSubscriptionIDInTwoChannels(t *testing.T) {
	t.Parallel()
	keys := "max_category: 1, budget_bits: 100, subscriptions: [{id: news, " + boolSub + "}]"
	mesh, _ := mustParse(t, "c1.md", controller("c1", "r", keys), "c2.md", controller("c2", "r", keys), "r.md", reader("r", "", "c1", "c2"))
	failIf(t, len(mesh.Channels) != 2 || len(mesh.Channels[0].Subscriptions) != 1 || len(mesh.Channels[1].Subscriptions) != 1,
		"%+v", mesh.Channels)
}

// max_words of the subscription is the default of the questions without their
// own; if both are there, the question's holds.
//
// covers C-13, SUB-36
func TestMaxWordsDefault(t *testing.T) {
	t.Parallel()
	question := func(id, words string) string {
		return "{id: " + id + ", question: What, expected_format: short_text" + words + "}"
	}
	keys := "max_category: 2, budget_bits: 100, subscriptions: [{id: s, category: 2, max_words: 3, questions: [" + question("a", "") + ", " + question("b", ", max_words: 7") + "]}]"
	mesh, report := mustParse(t, "c.md", controller("c", "r", keys), "r.md", reader("r", "", "c"))
	spec := mesh.Channels[0].Subscriptions[0].Spec
	validator := must(bcp.Compile(spec, bcp.Settings{}))
	expect(t, validator.Prices().Nominal, 10*bcp.WordBits, "nominal")
	failIf(t, !strings.Contains(fmt.Sprint(report.Warnings), "110 bits and budget_bits is 100"), "warnings %v", report.Warnings)
	none := strings.Replace(keys, "max_words: 3, ", "", 1)
	_, report = definition.Parse(files("c.md", controller("c", "r", none), "r.md", reader("r", "", "c")))
	failIf(t, len(report.Errors) != 1 || report.Errors[0].Key != "bcp_channels[0].subscriptions[0].questions[0].max_words",
		"without a limit: %v", report.Errors)
}

// A spec of a query can be pasted: every key of every format loads and comes
// out as it was written.
//
// covers SUB-33, SUB-34, SUB-35, SUB-38, BCP-29, BCP-30
func TestSpecKeys(t *testing.T) {
	t.Parallel()
	keys := `max_category: 3, budget_bits: 100000, subscriptions: [
  {id: one, category: 1, constraints: [n > 0 || b], fields: [
    {name: b, type: boolean}, {name: e, type: enum, values: ["yes", no, "1"]}, {name: n, type: integer, min: -9223372036854775808, max: 9223372036854775807}]},
  {id: two, category: 2, allow_not_enough_information: false, questions: [
    {id: t, question: Q, max_words: 5, expected_format: short_text, max_chars: 40, alphabet: ascii},
    {id: u, question: Q, max_words: 5, expected_format: short_text, same_as: t},
    {id: v, question: Q, max_words: 2, expected_format: vocabulary, vocabulary: colour},
    {id: w, question: Q, max_words: 1, expected_format: date, min: 1900, max: 2100},
    {id: x, question: Q, max_words: 1, expected_format: enum, values: [low, high]}]},
  {id: three, category: 3, directive: Sum up, max_words: 100, requires_approval: true}]`
	mesh, _ := mustParse(t, "mesh.yaml", "vocabularies: {colour: [red, green]}\napprovers: [ann]\n", "c.md", controller("c", "r", keys), "r.md", reader("r", "", "c"))
	least, most, from, to := int64(-1<<63), int64(1<<63-1), int64(1900), int64(2100)
	no, yes := false, true
	want := []bcp.Subscription{
		{ID: "one", Spec: bcp.Spec{Category: 1, Constraints: []string{"n > 0 || b"}, Fields: []bcp.Field{
			{Name: "b", Type: bcp.TypeBoolean}, {Name: "e", Type: bcp.TypeEnum, Values: []string{"yes", "no", "1"}},
			{Name: "n", Type: bcp.TypeInteger, Min: &least, Max: &most},
		}}},
		{ID: "two", Spec: bcp.Spec{Category: 2, AllowNotEnoughInformation: &no, Questions: []bcp.Question{
			{ID: "t", Question: "Q", MaxWords: 5, ExpectedFormat: bcp.FormatShortText, MaxChars: 40, Alphabet: "ascii"},
			{ID: "u", Question: "Q", MaxWords: 5, ExpectedFormat: bcp.FormatShortText, SameAs: "t"},
			{ID: "v", Question: "Q", MaxWords: 2, ExpectedFormat: bcp.FormatVocabulary, Vocabulary: "colour"},
			{ID: "w", Question: "Q", MaxWords: 1, ExpectedFormat: bcp.FormatDate, Min: &from, Max: &to},
			{ID: "x", Question: "Q", MaxWords: 1, ExpectedFormat: bcp.FormatEnum, Values: []string{"low", "high"}},
		}}},
		{ID: "three", Spec: bcp.Spec{Category: 3, Directive: "Sum up", MaxWords: 100, RequiresApproval: &yes}},
	}
	diff := cmp.Diff(want, mesh.Channels[0].Subscriptions)
	failIf(t, diff != "", "%v", diff)
}
