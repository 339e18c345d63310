package definition

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// routes judges what notify declares, each with one way out.
func (b *builder) routes(m *bcp.Mesh) {
	for _, r := range b.mesh.NotifyEntries {
		slices.Sort(r.Topics)
		if len(r.Topics) == 0 {
			r.Topics = []bcp.NoticeTopic{bcp.TopicHeld, bcp.TopicAlerts, bcp.TopicCredentials}
		}
		if r.has("command") && b.site.Find != nil {
			if err := b.site.Find(r.Command, ""); err != nil {
				r.errorf("command", CodeNoCommand, "it cannot be started: %s", err)
			}
		}
		m.Notify = append(m.Notify, r.Route)
	}
}

// checkRoutes looks for people whom the mesh does not have, and for what nobody hears.
func (b *builder) checkRoutes(m *bcp.Mesh) {
	for _, r := range b.mesh.NotifyEntries {
		switch {
		case r.has("person") && !slices.Contains(m.Approvers, r.Person) && !slices.Contains(m.Auditors, r.Person):
			r.errorf("person", CodeUnknownPerson, "%s is neither an approver nor an auditor of mesh.yaml", quote(string(r.Person)))
		case r.Repeat > 0 && !slices.Contains(r.Topics, bcp.TopicHeld):
			r.warnf("repeat", CodeNoEffect, "no effect: the route does not tell of held items")
		}
	}
}
