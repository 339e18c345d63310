package server_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Agents beyond 256 of a kind are in an account that comes while the server runs:
// they reach the gateway, it reaches them, and nobody else notices.
//
// covers P1.5, BCP-7
func TestSecondAccountComesWhileTheServerRuns(t *testing.T) {
	t.Parallel()
	b := start(t)
	researcher := b.connect("researcher", bcp.RoleReader)
	scopes := b.scopes
	for i := range accounts.AgentsPerAccount {
		name := bcp.AgentName(fmt.Sprintf("helper-%d", i))
		scopes = append(scopes, subjects.Scope{
			Agent: name, Role: bcp.RoleReader, PubAllow: []string{subjects.Push(name, "main", "findings")},
			SubAllow: []string{subjects.QueriesOf(name), subjects.InboxesOf(name)}, MaxSubscriptions: 8,
		})
	}
	bundle := b.compile(scopes)
	noError(t, b.UpdateAccounts(t.Context(), bundle))
	_, ok := bundle.Account("READERS-2")
	stopIf(t, !ok, "there is no second account")
	const last bcp.AgentName = "helper-255"
	helper := b.connect(last, bcp.RoleReader)
	core := b.gateway()
	seen := listen(t, core, subjects.Push(last, "main", "findings"))
	queries := listen(t, helper.Conn, subjects.QueriesOf(last))
	publish(t, helper.Conn, subjects.Push(last, "main", "findings"), "x")
	publish(t, helper.Conn, subjects.Push("researcher", "main", "findings"), "x")
	flush(t, helper.Conn)
	publish(t, core, subjects.Query(last, "main"), "x")
	publish(t, core, subjects.Query("researcher", "main"), "x")
	flush(t, core)
	expect(t, cmp.Diff([]string{subjects.Push(last, "main", "findings")}, subjectsOf(seen())), "", "the gateway")
	flush(t, helper.Conn)
	expect(t, cmp.Diff([]string{subjects.Query(last, "main")}, subjectsOf(queries())), "", "the agent")
	equal(t, []string{"publish " + subjects.Push("researcher", "main", "findings")}, helper.refusals())
	flush(t, researcher.Conn)
	failIf(t, researcher.Stats().Reconnects > 0, "an agent of the first account was disconnected")
}
