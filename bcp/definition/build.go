package definition

import (
	"bytes"
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

	mesh      *meshForm
	agents    []*agentForm
	services  []*serviceForm
	contracts []bcp.ContractFile
	files     []bcp.File
	// controllers are the controller's ends of the channels.
	controllers map[bcp.ChannelKey]*channelForm
	compiler    bcp.Compiler
	site        Site
}

func (b *builder) file(s *source, content []byte) {
	b.files = append(b.files, bcp.File{Path: s.path, SHA256: sha256.Sum256(content)})
}

// root reads the mapping of a file; nil if there is none.
func (b *builder) root(s *source, content []byte, before int) *node {
	root := parseYAML(s, bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")), before)
	b.incomplete = b.incomplete || root == nil
	return root
}

func (b *builder) readMesh(s *source, content []byte) {
	b.file(s, content)
	if root := b.root(s, content, 0); root != nil {
		b.mesh = read[meshForm](s, LevelMesh, root)
	}
}

func (b *builder) readAgent(s *source, content []byte) {
	front, body, ok := splitFrontMatter(content)
	if !ok {
		b.incomplete = true
		s.errorf(position{}, CodeFrontMatter, "", "expected YAML between two lines \"---\" at the top of the file")
		return
	}
	b.file(s, content)
	root := b.root(s, front, 1)
	if root == nil {
		return
	}
	a := read[agentForm](s, LevelAgent, root)
	if !a.has("name") {
		b.incomplete = true
		return
	}
	a.Prompt, a.File = string(body), s.path
	b.agents = append(b.agents, a)
}

// build puts the parts together. The mesh is complete only where the report
// has no error.
func (b *builder) build(folder *source) *bcp.Mesh {
	if b.mesh == nil {
		b.mesh = read[meshForm](folder, LevelMesh, &node{Tag: nodeMapping})
	}
	m := b.buildMesh()
	if len(b.agents) == 0 && !b.incomplete {
		folder.errorf(position{}, CodeNoAgents, "", "expected at least one agent: %s/NAME%s with YAML front matter", agentFolder, agentSuffix)
	}
	slices.SortStableFunc(b.agents, func(x, y *agentForm) int { return cmp.Compare(x.Name, y.Name) })
	for i, a := range b.agents {
		if i > 0 && b.agents[i-1].Name == a.Name {
			a.errorf("name", CodeDuplicate, "the agent %s is defined in %s already", a.Name, b.agents[i-1].File)
		}
		if want := strings.TrimSuffix(path.Base(a.File), agentSuffix); want != string(a.Name) {
			a.warnf("name", CodeFileName, "the file is called %s and the agent %s", quote(path.Base(a.File)), a.Name)
		}
		a.complete()
		b.command(a)
		a.shares()
		b.builtin(m, a)
		b.egress(a)
		a.reach()
		m.Agents = append(m.Agents, a.Agent)
	}
	b.checkPeople(m)
	b.defaultPeople(m)
	b.checkRoutes(m)
	b.channels(m)
	b.kernels(m)
	b.endorse(m)
	for _, judge := range []func(*bcp.Mesh){b.trust, b.checkRequired, b.roles, b.warnTotals, b.warnFlow, b.warnArguments} {
		if !b.incomplete && b.report.OK() { // what has errors may lack what others refer to
			judge(m)
		}
	}
	return m
}

// find returns the place of an agent, in the mesh too.
func (b *builder) find(name bcp.AgentName) (i int, known bool) {
	return slices.BinarySearchFunc(b.agents, name, func(a *agentForm, name bcp.AgentName) int { return cmp.Compare(a.Name, name) })
}

func (b *builder) buildMesh() *bcp.Mesh {
	m := new(bcp.Mesh)
	*m = b.mesh.Mesh
	m.Files, m.Contracts, m.SuspendSuspects = b.files, b.contracts, b.mesh.OnSuspect == "suspend"
	m.MaxDisk <<= 20
	b.models(m)
	b.mcpServers(m)
	b.routes(m)
	if m.Replicas%2 == 0 {
		b.mesh.errorf("replicas", CodeOutOfRange, "expected 1, 3 or 5: an even number of copies survives no more failures")
	}
	// The gateways of a cluster have no key that signs checkpoints. One that runs there with one copy is refused at its start.
	if m.RequireWitness > 0 && m.Replicas > 1 {
		b.mesh.errorf("require_witness", CodeWitness, "require_witness is for a mesh of one process, and replicas say that this one is a cluster's: leave it out, and have bcpmesh audit export --checkpoint --witness cosign")
	}
	return m
}

// shares warns of queries that nobody can share.
func (a *agentForm) shares() {
	switch {
	case !a.ShareQueries:
	case !a.Reader:
		a.warnf("share_queries", CodeNoEffect, "no effect: the agent is no Reader")
	case a.MaxConnections == 1:
		a.warnf("share_queries", CodeNoEffect, "no effect: max_connections lets one process connect at a time")
	}
}

// complete sets what the keys of an agent say together.
func (a *agentForm) complete() {
	a.Builtin = a.word("command") == "builtin"
	for _, c := range a.Channels {
		c.agent = a
		a.Controller = a.Controller || c.Role == bcp.RoleController
		a.Reader = a.Reader || c.Role == bcp.RoleReader
	}
	switch {
	case a.has("base_taint"):
	case a.Reader:
		a.BaseTaint = bcp.TaintHigh
	default:
		a.BaseTaint = bcp.TaintLow
	}
	a.Address = canonicalAddress(a.Address)
	if a.Execution.Contract == "" && a.Execution.Role != "" {
		a.Execution.Contract = a.Execution.Role + "-v1"
	}
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
	check := func(key string, people []bcp.AgentName) {
		for i, person := range people {
			if _, isAgent := m.Agent(person); isAgent {
				b.mesh.errorf(index(key, i), CodePersonIsAgent, "%s is an agent: people and agents have different names", person)
			}
		}
	}
	check("approvers", m.Approvers)
	check("auditors", m.Auditors)
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
