package definition

import (
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// routes returns what notify declares, each with one way out.
func (b *builder) routes(o *object) []bcp.Route {
	var routes []bcp.Route
	first := map[string]bool{}
	for i, r := range o.get("notify").objects {
		at := index("notify", i)
		route := buildRoute(r)
		if r.has("name") && first[route.Name] {
			b.meshSource.errorf(r.at("name"), CodeDuplicate, join(at, "name"), "%s is listed twice", quote(route.Name))
		}
		first[route.Name] = true
		b.checkRoute(r, at)
		routes = append(routes, route)
	}
	return routes
}

func buildRoute(r *object) bcp.Route {
	var route bcp.Route
	r.fill(&route)
	words := r.texts("for")
	if word := r.get("for").word; word != "" {
		words = []string{word}
	}
	for topic := bcp.TopicHeld; topic <= bcp.TopicCredentials; topic++ {
		if len(words) == 0 || slices.Contains(words, topic.String()) {
			route.Topics = append(route.Topics, topic)
		}
	}
	return route
}

// buildQuiet reads hours that [hours] matches.
func buildQuiet(text string) bcp.Quiet {
	begin, end, ok := strings.Cut(text, "-")
	if !ok || !hours.MatchString(text) {
		return bcp.Quiet{}
	}
	minutes := func(s string) int {
		digit := func(i int) int { return int(s[i] - '0') }
		return (digit(0)*10+digit(1))*60 + digit(3)*10 + digit(4)
	}
	return bcp.Quiet{Begin: minutes(begin), End: minutes(end)}
}

// ways are the keys of which a route has one, and keysOfWay those that need it.
var (
	ways      = []string{"webhook", "mail_server", "command"}
	keysOfWay = []struct{ way, key string }{
		{"webhook", "format"}, {"mail_server", "mail_user"}, {"mail_server", "mail_password"}, {"mail_server", "mail_from"}, {"mail_server", "mail_to"},
	}
)

// checkRoute checks the keys of one route against each other.
func (b *builder) checkRoute(r *object, at string) {
	s := b.meshSource
	written := func(key string) bool { return r.values[key] != nil }
	var have []string
	for _, way := range ways {
		if written(way) {
			have = append(have, way)
		}
	}
	if len(have) != 1 {
		s.errorf(r.position, CodeBadValue, at, "expected one of %s, got %d of them", strings.Join(ways, ", "), len(have))
		return
	}
	for _, k := range keysOfWay {
		if written(k.key) && k.way != have[0] {
			s.errorf(r.at(k.key), CodeBadValue, join(at, k.key), "it goes with %s, and this route has a %s", k.way, have[0])
		}
	}
	if have[0] == "mail_server" {
		for _, key := range []string{"mail_from", "mail_to"} {
			if !written(key) {
				s.errorf(r.position, CodeMissingKey, join(at, key), "a route with mail_server needs this key: expected %s", expected(findKey(LevelNotify, key)))
			}
		}
		if written("mail_user") != written("mail_password") {
			s.errorf(r.position, CodeBadValue, at, "mail_user and mail_password go together")
		}
	}
	if quiet := r.get("quiet").text; r.has("quiet") && quiet[:5] == quiet[6:] {
		s.errorf(r.at("quiet"), CodeBadValue, join(at, "quiet"), "expected two different times, got %s", quote(quiet))
	}
	if r.has("command") && b.find != nil {
		if err := b.find(r.texts("command"), 0); err != nil {
			s.errorf(r.at("command"), CodeNoCommand, join(at, "command"), "it cannot be started: %s", err)
		}
	}
}

// checkRoutes looks for people whom the mesh does not have, and for what nobody hears.
func (b *builder) checkRoutes(m *bcp.Mesh) {
	for i, r := range b.mesh.get("notify").objects {
		person := bcp.AgentName(r.get("person").text)
		if !r.has("person") || slices.Contains(m.Approvers, person) || slices.Contains(m.Auditors, person) {
			if repeat := r.get("repeat").duration; repeat > 0 && !slices.Contains(buildRoute(r).Topics, bcp.TopicHeld) {
				b.meshSource.warnf(r.at("repeat"), CodeNoEffect, join(index("notify", i), "repeat"), "no effect: the route does not tell of held items")
			}
			continue
		}
		b.meshSource.errorf(r.at("person"), CodeUnknownPerson, join(index("notify", i), "person"), "%s is neither an approver nor an auditor of mesh.yaml", quote(string(person)))
	}
}
