package proof_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

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
	failIf(t, len(report.Principals) != agents || !slices.Contains(report.Principals, subjects.Joiner) || !slices.Equal(report.Trusted, trusted),
		"it is of %v, and trusts %v", report.Principals, report.Trusted)
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
				failIf(t, s.Role != bcp.RoleDispatcher || len(s.PubAllow) != 1 || s.Respond,
					"%s as %s may publish %v", s.Agent, s.Role, s.PubAllow)
			}
		}
	}
	failIf(t, len(publishers) != 5, "the calls are %v", publishers)
	for subject, n := range publishers {
		failIf(t, n != 1, "%s has %d publishers", subject, n)
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
	stopIf(t, len(folders) < 4, "only %v", folders)
	for _, folder := range folders {
		mesh, report := definition.Load(os.DirFS(folder))
		stopIf(t, mesh == nil, "%s: %v", folder, report.Errors)
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
		sound(t, subjects.Permissions(mesh))
		stopIf(t, t.Failed(), "of %+v", mesh)
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
