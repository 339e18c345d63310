package subjects_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	name         = `[a-z0-9][a-z0-9-]{0,62}`
	subscription = `[A-Za-z0-9-]{1,64}`
	id           = `[A-Za-z0-9_-]{1,64}`
)

// covers SUB-9, P1.1
func TestBuildGivesTheTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{subjects.Ask("main", "researcher"), "bcp.v1.ask.main.researcher"},
		{subjects.Query("researcher", "main"), "bcp.v1.query.researcher.main"},
		{subjects.Push("researcher", "main", "Job-1"), "bcp.v1.push.researcher.main.Job-1"},
		{subjects.Deliver(bcp.RoleReader, "researcher", "gateway"), "bcp.v1.deliver.reader.researcher.gateway"},
		{subjects.Deliver(bcp.RoleController, "main", "researcher"), "bcp.v1.deliver.controller.main.researcher"},
		{subjects.Reply(bcp.RoleReader, "researcher", "q_1", 0), "bcp.v1.reply.reader.researcher.q_1"},
		{subjects.Reply(bcp.RoleReader, "researcher", "q_1", 3), "bcp.v1.reply.reader.researcher.q_1.3"},
		{subjects.Reply(bcp.RoleController, "main", "d-1", 0), "bcp.v1.reply.controller.main.d-1"},
		{subjects.Reply(bcp.RoleController, "main", "d-1", 2), "bcp.v1.reply.controller.main.d-1.2"},
		{subjects.Reply(bcp.RoleReader, "researcher", "d-1", 0), "bcp.v1.reply.reader.researcher.d-1"},
		{subjects.Session("main"), "bcp.v1.session.main"},
		{subjects.Approval("alice", subjects.VerbEdit), "bcp.v1.approval.alice.edit"},
		{subjects.Commit(), "bcp.v1.commit.0"},
		{subjects.Control("reload"), "bcp.v1.control.reload"},
		{subjects.Key("main", "researcher", subjects.SealedPayload, "2026-03-15"), "bcp.v1.key.main.researcher.payload.2026-03-15"},
		{subjects.Key("", "", subjects.SealedRaw, "2026-03-15"), "bcp.v1.key._._.raw.2026-03-15"},
		{subjects.Expiry(subjects.SealedRaw), "bcp.v1.key._._.raw.expired"},
		{subjects.KeysOf("main", "researcher", subjects.SealedRaw), "bcp.v1.key.main.researcher.raw.*"},
		{subjects.KeysOf("", "", subjects.SealedPayload), "bcp.v1.key._._.payload.*"},
		{subjects.Audit("main", "researcher", "query"), "bcp.v1.audit.main.researcher.query"},
		{subjects.Audit("", "", "reload"), "bcp.v1.audit._._.reload"},
		{subjects.Ledger("main", "researcher"), "bcp.v1.ledger.main.researcher"},
		{subjects.InboxPrefix("main"), "_INBOX.main"},
		{subjects.InboxesOf("main"), "_INBOX.main.>"},
		{subjects.AsksOf("main"), "bcp.v1.ask.main.*"},
		{subjects.PushesOf("researcher"), "bcp.v1.push.researcher.*.*"},
		{subjects.RepliesOf(bcp.RoleReader, "researcher"), "bcp.v1.reply.reader.researcher.>"},
		{subjects.ApprovalsOf("alice"), "bcp.v1.approval.alice.*"},
		{subjects.QueriesOf("researcher"), "bcp.v1.query.researcher.>"},
		{subjects.DeliveriesOf(bcp.RoleReader, "researcher"), "bcp.v1.deliver.reader.researcher.>"},
		{subjects.AuditOf("", "", ""), "bcp.v1.audit.*.*.*"},
		{subjects.AuditOf("main", "researcher", ""), "bcp.v1.audit.main.researcher.*"},
		{subjects.AuditOf("", "", "ask"), "bcp.v1.audit.*.*.ask"},
		{subjects.AuditOf("main", "researcher", "ask"), "bcp.v1.audit.main.researcher.ask"},
		{subjects.Run("main", "desk", "Reply_1"), "bcp.v1.run.main.desk.Reply_1"},
		{subjects.Plan("ann", "desk"), "bcp.v1.plan.ann.desk"},
		{subjects.Subplan("ann", "desk"), "bcp.v1.subplan.ann.desk"},
		{subjects.Call("mail", "send_email", "desk"), "bcp.v1.call.mail.send_email.desk"},
		{subjects.Reply(bcp.RolePlanner, "ann", "p1", 0), "bcp.v1.reply.planner.ann.p1"},
		{subjects.Reply(bcp.RolePlanner, "ann", "p1", 2), "bcp.v1.reply.planner.ann.p1.2"},
		{subjects.Reply(bcp.RoleSubplanner, "ann", "p1", 2), "bcp.v1.reply.subplanner.ann.p1.2"},
		{subjects.Reply(bcp.RoleTool, "mail", "c1", 1), "bcp.v1.reply.tool.mail.c1.1"},
		{subjects.RunsOf("main"), "bcp.v1.run.main.*.*"},
		{subjects.PlansOf("ann"), "bcp.v1.plan.ann.>"},
		{subjects.SubplansOf("ann"), "bcp.v1.subplan.ann.>"},
		{subjects.CallsOf("mail"), "bcp.v1.call.mail.>"},
		{subjects.RepliesOf(bcp.RoleTool, "mail"), "bcp.v1.reply.tool.mail.>"},
		{subjects.Deliver(bcp.RolePlanner, "ann", "desk"), ""},
		{subjects.Call("mail", "1st", "desk"), ""},
		{subjects.Call("mail", "a-b", "desk"), ""},
		{subjects.LookupClaimsOf("ABC2"), "$SYS.REQ.ACCOUNT.ABC2.CLAIMS.LOOKUP"},
		{subjects.KickAt("NABC"), "$SYS.REQ.SERVER.NABC.KICK"},
	} {
		expect(t, c.got, c.want, "got")
		if strings.HasPrefix(c.got, "bcp.v1.") && subjects.ValidLiteral(c.got) {
			s, err := subjects.Parse(c.got)
			failIf(t, err != nil || s.String() != c.got, "%q is read as %q, %v", c.got, s, err)
		}
	}
}

// bad holds texts that are no token of any kind.
var bad = []string{
	"", ".", "*", ">", "a.b", "a.*", "a b", "a\tb", "a\r\nb", "a\x00", "$SYS", "ä", "a>", "*a", "a*", "-a.",
	"a\u200bb", "\xff", strings.Repeat("a", 65),
}

// covers A-SUBJTOK, A-WILD, P1.1
func TestBuildersRefuseWhatIsNoToken(t *testing.T) {
	t.Parallel()
	for _, b := range bad {
		n, s := bcp.AgentName(b), bcp.SubscriptionID(b)
		built := []string{
			subjects.Run(n, "k", "g"), subjects.Run("r", n, "g"), subjects.Run("r", "k", b), subjects.Plan(n, "k"), subjects.Plan("p", n),
			subjects.Subplan(n, "k"), subjects.Subplan("p", n), subjects.Call(n, "t", "k"), subjects.Call("s", b, "k"), subjects.Call("s", "t", n),
			subjects.Reply(bcp.RolePlanner, n, "p", 0), subjects.Reply(bcp.RoleSubplanner, "p", b, 0), subjects.Reply(bcp.RoleTool, n, "c", 1), subjects.Reply(bcp.RoleTool, "s", b, 1),
			subjects.Ask(n, "r"), subjects.Ask("c", n), subjects.Query(n, "c"), subjects.Query("r", n),
			subjects.Push(n, "c", "s"), subjects.Push("r", n, "s"), subjects.Push("r", "c", s),
			subjects.Deliver(bcp.RoleReader, n, "c"), subjects.Deliver(bcp.RoleReader, "r", n),
			subjects.Reply(bcp.RoleReader, n, "q", 0), subjects.Reply(bcp.RoleReader, "r", bcp.QueryID(b), 0),
			subjects.Reply(bcp.RoleController, n, "d", 0), subjects.Reply(bcp.RoleController, "c", bcp.DeliveryID(b), 0),
			subjects.Session(n), subjects.Approval(n, subjects.VerbGet), subjects.Approval("a", subjects.Verb(b)),
			subjects.Audit("c", "r", b), subjects.Ledger(n, "r"), subjects.Ledger("c", n),
			subjects.InboxPrefix(n), subjects.InboxesOf(n), subjects.AsksOf(n), subjects.PushesOf(n),
			subjects.RepliesOf(bcp.RoleReader, n), subjects.ApprovalsOf(n), subjects.QueriesOf(n),
			subjects.DeliveriesOf(bcp.RoleReader, n), subjects.AuditOf(n, "researcher", ""), subjects.AuditOf("main", n, ""),
			subjects.LookupClaimsOf(b), subjects.KickAt(b),
		}
		if b != "" {
			built = append(built, subjects.Audit(n, "", "e"), subjects.Audit("", n, "e"))
		}
		for i, got := range built {
			failIf(t, got != "", "builder %d made %q of %q", i, got, b)
		}
	}
	for _, got := range []string{
		subjects.Expiry(""), subjects.Expiry("spec"), subjects.Key("c", "r", subjects.SealedRaw, "expired"), subjects.Key("", "", subjects.SealedRaw, "expired"),
		subjects.Subject{Kind: subjects.KindKey, Controller: "c", Reader: "r", Sealed: subjects.SealedRaw, Expiry: true}.String(),
		subjects.Key("c", "", subjects.SealedRaw, "2026-03-15"), subjects.Key("", "r", subjects.SealedRaw, "2026-03-15"),
		subjects.Key("c", "r", "", "2026-03-15"), subjects.Key("c", "r", "spec", "2026-03-15"), subjects.Key("c", "r", subjects.SealedRaw, "2026-02-29"),
		subjects.Key("c", "r", subjects.SealedRaw, "2026-3-15"), subjects.Key("c", "r", subjects.SealedRaw, "*"), subjects.KeysOf("*", "r", subjects.SealedRaw),
		subjects.Reply(bcp.RoleReader, "r", "q", -1), subjects.Reply(bcp.RoleReader, "r", "q", subjects.MaxAttempt+1),
		subjects.Reply(bcp.RoleController, "c", "d", -1), subjects.Reply(bcp.RoleAuditor, "c", "d", 1),
		subjects.Deliver(bcp.RoleApprover, "a", "c"), subjects.Deliver(0, "a", "c"), subjects.Reply(9, "a", "d", 0),
		subjects.Ask("gateway", "r"), subjects.Session("gateway"), subjects.InboxPrefix("gateway"),
		subjects.Subject{}.String(), subjects.Subject{Kind: 200}.String(), subjects.All(0), subjects.All(200),
	} {
		expect(t, got, "", "made")
	}
	for _, at := range []string{subjects.Commit(), subjects.Reply(bcp.RoleReader, "r", "q", subjects.MaxAttempt)} {
		failIf(t, at == "", "refused a part at its limit")
	}
}

// anySubject draws a subject whose parts are all valid.
func anySubject(t *rapid.T) subjects.Subject {
	agent := func(label string) bcp.AgentName {
		return bcp.AgentName(rapid.StringMatching(name).Filter(func(s string) bool { return s != "gateway" }).Draw(t, label))
	}
	role := func() bcp.Role {
		return rapid.SampledFrom([]bcp.Role{bcp.RoleController, bcp.RoleReader}).Draw(t, "role")
	}
	s := subjects.Subject{Kind: subjects.Kind(rapid.SampledFrom([]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 18}).Draw(t, "kind"))}
	switch s.Kind {
	case subjects.KindRun:
		s.Agent, s.Kernel, s.Grant = agent("requester"), agent("kernel"), rapid.StringMatching(id).Draw(t, "grant")
	case subjects.KindPlan, subjects.KindSubplan:
		s.Agent, s.Kernel = agent("planner"), agent("kernel")
	case subjects.KindCall:
		s.Agent, s.Kernel, s.Tool = agent("service"), agent("kernel"), rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_]{0,63}`).Draw(t, "tool")
	case subjects.KindAsk, subjects.KindQuery, subjects.KindLedger:
		s.Controller, s.Reader = agent("controller"), agent("reader")
	case subjects.KindPush:
		s.Controller, s.Reader = agent("controller"), agent("reader")
		s.Subscription = bcp.SubscriptionID(rapid.StringMatching(subscription).Draw(t, "subscription"))
	case subjects.KindDeliver:
		s.Role, s.Agent, s.Peer = role(), agent("agent"), bcp.Gateway
		if rapid.Bool().Draw(t, "peer is an agent") {
			s.Peer = agent("peer")
		}
	case subjects.KindReply:
		s.Role = rapid.SampledFrom([]bcp.Role{bcp.RoleController, bcp.RoleReader, bcp.RolePlanner, bcp.RoleTool}).Draw(t, "answers")
		s.Agent, s.ID = agent("agent"), rapid.StringMatching(id).Draw(t, "id")
		s.Attempt = rapid.IntRange(0, subjects.MaxAttempt).Draw(t, "attempt")
	case subjects.KindSession:
		s.Controller = agent("controller")
	case subjects.KindApproval:
		s.Agent, s.Verb = agent("approver"), rapid.SampledFrom(subjects.Verbs()).Draw(t, "verb")
	case subjects.KindCommit:
	case subjects.KindKey:
		s.Sealed = rapid.SampledFrom([]subjects.Sealed{subjects.SealedPayload, subjects.SealedRaw}).Draw(t, "sealed")
		if s.Expiry = rapid.Bool().Draw(t, "is an expiry"); s.Expiry {
			break
		}
		s.Day = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "day"), 0).UTC().Format(time.DateOnly)
		if rapid.Bool().Draw(t, "has a channel") {
			s.Controller, s.Reader = agent("controller"), agent("reader")
		}
	case subjects.KindAudit:
		s.Event = rapid.StringMatching(`[a-z][a-z0-9_-]{0,63}`).Draw(t, "event")
		if rapid.Bool().Draw(t, "has a controller") {
			s.Controller = agent("controller")
		}
		if rapid.Bool().Draw(t, "has a reader") {
			s.Reader = agent("reader")
		}
	}
	return s
}

// covers A-SUBJTOK, P1.1
func TestParseIsTheInverseOfBuild(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anySubject(t)
		text := want.String()
		got, err := subjects.Parse(text)
		stopIf(t, err != nil, "%q: %v", text, err)
		diff := cmp.Diff(want, got)
		stopIf(t, diff != "", "%q: %s", text, diff)
		stopIf(t, !subjects.Match(subjects.All(want.Kind), text), "%q is not captured by %q", text, subjects.All(want.Kind))
		for k := subjects.KindAsk; k <= subjects.KindLedger; k++ {
			stopIf(t, k != want.Kind && subjects.Match(subjects.All(k), text), "%q is captured by %q", text, subjects.All(k))
		}
	})
}

// covers A-SUBJTOK, A-WILD, P1.1
func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", "bcp", "bcp.v1", "bcp.v1.", "bcp.v2.ask.a.b", "BCP.v1.ask.a.b", " bcp.v1.ask.a.b", "bcp.v1.ask.a.b ", "bcp.v1.ask.a.b\n",
		"bcp.v1.ask.a", "bcp.v1.ask.a.b.c", "bcp.v1.ask.a.", "bcp.v1.ask..b", "bcp.v1..a.b", "bcp.v1.Ask.a.b", "bcp.v1.ask.A.b",
		"bcp.v1.ask.*.b", "bcp.v1.ask.a.*", "bcp.v1.ask.>", "bcp.v1.>", ">", "*", "bcp.v1.ask.a.gateway", "bcp.v1.query.gateway.a",
		"bcp.v1.push.a.b", "bcp.v1.push.a.b.c.d", "bcp.v1.push.a.b.c_d", "bcp.v1.deliver.approver.a.b", "bcp.v1.deliver.reader.a",
		"bcp.v1.deliver.reader.gateway.a", "bcp.v1.reply.reader.a", "bcp.v1.reply.reader.a.q.0", "bcp.v1.reply.reader.a.q.01",
		"bcp.v1.reply.reader.a.q.+1", "bcp.v1.reply.reader.a.q.-1", "bcp.v1.reply.reader.a.q.1000000000", "bcp.v1.reply.reader.a.q.1.1",
		"bcp.v1.reply.controller.a.d.0", "bcp.v1.reply.auditor.a.d", "bcp.v1.session", "bcp.v1.session.a.b", "bcp.v1.approval.a.delete",
		"bcp.v1.approval.a", "bcp.v1.commit", "bcp.v1.commit.-1", "bcp.v1.commit.00", "bcp.v1.commit.65536", "bcp.v1.commit.0x1",
		"bcp.v1.commit.1.1", "bcp.v1.audit.a.b", "bcp.v1.audit._._._", "bcp.v1.audit._._.Query", "bcp.v1.ledger._._",
		"bcp.v1.unknown.a.b", "bcp.v1.ask." + strings.Repeat("a", 64) + ".b", "bcp.v1.ask.a." + strings.Repeat("b", 600),
		"_INBOX.a.b", "$SYS.ACCOUNT.A.CONNECT",
	}
	for _, text := range texts {
		if got, err := subjects.Parse(text); err == nil {
			t.Errorf("%q parsed as %+v", text, got)
		} else if got != (subjects.Subject{}) {
			t.Errorf("%q: a refusal came with %+v", text, got)
		}
	}
}

// covers A-SUBJTOK
func FuzzParse(f *testing.F) {
	for _, s := range []string{"bcp.v1.ask.a.b", "bcp.v1.reply.reader.a.q.1", "bcp.v1.audit._.b.e", "bcp.v1.deliver.reader.a.gateway", "bcp.v1.>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := subjects.Parse(text)
		if err != nil {
			return
		}
		stopIf(t, s.String() != text || !subjects.ValidLiteral(text), "%q parsed as %+v", text, s)
	})
}

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf
