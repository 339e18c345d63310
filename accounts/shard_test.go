package accounts_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// sharded is a mesh on two shards, which are alike: boss and clerk on the first, chief
// and scribe on the second.
func sharded() *bcp.Mesh {
	m := &bcp.Mesh{
		Approvers: []bcp.AgentName{"kim"}, Auditors: []bcp.AgentName{"kim"},
		Agents: []bcp.Agent{
			{Name: "boss", Controller: true}, {Name: "chief", Controller: true, Shard: 1},
			{Name: "clerk", Reader: true}, {Name: "scribe", Reader: true, Shard: 1},
		},
	}
	for _, key := range []bcp.ChannelKey{{Controller: "boss", Reader: "clerk"}, {Controller: "chief", Reader: "scribe"}} {
		m.Channels = append(m.Channels, bcp.Channel{ChannelKey: key, Subscriptions: []bcp.Subscription{{ID: "news"}}})
	}
	return m
}

// An agent of one shard is in no other account: nobody can be moved to where nothing is
// recorded of them, and a claim that does so is found.
//
// covers P4.5, BCP-34
func TestAgentKeepsItsShard(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	before := compileCluster(t, store, subjects.Permissions(sharded()))
	settled, err := store.Settled()
	if want := (map[bcp.AgentName]int{"boss": 0, "clerk": 0, "chief": 1, "scribe": 1}); err != nil || !maps.Equal(settled, want) {
		t.Errorf("settled are %v, %v", settled, err)
	}
	moved := sharded()
	for i := range moved.Agents {
		moved.Agents[i].Shard = 1 - moved.Agents[i].Shard
	}
	if _, err := accounts.CompileCluster(store, subjects.Permissions(moved), now); !errors.Is(err, bcp.ErrMoved) || !strings.Contains(err.Error(), "boss") {
		t.Errorf("moved: %v", err)
	}
	if _, err := accounts.Compile(store, subjects.Permissions(sharded().Whole()), now); !errors.Is(err, bcp.ErrMoved) {
		t.Errorf("moved to a server of its own: %v", err)
	}
	swapped := sharded() // whoever comes back in its other role is still the same agent
	swapped.Channels = nil
	for i := range swapped.Agents {
		a := &swapped.Agents[i]
		a.Shard, a.Controller, a.Reader = 1-a.Shard, a.Reader, a.Controller
	}
	if _, err := accounts.CompileCluster(store, subjects.Permissions(swapped), now); !errors.Is(err, bcp.ErrMoved) {
		t.Errorf("moved in another role: %v", err)
	}
	read, err := accounts.Enforced(before.Operator, tokensOf(before))
	if err != nil {
		t.Fatal(err)
	}
	if lines := read.Differences(subjects.Permissions(sharded())); len(lines) > 0 {
		t.Errorf("differences of the same: %q", lines)
	}
	lines := strings.Join(read.Differences(subjects.Permissions(moved)), "\n")
	for _, want := range []string{"clerk (reader) is not in the claims", "clerk (reader) on shard 0 may publish bcp.v1.push.clerk.boss.news, and the definitions do not say so", "scribe (reader) is not"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q does not say %q", lines, want)
		}
	}
	for account, want := range map[string][2]bool{"CONTROLLERS": {true, false}, "CONTROLLERS.1": {false, true}, "OPERATORS": {true, true}, "CORE": {}} {
		for key := range claimsOf(t, before, account).SigningKeys {
			if got := [2]bool{read.OnShard(key, 0), read.OnShard(key, 1)}; got != want {
				t.Errorf("a key of %s is of the shards %v", account, got)
			}
		}
	}
}

// Names of accounts are read as they are made, and those of others are others'.
//
// covers A-JWTSELF
func TestNamesOfAccounts(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	b := compileCluster(t, store, subjects.Permissions(sharded()))
	want := "CONTROLLERS CONTROLLERS.1 CORE CORE.1 JOIN OPERATORS READERS READERS.1 SYS"
	var names []string
	for _, a := range b.Accounts {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("accounts %s", got)
	}
	for name, want := range map[string]int{
		"CORE": 0, "CORE.1": 1, "CORE.63": 63, "READERS.7-2": 7, "READERS-2": 0, "CONTROLLERS.2": 2,
		"CORE.64": 0, "CORE.01": 0, "CORE.0": 0, "CORE.1-2": 0, "OPERATORS.1": 0, "SYS.1": 0, "READERS.1-1": 0, "OTHERS.1": 0, "READERS.": 0, "READERS.1.1": 0,
	} {
		if got := accounts.ShardOf(name); got != want {
			t.Errorf("%s is of shard %d", name, got)
		}
	}
}

// Between shards there is no way: what an agent says reaches the gateway of its own, and
// what people say the one that they say it to. They hear of alerts of all.
//
// covers BCP-7, SUB-8, A-SYS, P4.5
func TestShardsAreApart(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	cores, _, err := store.Gateway("one", 2)
	if err != nil {
		t.Fatal(err)
	}
	b := compileCluster(t, store, subjects.Permissions(sharded()))
	checkNoHole(t, b)
	url := outsideServer(t, b)
	heard := make([]*nats.Subscription, 2)
	gateways := make([]*nats.Conn, 2)
	for shard, core := range cores {
		gateways[shard] = mustDial(t, url, core, subjects.GatewayInbox)
		if heard[shard], err = gateways[shard].SubscribeSync("bcp.v1.>"); err != nil {
			t.Fatal(err)
		}
		if err := gateways[shard].FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
	}
	person := func(name bcp.AgentName, role bcp.Role) *nats.Conn {
		creds, err := store.Issue(name, role, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return mustDial(t, url, creds, subjects.InboxPrefix(name))
	}
	says := func(conn *nats.Conn, subject string) {
		if refuses(t, conn, subject) {
			t.Errorf("%s is refused", subject)
		}
	}
	operator, kim := person(bcp.Operator, bcp.RoleOperator), person("kim", bcp.RoleApprover)
	clerk, scribe := person("clerk", bcp.RoleReader), person("scribe", bcp.RoleReader)
	alerts, err := operator.SubscribeSync(subjects.Alerts())
	if err != nil || operator.FlushTimeout(patience) != nil {
		t.Fatal(err)
	}
	says(clerk, subjects.Push("clerk", "boss", "news"))
	says(scribe, subjects.Push("scribe", "chief", "news"))
	for shard := range 2 {
		says(operator, subjects.InShard(shard, subjects.Control("reload")))
		says(kim, subjects.InShard(shard, subjects.Approval("kim", subjects.VerbList)))
	}
	for _, conn := range []*nats.Conn{clerk, scribe} {
		for _, subject := range []string{
			subjects.InShard(1, subjects.Push("clerk", "boss", "news")), subjects.InShard(1, subjects.Push("scribe", "chief", "news")),
			subjects.InShard(1, subjects.Control("reload")), subjects.InShard(2, subjects.Control("reload")),
		} {
			if !refuses(t, conn, subject) {
				t.Errorf("a reader may say %s", subject)
			}
		}
	}
	if !refuses(t, operator, subjects.InShard(2, subjects.Control("reload"))) {
		t.Error("there is a shard 2")
	}
	for shard, want := range [][]string{
		{"bcp.v1.push.clerk.boss.news", "bcp.v1.control.reload", "bcp.v1.approval.kim.list"},
		{"bcp.v1.push.scribe.chief.news", "bcp.v1.control.reload", "bcp.v1.approval.kim.list"},
	} {
		got := map[string]bool{}
		for range want {
			m, err := heard[shard].NextMsg(patience)
			if err != nil {
				t.Fatalf("shard %d: %v", shard, err)
			}
			got[m.Subject] = true
		}
		for _, subject := range want {
			if !got[subject] {
				t.Errorf("shard %d did not hear %s", shard, subject)
			}
		}
		if n, _, _ := heard[shard].Pending(); n > 0 {
			t.Errorf("shard %d heard %d more", shard, n)
		}
		if err := gateways[shard].Publish(subjects.Alert("budget_alert"), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := alerts.NextMsg(patience); err != nil {
			t.Errorf("an alert: %v", err)
		}
	}
}
