package definition

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// Level is a mapping of definitions: its keys, and the form that they fill.
type Level struct {
	name  string // as messages have it: "a channel entry"
	ref   string // in $defs of the JSON Schema
	keys  []Key
	form  reflect.Type
	start reflect.Value // a form with the defaults of all keys
}

// String names the level as messages do: "a channel entry".
func (l *Level) String() string {
	if l == nil {
		return ""
	}
	return l.name
}

// Key is one key that a definition may have. The loader walks these rows, and documents are
// made of them, so that they cannot differ from what is loaded.
type Key struct {
	Name string
	// Field is a pointer to the field that gets the value. Its type says what the key may
	// hold, where Type does not.
	Field any
	Type  *Type
	// Words are what a TypeWord may be, and what a value of another type may
	// be instead, such as "none".
	Words []string
	// Min and Max bound the value; what they count is said by the type. Both
	// are inclusive. Where both are 0 there is no bound here.
	Min, Max int64
	// Required keys must be there; a reader's channel entry needs those alone
	// that are not ControllerOnly.
	Required bool
	// No two entries of a list have the same value of a Unique key.
	Unique bool
	// Of its level there is exactly one of the keys that are OneOf, and with a key those that it
	// Needs.
	OneOf bool
	Needs []string
	// Default is the value of an absent key, as it is written in YAML.
	// DefaultRule says in words what an absent key means where no constant
	// does. A required key has neither.
	Default, DefaultRule string
	// ControllerOnly keys are refused in a reader's channel entry
	// (PROTOCOL P1.3, P1.4).
	ControllerOnly bool
	// Doc is one sentence. Rule is where the key comes from.
	Rule, Doc string

	Level *Level // that it is a key of
	Child *Level // of the mappings that it holds
	index []int  // of the field in the form
}

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
	year   = 366 * day
)

// maxPrice bounds the price of a million tokens, in dollars.
const maxPrice = 1000

// levels are in the order of documents; what is inside of one comes after it.
var levels = ready(
	LevelMesh, LevelAgent, LevelChannel, LevelCron, LevelSubscription, LevelField, LevelQuestion,
	LevelModel, LevelNotify, LevelKernel, LevelParse, LevelResult, LevelLimits, LevelGrant,
	LevelRule, LevelExamples, LevelService, LevelTool, LevelExecution, LevelTrust, LevelRequirement,
	LevelInvariant, LevelEvidence, LevelPrice, LevelMCPServer, LevelMCPTool, LevelEndorse,
)

// level makes a level of the rows of its keys, which are bound to the fields of a form.
func level(name, ref string, form any, keys []Key) *Level {
	l := &Level{name: name, ref: ref, keys: keys, start: reflect.ValueOf(form).Elem()}
	l.form = l.start.Type()
	for i := range l.keys {
		k := &l.keys[i]
		if k.Level, k.index = l, fieldIndex(l.start, reflect.ValueOf(k.Field)); k.index == nil {
			panic("definition: the key " + k.Name + " has no field in the form of " + name)
		}
	}
	return l
}

// fieldIndex finds the field that a pointer is of.
func fieldIndex(form, pointer reflect.Value) []int {
	for i := range form.NumField() {
		field := form.Field(i)
		if field.Addr().Pointer() == pointer.Pointer() && field.Type() == pointer.Type().Elem() {
			return []int{i}
		}
		if field.Kind() == reflect.Struct {
			if inner := fieldIndex(field, pointer); inner != nil {
				return append([]int{i}, inner...)
			}
		}
	}
	return nil
}

// ready gives the keys of levels their types, and the forms their defaults.
func ready(levels ...*Level) []*Level {
	of := map[reflect.Type]*Level{}
	for _, l := range levels {
		of[l.form] = l
	}
	for _, l := range slices.Backward(levels) { // what is inside of one first
		for i := range l.keys {
			k := &l.keys[i]
			k.infer(of)
			switch field := l.start.FieldByIndex(k.index); {
			case k.Type == TypeObject && field.Kind() == reflect.Struct:
				field.Set(k.Child.start)
			case slices.Contains(k.Words, k.Default):
				k.setWord(field, k.Default)
			case k.Default != "":
				made, _, _ := k.Type.parse(k.Default)
				set(field, made)
			}
		}
	}
	// In a spec the default is not written.
	LevelQuestion.start.FieldByName("Alphabet").SetZero()
	return levels
}

// infer sets what the type of the field says of the key.
func (k *Key) infer(of map[reflect.Type]*Level) {
	inner, kind := reflect.TypeOf(k.Field).Elem(), TypeObject
	if k.Type == nil {
		k.Type = fieldTypes[inner]
	}
	if k.Type != nil {
		return
	}
	if inner.Kind() == reflect.Slice {
		inner, kind = inner.Elem(), TypeObjects
		if inner.Kind() == reflect.Struct {
			if is, ok := inner.FieldByName("Is"); ok { // of named
				inner, kind = is.Type, TypeNamedObjects
			}
		}
	}
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	if k.Child, k.Type = of[inner], kind; k.Child == nil {
		k.Type = TypeWord
	}
}

var sandboxes = []string{"none", "own", "required"}

// wordsOf returns the wire words of an enumeration of package bcp.
func wordsOf[T interface {
	~uint8
	fmt.Stringer
}](first, last T) []string {
	var words []string
	for v := first; v <= last; v++ {
		words = append(words, v.String())
	}
	return words
}

func (l *Level) key(name string) *Key {
	for i := range l.keys {
		if l.keys[i].Name == name {
			return &l.keys[i]
		}
	}
	return nil
}

// keyNames returns the names of a level's keys.
func (l *Level) keyNames() []string {
	var names []string
	for i := range l.keys {
		names = append(names, l.keys[i].Name)
	}
	return names
}

// specKeys are those of a spec, in a subscription.
func specKeys(s *bcp.Spec) []Key {
	return []Key{
		{Name: "category", Field: &s.Category, Min: 1, Max: 3, Required: true, Rule: "SUB-31, SUB-39", Doc: "1, 2 or 3, and at most the channel's max_category."},
		{Name: "fields", Field: &s.Fields, Min: 1, Max: bcp.MaxFields, DefaultRule: "required for category 1", Rule: "SUB-33", Doc: "Typed values."},
		{Name: "questions", Field: &s.Questions, Min: 1, Max: bcp.MaxQuestions, DefaultRule: "required for category 2", Rule: "SUB-34", Doc: "Short answers."},
		{Name: "directive", Field: &s.Directive, Min: 1, Max: bcp.MaxQuestionChars, DefaultRule: "required for category 3", Rule: "SUB-35", Doc: "What the summary is about."},
		{Name: "max_words", Field: &s.MaxWords, Min: 1, Max: bcp.MaxSpecWords, DefaultRule: "required for category 3", Rule: "SUB-36, C-13", Doc: "Of a summary, or of each question without its own."},
		{Name: "requires_approval", Field: &s.RequiresApproval, DefaultRule: "true for category 3", Rule: "BCP-59", Doc: "Approval cannot be turned off."},
		{Name: "constraints", Field: &s.Constraints, Min: 1, Max: bcp.MaxConstraints, DefaultRule: "none", Rule: "P3.7", Doc: "CEL expressions that must hold over the typed answers."},
		{Name: "allow_not_enough_information", Field: &s.AllowNotEnoughInformation, DefaultRule: "no effect", Rule: "P3.9, SUB-38", Doc: "Accepted, as in the spec of a query."},
	}
}

// askedKeys are those of a spec in a kernel.
func askedKeys(s *bcp.Spec) []Key {
	keys := slices.DeleteFunc(specKeys(s), func(k Key) bool {
		return slices.Contains([]string{"directive", "requires_approval", "allow_not_enough_information"}, k.Name)
	})
	keys[0].Max, keys[0].Doc = 2, "1 or 2, and at most the channel's max_category."
	return keys
}

// countKey is one of a number that a kernel bounds.
func countKey(name string, field *int, least, most int64, doc string) Key {
	return Key{Name: name, Field: field, Min: least, Max: most, Default: strconv.Itoa(*field), Rule: "K3", Doc: doc}
}

// The levels, each behind the form that its rows are bound to.
var (
	ofMesh    meshForm
	LevelMesh = level("mesh.yaml", "", &ofMesh, []Key{
		{Name: "name", Field: &ofMesh.Name, Type: TypeName, Default: "mesh", Rule: "P1.3", Doc: "Names the mesh, in keys and audit."},
		{Name: "time_zone", Field: &ofMesh.TimeZone, Default: "UTC", Rule: "P1.3, P9.4", Doc: "Of all cron schedules."},
		{Name: "idle_timeout", Field: &ofMesh.IdleTimeout, Min: 1, Max: 30 * day, Default: "30m", Rule: "P1.3, P9.2", Doc: "Ends an idle session."},
		{Name: "vocabularies", Field: &ofMesh.Vocabularies, Max: 256, DefaultRule: "no word lists", Rule: "P1.3, P3.2", Doc: "For questions of the format vocabulary."},
		{Name: "approvers", Field: &ofMesh.Approvers, Max: 256, DefaultRule: "operator, unless an agent is called so", Rule: "P1.3, P7.3", Doc: "People who may decide on held items."},
		{Name: "endorse", Field: &ofMesh.EndorseEntries, Max: 256, DefaultRule: "nobody may", Rule: "P7.8", Doc: "Who may endorse what is held on a channel, or calls, and how far (approvers.md)."},
		{Name: "auditors", Field: &ofMesh.Auditors, Max: 256, DefaultRule: "operator, unless an agent is called so", Rule: "P1.3, P11", Doc: "People who may read audit and ledger."},
		{Name: "origin", Field: &ofMesh.Origin, Type: TypeOrigin, DefaultRule: "none", Rule: "P4.6", Doc: "Where browsers reach the pages (`bcpmesh web --origin`); notices then link to held items."},
		{Name: "replicas", Field: &ofMesh.Replicas, Min: 1, Max: 5, Default: "1", Rule: "P1.3", Doc: "Copies of every stream; more than 1 needs a NATS cluster."},
		{Name: "sync", Field: &ofMesh.SyncInterval, Words: []string{"always"}, Min: 1, Max: hour, Default: "always", Rule: "P1.3", Doc: "When the journal is written through to disk; a power cut may lose an interval."},
		{Name: "raw_retention", Field: &ofMesh.RawRetention, Min: hour, Max: 10 * year, Default: "30d", Rule: "P1.3, P11.4", Doc: "How long messages can be read verbatim, from the end of their day."},
		{Name: "require_witness", Field: &ofMesh.RequireWitness, Words: []string{"none"}, Min: hour, Max: 30 * day, Default: "none", Rule: "P11.6",
			Doc: "The greatest age of the newest cosignature; after that asks and pushes are unavailable."},
		{Name: "max_refusals", Field: &ofMesh.MaxRefusals, Type: TypeRate, Min: 1, Max: 6000, Default: "30/m", Rule: "P1.3, P4.7", Doc: "Refusals an agent may cause before it hears rate_limited."},
		{Name: "max_disk_mb", Field: &ofMesh.MaxDisk, Min: 64, Max: 1 << 30, Default: "16384", Rule: "P1.3, P4.5", Doc: "The size of all streams, in MiB; half is for the journal. When that is full, nothing is decided."},
		{Name: "allow_addresses", Field: &ofMesh.AllowAddresses, Max: 64, DefaultRule: "public addresses alone", Rule: "G6", Doc: "Addresses besides public ones that a name in an agent's network may have."},
		{Name: "models", Field: &ofMesh.ModelEntries, Max: 64, DefaultRule: "models that agents name as provider/model", Rule: "A1", Doc: "Models for `command: builtin`."},
		{Name: "mcp_servers", Field: &ofMesh.ServerEntries, Max: 64, DefaultRule: "none", Rule: "A1, A7", Doc: "Servers whose tools Readers with `command: builtin` may have, as mcp__SERVER__TOOL."},
		{Name: "rules", Field: &ofMesh.RuleEntries, Max: kernel.MaxRules, DefaultRule: "none", Rule: "K6", Doc: "Rules that forbid calls, in every kernel."},
		{Name: "organisation", Field: &ofMesh.Organisation, Type: TypeOrganisation, DefaultRule: "none", Rule: "DUAL-85", Doc: "The organisation of these agents, as others know it."},
		{Name: "trust", Field: &ofMesh.TrustEntries, Max: 64, DefaultRule: "no other organisation is trusted", Rule: "P14.2, DUAL-90", Doc: "Keys by which other organisations attest their agents (roles.md)."},
		{Name: "role_requirements", Field: &ofMesh.RequirementEntries, Max: 64, DefaultRule: "dual-llm, which is built in", Rule: "P14.2, DUAL-92", Doc: "What may be required of agents of other organisations (roles.md)."},
		{Name: "on_suspect", Field: &ofMesh.OnSuspect, Type: TypeWord, Words: []string{"alert", "suspend"}, Default: "alert", Rule: "P16.2",
			Doc: "Whether an agent that is suspected of leaving its role is also suspended (suspicion.md)."},
		{Name: "notify", Field: &ofMesh.NotifyEntries, Max: bcp.MaxRoutes, DefaultRule: "nobody is notified", Rule: "P4.6", Doc: "Ways in which people are notified (notifications.md)."},
	})
	ofAgent    agentForm
	LevelAgent = level("an agent", "", &ofAgent, []Key{
		{Name: "name", Field: &ofAgent.Name, Required: true, Rule: "P1.1", Doc: "Names the agent."},
		{Name: "description", Field: &ofAgent.Description, Max: 4000, DefaultRule: "empty", Rule: "P1.3", Doc: "Says for people what the agent is for."},
		{Name: "model", Field: &ofAgent.Model, Min: 1, Max: 256, DefaultRule: "none", Rule: "P1.3", Doc: "The model that the agent uses: of models in mesh.yaml, or provider/model."},
		{Name: "tools", Field: &ofAgent.Tools, Type: TypeTools, Max: 256, DefaultRule: "none", Rule: "SUB Agent Definition Examples",
			Doc: "Tools of the agent; for `command: builtin` web_fetch, files, mailbox and those of mcp_servers."},
		{Name: "network", Field: &ofAgent.Egress.Hosts, Type: TypeHosts, Words: []string{"none", "outbound"}, Max: 256, DefaultRule: "none", Rule: "SUB Agent Definition Examples, G6, ALF-28",
			Doc: "Hosts that the agent may fetch from. outbound: it has its own network access."},
		{Name: "start_urls", Field: &ofAgent.Egress.StartURLs, Max: 256, DefaultRule: "none", Rule: "G7", Doc: "URLs that the agent may fetch at the price of a link."},
		{Name: "links_only", Field: &ofAgent.Egress.LinksOnly, Default: "false", Rule: "G7", Doc: "Allows start_urls and links of served pages alone."},
		{Name: "egress_budget_bits", Field: &ofAgent.Egress.Budget, Max: bcp.MaxBits, DefaultRule: "16384, which accepts no such agent", Rule: "G7, ALF-9",
			Doc: "Bits that the agent may tell hosts by its URLs. Writing it accepts an agent with private data, untrusted input and a way out."},
		{Name: "egress_window", Field: &ofAgent.Egress.Window, Min: minute, Max: year, Default: "24h", Rule: "G7", Doc: "The sliding window for fetches."},
		{Name: "egress_bytes", Field: &ofAgent.Egress.MaxBytes, Type: TypeBytes, Min: MinEgressBytes, Max: 1 << 40, Default: "64MiB", Rule: "G7", Doc: "Bytes on the wire, in both directions."},
		{Name: "egress_host_bytes", Field: &ofAgent.Egress.MaxHostBytes, Type: TypeBytes, Min: MinEgressBytes, Max: 1 << 40, Default: "16MiB", Rule: "G7", Doc: "The part of egress_bytes that one host may use."},
		{Name: "command", Field: &ofAgent.Command, Words: []string{"builtin"}, Min: 1, Max: 256, DefaultRule: "somebody else starts it", Rule: "P1.3, P7.5, P9.2",
			Doc: "What the mesh starts; builtin: the mesh runs the agent by its model."},
		{Name: "max_turns", Field: &ofAgent.Run.MaxTurns, Min: 1, Max: 256, Default: "16", Rule: "A1", Doc: "Turns of the model in one conversation."},
		{Name: "max_output_tokens", Field: &ofAgent.Run.MaxTokens, Min: 16, Max: 65_536, Default: "1024", Rule: "A1", Doc: "Tokens of one turn of the model."},
		{Name: "max_parallel", Field: &ofAgent.Run.MaxParallel, Min: 1, Max: 64, Default: "2", Rule: "A1", Doc: "Conversations of the model at one time."},
		{Name: "cost_budget", Field: &ofAgent.Run.CostBudget, Words: []string{"none"}, Max: int64(bcp.MaxUSD / bcp.Dollar), Default: "none", Rule: "A1, P15.3",
			Doc: "US dollars that the model may cost. A call reserves the most that it can cost."},
		{Name: "token_budget", Field: &ofAgent.Run.TokenBudget, Words: []string{"none"}, Min: 1, Max: 1 << 40, Default: "none", Rule: "A1, P15.3", Doc: "Tokens that the model may use, requests and replies together."},
		{Name: "cost_window", Field: &ofAgent.Run.Window, Min: minute, Max: year, Default: "24h", Rule: "A1, P15.3", Doc: "The sliding window of both budgets."},
		{Name: "sandbox", Field: &ofAgent.Sandbox, Words: sandboxes, DefaultRule: "a command needs it, but for builtin", Rule: "P1.3, P7.5",
			Doc: "What confines the command (sandbox.md): the mesh, itself, or nothing."},
		{Name: "files", Field: &ofAgent.Files, Max: 64, DefaultRule: "none", Rule: "P7.5", Doc: "Folders that the tool files, or a command with sandbox: required, may read, relative to mesh.yaml."},
		{Name: "mailbox", Field: &ofAgent.Mailbox, Min: 1, Max: 4096, DefaultRule: "none", Rule: "A1", Doc: "The Maildir that the tool mailbox reads, relative to mesh.yaml; or imaps://user@host/INBOX."},
		{Name: "mailbox_key", Field: &ofAgent.MailboxKey, Type: TypeKeyPlace, DefaultRule: "none", Rule: "A1, A7", Doc: "Its password."},
		{Name: "encoding", Field: &ofAgent.Encoding, Words: wordsOf[bcp.Encoding](1, 2), Default: "json", Rule: "P1.3, P2.1", Doc: "How the agent writes its messages; the other encoding is refused."},
		{Name: "base_taint", Field: &ofAgent.BaseTaint, Words: wordsOf[bcp.Taint](1, 3), DefaultRule: "high where the agent has a reader entry, else low", Rule: "P1.3, P8.1", Doc: "The lowest taint of the agent."},
		{Name: "max_connections", Field: &ofAgent.MaxConnections, Min: 1, Max: 64, Default: "2", Rule: "P1.3", Doc: "Connections in each role; beyond it the oldest is closed."},
		{Name: "share_queries", Field: &ofAgent.ShareQueries, Default: "false", Rule: "P9.5", Doc: "Several processes with the same creds share the queries."},
		{Name: "total_budget_bits", Field: &ofAgent.TotalBudget, Words: []string{"none"}, Min: 1, Max: bcp.MaxBits, Default: "none", Rule: "P1.3", Doc: "Nominal bits of all channels on which the agent is the Controller (P4.2)."},
		{Name: "bcp_channels", Field: &ofAgent.Channels, Max: 1000, DefaultRule: "none", Rule: "SUB-20, P1.4", Doc: "The agent's ends of channels."},
		{Name: "address", Field: &ofAgent.Address, Type: TypeMailAddress, DefaultRule: "none", Rule: "K6", Doc: "Of the person for whom the agent acts: requester.address in rules."},
		{Name: "execution", Field: &ofAgent.Execution, DefaultRule: "what the kernels say that ask it", Rule: "DUAL-3, DUAL-5", Doc: "Its role and contract (contracts.md)."},
		{Name: "kernel", Field: &ofAgent.Kernel, DefaultRule: "the agent is no kernel", Rule: "K2", Doc: "Makes the agent a kernel (kernel.md)."},
		{Name: "cron_schedules", Field: &ofAgent.CronSchedules, Max: 100, DefaultRule: "none", Rule: "SUB-119, P9.4", Doc: "Prompts the agent at given times."},
	})
	ofChannel    channelForm
	LevelChannel = level("a channel entry", "channel", &ofChannel, []Key{
		{Name: "peer", Field: &ofChannel.Peer, Required: true, Rule: "SUB-22", Doc: "The agent at the other end."},
		{Name: "role", Field: &ofChannel.Role, Words: wordsOf[bcp.Role](bcp.RoleController, bcp.RoleReader), Required: true, Rule: "SUB-23", Doc: "The role of this agent on the channel."},
		{Name: "max_category", Field: &ofChannel.MaxCategory, Min: 1, Max: 3, Required: true, DefaultRule: "a reader entry may lack it", Rule: "SUB-24, P1.3", Doc: "The highest category that may pass."},
		{Name: "budget_bits", Field: &ofChannel.Budget, Max: bcp.MaxBits, Required: true, DefaultRule: "a reader entry may lack it", Rule: "SUB-25, P1.3, P4.2", Doc: "Nominal bits of one epoch."},
		{Name: "max_cat2_queries", Field: &ofChannel.MaxCat2Queries, Max: 1_000_000, DefaultRule: "no limit", Rule: "SUB-26, P1.3, P4.4", Doc: "Queries of category 2 in one epoch."},
		{Name: "requires_role", Field: &ofChannel.ReaderRole, Min: 1, Max: 64, DefaultRule: "nothing is required", Rule: "P14.2, DUAL-91", Doc: "The role requirement that the peer has to meet."},
		{Name: "max_escalations", Field: &ofChannel.MaxEscalations, ControllerOnly: true, Max: 1000, Default: "2", Rule: "P1.3, P6.2", Doc: "Escalations of one session on this channel."},
		{Name: "max_justification_words", Field: &ofChannel.MaxJustificationWords, ControllerOnly: true, Min: 1, Max: bcp.MaxJustificationWords, Default: strconv.Itoa(bcp.DefaultJustificationWords), Rule: "P6.4",
			Doc: "The words of an escalation's justification."},
		{Name: "max_justification_chars", Field: &ofChannel.MaxJustificationChars, ControllerOnly: true, Min: 1, Max: bcp.MaxJustificationChars, Default: strconv.Itoa(bcp.DefaultJustificationChars), Rule: "P6.4",
			Doc: "The characters of an escalation's justification."},
		{Name: "justification_vocabulary", Field: &ofChannel.JustificationVocabulary, ControllerOnly: true, Min: 1, Max: 64, DefaultRule: "words of the Controller's choice", Rule: "P6.4", Doc: "The word list of a justification's words."},
		{Name: "max_argument_bytes", Field: &ofChannel.MaxArgumentBytes, ControllerOnly: true, Max: bcp.MaxArgumentBytes, Default: "0", Rule: "P1.3, P2.8", Doc: "Bytes of arguments that a query may give the Reader."},
		{Name: "base_category", Field: &ofChannel.BaseCategory, ControllerOnly: true, Min: 1, Max: 2, Default: "2", Rule: "P1.3, P6.1", Doc: "With 1, every query of category 2 is an escalation."},
		{Name: "max_retries", Field: &ofChannel.MaxRetries, ControllerOnly: true, Max: 100, Default: "3", Rule: "P1.3, P3.10", Doc: "How often the Reader may retry after a rejected answer."},
		{Name: "query_ttl", Field: &ofChannel.QueryTTL, ControllerOnly: true, Min: 1, Max: 30 * day, Default: "15m", Rule: "P1.3, P7.6", Doc: "How long the Reader may take for an answer."},
		{Name: "window_budget_bits", Field: &ofChannel.WindowBudget, ControllerOnly: true, Words: []string{"none"}, Max: bcp.MaxBits, DefaultRule: "10 x budget_bits", Rule: "P1.3, P4.4",
			Doc: "Nominal bits over budget_window, across epochs; none or 0 switches the window off."},
		{Name: "budget_window", Field: &ofChannel.BudgetWindow, ControllerOnly: true, Min: minute, Max: year, Default: "24h", Rule: "P1.3, P4.4", Doc: "The length of the sliding window."},
		{Name: "budget_renew", Field: &ofChannel.BudgetRenew, ControllerOnly: true, Words: []string{"none"}, Min: minute, Max: year, Default: "none", Rule: "P1.3, P4.4", Doc: "Opens a new epoch automatically after this time."},
		{Name: "push_budget_bits", Field: &ofChannel.PushBudget, ControllerOnly: true, Max: bcp.MaxBits, DefaultRule: "budget_bits", Rule: "P1.3, P4.7", Doc: "Nominal bits of pushes inside an epoch."},
		{Name: "capacity_budget_bits", Field: &ofChannel.CapacityBudget, ControllerOnly: true, Words: []string{"none"}, Min: 1, Max: bcp.MaxBits, Default: "none", Rule: "P1.3, P4.2",
			Doc: "Capacity bits of one epoch, the proven bound; needs a release_interval."},
		{Name: "release_interval", Field: &ofChannel.ReleaseInterval, ControllerOnly: true, Max: 30 * day, Default: "0s", Rule: "P1.3, P4.1", Doc: "Releases outcomes at these moments only; 0s leaves timing uncounted."},
		{Name: "on_anomaly", Field: &ofChannel.OnAnomaly, ControllerOnly: true, Words: wordsOf[bcp.OnAnomaly](0, 3), Default: "hold", Rule: "P1.3, P3.6", Doc: "What happens to an answer with anomalies (P3.6)."},
		{Name: "preserve_case", Field: &ofChannel.PreserveCase, ControllerOnly: true, Default: "false", Rule: "P1.3, P3.4", Doc: "Keeps an initial capital of a word, for one bit of capacity a word."},
		{Name: "max_pending_approvals", Field: &ofChannel.MaxPendingApprovals, ControllerOnly: true, Min: 1, Max: 10_000, Default: "20", Rule: "P1.3, P7.4", Doc: "Items of the channel that may wait for a person."},
		{Name: "approval_ttl", Field: &ofChannel.ApprovalTTL, ControllerOnly: true, Min: minute, Max: year, Default: "24h", Rule: "P1.3, P7.3", Doc: "How long an item waits before it counts as rejected."},
		{Name: "alert_bits", Field: &ofChannel.AlertBits, ControllerOnly: true, Max: bcp.MaxBits, DefaultRule: "80% of budget_bits", Rule: "P1.3, P4.6", Doc: "Alerts when an epoch has used this many nominal bits."},
		{Name: "approvers", Field: &ofChannel.Approvers, ControllerOnly: true, Min: 1, Max: 256, DefaultRule: "all approvers of the mesh", Rule: "P1.3, P7.3", Doc: "Who may decide for this channel."},
		{Name: "subscriptions", Field: &ofChannel.SubscriptionEntries, ControllerOnly: true, Max: 256, DefaultRule: "none", Rule: "SUB-21, SUB-27, P1.4", Doc: "What the Reader may push."},
	})
	ofCron    bcp.CronSchedule
	LevelCron = level("a cron schedule", "cron", &ofCron, []Key{
		{Name: "schedule", Field: &ofCron.Schedule, Type: TypeCron, Required: true, Rule: "P9.4", Doc: "In the mesh's time zone."},
		{Name: "message", Field: &ofCron.Message, Min: 1, Max: 4000, Required: true, Rule: "SUB-119", Doc: "The prompt."},
	})
	ofSubscription    subscriptionForm
	LevelSubscription = level("a subscription", "subscription", &ofSubscription, slices.Concat([]Key{
		{Name: "id", Field: &ofSubscription.ID, Unique: true, Required: true, Rule: "SUB-28, SUB-30, P1.1", Doc: "Unique within the channel."},
	}, specKeys(&ofSubscription.Spec), []Key{
		{Name: "max_rate", Field: &ofSubscription.MaxRate, Min: 1, Max: bcp.MaxRateCount, DefaultRule: "no limit", Rule: "P1.3, P12.1, SUB-145", Doc: "The most pushes in any such time; one more costs nothing."},
		{Name: "batch_window", Field: &ofSubscription.BatchWindow, Min: 1, Max: 7 * day, DefaultRule: "each push is a delivery", Rule: "P1.3, P12.3, SUB-146",
			Doc: "Delivers the pushes of each such window together at its end. A multiple of release_interval."},
		{Name: "publish_when", Field: &ofSubscription.PublishWhen, Min: 1, Max: bcp.MaxConstraintBytes, DefaultRule: "always", Rule: "P1.3, P12.2, SUB-147",
			Doc: "CEL condition over the typed answer. A push for which it does not hold costs nothing."},
	}))
	ofField    bcp.Field
	LevelField = level("a field", "field", &ofField, []Key{
		{Name: "name", Field: &ofField.Name, Min: 1, Max: 64, Required: true, Rule: "BCP-27", Doc: "Names the field: letters, digits, hyphens and underscores."},
		{Name: "type", Field: &ofField.Type, Words: wordsOf[bcp.Type](1, bcp.TypeSealed), Required: true, Rule: "BCP-28", Doc: "Only schemas of a kernel have sealed: a text that is handed on and read by nobody."},
		{Name: "values", Field: &ofField.Values, Min: 1, Max: bcp.MaxValues, DefaultRule: "required for enum", Rule: "BCP-29", Doc: "The choices of an enum."},
		{Name: "min", Field: &ofField.Min, DefaultRule: "required for integer", Rule: "BCP-30", Doc: "The smallest integer."},
		{Name: "max", Field: &ofField.Max, DefaultRule: "required for integer and sealed", Rule: "BCP-30", Doc: "The largest integer; of what is sealed, bytes."},
	})
	ofQuestion    bcp.Question
	LevelQuestion = level("a question", "question", &ofQuestion, []Key{
		{Name: "id", Field: &ofQuestion.ID, Min: 1, Max: 64, Required: true, Rule: "BCP-43", Doc: "Names the answer: letters, digits, hyphens and underscores."},
		{Name: "question", Field: &ofQuestion.Question, Min: 1, Max: bcp.MaxQuestionChars, Required: true, Rule: "BCP-44", Doc: "The text that the Reader gets."},
		{Name: "max_words", Field: &ofQuestion.MaxWords, Min: 1, Max: bcp.MaxSpecWords, DefaultRule: "max_words of the subscription", Rule: "BCP-45, C-13", Doc: "The words of the answer."},
		{Name: "expected_format", Field: &ofQuestion.ExpectedFormat, Words: wordsOf[bcp.Format](1, bcp.FormatSummary-1), Required: true, Rule: "BCP-46, P3.2", Doc: "The form of the answer."},
		{Name: "min", Field: &ofQuestion.Min, DefaultRule: "-1000000000 for an integer, year 1 for a date", Rule: "P1.3, P3.2", Doc: "The smallest, or the first year."},
		{Name: "max", Field: &ofQuestion.Max, DefaultRule: "1000000000 for an integer, year 9999 for a date", Rule: "P1.3, P3.2", Doc: "The largest, or the last year."},
		{Name: "values", Field: &ofQuestion.Values, Min: 1, Max: bcp.MaxValues, DefaultRule: "required for enum", Rule: "P1.3, P3.2", Doc: "The choices of an enum."},
		{Name: "vocabulary", Field: &ofQuestion.Vocabulary, Min: 1, Max: 64, DefaultRule: "required for vocabulary", Rule: "P1.3, P3.2", Doc: "The word list of the answer's words."},
		{Name: "max_chars", Field: &ofQuestion.MaxChars, Min: 1, Max: bcp.MaxAnswerChars, DefaultRule: "no bound of its own; 64 for an e-mail", Rule: "P1.3, P3.2", Doc: "The characters of a text or e-mail answer."},
		{Name: "alphabet", Field: &ofQuestion.Alphabet, Type: TypeWord, Words: bcp.Alphabets(), Default: "any", Rule: "P1.3, P3.4", Doc: "The letters of a text answer; what looks alike is read as of it."},
		{Name: "same_as", Field: &ofQuestion.SameAs, Min: 1, Max: 64, DefaultRule: "none", Rule: "P1.3, P3.8", Doc: "Another question whose answer must agree."},
	})
	ofModel    modelForm
	LevelModel = level("a model", "model", &ofModel, []Key{
		{Name: "name", Field: &ofModel.Name, Unique: true, Min: 1, Max: 64, Required: true, Rule: "A1", Doc: "The name that agents use."},
		{Name: "provider", Field: &ofModel.Provider, Type: TypeWord, Words: bcp.Providers(), Required: true, Rule: "A1, A3", Doc: "Its API; openai with a base_url is any compatible endpoint."},
		{Name: "model", Field: &ofModel.Model.Model, Min: 1, Max: 256, Required: true, Rule: "A1", Doc: "As the provider calls it; for script a file of the folder."},
		{Name: "key", Field: &ofModel.Key, Type: TypeKeyPlace, DefaultRule: "the provider's, in the environment; with a base_url none", Rule: "A1", Doc: "The API key (tools.md)."},
		{Name: "base_url", Field: &ofModel.BaseURL, Min: 1, Max: 256, DefaultRule: "the provider's own", Rule: "A1", Doc: "The endpoint, such as http://127.0.0.1:8080/v1."},
		{Name: "price", Field: &ofModel.Stated, DefaultRule: "the list price of " + bcp.PriceDate() + ", if the model is on the list and has no base_url", Rule: "A1, P15.2", Doc: "What a million tokens cost."},
	})
	ofNotify    routeForm
	LevelNotify = level("a notification route", "notify", &ofNotify, []Key{
		{Name: "name", Field: &ofNotify.Name, Unique: true, Type: TypeName, Required: true, Rule: "P4.6", Doc: "Names the route in logs and metrics."},
		{Name: "person", Field: &ofNotify.Person, DefaultRule: "nobody's: held items are told without their ids", Rule: "P4.6, P10", Doc: "The approver or auditor whom it reaches."},
		{Name: "webhook", Field: &ofNotify.Webhook, DefaultRule: "none", OneOf: true, Rule: "P4.6", Doc: "The URL to post to."},
		{Name: "format", Field: &ofNotify.Format, Words: []string{"json", "slack", "ntfy", "teams"}, Default: "json", Needs: []string{"webhook"}, Rule: "P4.6", Doc: "The format of the posts to the webhook."},
		{Name: "mail_server", Field: &ofNotify.MailServer, Type: TypeServer, DefaultRule: "none", OneOf: true, Needs: []string{"mail_from", "mail_to"}, Rule: "P4.6", Doc: "The SMTP server: STARTTLS, or TLS at port 465, unless it is on this machine."},
		{Name: "mail_user", Field: &ofNotify.MailUser, Min: 1, Max: 256, DefaultRule: "no login", Needs: []string{"mail_server", "mail_password"}, Rule: "P4.6", Doc: "The user at the mail server."},
		{Name: "mail_password", Field: &ofNotify.Password, DefaultRule: "none; required with mail_user", Needs: []string{"mail_user"}, Rule: "P4.6", Doc: "Its password."},
		{Name: "mail_from", Field: &ofNotify.MailFrom, Type: TypeMailAddress, DefaultRule: "required with mail_server", Needs: []string{"mail_server"}, Rule: "P4.6", Doc: "The address that mail comes from."},
		{Name: "mail_to", Field: &ofNotify.MailTo, Type: TypeMailAddresses, Min: 1, Max: 32, DefaultRule: "required with mail_server", Needs: []string{"mail_server"}, Rule: "P4.6", Doc: "The addresses that mail goes to."},
		{Name: "command", Field: &ofNotify.Command, Min: 1, Max: 256, DefaultRule: "none", OneOf: true, Rule: "P4.6", Doc: "A program that gets the message as JSON on stdin."},
		{Name: "for", Field: &ofNotify.Topics, Type: TypeChoices, Words: []string{"held", "alerts", "credentials"}, Min: 1, Max: 3, DefaultRule: "held, alerts and credentials", Rule: "P4.6", Doc: "The kinds of notifications."},
		{Name: "severity", Field: &ofNotify.Severity, Words: wordsOf[bcp.Severity](1, 3), Default: "warning", Rule: "P4.6", Doc: "The lowest severity that is notified."},
		{Name: "repeat", Field: &ofNotify.Repeat, Words: []string{"none"}, Min: minute, Max: 7 * day, Default: "none", Rule: "P4.6", Doc: "How often a held item is notified again, until somebody has looked at it."},
		{Name: "gather", Field: &ofNotify.Gather, Min: 1, Max: hour, Default: "30s", Rule: "P4.6", Doc: "After five messages, at most one in this time."},
	})
	ofKernel    kernelForm
	LevelKernel = level("a kernel", "kernel", &ofKernel, []Key{
		{Name: "planner", Field: &ofKernel.Planner, Required: true, Rule: "K1, K8", Doc: "The agent that answers tasks with plans; without channels."},
		{Name: "sub_planner", Field: &ofKernel.SubPlanner, DefaultRule: "none: plans have no sub-runs", Rule: "K8, DUAL-11", Doc: "The agent that plans sub-runs from content; without channels."},
		{Name: "requesters", Field: &ofKernel.RequesterLists, Min: 1, Max: 1000, Required: true, Rule: "K2, K9", Doc: "The agents that may start runs, each with the grants that it may name."},
		{Name: "requires_role", Field: &ofKernel.RoleLists, Max: 1000, DefaultRule: "nothing is required", Rule: "P14.2, DUAL-91", Doc: "Role requirements, by requester."},
		{Name: "grants", Field: &ofKernel.GrantLists, Min: 1, Max: 64, Required: true, Rule: "K2, K5", Doc: "Sets of capabilities, by name."},
		{Name: "schemas", Field: &ofKernel.SchemaEntries, Max: kernel.MaxSchemas, DefaultRule: "none: plans ask no Reader", Rule: "K2", Doc: "What plans may ask Readers, by name."},
		{Name: "result", Field: &ofKernel.Result, DefaultRule: "none: they hear how a run ended", Rule: "K2, K9", Doc: "What requesters hear of the value of a run."},
		{Name: "limits", Field: &ofKernel.Limits, DefaultRule: "each at its default", Rule: "K3", Doc: "Of each run, with its sub-runs and later plans."},
		{Name: "control_budget_bits", Field: &ofKernel.Limits.ControlBits, Max: kernel.MaxControlBits, Default: "0", Rule: "F1", Doc: "Bits by which content may steer a run, by steps when and each."},
		{Name: "grant_limits", Field: &ofKernel.GrantLimits, Max: 64, DefaultRule: "none: the kernel's hold", Rule: "F1", Doc: "Limits of single grants, by name."},
		{Name: "rules", Field: &ofKernel.RuleEntries, Max: kernel.MaxRules, DefaultRule: "none: content goes where it may flow alone", Rule: "K6", Doc: "Rules of the gate."},
		{Name: "approvers", Field: &ofKernel.Approvers, Min: 1, Max: 256, DefaultRule: "all approvers of the mesh", Rule: "K10", Doc: "Who may decide about its calls."},
	})
	ofParse    parseForm
	LevelParse = level("a schema of a kernel", "parse", &ofParse, slices.Concat([]Key{
		{Name: "reader", Field: &ofParse.Reader, Required: true, Rule: "K2", Doc: "The Reader that answers; the kernel has a channel to it."},
	}, askedKeys(&ofParse.Spec), []Key{
		{Name: "allow_not_enough_information", Field: &ofParse.Spec.AllowNotEnoughInformation, DefaultRule: "true", Rule: "P3.9, SUB-38", Doc: "Lets the Reader answer that the content does not say."},
	}))
	ofResult    resultForm
	LevelResult = level("the result of a kernel", "result", &ofResult, askedKeys(&ofResult.Spec))
	ofLimits    = kernel.DefaultLimits()
	LevelLimits = level("limits of a kernel", "limits", &ofLimits, []Key{
		countKey("max_steps", &ofLimits.MaxSteps, 1, 4096, "Steps of all accepted plans of a run."),
		countKey("max_effects", &ofLimits.MaxEffects, 0, 1024, "Calls of any level."),
		countKey("max_q_parses", &ofLimits.MaxParses, 0, 1024, "Questions to Readers."),
		countKey("max_depth", &ofLimits.MaxDepth, 0, kernel.MaxDepth, "The depth of nested sub-runs."),
		countKey("max_plans", &ofLimits.MaxPlans, 1, 100, "How often the planner is asked."),
		countKey("max_planner_bits", &ofLimits.MaxPlannerBits, 0, 1_000_000, "Bits in the errors that the planner hears."),
		countKey("max_questions", &ofLimits.MaxQuestions, 0, 256, "How often plans may ask the requester (ask_requester)."),
		countKey("max_value_bytes", &ofLimits.MaxValueBytes, 1, kernel.MaxContent, "Bytes of one value, in canonical JSON."),
		countKey("max_pending_approvals", &ofLimits.MaxPendingApprovals, 0, 10_000, "Items that may wait for people."),
		{Name: "planner_timeout", Field: &ofLimits.PlannerTimeout, Min: 1, Max: hour, Default: "1m", Rule: "K3", Doc: "How long a plan may take."},
		{Name: "run_ttl", Field: &ofLimits.RunTTL, Min: 1, Max: 30 * day, Default: "15m", Rule: "K3", Doc: "How long a run may take, not counting the time that people take."},
		{Name: "approval_ttl", Field: &ofLimits.ApprovalTTL, Min: minute, Max: year, Default: "24h", Rule: "K10", Doc: "How long an item waits for a person."},
	})
	ofGrant    grantForm
	LevelGrant = level("limits of a grant", "grant", &ofGrant, []Key{
		{Name: "control_budget_bits", Field: &ofGrant.ControlBits, Max: kernel.MaxControlBits, Required: true, Rule: "F1", Doc: "As of the kernel; the smaller counts."},
	})
	ofRule    ruleForm
	LevelRule = level("a rule", "rule", &ofRule, []Key{
		{Name: "id", Field: &ofRule.ID, Min: 1, Max: 64, Required: true, Rule: "K6", Doc: "Names the rule in records: letters, digits, hyphens and underscores."},
		{Name: "effect", Field: &ofRule.Effect, Words: []string{"forbid", "declassify", "ask"}, Required: true, Rule: "K6",
			Doc: "Whether a call for which it holds is forbidden, let through with content, or asked of a person. Rules of mesh.yaml only forbid."},
		{Name: "tool", Field: &ofRule.Tool, Min: 1, Max: 64, Required: true, Rule: "K6", Doc: "The tool; \"*\" means all."},
		{Name: "when", Field: &ofRule.When, Min: 1, Max: bcp.MaxConstraintBytes, Required: true, Rule: "K6", Doc: "CEL condition (kernel-reference.md)."},
		{Name: "reads", Field: &ofRule.ReadsData, Type: TypeWord, Words: []string{"data"}, DefaultRule: "labels alone", Rule: "K6, C-23", Doc: "data: reads values that content chose; not in a rule that declassifies."},
		{Name: "control_bits", Field: &ofRule.ControlBits, Max: kernel.MaxControlBits, Default: "0", Rule: "F1", Doc: "Bits of control that it takes."},
		{Name: "because", Field: &ofRule.Because, Max: 4000, DefaultRule: "empty", Rule: "K6", Doc: "Tells people the reason."},
		{Name: "examples", Field: &ofRule.Examples, Required: true, Rule: "K6", Doc: "Calls tried whenever it is loaded."},
	})
	ofExamples    examplesForm
	LevelExamples = level("examples of a rule", "examples", &ofExamples, []Key{
		{Name: "yes", Field: &ofExamples.Yes, Min: 1, Max: 64, Required: true, Rule: "K6", Doc: "Calls for which it holds: args by name, requester, run."},
		{Name: "no", Field: &ofExamples.No, Min: 1, Max: 64, Required: true, Rule: "K6", Doc: "Calls for which it does not."},
	})
	ofService    serviceForm
	LevelService = level("a tool service", "", &ofService, []Key{
		{Name: "service", Field: &ofService.Name, Required: true, Rule: "K2", Doc: "Names the service; no agent's name."},
		{Name: "command", Field: &ofService.Command, Min: 1, Max: 256, DefaultRule: "somebody else starts it", Rule: "K2", Doc: "What the mesh starts to serve the tools, such as bcpmesh tool -- ./mail.py."},
		{Name: "environment", Field: &ofService.Environment, Type: TypeVariables, Min: 1, Max: 64, DefaultRule: "none", Rule: "P7.5", Doc: "Environment variables that the command gets besides PATH, HOME and the like."},
		{Name: "sandbox", Field: &ofService.Sandbox, Words: []string{"none", "own"}, DefaultRule: "a command needs it", Rule: "P7.5", Doc: "What confines the command, as of an agent."},
		{Name: "tools", Field: &ofService.ToolEntries, Min: 1, Max: kernel.MaxTools, Required: true, Rule: "K2", Doc: "Its tools."},
	})
	ofTool    toolForm
	LevelTool = level("a tool", "tool", &ofTool, []Key{
		{Name: "name", Field: &ofTool.Name, Min: 1, Max: 64, Required: true, Rule: "K2", Doc: "Unique in the mesh: letters, digits and underscores, no digit first."},
		{Name: "description", Field: &ofTool.Description, Max: 4000, DefaultRule: "empty", Rule: "K8", Doc: "Says to planners what the tool does."},
		{Name: "input_schema", Field: &ofTool.Input, Required: true, Rule: "K2", Doc: "The arguments: an object. critical: true marks who gets something or what is changed."},
		{Name: "output_schema", Field: &ofTool.Output, Required: true, Rule: "K2", Doc: "The result. Its width bounds what content can choose in it."},
		{Name: "required_caps", Field: &ofTool.RequiredCaps, Max: 16, DefaultRule: "none; a tool that writes needs one", Rule: "K2, K5", Doc: "Capabilities that a run needs: a-z, 0-9, dot, hyphen and underscore."},
		{Name: "effect_level", Field: &ofTool.Level, Words: []string{"pure", "read", "write"}, Required: true, Rule: "K2", Doc: "Whether the tool computes, reads content, or changes something."},
		{Name: "egress", Field: &ofTool.Egress, Default: "true", Rule: "K6", Doc: "false: a read keeps its arguments to itself, so they are not judged."},
		{Name: "result_readers", Field: &ofTool.Readers, Max: 64, DefaultRule: "none", Rule: "K2, K4", Doc: "Capabilities of tools into which its result may flow, but for critical arguments, and addresses of people who may read it."},
		{Name: "result_subjects", Field: &ofTool.SubjectWords, Type: TypeChoices, Words: []string{"user", "third_party"}, Min: 1, Max: 2, DefaultRule: "nobody's", Rule: "K4", Doc: "Whose data its result is."},
		{Name: "result_trusted", Field: &ofTool.Trusted, Default: "false", Rule: "K4", Doc: "Its result is as trusted as its arguments."},
		{Name: "idempotency", Field: &ofTool.Idempotency, Words: []string{"free", "key", "none"}, DefaultRule: "free for pure and read, none for write", Rule: "K2, K7",
			Doc: "After a call without an outcome: free calls again, key with the same key; none waits for a person."},
		{Name: "timeout", Field: &ofTool.Timeout, Min: 1, Max: hour, Default: "30s", Rule: "K2", Doc: "How long a call may take."},
		{Name: "parsers", Field: &ofTool.Parsers, Type: TypeNames, Min: 1, Max: 64, DefaultRule: "all", Rule: "K8", Doc: "The Readers that may get its result."},
	})
	ofExecution    bcp.Execution
	LevelExecution = level("an execution entry", "execution", &ofExecution, []Key{
		{Name: "role", Field: &ofExecution.Role, Type: TypeWord, Words: []string{"planner", "processor", "orchestrator"}, Required: true, Rule: "DUAL-3", Doc: "A planner makes plans, a processor is a Reader, an orchestrator is a kernel."},
		{Name: "type", Field: &ofExecution.Type, Type: TypeWord, Words: []string{"deterministic_interpreter"}, DefaultRule: "required for an orchestrator", Rule: "DUAL-89", Doc: "What kind of orchestrator it is."},
		{Name: "model_family", Field: &ofExecution.ModelFamily, Min: 1, Max: 256, DefaultRule: "none", Rule: "DUAL-87, DUAL-88", Doc: "Which models it uses; not proven."},
		{Name: "contract", Field: &ofExecution.Contract, Min: 1, Max: 64, DefaultRule: "planner-v1, processor-v1 or orchestrator-v1, by its role", Rule: "DUAL-5, DUAL-46", Doc: "Built in, or a file in contracts, without .json."},
	})
	ofTrust    trustForm
	LevelTrust = level("an entry of trust", "trusted", &ofTrust, []Key{
		{Name: "organisation", Field: &ofTrust.Organisation, Type: TypeOrganisation, Required: true, Rule: "DUAL-90", Doc: "Whose key it is."},
		{Name: "key", Field: &ofTrust.KeyText, Min: 1, Max: 1000, Required: true, Rule: "DUAL-90", Doc: "A public ed25519 key, in PEM or its base64 alone."},
		{Name: "until", Field: &ofTrust.UntilText, Min: 1, Max: 20, DefaultRule: "for good", Rule: "DUAL-93", Doc: "When it is no longer trusted, such as 2027-01-01T00:00:00Z."},
	})
	ofRequirement    requirementForm
	LevelRequirement = level("a role requirement", "requirement", &ofRequirement, []Key{
		{Name: "name", Field: &ofRequirement.Name, Unique: true, Min: 1, Max: 64, Required: true, Rule: "P14.2", Doc: "The name for requires_role: letters, digits, hyphens and underscores."},
		{Name: "architectures", Field: &ofRequirement.Architectures, Min: 1, Max: 64, DefaultRule: "dual_llm", Rule: "DUAL-91", Doc: "Accepted architectures."},
		{Name: "orchestrators", Field: &ofRequirement.Orchestrators, Min: 1, Max: 64, DefaultRule: "deterministic_interpreter", Rule: "DUAL-91", Doc: "Accepted types of orchestrators."},
		{Name: "invariants", Field: &ofRequirement.Invariants, Max: 64, DefaultRule: "none", Rule: "DUAL-92", Doc: "Invariants that its contracts must have."},
		{Name: "evidence", Field: &ofRequirement.Evidence, DefaultRule: "none", Rule: "DUAL-92", Doc: "What its attestation must show."},
	})
	ofInvariant    invariantForm
	LevelInvariant = level("an invariant of a requirement", "invariant", &ofInvariant, []Key{
		{Name: "predicate", Field: &ofInvariant.Predicate, Type: TypeWord, Words: contract.PredicateNames(), Required: true, Rule: "DUAL-92", Doc: "Its predicate (contracts.md)."},
		{Name: "args", Field: &ofInvariant.Texts, Min: 1, Max: 8, DefaultRule: "any", Rule: "DUAL-92", Doc: "Its arguments. A set of words is one text, such as \"[user_query, tool_signatures]\"."},
		{Name: "level", Field: &ofInvariant.Level, Type: TypeWord, Words: []string{"monitored", "parser", "architectural"}, Required: true, Rule: "DUAL-92", Doc: "The level that is promised, or a weaker one."},
	})
	ofEvidence    evidenceForm
	LevelEvidence = level("evidence of a requirement", "evidence", &ofEvidence, []Key{
		{Name: "permission_proof", Field: &ofEvidence.Proof, DefaultRule: "none is needed", Rule: "DUAL-92", Doc: "A permission proof without holes."},
		{Name: "max_age", Field: &ofEvidence.Age, Min: 1, Max: 7 * day, DefaultRule: "as old as the attestation may be", Rule: "DUAL-93", Doc: "How old the attestation may be."},
	})
	ofPrice    bcp.Price
	LevelPrice = level("a price", "price", &ofPrice, []Key{
		{Name: "input", Field: &ofPrice.Input, Max: maxPrice, Required: true, Rule: "P15.3", Doc: "Of the request."},
		{Name: "output", Field: &ofPrice.Output, Max: maxPrice, Required: true, Rule: "P15.3", Doc: "Of the reply."},
		{Name: "cache_read", Field: &ofPrice.CacheRead, Max: maxPrice, DefaultRule: "input", Rule: "P15.3", Doc: "Of the part of the request that the provider had cached."},
		{Name: "cache_write", Field: &ofPrice.CacheWrite, Max: maxPrice, DefaultRule: "input", Rule: "P15.3", Doc: "Of the part of the request that the provider caches."},
	})
	ofMCPServer    serverForm
	LevelMCPServer = level("an MCP server", "mcp_server", &ofMCPServer, []Key{
		{Name: "name", Field: &ofMCPServer.Name, Unique: true, Required: true, Rule: "A1", Doc: "Names the server in the names of its tools."},
		{Name: "command", Field: &ofMCPServer.Command, Min: 1, Max: 256, DefaultRule: "there is a url", OneOf: true, Rule: "A1, P7.5", Doc: "A server on stdin and stdout."},
		{Name: "url", Field: &ofMCPServer.URL, Min: 1, Max: 256, DefaultRule: "there is a command", OneOf: true, Rule: "A1", Doc: "A server over streamable HTTP; http only on this machine."},
		{Name: "key", Field: &ofMCPServer.Key, Type: TypeKeyPlace, DefaultRule: "none", Needs: []string{"url"}, Rule: "A1", Doc: "The bearer token for the url."},
		{Name: "environment", Field: &ofMCPServer.Environment, Type: TypeVariables, Min: 1, Max: 64, DefaultRule: "none", Needs: []string{"command"}, Rule: "P7.5", Doc: "Environment variables that the server gets besides PATH, HOME and the like."},
		{Name: "sandbox", Field: &ofMCPServer.Sandbox, Words: sandboxes, DefaultRule: "a command needs it", Needs: []string{"command"}, Rule: "P7.5", Doc: "What confines the server, as of an agent (tools.md)."},
		{Name: "tools", Field: &ofMCPServer.ToolEntries, Min: 1, Max: kernel.MaxTools, Required: true, Rule: "A7", Doc: "Its tools that agents may name."},
	})
	ofMCPTool    mcpToolForm
	LevelMCPTool = level("a tool of an MCP server", "mcp_tool", &ofMCPTool, []Key{
		{Name: "name", Field: &ofMCPTool.Name, Unique: true, Min: 1, Max: 48, Required: true, Rule: "A7", Doc: "Names the tool: letters, digits, hyphens and underscores."},
		{Name: "listed", Field: &ofMCPTool.Listed, Min: 1, Max: 128, DefaultRule: "name", Rule: "A7", Doc: "The server's name for it."},
		{Name: "sha256", Field: &ofMCPTool.SHA256, Min: 64, Max: 64, Required: true, Rule: "A7", Doc: "The hash of what the server declared for it (`bcpmesh tool import --reader`)."},
		{Name: "description", Field: &ofMCPTool.Description, Min: 1, Max: 4000, Required: true, Rule: "A7", Doc: "Tells the model what the tool does, in your words."},
		{Name: "input_schema", Field: &ofMCPTool.Input, Required: true, Rule: "A7", Doc: "The arguments: an object."},
	})
	ofEndorse    endorseForm
	LevelEndorse = level("an entry of endorse", "endorse", &ofEndorse, []Key{
		{Name: "controller", Field: &ofEndorse.Controller, DefaultRule: "a kernel", OneOf: true, Needs: []string{"reader"}, Rule: "P7.8", Doc: "The Controller of the channel."},
		{Name: "reader", Field: &ofEndorse.Reader, DefaultRule: "a kernel", Needs: []string{"controller"}, Rule: "P7.8", Doc: "Its Reader."},
		{Name: "kernel", Field: &ofEndorse.Kernel, DefaultRule: "a channel", OneOf: true, Needs: []string{"tools"}, Rule: "P7.9", Doc: "The kernel, for calls."},
		{Name: "tools", Field: &ofEndorse.Tools, Min: 1, Max: kernel.MaxTools, DefaultRule: "a channel", Needs: []string{"kernel"}, Rule: "P7.9", Doc: "Its tools."},
		{Name: "people", Field: &ofEndorse.People, Min: 1, Max: 256, Required: true, Rule: "P7.8", Doc: "Approvers who may endorse. Without them theirs end."},
		{Name: "max_uses", Field: &ofEndorse.MaxUses, Min: 1, Max: 10_000, Required: true, Rule: "P7.8", Doc: "How many answers or calls one endorsement lets through."},
		{Name: "max_time", Field: &ofEndorse.MaxTime, Min: minute, Max: 90 * day, Required: true, Rule: "P7.8", Doc: "How long one may hold."},
		{Name: "max_bits", Field: &ofEndorse.MaxBits, Min: 1, Max: bcp.MaxBits, Required: true, Rule: "P7.8", Doc: "Their capacity in bits, or the influence of content on calls, together."},
	})
)
