package bcp

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Mesh is what an operator declared: a folder of definitions after defaults
// and checks (PROTOCOL P1.2, P1.3). Package definition makes it from files.
// It is immutable once made, and may be shared.
type Mesh struct {
	Name         string
	TimeZone     *time.Location
	IdleTimeout  time.Duration
	Vocabularies map[string][]string // word lists, normalised, sorted, without duplicates
	Approvers    []AgentName         // people, never agents
	Auditors     []AgentName
	Replicas     int
	SyncInterval time.Duration // of fsync; 0: with every record
	RawRetention time.Duration
	MaxRefusals  int   // a minute and an agent
	MaxDisk      int64 // of all streams, in bytes; 0 none
	// AllowAddresses are prefixes that agents may reach beside public addresses.
	AllowAddresses []netip.Prefix
	// Models are those that mesh.yaml names, for [Mesh.ModelOf].
	Models []Model
	// MCPServers are those that mesh.yaml names, in its order.
	MCPServers []MCPServer
	// RequireWitness is how old the newest cosignature of a witness may be until asks and pushes are refused; 0: any age.
	RequireWitness time.Duration
	// Trust are the keys of other organisations, and RoleRequirements what may be required of their agents.
	Trust            []Trust
	RoleRequirements []RoleRequirement
	// SuspendSuspects suspends an agent that is suspected of leaving its role; false: people are told alone.
	SuspendSuspects bool
	// Origin is where browsers reach the pages of the mesh, such as https://mesh.example.org, or empty.
	Origin string
	// Notify are the ways in which people are notified.
	Notify []Route
	// Organisation is whose agents these are, as other organisations know it, or empty.
	Organisation string
	// Contracts are those of the folder, by name; there are built-in ones beside them.
	Contracts []ContractFile

	Agents []Agent // sorted by name
	// Channels holds a channel for each pair of entries that name each other,
	// sorted by controller, then reader.
	Channels []Channel
	// Kernels are what kernels need of the server, sorted by name.
	Kernels []KernelRights
	// EndorseTools says who may endorse calls of their tools.
	EndorseTools []EndorseTool
	// Services are the tool services that a kernel calls and the mesh starts, by name.
	Services []Service
	// Compiled are the kernels, which package kernel knows (kernel.OfMesh); nil without one.
	Compiled any `json:"-"`
	// Files are the files that the mesh was read from, for the audit.
	Files []File
}

// JournalShare is the journal's part of MaxDisk, in sixteenths.
const JournalShare = 8

// JournalBytes is how large the journal may become; 0 is no limit.
func (m *Mesh) JournalBytes() int64 { return m.MaxDisk / 16 * JournalShare }

// Service is a tool service that the mesh starts.
type Service struct {
	Name    AgentName
	Command []string
	// Environment names the variables of the mesh's environment that the command gets besides.
	Environment []string
	Sandbox     Sandbox // what confines it
	File        string  // path inside the folder
}

// MCPServer is an MCP server of which models of Readers may have tools. Their keepers start it, or speak to it at its URL.
type MCPServer struct {
	Service
	URL, Key string // instead of a command: where it is, and where its key is
	Tools    []MCPTool
}

// MCPTool is a tool of such a server, as an operator looked at it.
type MCPTool struct {
	Name        string // mcp__SERVER__TOOL, as models call it
	Listed      string // as the server does
	SHA256      string // of what the server says of it
	Description string // the operator's
	InputSchema string // a closed type, in JSON Schema
}

// MCPTool returns the tool with a name, and its server; nil if there is none.
func (m *Mesh) MCPTool(name string) (*MCPServer, *MCPTool) {
	for i := range m.MCPServers {
		for j := range m.MCPServers[i].Tools {
			if t := &m.MCPServers[i].Tools[j]; t.Name == name {
				return &m.MCPServers[i], t
			}
		}
	}
	return nil, nil
}

// ContractFile is a contract of roles that the folder holds.
type ContractFile struct {
	Name string
	// Bytes are those that its digest is of.
	Bytes []byte
}

// File names one definition file by its path inside the folder.
type File struct {
	Path   string
	SHA256 [32]byte
}

// MarshalJSON shows the digest as it is shown elsewhere.
func (f File) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path   string `json:"path"`
		SHA256 Digest `json:"sha256"`
	}{f.Path, f.SHA256})
}

// Agent is one agent's definition.
type Agent struct {
	Name           AgentName
	Description    string
	Model          string
	Tools          []string
	Network        string // as people read it: none, outbound, or the hosts of Egress
	Egress         Egress
	Command        []string
	Builtin        bool     // the mesh itself runs the agent, by Model; Command is empty
	OnDemand       bool     // of Builtin: nothing but a task starts it
	Run            Run      // of Builtin, and of a Command that asks Model through its keeper
	Sandbox        Sandbox  // what confines Command or Builtin; zero if there is none
	Files          []string // what the tool files reads, or a Command that the mesh confines beside its own files
	Mailbox        string   // what the tool mailbox reads
	MailboxKey     string   // where the key of a mailbox of a server is
	Encoding       Encoding
	BaseTaint      Taint
	MaxConnections int
	ShareQueries   bool   // each query goes to one of the Reader's connections
	TotalBudget    Bits   // nominal, over all its channels as Controller; 0 none
	Address        string // of whom it acts for, for the rules of kernels
	Execution      Execution
	CronSchedules  []CronSchedule
	Prompt         string // the body of the file: the system prompt
	File           string // path inside the folder
	// Controller and Reader say which roles its channel entries give it.
	Controller, Reader bool
}

// Execution says what an agent is for in a dual-execution mesh. The zero value says
// nothing.
type Execution struct {
	Role        string // planner, processor or orchestrator
	Type        string // of an orchestrator: deterministic_interpreter
	ModelFamily string // of a planner or a processor, for people; nothing shows it
	Contract    string // the name of its contract
}

// Supervised reports whether the mesh starts the agent.
func (a *Agent) Supervised() bool { return len(a.Command) > 0 || a.Builtin && !a.OnDemand }

// AsksModel reports whether the agent's keeper calls Model: for the agent itself, or for its confined Command.
func (a *Agent) AsksModel() bool { return a.Builtin || a.Run != Run{} }

// Kept reports whether the agent has a keeper: it may reach hosts, or ask a model.
func (a *Agent) Kept() bool { return len(a.Egress.Hosts) > 0 || a.AsksModel() }

// Run bounds what an agent does with its model.
type Run struct {
	MaxTurns    int // of the model in a conversation
	MaxTokens   int // of a turn
	MaxParallel int // conversations at a time
	// CostBudget and TokenBudget bound what its model takes over Window (PROTOCOL P15); 0: no limit.
	CostBudget  USD
	TokenBudget int64
	Window      time.Duration
}

// CronSchedule prompts an agent at its times (PROTOCOL P9.4).
type CronSchedule struct {
	Schedule string // five fields
	Message  string
}

// ChannelKey names a channel.
type ChannelKey struct {
	Controller AgentName
	Reader     AgentName
}

// Compare orders channels by Controller, then Reader.
func (k ChannelKey) Compare(other ChannelKey) int {
	return cmp.Or(cmp.Compare(k.Controller, other.Controller), cmp.Compare(k.Reader, other.Reader))
}

// Channel is one Controller and one Reader whose entries name each other, with
// the smaller value where both entries limit it.
type Channel struct {
	ChannelKey
	MaxCategory    Category
	Budget         Bits // nominal bits of one epoch
	MaxCat2Queries int  // per epoch; negative: no limit
	MaxEscalations int  // per session
	// What a justification of an escalation may have. With a vocabulary, the name
	// of a word list of the mesh, it has words of that list and no others.
	MaxJustificationWords   int
	MaxJustificationChars   int
	JustificationVocabulary string

	// MaxArgumentBytes bounds the arguments of a query; 0 allows none.
	MaxArgumentBytes int

	// ControllerRole and ReaderRole are the requirements that the Controller and the
	// Reader have to be accepted for, since the other end's entry says so; empty: none.
	ControllerRole, ReaderRole string

	BaseCategory Category
	MaxRetries   int
	QueryTTL     time.Duration

	WindowBudget   Bits // nominal bits over BudgetWindow; 0 switched off
	BudgetWindow   time.Duration
	BudgetRenew    time.Duration // 0: never by itself
	PushBudget     Bits          // nominal bits of pushes inside an epoch
	CapacityBudget Bits          // capacity bits of one epoch; 0 none
	AlertBits      Bits

	ReleaseInterval time.Duration // 0: at once, and timing is uncounted
	OnAnomaly       OnAnomaly
	PreserveCase    bool

	MaxPendingApprovals int
	ApprovalTTL         time.Duration
	Approvers           []AgentName
	Endorse             EndorseRule

	Subscriptions []Subscription // in the order of the definition
}

// Subscription is a declared push: its spec never changes at runtime.
type Subscription struct {
	ID   SubscriptionID
	Spec Spec
	// MaxRate bounds the pushes that are accepted; the zero value does not.
	MaxRate Rate
	// PublishWhen is a CEL expression over the typed answer that must hold, or the
	// push is refused and nobody sees it; empty for none.
	PublishWhen string
	// BatchWindow is the length of the windows whose pushes are one delivery; 0
	// delivers each by itself. It is a multiple of the channel's ReleaseInterval.
	BatchWindow time.Duration
}

// Agent returns the definition of name.
func (m *Mesh) Agent(name AgentName) (Agent, bool) {
	i, ok := slices.BinarySearchFunc(m.Agents, name, func(a Agent, name AgentName) int { return cmp.Compare(a.Name, name) })
	if !ok {
		return Agent{}, false
	}
	return m.Agents[i], true
}

// Kernel returns what a kernel needs of the server, or nil if there is none of this name.
func (m *Mesh) Kernel(name AgentName) *KernelRights {
	i := slices.IndexFunc(m.Kernels, func(k KernelRights) bool { return k.Kernel == name })
	if i < 0 {
		return nil
	}
	return &m.Kernels[i]
}

// IsKernel reports whether an agent is a kernel.
func (m *Mesh) IsKernel(name AgentName) bool { return m.Kernel(name) != nil }

// Channel returns the channel with this key.
func (m *Mesh) Channel(key ChannelKey) (Channel, bool) {
	i, ok := slices.BinarySearchFunc(m.Channels, key, func(c Channel, key ChannelKey) int { return c.ChannelKey.Compare(key) })
	if !ok {
		return Channel{}, false
	}
	return m.Channels[i], true
}

// Settings returns what the channel means for the specs of its queries; for
// those of a subscription the caller adds their number. Constraints may be nil, as
// in [Settings].
func (c Channel) Settings(m *Mesh, constraints ConstraintCompiler) Settings {
	settings := Settings{OnAnomaly: c.OnAnomaly, PreserveCase: c.PreserveCase, Vocabularies: m.Vocabularies,
		Constraints: constraints, Sealed: true}
	if c.ReleaseInterval > 0 {
		settings.ReleaseSlots, settings.ApprovalSlots = slots(c.QueryTTL, c.ReleaseInterval), slots(c.ApprovalTTL, c.ReleaseInterval)
	}
	return settings
}

// slots is the number of release intervals in a time, rounded up.
func slots(ttl, interval time.Duration) uint64 {
	n := uint64(max(0, ttl) / interval)
	if ttl%interval > 0 {
		n++
	}
	return n
}

// Schedule returns the next time of a schedule after t, or the zero time where
// there is none.
type Schedule func(t time.Time) time.Time

// ScheduleParser reads a cron schedule of five fields in a time zone. What it
// returns is a pure function.
type ScheduleParser func(schedule string, zone *time.Location) (Schedule, error)

// Model is a model at a provider, for agents that a model runs.
type Model struct {
	Name     string
	Provider string // one of [Providers]
	Model    string // as the provider calls it
	// Key says where the API key is, as env:, file: or command:, never the key itself. Empty
	// means none.
	Key     string
	BaseURL string // empty: the provider's own
	// Stated is its price as mesh.yaml has it; nil: what [Model.Price] finds.
	Stated *Price
}

// Price returns what the model costs, and false if nobody knows it: of an endpoint of
// the operator's only mesh.yaml tells.
func (m Model) Price() (Price, bool) {
	switch {
	case m.Stated != nil:
		return *m.Stated, true
	case m.BaseURL != "" && m.Provider != "ollama":
		return Price{}, false
	}
	return ListPrice(m.Provider, m.Model)
}

// Providers are the ways to a model, with where each has its key if a definition does not
// say.
var providers = map[string]string{
	"anthropic": "env:ANTHROPIC_API_KEY", "openai": "env:OPENAI_API_KEY", "google": "env:GEMINI_API_KEY",
	gullible: "", "ollama": "", "replay": "", "script": "",
}

// Providers returns their names, in alphabetical order.
func Providers() []string {
	var names []string
	for name := range providers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// gullible is the provider that needs no name of a model.
const gullible = "gullible"

// ModelOf returns the model that an agent names: one of Models, provider/model, or gullible.
func (m *Mesh) ModelOf(name string) (Model, bool) {
	for _, model := range m.Models {
		if model.Name == name {
			return model, true
		}
	}
	if name == gullible {
		name += "/" + gullible
	}
	provider, model, ok := strings.Cut(name, "/")
	key, known := providers[provider]
	return Model{Name: name, Provider: provider, Model: model, Key: key}, ok && known && model != ""
}

// WithKey returns the model with its provider's usual key, if it names none. Another
// endpoint than the provider's gets no key that nobody named for it.
func (m Model) WithKey() Model {
	if m.Key == "" && m.BaseURL == "" {
		m.Key = providers[m.Provider]
	}
	return m
}
