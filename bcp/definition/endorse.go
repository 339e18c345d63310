package definition

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// endorseKeys say who may endorse what is held on a channel. All of them are required: what
// is given away is written down.
var endorseKeys = []Key{
	{Level: LevelEndorse, Name: "controller", Type: TypeName, Required: true, Rule: "P7.8",
		Doc: "The Controller of the channel."},
	{Level: LevelEndorse, Name: "reader", Type: TypeName, Required: true, Rule: "P7.8",
		Doc: "Its Reader."},
	{Level: LevelEndorse, Name: "people", Type: TypeNames, Min: 1, Max: 256, Required: true, Rule: "P7.8", field: of(func(r *bcp.EndorseRule) any { return &r.People }),
		Doc: "Approvers of the channel who may endorse. Without them theirs end."},
	{Level: LevelEndorse, Name: "max_uses", Type: TypeInteger, Min: 1, Max: 10_000, Required: true, Rule: "P7.8", field: of(func(r *bcp.EndorseRule) any { return &r.MaxUses }),
		Doc: "How many answers one endorsement may release."},
	{Level: LevelEndorse, Name: "max_time", Type: TypeDuration, Min: minute, Max: 90 * day, Required: true, Rule: "P7.8", field: of(func(r *bcp.EndorseRule) any { return &r.MaxTime }),
		Doc: "How long one may hold."},
	{Level: LevelEndorse, Name: "max_bits", Type: TypeBits, Min: 1, Max: bcp.MaxBits, Required: true, Rule: "P7.8", field: of(func(r *bcp.EndorseRule) any { return &r.MaxBits }),
		Doc: "The capacity in bits of all that one may release."},
}

// endorse reads who may endorse. A rule that says less than it has to allows nobody.
func (b *builder) endorse(m *bcp.Mesh) {
	if b.incomplete {
		return
	}
	for i, o := range b.mesh.get("endorse").objects {
		at := index("endorse", i)
		key := bcp.ChannelKey{Controller: bcp.AgentName(o.get("controller").text), Reader: bcp.AgentName(o.get("reader").text)}
		n, found := slices.BinarySearchFunc(m.Channels, key, func(c bcp.Channel, key bcp.ChannelKey) int { return c.ChannelKey.Compare(key) })
		switch {
		case !o.has("controller") || !o.has("reader"):
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
		for j, e := range o.get("people").texts {
			if !slices.Contains(ch.Approvers, bcp.AgentName(e.text)) {
				b.meshSource.errorf(e.position, CodeUnknownPerson, index(join(at, "people"), j), "%s is no approver of the channel", quote(e.text))
			}
		}
	}
}
