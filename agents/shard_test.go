package agents_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// twoShards is a server with the accounts of a mesh on two shards. A stub in the
// gateway's account of each says which one it is.
type twoShards struct {
	store *accounts.Store
	url   string
}

func startShards(t *testing.T) *twoShards {
	t.Helper()
	def := &bcp.Mesh{Approvers: []bcp.AgentName{"kim"}, Auditors: []bcp.AgentName{"kim"}, Agents: []bcp.Agent{
		{Name: "boss", Controller: true}, {Name: "chief", Controller: true, Shard: 1},
	}}
	store, err := accounts.Create(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	cores, _, err := store.Gateway("one", def.Shards())
	if err != nil {
		t.Fatal(err)
	}
	b, err := accounts.CompileCluster(store, subjects.Permissions(def), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	operator, err := jwt.DecodeOperatorClaims(b.Operator)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	for _, a := range b.Accounts {
		if err := resolver.Store(a.PublicKey, a.JWT); err != nil {
			t.Fatal(err)
		}
	}
	s := startServer(t, func(o *server.Options) {
		o.TrustedOperators, o.SystemAccount, o.AccountResolver = []*jwt.OperatorClaims{operator}, operator.SystemAccount, resolver
		o.JetStream, o.StoreDir = true, t.TempDir()
	})
	shards := &twoShards{store: store, url: s.ClientURL()}
	for shard, core := range cores {
		shards.answer(t, bcp.AgentName("shard-"+string(rune('0'+shard))), core)
	}
	return shards
}

// answer plays the gateway of one shard, which has a session and an item of its name,
// and a record of it in each stream that people read.
func (s *twoShards) answer(t *testing.T, name bcp.AgentName, core accounts.Creds) {
	t.Helper()
	nc, err := nats.Connect(s.url, nats.UserCredentialBytes(core.Text()), nats.CustomInboxPrefix(subjects.GatewayInbox), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for stream, subject := range map[string]string{
		subjects.AuditStream: subjects.Audit(name, "clerk", "ask"), subjects.LedgerStream: subjects.Ledger(name, "clerk"), subjects.JournalStream: subjects.Commit(0),
	} {
		config := natsjs.StreamConfig{Name: stream, Subjects: []string{subject}, AllowDirect: true, Storage: natsjs.MemoryStorage}
		if _, err := js.CreateStream(within(t), config); err != nil {
			t.Fatal(err)
		}
		record, err := bcp.EncodeDecision(&bcp.Decision{Seq: 1, Kind: bcp.KindAsk, Controller: name, Reader: "clerk"})
		if err == nil {
			_, err = js.Publish(within(t), subject, record)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for subject, answer := range map[string]any{
		subjects.Control(bcp.ControlSessions):          map[string]any{"sessions": []bcp.SessionView{{Controller: name}}},
		subjects.Approval("kim", subjects.VerbList):    map[string]any{"items": []bcp.Item{{ID: "iEXAMPLE", Kind: bcp.ItemEscalation, Controller: name}}},
		subjects.Approval("kim", subjects.VerbGet):     bcp.RefusalOf(bcp.ItemNotFound),
		subjects.Control(bcp.ControlRenew):             bcp.RefusalOf(bcp.NotPermitted),
		subjects.Control(bcp.ControlReload):            agents.Reloaded{Changes: []string{string(name)}},
		subjects.Control(bcp.ControlCredentials):       agents.Applied{Recorded: len(name)},
		subjects.Approval("kim", subjects.VerbApprove): bcp.Decided{Item: "iEXAMPLE", Act: bcp.Approve},
	} {
		body, err := bcp.Encode(answer, bcp.JSON)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(body) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
}

func (s *twoShards) person(t *testing.T, name bcp.AgentName, role bcp.Role) *agents.Connection {
	t.Helper()
	creds, err := s.store.Issue(name, role, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := agents.Connect(t.Context(), s.url, agents.CredsText(creds.Text()), agents.Options{Name: name, Attempt: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// What a person says to a shard, that shard hears and no other, in each of the three
// roles, and on a server that lets nobody say more. The zero value is shard 0.
//
// covers P4.5, P7.1, P11.3
func TestPeopleOnShards(t *testing.T) {
	t.Parallel()
	s := startShards(t)
	operator := agents.NewOperator(s.person(t, bcp.Operator, bcp.RoleOperator))
	approver := agents.NewApprover(s.person(t, "kim", bcp.RoleApprover))
	auditor := agents.NewAuditor(s.person(t, "kim", bcp.RoleAuditor))
	check := func(what string, want, got bcp.AgentName, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %s answers in place of %s: %v", what, got, want, err)
		}
	}
	on := func(want bcp.AgentName, operator *agents.Operator, approver *agents.Approver, auditor *agents.Auditor) {
		t.Helper()
		ctx := within(t)
		sessions, err := operator.Sessions(ctx)
		check("sessions", want, append(sessions, bcp.SessionView{})[0].Controller, err)
		reloaded, err := operator.Reload(ctx)
		check("reload", want, bcp.AgentName(strings.Join(reloaded.Changes, "")), err)
		items, err := approver.List(ctx)
		check("items", want, append(items, bcp.Item{})[0].Controller, err)
		last, err := auditor.Last(ctx)
		check("the newest record", want, last.Decision.Controller, err)
		n := 0
		for r, err := range auditor.Audit(ctx, 0) {
			n++
			check("the audit", want, r.Decision.Controller, err)
		}
		lines, err := auditor.Ledger(ctx)
		if err != nil || len(lines) != 1 || lines[0].Subject != subjects.Ledger(want, "clerk") {
			t.Errorf("the ledger of %s is %+v: %v", want, lines, err)
		}
		for r, err := range operator.Journal(ctx, 0) {
			n++
			d, _ := bcp.DecodeDecision(r.Data)
			check("the journal", want, d.Controller, err)
		}
		if n != 2 {
			t.Errorf("%d records of %s", n, want)
		}
		var refused *agents.RefusedError
		if _, err := approver.View(ctx, "iEXAMPLE"); !errors.As(err, &refused) || refused.Code != bcp.ItemNotFound {
			t.Errorf("a refusal: %v", err)
		}
		view := bcp.ItemView{Item: bcp.Item{ID: "iEXAMPLE", Deadline: time.Now()}}
		if err := approver.Approve(ctx, view); err != nil {
			t.Errorf("an approval: %v", err)
		}
	}
	on("shard-0", operator, approver, auditor)
	on("shard-1", operator.OnShard(1), approver.OnShard(1), auditor.OnShard(1))
	on("shard-0", operator.OnShard(1).OnShard(0), approver.OnShard(1).OnShard(0), auditor.OnShard(1).OnShard(0))
}

// A shard that there is not is refused: by the server where it could be, and without
// asking where it cannot.
//
// covers BCP-7, P4.5
func TestNoSuchShard(t *testing.T) {
	t.Parallel()
	s := startShards(t)
	operator, auditor := s.person(t, bcp.Operator, bcp.RoleOperator), s.person(t, "kim", bcp.RoleAuditor)
	for _, shard := range []int{2, bcp.MaxShard} {
		ctx := within(t)
		if _, err := agents.NewOperator(operator).OnShard(shard).Sessions(ctx); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("the operator on shard %d: %v", shard, err)
		}
		if _, err := agents.NewAuditor(auditor).OnShard(shard).Ledger(ctx); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("an auditor on shard %d: %v", shard, err)
		}
		if _, err := agents.NewAuditor(auditor).OnShard(shard).Last(ctx); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("the newest record of shard %d: %v", shard, err)
		}
	}
	for _, shard := range []int{-1, bcp.MaxShard + 1} {
		for what, ask := range map[string]func() error{
			"sessions": func() error { _, err := agents.NewOperator(operator).OnShard(shard).Sessions(t.Context()); return err },
			"items":    func() error { _, err := agents.NewApprover(auditor).OnShard(shard).List(t.Context()); return err },
			"ledger":   func() error { _, err := agents.NewAuditor(auditor).OnShard(shard).Ledger(t.Context()); return err },
			"last":     func() error { _, err := agents.NewAuditor(auditor).OnShard(shard).Last(t.Context()); return err },
		} {
			if err := ask(); err == nil || !strings.Contains(err.Error(), "shard") {
				t.Errorf("%s of shard %d: %v", what, shard, err)
			}
		}
	}
}
