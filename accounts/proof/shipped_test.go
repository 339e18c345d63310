package proof_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// sound proves a mesh from the very tokens that are compiled for it.
func sound(t testing.TB, scopes []subjects.Scope) proof.Report {
	t.Helper()
	b := compiled(t, scopes)
	tokens := []string{b.Operator, b.Gateway.JWT, b.Monitor.JWT}
	for _, a := range b.Accounts {
		tokens = append(tokens, a.JWT)
	}
	report := must(proof.Prove(claimsOf(t, tokens...), proof.Policy{}))(t)
	for _, h := range report.Holes {
		t.Errorf("%s: %s", h.Claim, h)
	}
	// Beside the agents there is who holds an invitation. Dispatchers connect inside the
	// server's process alone.
	agents, trusted := 1, []string{"gateway", "monitor"}
	for _, s := range scopes {
		if s.Role == bcp.RoleDispatcher {
			trusted = append(trusted, subjects.UserName(s.Agent, s.Role))
		} else {
			agents++
		}
	}
	slices.Sort(trusted)
	slices.Sort(report.Trusted)
	if len(report.Principals) != agents || !slices.Contains(report.Principals, subjects.Joiner) || !slices.Equal(report.Trusted, trusted) {
		t.Errorf("it is of %v, and trusts %v", report.Principals, report.Trusted)
	}
	return report
}

// Kernels open no way between agents, and each call has one publisher: the dispatcher of
// its tool, inside the server's process.
//
// covers KER-14
func TestKernelsHaveNoHole(t *testing.T) {
	t.Parallel()
	scopes := kernels()
	sound(t, scopes)
	publishers := map[string]int{}
	for _, s := range scopes {
		for _, subject := range s.PubAllow {
			if parsed, err := subjects.Parse(subject); err == nil && parsed.Kind == subjects.KindCall {
				publishers[subject]++
				if s.Role != bcp.RoleDispatcher || len(s.PubAllow) != 1 || s.Respond {
					t.Errorf("%s as %s may publish %v", s.Agent, s.Role, s.PubAllow)
				}
			}
		}
	}
	if len(publishers) != 5 {
		t.Errorf("the calls are %v", publishers)
	}
	for subject, n := range publishers {
		if n != 1 {
			t.Errorf("%s has %d publishers", subject, n)
		}
	}
}

// Every mesh that this repository shows to users, and one with every role.
//
// covers BCP-7, SUB-8, A-WILD, A-JSAPI, A-SYS
func TestShippedHasNoHole(t *testing.T) {
	t.Parallel()
	sound(t, office())
	sound(t, nil)
	folders := []string{"../../bcp/definition/testdata/seed", "../../examples/mailroom/mesh"}
	for _, pattern := range []string{"../../cmd/bcpmesh/internal/define/meshes/*"} {
		more := must(filepath.Glob(pattern))(t)
		folders = append(folders, more...)
	}
	if len(folders) < 4 {
		t.Fatalf("only %v", folders)
	}
	for _, folder := range folders {
		mesh, report := definition.Load(os.DirFS(folder))
		if mesh == nil {
			t.Fatalf("%s: %v", folder, report.Errors)
		}
		sound(t, subjects.Permissions(mesh))
	}
}

// Any mesh that definitions can say compiles to claims without a hole.
//
// covers BCP-7, SUB-8, P1.4
func TestRandomMeshesHaveNoHole(t *testing.T) {
	t.Parallel()
	meshes := rapid.Custom(drawMesh)
	for n := range 20 {
		mesh := meshes.Example(n)
		if sound(t, subjects.Permissions(mesh)); t.Failed() {
			t.Fatalf("of %+v", mesh)
		}
	}
}

func drawMesh(t *rapid.T) *bcp.Mesh {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,4}`), 2, 6, rapid.ID).Draw(t, "agents")
	mesh := &bcp.Mesh{}
	roles := map[string]*bcp.Agent{}
	seen := map[bcp.ChannelKey]bool{}
	for _, n := range names {
		roles[n] = &bcp.Agent{Name: bcp.AgentName(n)}
	}
	for range rapid.IntRange(0, 6).Draw(t, "channels") {
		c, r := rapid.SampledFrom(names).Draw(t, "controller"), rapid.SampledFrom(names).Draw(t, "reader")
		key := bcp.ChannelKey{Controller: bcp.AgentName(c), Reader: bcp.AgentName(r)}
		if c == r || seen[key] {
			continue
		}
		seen[key], roles[c].Controller, roles[r].Reader = true, true, true
		channel := bcp.Channel{ChannelKey: key}
		for _, id := range rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9-]{1,4}`), 0, 2, rapid.ID).Draw(t, "subscriptions") {
			channel.Subscriptions = append(channel.Subscriptions, bcp.Subscription{ID: bcp.SubscriptionID(id)})
		}
		mesh.Channels = append(mesh.Channels, channel)
	}
	for _, n := range names {
		mesh.Agents = append(mesh.Agents, *roles[n])
	}
	for _, n := range rapid.SliceOfNDistinct(rapid.StringMatching(`p[a-z0-9-]{0,3}`), 0, 3, rapid.ID).Draw(t, "people") {
		if roles[n] == nil {
			mesh.Approvers, mesh.Auditors = append(mesh.Approvers, bcp.AgentName(n)), append(mesh.Auditors, bcp.AgentName(n))
		}
	}
	return mesh
}

// A real server agrees: of all subjects that anybody has to do with, agents hear
// none of what another publishes, and the gateway's account hears an agent on
// its own subjects alone.
//
// covers BCP-7, SUB-8, SUB-11, A-WILD, A-JSAPI, A-SYS
func TestServerAgreesWithShipped(t *testing.T) {
	t.Parallel()
	i := shipped(t, office())
	tried := []string{
		"$JS.API.STREAM.PURGE.BCP_AUDIT", "$JS.API.INFO", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.SERVER.PING.CONNZ", "_R_.x", "_INBOX.x", "bcp.v1.commit.0",
		"bcp.v1.audit.main.mailer.ask", "bcp.v1.key.main.mailer.payload.2026-01-01", "bcp.v1.reply.reader.mailer.q1", "bcp.v1.reply.controller.main.d1", "x",
	}
	type who struct{ account, name string }
	var all []who
	for _, account := range []string{readers, controllers, people} {
		for _, scope := range i.accounts[account].SigningKeys {
			s := scope.(*jwt.UserScope)
			all = append(all, who{account, s.Role})
			for _, p := range slices.Concat([]string(s.Template.Pub.Allow), []string(s.Template.Sub.Allow)) {
				tried = append(tried, literal(p))
			}
		}
	}
	w := i.serve(t)
	gateway := w.watch(t, core)
	inCore := make(chan *nats.Msg, 2*len(all)*len(tried)) // filled when a flush returns
	for _, subject := range []string{"bcp.>", "$JS.API.>"} {
		must(gateway.ChanSubscribe(subject, inCore))(t)
	}
	noError(t, gateway.Flush())
	conns := map[who]*nats.Conn{}
	for _, a := range all {
		conns[a] = w.as(t, a.account, a.name)
		for _, p := range i.template(a.account, a.name).Sub.Allow {
			if _, err := conns[a].Subscribe(p, func(m *nats.Msg) {
				if by := string(m.Data); by != a.name && by != "" {
					t.Errorf("%s heard %s on %s", a.name, by, m.Subject)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		noError(t, conns[a].Flush())
	}
	for _, a := range all {
		for _, subject := range tried {
			noError(t, conns[a].Publish(subject, []byte(a.name)))
		}
		noError(t, conns[a].Flush())
	}
	for _, nc := range append([]*nats.Conn{gateway}, slices.Collect(maps.Values(conns))...) {
		noError(t, nc.Flush())
	}
	arrived := map[string][]string{} // by sender
	for len(inCore) > 0 {
		m := <-inCore
		arrived[string(m.Data)] = append(arrived[string(m.Data)], m.Subject)
	}
	for _, a := range all {
		role, agent, _ := strings.Cut(a.name, "-")
		for _, subject := range arrived[a.name] {
			own := strings.Contains(subject, "."+agent+".") || strings.HasSuffix(subject, "."+agent)
			figures := subject == "bcp.v1.control.forecast" || subject == "bcp.v1.control.sessions" || subject == "bcp.v1.control.storage"
			read := role == "auditor" && (strings.HasPrefix(subject, "$JS.API.") || figures) || role == "operator"
			if !own && !read {
				t.Errorf("%s reached the gateway on %s", a.name, subject)
			}
		}
		// The mailer and the others may all do something but a Reader without
		// subscriptions.
		if len(arrived[a.name]) == 0 {
			t.Errorf("%s reached nobody", a.name)
		}
	}
	if n := len(w.accounts[accounts.System].SigningKeys); n != 1 {
		t.Errorf("%d scopes in the system account", n)
	}
}
