package definition

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// endorse reads who may endorse. A rule that says less than it has to allows nobody.
func (b *builder) endorse(m *bcp.Mesh) {
	if b.incomplete {
		return
	}
	for _, r := range b.mesh.EndorseEntries {
		key := bcp.ChannelKey{Controller: r.Controller, Reader: r.Reader}
		n, found := slices.BinarySearchFunc(m.Channels, key, func(c bcp.Channel, key bcp.ChannelKey) int { return c.ChannelKey.Compare(key) })
		switch {
		case r.bad:
		case r.Kernel != "":
			r.calls(m)
		case !found:
			r.errorf("", CodeNoCounterpart, "there is no channel of the controller %s and the reader %s", key.Controller, key.Reader)
		case len(m.Channels[n].Endorse.People) > 0:
			r.errorf("", CodeDuplicate, "the channel of %s and %s is listed twice", key.Controller, key.Reader)
		default:
			m.Channels[n].Endorse = r.EndorseRule
			r.checkPeople(m.Channels[n].Approvers, "channel")
		}
	}
}

// calls reads who may endorse calls of tools of a kernel.
func (r *endorseForm) calls(m *bcp.Mesh) {
	k := m.Kernel(r.Kernel)
	if k == nil {
		r.errorf("", CodeNoCounterpart, "there is no kernel %s", quote(string(r.Kernel)))
		return
	}
	for j, tool := range r.Tools {
		switch at := index("tools", j); {
		case !slices.ContainsFunc(k.Calls, func(c bcp.CallRight) bool { return c.Tool == tool }):
			r.errorf(at, CodeNoCounterpart, "the kernel %s has no tool %s", k.Kernel, quote(tool))
		case slices.ContainsFunc(m.EndorseTools, func(e bcp.EndorseTool) bool { return e.Kernel == k.Kernel && e.Tool == tool }):
			r.errorf(at, CodeDuplicate, "the tool %s of %s is listed twice", tool, k.Kernel)
		default:
			m.EndorseTools = append(m.EndorseTools, bcp.EndorseTool{Kernel: k.Kernel, Tool: tool, EndorseRule: r.EndorseRule})
		}
	}
	r.checkPeople(k.Approvers, "kernel")
}

func (r *endorseForm) checkPeople(approvers []bcp.AgentName, of string) {
	for j, person := range r.People {
		if !slices.Contains(approvers, person) {
			r.errorf(index("people", j), CodeUnknownPerson, "%s is no approver of the %s", quote(string(person)), of)
		}
	}
}
