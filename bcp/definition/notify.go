package definition

import (
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// routes judges what notify declares, each with one way out.
func (b *builder) routes(m *bcp.Mesh) {
	for _, r := range b.mesh.NotifyEntries {
		slices.Sort(r.Topics)
		if len(r.Topics) == 0 {
			r.Topics = []bcp.NoticeTopic{bcp.TopicHeld, bcp.TopicAlerts, bcp.TopicCredentials}
		}
		b.checkRoute(r)
		m.Notify = append(m.Notify, r.Route)
	}
}

// ways are the keys of which a route has one, and keysOfWay those that need it.
var (
	ways      = []string{"webhook", "mail_server", "command"}
	keysOfWay = []struct{ way, key string }{
		{"webhook", "format"}, {"mail_server", "mail_user"}, {"mail_server", "mail_password"}, {"mail_server", "mail_from"}, {"mail_server", "mail_to"},
	}
)

// checkRoute checks the keys of one route against each other.
func (b *builder) checkRoute(r *routeForm) {
	var have []string
	for _, way := range ways {
		if r.written(way) {
			have = append(have, way)
		}
	}
	if len(have) != 1 {
		r.errorf("", CodeBadValue, "expected one of %s, got %d of them", strings.Join(ways, ", "), len(have))
		return
	}
	for _, k := range keysOfWay {
		if r.written(k.key) && k.way != have[0] {
			r.errorf(k.key, CodeBadValue, "it goes with %s, and this route has a %s", k.way, have[0])
		}
	}
	if have[0] == "mail_server" {
		for _, key := range []string{"mail_from", "mail_to"} {
			if !r.written(key) {
				r.errorf(key, CodeMissingKey, "a route with mail_server needs this key: expected %s", expected(LevelNotify.key(key)))
			}
		}
		if r.written("mail_user") != r.written("mail_password") {
			r.errorf("", CodeBadValue, "mail_user and mail_password go together")
		}
	}
	if r.has("quiet") && r.Quiet.Begin == r.Quiet.End {
		r.errorf("quiet", CodeBadValue, "expected two different times, got %s", quote(r.word("quiet")))
	}
	if r.has("command") && b.site.Find != nil {
		if err := b.site.Find(r.Command, 0); err != nil {
			r.errorf("command", CodeNoCommand, "it cannot be started: %s", err)
		}
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
