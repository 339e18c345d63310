package definition

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// endorseKeys say who may endorse what is held on a channel, or calls of a kernel. What is
// given away is written down: there is no default.
var endorseKeys = []Key{
	{Level: LevelEndorse, Name: "controller", Type: TypeName, DefaultRule: "a kernel", Rule: "P7.8",
		Doc: "The Controller of the channel."},
	{Level: LevelEndorse, Name: "reader", Type: TypeName, DefaultRule: "a kernel", Rule: "P7.8",
		Doc: "Its Reader."},
	{Level: LevelEndorse, Name: "kernel", Type: TypeName, DefaultRule: "a channel", Rule: "P7.9",
		Doc: "The kernel, for calls."},
	{Level: LevelEndorse, Name: "tools", Type: TypeTexts, Min: 1, Max: kernel.MaxTools, DefaultRule: "a channel", Rule: "P7.9",
		Doc: "Its tools."},
	{Level: LevelEndorse, Name: "people", Type: TypeNames, Min: 1, Max: 256, Required: true, Rule: "P7.8", field: of(func(r *bcp.EndorseRule) any { return &r.People }),
		Doc: "Approvers who may endorse. Without them theirs end."},
	{Level: LevelEndorse, Name: "max_uses", Type: TypeInteger, Min: 1, Max: 10_000, Required: true, Rule: "P7.8", field: of(func(r *bcp.EndorseRule) any { return &r.MaxUses }),
		Doc: "How many answers or calls one endorsement lets through."},
	{Level: LevelEndorse, Name: "max_time", Type: TypeDuration, Min: minute, Max: 90 * day, Required: true, Rule: "P7.8", field: of(func(r *bcp.EndorseRule) any { return &r.MaxTime }),
		Doc: "How long one may hold."},
	{Level: LevelEndorse, Name: "max_bits", Type: TypeBits, Min: 1, Max: bcp.MaxBits, Required: true, Rule: "P7.8", field: of(func(r *bcp.EndorseRule) any { return &r.MaxBits }),
		Doc: "Their capacity in bits, or the influence of content on calls, together."},
}

// endorse reads who may endorse. A rule that says less than it has to allows nobody.
func (b *builder) endorse(m *bcp.Mesh) {
	if b.incomplete {
		return
	}
	for i, o := range b.mesh.get("endorse").objects {
		at := index("endorse", i)
		if o.has("kernel") || o.has("tools") {
			b.endorseCalls(m, o, at)
			continue
		}
		key := bcp.ChannelKey{Controller: bcp.AgentName(o.get("controller").text), Reader: bcp.AgentName(o.get("reader").text)}
		n, found := slices.BinarySearchFunc(m.Channels, key, func(c bcp.Channel, key bcp.ChannelKey) int { return c.ChannelKey.Compare(key) })
		switch {
		case !o.has("controller") || !o.has("reader"):
			b.meshSource.errorf(o.position, CodeMissingKey, at, "an entry of endorse is of a controller and a reader, or of a kernel and tools")
			continue
		case !found:
			b.meshSource.errorf(o.position, CodeNoCounterpart, at, "there is no channel of the controller %s and the reader %s", key.Controller, key.Reader)
			continue
		case len(m.Channels[n].Endorse.People) > 0:
			b.meshSource.errorf(o.position, CodeDuplicate, at, "the channel of %s and %s is listed twice", key.Controller, key.Reader)
			continue
		}
		ch := &m.Channels[n]
		o.fill(&ch.Endorse)
		b.checkEndorsers(o, at, ch.Approvers, "channel")
	}
}

// endorseCalls reads who may endorse calls of tools of a kernel.
func (b *builder) endorseCalls(m *bcp.Mesh, o *object, at string) {
	k := m.Kernel(bcp.AgentName(o.get("kernel").text))
	switch {
	case !o.has("kernel") || !o.has("tools") || o.has("controller") || o.has("reader"):
		b.meshSource.errorf(o.position, CodeMissingKey, at, "an entry of endorse is of a controller and a reader, or of a kernel and tools")
		return
	case k == nil:
		b.meshSource.errorf(o.position, CodeNoCounterpart, at, "there is no kernel %s", quote(o.get("kernel").text))
		return
	}
	for j, tool := range o.get("tools").texts {
		place := index(join(at, "tools"), j)
		rule := bcp.EndorseTool{Kernel: k.Kernel, Tool: tool.text}
		switch {
		case !slices.ContainsFunc(k.Calls, func(c bcp.CallRight) bool { return c.Tool == tool.text }):
			b.meshSource.errorf(tool.position, CodeNoCounterpart, place, "the kernel %s has no tool %s", k.Kernel, quote(tool.text))
		case slices.ContainsFunc(m.EndorseTools, func(r bcp.EndorseTool) bool { return r.Kernel == rule.Kernel && r.Tool == rule.Tool }):
			b.meshSource.errorf(tool.position, CodeDuplicate, place, "the tool %s of %s is listed twice", rule.Tool, rule.Kernel)
		default:
			o.fill(&rule.EndorseRule)
			m.EndorseTools = append(m.EndorseTools, rule)
		}
	}
	b.checkEndorsers(o, at, k.Approvers, "kernel")
}

func (b *builder) checkEndorsers(o *object, at string, approvers []bcp.AgentName, of string) {
	for j, e := range o.get("people").texts {
		if !slices.Contains(approvers, bcp.AgentName(e.text)) {
			b.meshSource.errorf(e.position, CodeUnknownPerson, index(join(at, "people"), j), "%s is no approver of the %s", quote(e.text), of)
		}
	}
}
