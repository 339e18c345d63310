package definition

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// Level says in which mapping a key stands.
type Level uint8

// The levels.
const (
	LevelMesh         Level = iota + 1 // mesh.yaml
	LevelAgent                         // the front matter of an agent
	LevelChannel                       // an entry of bcp_channels
	LevelCron                          // an entry of cron_schedules
	LevelSubscription                  // an entry of subscriptions
	LevelField                         // an entry of fields
	LevelQuestion                      // an entry of questions
	LevelModel                         // an entry of models
	LevelNotify                        // an entry of notify
	LevelKernel                        // the kernel of an agent
	LevelParse                         // an entry of schemas of a kernel
	LevelResult                        // result of a kernel
	LevelLimits                        // limits of a kernel
	LevelGrant                         // an entry of grant_limits of a kernel
	LevelRule                          // an entry of rules
	LevelExamples                      // examples of a rule
	LevelService                       // a file of tools
	LevelTool                          // an entry of tools in such a file
	LevelExecution                     // the execution of an agent
	LevelTrust                         // an entry of trust
	LevelRequirement                   // an entry of role_requirements
	LevelInvariant                     // an entry of invariants of a requirement
	LevelEvidence                      // the evidence of a requirement
	LevelPrice                         // the price of a model
	LevelMCPServer                     // an entry of mcp_servers
	LevelMCPTool                       // an entry of tools of such a server
	LevelEndorse                       // an entry of endorse
)

// lastLevel is the greatest level.
const lastLevel = LevelEndorse

var levelNames = []string{"", "mesh.yaml", "an agent", "a channel entry", "a cron schedule", "a subscription", "a field", "a question", "a model", "a notification route",
	"a kernel", "a schema of a kernel", "the result of a kernel", "limits of a kernel", "limits of a grant", "a rule", "examples of a rule", "a tool service", "a tool", "an execution entry",
	"an entry of trust", "a role requirement", "an invariant of a requirement", "evidence of a requirement", "a price", "an MCP server", "a tool of an MCP server", "an entry of endorse"}

// String names the level as messages do: "a channel entry".
func (l Level) String() string {
	if int(l) >= len(levelNames) {
		return ""
	}
	return levelNames[l]
}

// Type is what a key may hold.
type Type uint8

// The types, and what Min and Max of a [Key] bound.
const (
	TypeText          Type = iota + 1 // code points
	TypeName                          // an agent's or a person's name (PROTOCOL P1.1)
	TypeSubscription                  // a subscription id (PROTOCOL P1.1)
	TypeWord                          // one of Words
	TypeInteger                       // the number
	TypeBoolean                       // nothing
	TypeBits                          // whole bits; at most nine decimals
	TypeUSD                           // US dollars; at most nine decimals
	TypeDuration                      // seconds; written 90s, 15m, 1h30m, 7d
	TypeRate                          // events a minute; written 30/m or 1/s
	TypePushRate                      // events in a unit of time; written 1/h, 5/s, 30/m or 10/d
	TypeTimeZone                      // an IANA name
	TypeCron                          // five fields
	TypeTexts                         // number of texts in a list
	TypeTools                         // the same, or one text with commas
	TypeNames                         // number of names in a list
	TypeHosts                         // number of hosts in a list, or one text with commas
	TypeBytes                         // bytes; written 512KiB, 64MiB, 1GiB
	TypePrefixes                      // number of prefixes of addresses in a list
	TypeWordLists                     // number of lists, by name
	TypeSecretName                    // env:NAME or file:PATH
	TypeHours                         // a part of the day; written 22:00-07:00
	TypeServer                        // host:port
	TypeOrigin                        // https://host, perhaps with a port
	TypeMailAddress                   // name@host
	TypeMailAddresses                 // number of addresses in a list
	TypeChoices                       // number of Words in a list, or one of them
	TypeObjects                       // number of mappings of Child in a list
	TypeObject                        // nothing; one mapping of Child
	TypeNamedObjects                  // number of mappings of Child, by name
	TypeNameLists                     // number of lists of texts, by name
	TypeClosed                        // nothing; a type as tools have it, in JSON Schema
	TypeOrganisation                  // labels of a-z, 0-9 and hyphen, with dots between them
	TypeCalls                         // number of calls in a list, as examples of rules have them
)

// Key is one key that a definition may have: a row of [Schema].
type Key struct {
	Level Level
	Name  string
	Type  Type
	// Words are what a TypeWord may be, and what a value of another type may
	// be instead, such as "none".
	Words []string
	// Min and Max bound the value; what they count is said by the type. Both
	// are inclusive. Where both are 0 there is no bound here.
	Min, Max int64
	// Child is the level of the mappings of a TypeObjects, TypeObject or TypeNamedObjects.
	Child Level
	// Required keys must be there; a reader's channel entry needs those alone
	// that are not ControllerOnly.
	Required bool
	// Default is the value of an absent key, as it is written in YAML.
	// DefaultRule says in words what an absent key means where no constant
	// does. A required key has neither.
	Default, DefaultRule string
	// ControllerOnly keys are refused in a reader's channel entry
	// (PROTOCOL P1.3, P1.4).
	ControllerOnly bool
	// Doc is one sentence. Rule is where the key comes from.
	Doc, Rule string
	// field returns what the value is of, in what the level makes; nil where more than one key
	// decides about it, which is code of its own.
	field func(made any) any
}

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
	year   = 366 * day
)

// Schema returns every key that definitions may have, by level, in the order
// in which documents should list them. The loader walks this table, so that it
// cannot differ from what is loaded.
func Schema() []Key { return slices.Clone(schema) }

var schema = slices.Concat(meshKeys, kernelKeys(), mcpKeys, endorseKeys)

var meshKeys = []Key{
	{Level: LevelMesh, Name: "name", Type: TypeName, Default: "mesh", Rule: "P1.3", field: of(func(m *bcp.Mesh) any { return &m.Name }),
		Doc: "Names the mesh, in keys and audit."},
	{Level: LevelMesh, Name: "time_zone", Type: TypeTimeZone, Default: "UTC", Rule: "P1.3, P9.4", field: of(func(m *bcp.Mesh) any { return &m.TimeZone }),
		Doc: "Of all cron schedules."},
	{Level: LevelMesh, Name: "idle_timeout", Type: TypeDuration, Min: 1, Max: 30 * day, Default: "30m", Rule: "P1.3, P9.2", field: of(func(m *bcp.Mesh) any { return &m.IdleTimeout }),
		Doc: "Ends an idle session."},
	{Level: LevelMesh, Name: "vocabularies", Type: TypeWordLists, Min: 0, Max: 256, DefaultRule: "no word lists", Rule: "P1.3, P3.2", field: of(func(m *bcp.Mesh) any { return &m.Vocabularies }),
		Doc: "For questions of the format vocabulary."},
	{Level: LevelMesh, Name: "approvers", Type: TypeNames, Min: 0, Max: 256, DefaultRule: "operator, unless an agent is called so", Rule: "P1.3, P7.3", field: of(func(m *bcp.Mesh) any { return &m.Approvers }),
		Doc: "People who may decide on held items."},
	{Level: LevelMesh, Name: "endorse", Type: TypeObjects, Child: LevelEndorse, Min: 0, Max: 256, DefaultRule: "nobody may", Rule: "P7.8",
		Doc: "Who may endorse what is held on a channel, or calls, and how far (approvers.md)."},
	{Level: LevelMesh, Name: "auditors", Type: TypeNames, Min: 0, Max: 256, DefaultRule: "operator, unless an agent is called so", Rule: "P1.3, P11", field: of(func(m *bcp.Mesh) any { return &m.Auditors }),
		Doc: "People who may read audit and ledger."},
	{Level: LevelMesh, Name: "origin", Type: TypeOrigin, DefaultRule: "none", Rule: "P4.6", field: of(func(m *bcp.Mesh) any { return &m.Origin }),
		Doc: "Where browsers reach the pages (`bcpmesh web --origin`); notices then link to held items."},
	{Level: LevelMesh, Name: "replicas", Type: TypeInteger, Min: 1, Max: 5, Default: "1", Rule: "P1.3", field: of(func(m *bcp.Mesh) any { return &m.Replicas }),
		Doc: "Copies of every stream; more than 1 needs a NATS cluster."},
	{Level: LevelMesh, Name: "sync", Type: TypeDuration, Words: []string{"always"}, Min: 1, Max: hour, Default: "always", Rule: "P1.3", field: of(func(m *bcp.Mesh) any { return &m.SyncInterval }),
		Doc: "When the journal is written through to disk; a power cut may lose an interval."},
	{Level: LevelMesh, Name: "raw_retention", Type: TypeDuration, Min: hour, Max: 10 * year, Default: "30d", Rule: "P1.3, P11.4", field: of(func(m *bcp.Mesh) any { return &m.RawRetention }),
		Doc: "How long messages can be read verbatim, from the end of their day."},
	{Level: LevelMesh, Name: "require_witness", Type: TypeDuration, Words: []string{"none"}, Min: hour, Max: 30 * day, Default: "none", Rule: "P11.6", field: of(func(m *bcp.Mesh) any { return &m.RequireWitness }),
		Doc: "The greatest age of the newest cosignature; after that asks and pushes are unavailable."},
	{Level: LevelMesh, Name: "max_refusals", Type: TypeRate, Min: 1, Max: 6000, Default: "30/m", Rule: "P1.3, P4.7", field: of(func(m *bcp.Mesh) any { return &m.MaxRefusals }),
		Doc: "Refusals an agent may cause before it hears rate_limited."},
	{Level: LevelMesh, Name: "max_disk_mb", Type: TypeInteger, Min: 64, Max: 1 << 30, Default: "16384", Rule: "P1.3, P4.5", field: of(func(m *bcp.Mesh) any { return &m.MaxDisk }),
		Doc: "The size of all streams, in MiB; half is for the journal. When that is full, nothing is decided."},
	{Level: LevelMesh, Name: "allow_addresses", Type: TypePrefixes, Min: 0, Max: 64, DefaultRule: "public addresses alone", Rule: "G6", field: of(func(m *bcp.Mesh) any { return &m.AllowAddresses }),
		Doc: "Addresses besides public ones that a name in an agent's network may have."},
	{Level: LevelMesh, Name: "models", Type: TypeObjects, Child: LevelModel, Min: 0, Max: 64, DefaultRule: "models that agents name as provider/model", Rule: "A1",
		Doc: "Models for `command: builtin`."},
	{Level: LevelMesh, Name: "mcp_servers", Type: TypeObjects, Child: LevelMCPServer, Min: 0, Max: 64, DefaultRule: "none", Rule: "A1, A7",
		Doc: "Servers whose tools Readers with `command: builtin` may have, as mcp__SERVER__TOOL."},
	{Level: LevelMesh, Name: "rules", Type: TypeObjects, Child: LevelRule, Min: 0, Max: kernel.MaxRules, DefaultRule: "none", Rule: "K6",
		Doc: "Rules that forbid calls, in every kernel."},
	{Level: LevelMesh, Name: "organisation", Type: TypeOrganisation, DefaultRule: "none", Rule: "DUAL-85", field: of(func(m *bcp.Mesh) any { return &m.Organisation }),
		Doc: "The organisation of these agents, as others know it."},
	{Level: LevelMesh, Name: "trust", Type: TypeObjects, Child: LevelTrust, Min: 0, Max: 64, DefaultRule: "no other organisation is trusted", Rule: "P14.2, DUAL-90",
		Doc: "Keys by which other organisations attest their agents (roles.md)."},
	{Level: LevelMesh, Name: "role_requirements", Type: TypeObjects, Child: LevelRequirement, Min: 0, Max: 64, DefaultRule: "dual-llm, which is built in", Rule: "P14.2, DUAL-92",
		Doc: "What may be required of agents of other organisations (roles.md)."},
	{Level: LevelMesh, Name: "on_suspect", Type: TypeWord, Words: []string{"alert", "suspend"}, Default: "alert", Rule: "P16.2",
		Doc: "Whether an agent that is suspected of leaving its role is also suspended (suspicion.md)."},
	{Level: LevelMesh, Name: "notify", Type: TypeObjects, Child: LevelNotify, Min: 0, Max: bcp.MaxRoutes, DefaultRule: "nobody is notified", Rule: "P4.6",
		Doc: "Ways in which people are notified (notifications.md)."},

	{Level: LevelAgent, Name: "name", Type: TypeName, Required: true, Rule: "P1.1", field: of(func(a *bcp.Agent) any { return &a.Name }),
		Doc: "Names the agent."},
	{Level: LevelAgent, Name: "description", Type: TypeText, Min: 0, Max: 4000, DefaultRule: "empty", Rule: "P1.3", field: of(func(a *bcp.Agent) any { return &a.Description }),
		Doc: "Says for people what the agent is for."},
	{Level: LevelAgent, Name: "model", Type: TypeText, Min: 1, Max: 256, DefaultRule: "none", Rule: "P1.3", field: of(func(a *bcp.Agent) any { return &a.Model }),
		Doc: "The model that the agent uses: of models in mesh.yaml, or provider/model."},
	{Level: LevelAgent, Name: "tools", Type: TypeTools, Min: 0, Max: 256, DefaultRule: "none", Rule: "SUB Agent Definition Examples", field: of(func(a *bcp.Agent) any { return &a.Tools }),
		Doc: "Tools of the agent; for `command: builtin` web_fetch, feeds, files, mailbox and those of mcp_servers."},
	{Level: LevelAgent, Name: "network", Type: TypeHosts, Words: []string{"none", "outbound"}, Min: 0, Max: 256, DefaultRule: "none", Rule: "SUB Agent Definition Examples, G6, ALF-28", field: of(func(a *bcp.Agent) any { return &a.Egress.Hosts }),
		Doc: "Hosts that the agent may fetch from. outbound: it has its own network access."},
	{Level: LevelAgent, Name: "start_urls", Type: TypeTexts, Min: 0, Max: 256, DefaultRule: "none", Rule: "G7", field: of(func(a *bcp.Agent) any { return &a.Egress.StartURLs }),
		Doc: "URLs that the agent may fetch at the price of a link."},
	{Level: LevelAgent, Name: "links_only", Type: TypeBoolean, Default: "false", Rule: "G7", field: of(func(a *bcp.Agent) any { return &a.Egress.LinksOnly }),
		Doc: "Allows start_urls and links of served pages alone."},
	{Level: LevelAgent, Name: "egress_budget_bits", Type: TypeBits, Min: 0, Max: bcp.MaxBits, DefaultRule: "16384, which accepts no such agent", Rule: "G7, ALF-9", field: of(func(a *bcp.Agent) any { return &a.Egress.Budget }),
		Doc: "Bits that the agent may tell hosts by its URLs. Writing it accepts an agent with private data, untrusted input and a way out."},
	{Level: LevelAgent, Name: "egress_window", Type: TypeDuration, Min: minute, Max: year, Default: "24h", Rule: "G7", field: of(func(a *bcp.Agent) any { return &a.Egress.Window }),
		Doc: "The sliding window for fetches."},
	{Level: LevelAgent, Name: "egress_bytes", Type: TypeBytes, Min: MinEgressBytes, Max: 1 << 40, Default: "64MiB", Rule: "G7", field: of(func(a *bcp.Agent) any { return &a.Egress.MaxBytes }),
		Doc: "Bytes on the wire, in both directions."},
	{Level: LevelAgent, Name: "egress_host_bytes", Type: TypeBytes, Min: MinEgressBytes, Max: 1 << 40, Default: "16MiB", Rule: "G7", field: of(func(a *bcp.Agent) any { return &a.Egress.MaxHostBytes }),
		Doc: "The part of egress_bytes that one host may use."},
	{Level: LevelAgent, Name: "command", Type: TypeTexts, Words: []string{"builtin"}, Min: 1, Max: 256, DefaultRule: "somebody else starts it", Rule: "P1.3, P7.5, P9.2", field: of(func(a *bcp.Agent) any { return &a.Command }),
		Doc: "What the mesh starts; builtin: the mesh runs the agent by its model."},
	{Level: LevelAgent, Name: "max_turns", Type: TypeInteger, Min: 1, Max: 256, Default: "16", Rule: "A1", field: of(func(a *bcp.Agent) any { return &a.Run.MaxTurns }),
		Doc: "Turns of the model in one conversation."},
	{Level: LevelAgent, Name: "max_output_tokens", Type: TypeInteger, Min: 16, Max: 65_536, Default: "1024", Rule: "A1", field: of(func(a *bcp.Agent) any { return &a.Run.MaxTokens }),
		Doc: "Tokens of one turn of the model."},
	{Level: LevelAgent, Name: "max_parallel", Type: TypeInteger, Min: 1, Max: 64, Default: "2", Rule: "A1", field: of(func(a *bcp.Agent) any { return &a.Run.MaxParallel }),
		Doc: "Conversations of the model at one time."},
	{Level: LevelAgent, Name: "cost_budget", Type: TypeUSD, Words: []string{"none"}, Min: 0, Max: int64(cost.MaxUSD / cost.Dollar), Default: "none", Rule: "A1, P15.3", field: of(func(a *bcp.Agent) any { return &a.Run.CostBudget }),
		Doc: "US dollars that the model may cost. A call reserves the most that it can cost."},
	{Level: LevelAgent, Name: "token_budget", Type: TypeInteger, Words: []string{"none"}, Min: 1, Max: 1 << 40, Default: "none", Rule: "A1, P15.3", field: of(func(a *bcp.Agent) any { return &a.Run.TokenBudget }),
		Doc: "Tokens that the model may use, requests and replies together."},
	{Level: LevelAgent, Name: "cost_window", Type: TypeDuration, Min: minute, Max: year, Default: "24h", Rule: "A1, P15.3", field: of(func(a *bcp.Agent) any { return &a.Run.Window }),
		Doc: "The sliding window of both budgets."},
	{Level: LevelAgent, Name: "sandbox", Type: TypeWord, Words: wordsOf[bcp.Sandbox](1, 3), DefaultRule: "a command needs it, but for builtin, sudo -u, docker and the like", Rule: "P1.3, P7.5", field: of(func(a *bcp.Agent) any { return &a.Sandbox }),
		Doc: "What confines the command (sandbox.md): the mesh, itself, or nothing."},
	{Level: LevelAgent, Name: "files", Type: TypeTexts, Min: 0, Max: 64, DefaultRule: "none", Rule: "P7.5", field: of(func(a *bcp.Agent) any { return &a.Files }),
		Doc: "Folders that the tool files, or a command with sandbox: required, may read, relative to mesh.yaml."},
	{Level: LevelAgent, Name: "mailbox", Type: TypeText, Min: 1, Max: 4096, DefaultRule: "none", Rule: "A1", field: of(func(a *bcp.Agent) any { return &a.Mailbox }),
		Doc: "The Maildir or mbox that the tool mailbox reads, relative to mesh.yaml; or imaps://user@host/INBOX."},
	{Level: LevelAgent, Name: "mailbox_key", Type: TypeText, Min: 1, Max: 256, DefaultRule: "none", Rule: "A1, A7", field: of(func(a *bcp.Agent) any { return &a.MailboxKey }),
		Doc: "Where its password is: env:NAME, file:PATH or command:WORDS."},
	{Level: LevelAgent, Name: "feeds", Type: TypeTexts, Min: 0, Max: 64, DefaultRule: "none", Rule: "A1", field: of(func(a *bcp.Agent) any { return &a.Feeds }),
		Doc: "RSS, Atom and JSON feeds that the tool feeds fetches, at the price of a link."},
	{Level: LevelAgent, Name: "encoding", Type: TypeWord, Words: wordsOf[bcp.Encoding](1, 2), Default: "json", Rule: "P1.3, P2.1", field: of(func(a *bcp.Agent) any { return &a.Encoding }),
		Doc: "How the agent writes its messages; the other encoding is refused."},
	{Level: LevelAgent, Name: "base_taint", Type: TypeWord, Words: wordsOf[bcp.Taint](1, 3), DefaultRule: "high where the agent has a reader entry, else low", Rule: "P1.3, P8.1", field: of(func(a *bcp.Agent) any { return &a.BaseTaint }),
		Doc: "The lowest taint of the agent."},
	{Level: LevelAgent, Name: "max_connections", Type: TypeInteger, Min: 1, Max: 64, Default: "2", Rule: "P1.3", field: of(func(a *bcp.Agent) any { return &a.MaxConnections }),
		Doc: "Connections in each role; beyond it the oldest is closed."},
	{Level: LevelAgent, Name: "share_queries", Type: TypeBoolean, Default: "false", Rule: "P9.5", field: of(func(a *bcp.Agent) any { return &a.ShareQueries }),
		Doc: "Several processes with the same creds share the queries."},
	{Level: LevelAgent, Name: "total_budget_bits", Type: TypeBits, Words: []string{"none"}, Min: 1, Max: bcp.MaxBits, Default: "none", Rule: "P1.3", field: of(func(a *bcp.Agent) any { return &a.TotalBudget }),
		Doc: "Nominal bits of all channels on which the agent is the Controller (P4.2)."},
	{Level: LevelAgent, Name: "bcp_channels", Type: TypeObjects, Child: LevelChannel, Min: 0, Max: 1000, DefaultRule: "none", Rule: "SUB-20, P1.4",
		Doc: "The agent's ends of channels."},
	{Level: LevelAgent, Name: "address", Type: TypeMailAddress, DefaultRule: "none", Rule: "K6", field: of(func(a *bcp.Agent) any { return &a.Address }),
		Doc: "Of the person for whom the agent acts: requester.address in rules."},
	{Level: LevelAgent, Name: "execution", Type: TypeObject, Child: LevelExecution, DefaultRule: "what the kernels say that ask it", Rule: "DUAL-3, DUAL-5", field: of(func(a *bcp.Agent) any { return &a.Execution }),
		Doc: "Its role and contract (contracts.md)."},
	{Level: LevelAgent, Name: "kernel", Type: TypeObject, Child: LevelKernel, DefaultRule: "the agent is no kernel", Rule: "K2",
		Doc: "Makes the agent a kernel (kernel.md)."},
	{Level: LevelAgent, Name: "cron_schedules", Type: TypeObjects, Child: LevelCron, Min: 0, Max: 100, DefaultRule: "none", Rule: "SUB-119, P9.4", field: of(func(a *bcp.Agent) any { return &a.CronSchedules }),
		Doc: "Prompts the agent at given times."},

	{Level: LevelChannel, Name: "peer", Type: TypeName, Required: true, Rule: "SUB-22",
		Doc: "The agent at the other end."},
	{Level: LevelChannel, Name: "role", Type: TypeWord, Words: wordsOf[bcp.Role](bcp.RoleController, bcp.RoleReader), Required: true, Rule: "SUB-23",
		Doc: "The role of this agent on the channel."},
	{Level: LevelChannel, Name: "max_category", Type: TypeInteger, Min: 1, Max: 3, Required: true, DefaultRule: "a reader entry may lack it", Rule: "SUB-24, P1.3",
		Doc: "The highest category that may pass."},
	{Level: LevelChannel, Name: "budget_bits", Type: TypeBits, Min: 0, Max: bcp.MaxBits, Required: true, DefaultRule: "a reader entry may lack it", Rule: "SUB-25, P1.3, P4.2",
		Doc: "Nominal bits of one epoch."},
	{Level: LevelChannel, Name: "max_cat2_queries", Type: TypeInteger, Min: 0, Max: 1_000_000, DefaultRule: "no limit", Rule: "SUB-26, P1.3, P4.4",
		Doc: "Queries of category 2 in one epoch."},
	{Level: LevelChannel, Name: "requires_role", Type: TypeText, Min: 1, Max: 64, DefaultRule: "nothing is required", Rule: "P14.2, DUAL-91", field: of(func(c *bcp.Channel) any { return &c.ReaderRole }),
		Doc: "The role requirement that the peer has to meet."},
	{Level: LevelChannel, Name: "max_escalations", ControllerOnly: true, Type: TypeInteger, Min: 0, Max: 1000, Default: "2", Rule: "P1.3, P6.2", field: of(func(c *bcp.Channel) any { return &c.MaxEscalations }),
		Doc: "Escalations of one session on this channel."},
	{Level: LevelChannel, Name: "max_justification_words", ControllerOnly: true, Type: TypeInteger, Min: 1, Max: bcp.MaxJustificationWords, Default: strconv.Itoa(bcp.DefaultJustificationWords), Rule: "P6.4", field: of(func(c *bcp.Channel) any { return &c.MaxJustificationWords }),
		Doc: "The words of an escalation's justification."},
	{Level: LevelChannel, Name: "max_justification_chars", ControllerOnly: true, Type: TypeInteger, Min: 1, Max: bcp.MaxJustificationChars, Default: strconv.Itoa(bcp.DefaultJustificationChars), Rule: "P6.4", field: of(func(c *bcp.Channel) any { return &c.MaxJustificationChars }),
		Doc: "The characters of an escalation's justification."},
	{Level: LevelChannel, Name: "justification_vocabulary", ControllerOnly: true, Type: TypeText, Min: 1, Max: 64, DefaultRule: "words of the Controller's choice", Rule: "P6.4", field: of(func(c *bcp.Channel) any { return &c.JustificationVocabulary }),
		Doc: "The word list of a justification's words."},
	{Level: LevelChannel, Name: "max_argument_bytes", ControllerOnly: true, Type: TypeInteger, Min: 0, Max: bcp.MaxArgumentBytes, Default: "0", Rule: "P1.3, P2.8", field: of(func(c *bcp.Channel) any { return &c.MaxArgumentBytes }),
		Doc: "Bytes of arguments that a query may give the Reader."},
	{Level: LevelChannel, Name: "base_category", ControllerOnly: true, Type: TypeInteger, Min: 1, Max: 2, Default: "2", Rule: "P1.3, P6.1", field: of(func(c *bcp.Channel) any { return &c.BaseCategory }),
		Doc: "With 1, every query of category 2 is an escalation."},
	{Level: LevelChannel, Name: "max_retries", ControllerOnly: true, Type: TypeInteger, Min: 0, Max: 100, Default: "3", Rule: "P1.3, P3.10", field: of(func(c *bcp.Channel) any { return &c.MaxRetries }),
		Doc: "How often the Reader may retry after a rejected answer."},
	{Level: LevelChannel, Name: "query_ttl", ControllerOnly: true, Type: TypeDuration, Min: 1, Max: 30 * day, Default: "15m", Rule: "P1.3, P7.6", field: of(func(c *bcp.Channel) any { return &c.QueryTTL }),
		Doc: "How long the Reader may take for an answer."},
	{Level: LevelChannel, Name: "window_budget_bits", ControllerOnly: true, Type: TypeBits, Words: []string{"none"}, Min: 0, Max: bcp.MaxBits, DefaultRule: "10 x budget_bits", Rule: "P1.3, P4.4", field: of(func(c *bcp.Channel) any { return &c.WindowBudget }),
		Doc: "Nominal bits over budget_window, across epochs; none or 0 switches the window off."},
	{Level: LevelChannel, Name: "budget_window", ControllerOnly: true, Type: TypeDuration, Min: minute, Max: year, Default: "24h", Rule: "P1.3, P4.4", field: of(func(c *bcp.Channel) any { return &c.BudgetWindow }),
		Doc: "The length of the sliding window."},
	{Level: LevelChannel, Name: "budget_renew", ControllerOnly: true, Type: TypeDuration, Words: []string{"none"}, Min: minute, Max: year, Default: "none", Rule: "P1.3, P4.4", field: of(func(c *bcp.Channel) any { return &c.BudgetRenew }),
		Doc: "Opens a new epoch automatically after this time."},
	{Level: LevelChannel, Name: "push_budget_bits", ControllerOnly: true, Type: TypeBits, Min: 0, Max: bcp.MaxBits, DefaultRule: "budget_bits", Rule: "P1.3, P4.7", field: of(func(c *bcp.Channel) any { return &c.PushBudget }),
		Doc: "Nominal bits of pushes inside an epoch."},
	{Level: LevelChannel, Name: "capacity_budget_bits", ControllerOnly: true, Type: TypeBits, Words: []string{"none"}, Min: 1, Max: bcp.MaxBits, Default: "none", Rule: "P1.3, P4.2", field: of(func(c *bcp.Channel) any { return &c.CapacityBudget }),
		Doc: "Capacity bits of one epoch, the proven bound; needs a release_interval."},
	{Level: LevelChannel, Name: "release_interval", ControllerOnly: true, Type: TypeDuration, Min: 0, Max: 30 * day, Default: "0s", Rule: "P1.3, P4.1", field: of(func(c *bcp.Channel) any { return &c.ReleaseInterval }),
		Doc: "Releases outcomes at these moments only; 0s leaves timing uncounted."},
	{Level: LevelChannel, Name: "on_anomaly", ControllerOnly: true, Type: TypeWord, Words: wordsOf[bcp.OnAnomaly](0, 3), Default: "hold", Rule: "P1.3, P3.6", field: of(func(c *bcp.Channel) any { return &c.OnAnomaly }),
		Doc: "What happens to an answer with anomalies (P3.6)."},
	{Level: LevelChannel, Name: "preserve_case", ControllerOnly: true, Type: TypeBoolean, Default: "false", Rule: "P1.3, P3.4", field: of(func(c *bcp.Channel) any { return &c.PreserveCase }),
		Doc: "Keeps an initial capital of a word, for one bit of capacity a word."},
	{Level: LevelChannel, Name: "max_pending_approvals", ControllerOnly: true, Type: TypeInteger, Min: 1, Max: 10_000, Default: "20", Rule: "P1.3, P7.4", field: of(func(c *bcp.Channel) any { return &c.MaxPendingApprovals }),
		Doc: "Items of the channel that may wait for a person."},
	{Level: LevelChannel, Name: "approval_ttl", ControllerOnly: true, Type: TypeDuration, Min: minute, Max: year, Default: "24h", Rule: "P1.3, P7.3", field: of(func(c *bcp.Channel) any { return &c.ApprovalTTL }),
		Doc: "How long an item waits before it counts as rejected."},
	{Level: LevelChannel, Name: "alert_bits", ControllerOnly: true, Type: TypeBits, Min: 0, Max: bcp.MaxBits, DefaultRule: "80% of budget_bits", Rule: "P1.3, P4.6", field: of(func(c *bcp.Channel) any { return &c.AlertBits }),
		Doc: "Alerts when an epoch has used this many nominal bits."},
	{Level: LevelChannel, Name: "approvers", ControllerOnly: true, Type: TypeNames, Min: 1, Max: 256, DefaultRule: "all approvers of the mesh", Rule: "P1.3, P7.3", field: of(func(c *bcp.Channel) any { return &c.Approvers }),
		Doc: "Who may decide for this channel."},
	{Level: LevelChannel, Name: "subscriptions", ControllerOnly: true, Type: TypeObjects, Child: LevelSubscription, Min: 0, Max: 256, DefaultRule: "none", Rule: "SUB-21, SUB-27, P1.4",
		Doc: "What the Reader may push."},

	{Level: LevelCron, Name: "schedule", Type: TypeCron, Required: true, Rule: "P9.4", field: of(func(c *bcp.CronSchedule) any { return &c.Schedule }),
		Doc: "In the mesh's time zone."},
	{Level: LevelCron, Name: "message", Type: TypeText, Min: 1, Max: 4000, Required: true, Rule: "SUB-119", field: of(func(c *bcp.CronSchedule) any { return &c.Message }),
		Doc: "The prompt."},

	{Level: LevelSubscription, Name: "id", Type: TypeSubscription, Required: true, Rule: "SUB-28, SUB-30, P1.1", field: of(func(s *bcp.Subscription) any { return &s.ID }),
		Doc: "Unique within the channel."},
	{Level: LevelSubscription, Name: "category", Type: TypeInteger, Min: 1, Max: 3, Required: true, Rule: "SUB-31, SUB-39", field: of(func(s *bcp.Subscription) any { return &s.Spec.Category }),
		Doc: "1, 2 or 3, and at most the channel's max_category."},
	{Level: LevelSubscription, Name: "fields", Type: TypeObjects, Child: LevelField, Min: 1, Max: bcp.MaxFields, DefaultRule: "required for category 1", Rule: "SUB-33", field: of(func(s *bcp.Subscription) any { return &s.Spec.Fields }),
		Doc: "Typed values."},
	{Level: LevelSubscription, Name: "questions", Type: TypeObjects, Child: LevelQuestion, Min: 1, Max: bcp.MaxQuestions, DefaultRule: "required for category 2", Rule: "SUB-34", field: of(func(s *bcp.Subscription) any { return &s.Spec.Questions }),
		Doc: "Short answers."},
	{Level: LevelSubscription, Name: "directive", Type: TypeText, Min: 1, Max: bcp.MaxQuestionChars, DefaultRule: "required for category 3", Rule: "SUB-35", field: of(func(s *bcp.Subscription) any { return &s.Spec.Directive }),
		Doc: "What the summary is about."},
	{Level: LevelSubscription, Name: "max_words", Type: TypeInteger, Min: 1, Max: bcp.MaxSpecWords, DefaultRule: "required for category 3", Rule: "SUB-36, C-13", field: of(func(s *bcp.Subscription) any { return &s.Spec.MaxWords }),
		Doc: "Of a summary, or of each question without its own."},
	{Level: LevelSubscription, Name: "requires_approval", Type: TypeBoolean, DefaultRule: "true for category 3", Rule: "BCP-59", field: of(func(s *bcp.Subscription) any { return &s.Spec.RequiresApproval }),
		Doc: "Approval cannot be turned off."},
	{Level: LevelSubscription, Name: "constraints", Type: TypeTexts, Min: 1, Max: bcp.MaxConstraints, DefaultRule: "none", Rule: "P3.7", field: of(func(s *bcp.Subscription) any { return &s.Spec.Constraints }),
		Doc: "CEL expressions that must hold over the typed answers."},
	{Level: LevelSubscription, Name: "allow_not_enough_information", Type: TypeBoolean, DefaultRule: "no effect", Rule: "P3.9, SUB-38", field: of(func(s *bcp.Subscription) any { return &s.Spec.AllowNotEnoughInformation }),
		Doc: "Accepted, as in the spec of a query."},
	{Level: LevelSubscription, Name: "max_rate", Type: TypePushRate, Min: 1, Max: bcp.MaxRateCount, DefaultRule: "no limit", Rule: "P1.3, P12.1, SUB-145", field: of(func(s *bcp.Subscription) any { return &s.MaxRate }),
		Doc: "The most pushes in any such time; one more costs nothing."},
	{Level: LevelSubscription, Name: "batch_window", Type: TypeDuration, Min: 1, Max: 7 * day, DefaultRule: "each push is a delivery", Rule: "P1.3, P12.3, SUB-146", field: of(func(s *bcp.Subscription) any { return &s.BatchWindow }),
		Doc: "Delivers the pushes of each such window together at its end. A multiple of release_interval."},
	{Level: LevelSubscription, Name: "publish_when", Type: TypeText, Min: 1, Max: bcp.MaxConstraintBytes, DefaultRule: "always", Rule: "P1.3, P12.2, SUB-147", field: of(func(s *bcp.Subscription) any { return &s.PublishWhen }),
		Doc: "CEL condition over the typed answer. A push for which it does not hold costs nothing."},

	{Level: LevelField, Name: "name", Type: TypeText, Min: 1, Max: 64, Required: true, Rule: "BCP-27", field: of(func(f *bcp.Field) any { return &f.Name }),
		Doc: "Names the field: letters, digits, hyphens and underscores."},
	{Level: LevelField, Name: "type", Type: TypeWord, Words: wordsOf[bcp.Type](1, bcp.TypeSealed), Required: true, Rule: "BCP-28", field: of(func(f *bcp.Field) any { return &f.Type }),
		Doc: "Only schemas of a kernel have sealed: a text that is handed on and read by nobody."},
	{Level: LevelField, Name: "values", Type: TypeTexts, Min: 1, Max: bcp.MaxValues, DefaultRule: "required for enum", Rule: "BCP-29", field: of(func(f *bcp.Field) any { return &f.Values }),
		Doc: "The choices of an enum."},
	{Level: LevelField, Name: "min", Type: TypeInteger, DefaultRule: "required for integer", Rule: "BCP-30", field: of(func(f *bcp.Field) any { return &f.Min }),
		Doc: "The smallest integer."},
	{Level: LevelField, Name: "max", Type: TypeInteger, DefaultRule: "required for integer and sealed", Rule: "BCP-30", field: of(func(f *bcp.Field) any { return &f.Max }),
		Doc: "The largest integer; of what is sealed, bytes."},

	{Level: LevelQuestion, Name: "id", Type: TypeText, Min: 1, Max: 64, Required: true, Rule: "BCP-43", field: of(func(q *bcp.Question) any { return &q.ID }),
		Doc: "Names the answer: letters, digits, hyphens and underscores."},
	{Level: LevelQuestion, Name: "question", Type: TypeText, Min: 1, Max: bcp.MaxQuestionChars, Required: true, Rule: "BCP-44", field: of(func(q *bcp.Question) any { return &q.Question }),
		Doc: "The text that the Reader gets."},
	{Level: LevelQuestion, Name: "max_words", Type: TypeInteger, Min: 1, Max: bcp.MaxSpecWords, DefaultRule: "max_words of the subscription", Rule: "BCP-45, C-13", field: of(func(q *bcp.Question) any { return &q.MaxWords }),
		Doc: "The words of the answer."},
	{Level: LevelQuestion, Name: "expected_format", Type: TypeWord, Words: wordsOf[bcp.Format](1, bcp.FormatSummary-1), Required: true, Rule: "BCP-46, P3.2", field: of(func(q *bcp.Question) any { return &q.ExpectedFormat }),
		Doc: "The form of the answer."},
	{Level: LevelQuestion, Name: "min", Type: TypeInteger, DefaultRule: "-1000000000 for an integer, year 1 for a date", Rule: "P1.3, P3.2", field: of(func(q *bcp.Question) any { return &q.Min }),
		Doc: "The smallest, or the first year."},
	{Level: LevelQuestion, Name: "max", Type: TypeInteger, DefaultRule: "1000000000 for an integer, year 9999 for a date", Rule: "P1.3, P3.2", field: of(func(q *bcp.Question) any { return &q.Max }),
		Doc: "The largest, or the last year."},
	{Level: LevelQuestion, Name: "values", Type: TypeTexts, Min: 1, Max: bcp.MaxValues, DefaultRule: "required for enum", Rule: "P1.3, P3.2", field: of(func(q *bcp.Question) any { return &q.Values }),
		Doc: "The choices of an enum."},
	{Level: LevelQuestion, Name: "vocabulary", Type: TypeText, Min: 1, Max: 64, DefaultRule: "required for vocabulary", Rule: "P1.3, P3.2", field: of(func(q *bcp.Question) any { return &q.Vocabulary }),
		Doc: "The word list of the answer's words."},
	{Level: LevelQuestion, Name: "max_chars", Type: TypeInteger, Min: 1, Max: bcp.MaxAnswerChars, DefaultRule: "no bound of its own; 64 for an e-mail", Rule: "P1.3, P3.2", field: of(func(q *bcp.Question) any { return &q.MaxChars }),
		Doc: "The characters of a text or e-mail answer."},
	{Level: LevelQuestion, Name: "alphabet", Type: TypeWord, Words: bcp.Alphabets(), Default: "any", Rule: "P1.3, P3.4", field: of(func(q *bcp.Question) any { return &q.Alphabet }),
		Doc: "The letters of a text answer; what looks alike is read as of it."},
	{Level: LevelQuestion, Name: "same_as", Type: TypeText, Min: 1, Max: 64, DefaultRule: "none", Rule: "P1.3, P3.8", field: of(func(q *bcp.Question) any { return &q.SameAs }),
		Doc: "Another question whose answer must agree."},

	{Level: LevelModel, Name: "name", Type: TypeText, Min: 1, Max: 64, Required: true, Rule: "A1", field: of(func(m *bcp.Model) any { return &m.Name }),
		Doc: "The name that agents use."},
	{Level: LevelModel, Name: "provider", Type: TypeWord, Words: bcp.Providers(), Required: true, Rule: "A1, A3", field: of(func(m *bcp.Model) any { return &m.Provider }),
		Doc: "Its API; openai with a base_url is any compatible endpoint."},
	{Level: LevelModel, Name: "model", Type: TypeText, Min: 1, Max: 256, Required: true, Rule: "A1", field: of(func(m *bcp.Model) any { return &m.Model }),
		Doc: "As the provider calls it; for script a file of the folder."},
	{Level: LevelModel, Name: "key", Type: TypeText, Min: 1, Max: 256, DefaultRule: "the provider's, in the environment; with a base_url none", Rule: "A1", field: of(func(m *bcp.Model) any { return &m.Key }),
		Doc: "Where the API key is (tools.md)."},
	{Level: LevelModel, Name: "base_url", Type: TypeText, Min: 1, Max: 256, DefaultRule: "the provider's own", Rule: "A1", field: of(func(m *bcp.Model) any { return &m.BaseURL }),
		Doc: "The endpoint, such as http://127.0.0.1:8080/v1."},
	{Level: LevelModel, Name: "price", Type: TypeObject, Child: LevelPrice, DefaultRule: "the list price of " + cost.Date() + ", if the model is on the list and has no base_url", Rule: "A1, P15.2",
		Doc: "What a million tokens cost."},

	{Level: LevelPrice, Name: "input", Type: TypeUSD, Min: 0, Max: maxPrice, Required: true, Rule: "P15.3", field: of(func(p *cost.Price) any { return &p.Input }),
		Doc: "Of the request."},
	{Level: LevelPrice, Name: "output", Type: TypeUSD, Min: 0, Max: maxPrice, Required: true, Rule: "P15.3", field: of(func(p *cost.Price) any { return &p.Output }),
		Doc: "Of the reply."},
	{Level: LevelPrice, Name: "cache_read", Type: TypeUSD, Min: 0, Max: maxPrice, DefaultRule: "input", Rule: "P15.3", field: of(func(p *cost.Price) any { return &p.CacheRead }),
		Doc: "Of the part of the request that the provider had cached."},
	{Level: LevelPrice, Name: "cache_write", Type: TypeUSD, Min: 0, Max: maxPrice, DefaultRule: "input", Rule: "P15.3", field: of(func(p *cost.Price) any { return &p.CacheWrite }),
		Doc: "Of the part of the request that the provider caches."},

	{Level: LevelNotify, Name: "name", Type: TypeName, Required: true, Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Name }),
		Doc: "Names the route in logs and metrics."},
	{Level: LevelNotify, Name: "person", Type: TypeName, DefaultRule: "nobody's: held items are told without their ids", Rule: "P4.6, P10", field: of(func(r *bcp.Route) any { return &r.Person }),
		Doc: "The approver or auditor whom it reaches."},
	{Level: LevelNotify, Name: "webhook", Type: TypeSecretName, DefaultRule: "none", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Webhook }),
		Doc: "The URL to post to."},
	{Level: LevelNotify, Name: "format", Type: TypeWord, Words: wordsOf[bcp.WebhookFormat](1, 4), Default: "json", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Format }),
		Doc: "The format of the posts to the webhook."},
	{Level: LevelNotify, Name: "mail_server", Type: TypeServer, DefaultRule: "none", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.MailServer }),
		Doc: "The SMTP server: STARTTLS, or TLS at port 465, unless it is on this machine."},
	{Level: LevelNotify, Name: "mail_user", Type: TypeText, Min: 1, Max: 256, DefaultRule: "no login", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.MailUser }),
		Doc: "The user at the mail server."},
	{Level: LevelNotify, Name: "mail_password", Type: TypeSecretName, DefaultRule: "none; required with mail_user", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Password }),
		Doc: "Its password."},
	{Level: LevelNotify, Name: "mail_from", Type: TypeMailAddress, DefaultRule: "required with mail_server", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.MailFrom }),
		Doc: "The address that mail comes from."},
	{Level: LevelNotify, Name: "mail_to", Type: TypeMailAddresses, Min: 1, Max: 32, DefaultRule: "required with mail_server", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.MailTo }),
		Doc: "The addresses that mail goes to."},
	{Level: LevelNotify, Name: "command", Type: TypeTexts, Min: 1, Max: 256, DefaultRule: "none", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Command }),
		Doc: "A program that gets the message as JSON on stdin."},
	{Level: LevelNotify, Name: "for", Type: TypeChoices, Words: wordsOf[bcp.NoticeTopic](1, 3), Min: 1, Max: 3, DefaultRule: "held, alerts and credentials", Rule: "P4.6",
		Doc: "The kinds of notifications."},
	{Level: LevelNotify, Name: "severity", Type: TypeWord, Words: wordsOf[bcp.Severity](1, 3), Default: "warning", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Severity }),
		Doc: "The lowest severity that is notified."},
	{Level: LevelNotify, Name: "quiet", Type: TypeHours, DefaultRule: "none", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Quiet }),
		Doc: "Hours in which what is not critical waits, in time_zone."},
	{Level: LevelNotify, Name: "repeat", Type: TypeDuration, Words: []string{"none"}, Min: minute, Max: 7 * day, Default: "none", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Repeat }),
		Doc: "How often a held item is notified again, until somebody has looked at it."},
	{Level: LevelNotify, Name: "gather", Type: TypeDuration, Min: 1, Max: hour, Default: "30s", Rule: "P4.6", field: of(func(r *bcp.Route) any { return &r.Gather }),
		Doc: "After five messages, at most one in this time."},
}

// maxPrice bounds the price of a million tokens, in dollars.
const maxPrice = 1000

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

// levels has the rows of each level.
var levels = func() (rows [lastLevel + 1][]*Key) {
	for i := range schema {
		rows[schema[i].Level] = append(rows[schema[i].Level], &schema[i])
	}
	return rows
}()

// keyNames returns the names of a level's keys.
func keyNames(level Level) []string {
	var names []string
	for _, k := range levels[level] {
		names = append(names, k.Name)
	}
	return names
}

func findKey(level Level, name string) *Key {
	for _, k := range levels[level] {
		if k.Name == name {
			return k
		}
	}
	return nil
}
