package definition

import (
	"cmp"
	"crypto/sha256"
	"path"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// builder makes one mesh of checked files.
type builder struct {
	report Report
	// incomplete says that a file could not be read far enough to know what it
	// declares: no mesh results, and nothing is said about what is not there.
	incomplete bool

	meshSource *source
	mesh       *object
	agents     []*agent
	services   []*service
	contracts  []bcp.ContractFile
	files      []bcp.File
	// controllers are the controller's ends of the channels.
	controllers map[bcp.ChannelKey]*end
	compiler    bcp.Compiler
	// find says why a command cannot be started; nil looks for none.
	find func(command []string, sandbox bcp.Sandbox) error
	// open says why a model cannot be called; nil looks at none.
	open func(bcp.Model) error
	// model is the model of all agents that the mesh runs; empty: what they name.
	model string
	// reads says why what a tool reads cannot be read. Nil where that is not looked at.
	reads func(tool, path string) error
	// keys says why a key cannot be had. Nil where that is not looked at.
	keys func(place, of string) error
}

// agent is one agent file.
type agent struct {
	source *source
	object *object
	prompt string
}

func (b *builder) file(s *source, content []byte) {
	b.files = append(b.files, bcp.File{Path: s.path, SHA256: sha256.Sum256(content)})
}

func (b *builder) readMesh(s *source, content []byte) {
	b.file(s, content)
	root := parseYAML(s, unixLines(content), 0)
	if root == nil {
		b.incomplete = true
		return
	}
	b.meshSource = s
	b.mesh = (&walker{source: s}).object(LevelMesh, root, "")
}

func (b *builder) readAgent(s *source, content []byte) {
	front, body, ok := splitFrontMatter(content)
	if !ok {
		b.incomplete = true
		s.errorf(position{}, CodeFrontMatter, "", "expected YAML between two lines \"---\" at the top of the file")
		return
	}
	b.file(s, content)
	root := parseYAML(s, unixLines(front), 1)
	if root == nil {
		b.incomplete = true
		return
	}
	o := (&walker{source: s}).object(LevelAgent, root, "")
	if !o.has("name") {
		b.incomplete = true
		return
	}
	b.agents = append(b.agents, &agent{source: s, object: o, prompt: string(body)})
}

// build puts the parts together. The mesh is complete only where the report
// has no error.
func (b *builder) build(folder *source) *bcp.Mesh {
	if b.mesh == nil {
		b.meshSource, b.mesh = folder, &object{level: LevelMesh}
	}
	m := b.buildMesh(b.mesh)
	if len(b.agents) == 0 && !b.incomplete {
		folder.errorf(position{}, CodeNoAgents, "", "expected at least one agent: %s/NAME%s with YAML front matter", agentFolder, agentSuffix)
	}
	slices.SortStableFunc(b.agents, func(x, y *agent) int { return cmp.Compare(x.name(), y.name()) })
	for i, a := range b.agents {
		if i > 0 && b.agents[i-1].name() == a.name() {
			a.source.errorf(a.object.at("name"), CodeDuplicate, "name", "the agent %s is defined in %s already", a.name(), b.agents[i-1].source.path)
		}
		if want := strings.TrimSuffix(path.Base(a.source.path), agentSuffix); want != string(a.name()) {
			a.source.warnf(a.object.at("name"), CodeFileName, "name", "the file is called %s and the agent %s", quote(path.Base(a.source.path)), a.name())
		}
		agent := a.agent()
		b.command(a, &agent)
		a.shares(&agent)
		b.builtin(m, a, &agent)
		b.egress(a, &agent)
		m.Agents = append(m.Agents, agent)
	}
	b.checkPeople(m)
	b.defaultPeople(m)
	b.checkRoutes(m)
	b.channels(m)
	b.kernels(m)
	b.endorse(m)
	b.trust(m)
	b.checkRequired(m)
	b.roles(m)
	b.checkWitness(m)
	b.warnTotals(m)
	b.warnFlow(m)
	b.warnArguments(m)
	b.advise(m)
	return m
}

func (b *builder) buildMesh(o *object) *bcp.Mesh {
	m := &bcp.Mesh{Files: b.files, Contracts: b.contracts, SuspendSuspects: o.get("on_suspect").word == "suspend", Models: b.buildModels(o), MCPServers: b.mcpServers(o)}
	o.fill(m)
	m.SyncAlways = o.get("sync").word != ""
	m.MaxDisk <<= 20
	m.Notify = b.routes(o)
	if m.Replicas > 0 && m.Replicas%2 == 0 {
		b.meshSource.errorf(o.at("replicas"), CodeOutOfRange, "replicas", "expected 1, 3 or 5: an even number of copies survives no more failures")
	}
	return m
}

// shares warns of queries that nobody can share.
func (a *agent) shares(agent *bcp.Agent) {
	switch {
	case !agent.ShareQueries:
	case !agent.Reader:
		a.source.warnf(a.object.at("share_queries"), CodeNoEffect, "share_queries", "no effect: the agent is no Reader")
	case agent.MaxConnections == 1:
		a.source.warnf(a.object.at("share_queries"), CodeNoEffect, "share_queries", "no effect: max_connections lets one process connect at a time")
	}
}

func (a *agent) name() bcp.AgentName { return bcp.AgentName(a.object.values["name"].text) }

func (a *agent) agent() bcp.Agent {
	o := a.object
	result := bcp.Agent{BaseTaint: bcp.TaintLow, Builtin: o.get("command").word != "", Network: networkText(o), Prompt: a.prompt, File: a.source.path}
	for _, c := range o.get("bcp_channels").objects {
		result.Controller = result.Controller || buildRole(c) == bcp.RoleController
		result.Reader = result.Reader || buildRole(c) == bcp.RoleReader
	}
	if result.Reader {
		result.BaseTaint = bcp.TaintHigh
	}
	o.fill(&result)
	result.Egress = buildEgress(o, result.Egress)
	result.Address = canonicalAddress(result.Address)
	if result.Execution.Contract == "" && result.Execution.Role != "" {
		result.Execution.Contract = result.Execution.Role + "-v1"
	}
	return result
}

func buildRole(channel *object) bcp.Role { return parseWord[bcp.Role](channel.get("role")) }

// parseWord turns a word that the schema let through into its member; the zero
// value if there is none.
func parseWord[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](v *value) T {
	var member T
	if v.word == "" || P(&member).UnmarshalText([]byte(v.word)) != nil {
		var zero T
		return zero
	}
	return member
}

// defaultPeople makes the person who runs the mesh its approver and auditor
// where mesh.yaml does not say who is. An empty list says nobody.
func (b *builder) defaultPeople(m *bcp.Mesh) {
	if _, isAgent := m.Agent(bcp.Operator); isAgent {
		return
	}
	if !b.mesh.has("approvers") {
		m.Approvers = []bcp.AgentName{bcp.Operator}
	}
	if !b.mesh.has("auditors") {
		m.Auditors = []bcp.AgentName{bcp.Operator}
	}
}

// checkPeople keeps people and agents apart (PROTOCOL P7.3).
func (b *builder) checkPeople(m *bcp.Mesh) {
	for _, key := range []string{"approvers", "auditors"} {
		for i, e := range b.mesh.get(key).texts {
			if _, isAgent := m.Agent(bcp.AgentName(e.text)); isAgent {
				b.meshSource.errorf(e.position, CodePersonIsAgent, index(key, i), "%s is an agent: people and agents have different names", e.text)
			}
		}
	}
}

// canonicalAddress returns a mail address as the rules of kernels compare it, which is in
// lower case; what is none by the protocol's rules stays as it is.
func canonicalAddress(address string) string {
	canonical, err := text.ParseEmail(nil, []byte(address), len(address))
	if err != nil {
		return address
	}
	return string(canonical)
}
