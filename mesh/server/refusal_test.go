package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/gsl"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// universe returns everything that anyone of the mesh may do, everything of
// the same shape between any two parties, each with each token made a wildcard
// or empty, and what belongs to the server.
func universe(scopes []subjects.Scope) []string {
	names := []bcp.AgentName{"alice", "bob", "mailer", "main", "relay", "researcher", "writer"}
	var list []string
	for _, a := range names {
		list = append(
			list, subjects.Session(a), subjects.InboxPrefix(a)+".x", subjects.InboxPrefix(a)+".x.1", "_INBOX."+string(a),
			subjects.Reply(bcp.RoleReader, a, "q1", 0), subjects.Reply(bcp.RoleReader, a, "q1", 2), subjects.Reply(bcp.RoleController, a, "d1", 0),
			subjects.QueriesOf(a), subjects.DeliveriesOf(bcp.RoleReader, a), subjects.DeliveriesOf(bcp.RoleController, a),
			subjects.Deliver(bcp.RoleReader, a, bcp.Gateway), subjects.Deliver(bcp.RoleController, a, bcp.Gateway),
		)
		for _, v := range subjects.Verbs() {
			list = append(list, subjects.Approval(a, v))
		}
		for _, b := range names[2:] {
			list = append(
				list, subjects.Ask(a, b), subjects.Query(a, b), subjects.Push(a, b, "findings"), subjects.Push(a, b, "digest"),
				subjects.Deliver(bcp.RoleReader, a, b), subjects.Deliver(bcp.RoleController, a, b),
				subjects.Ledger(a, b), subjects.Audit(a, b, "query"),
			)
		}
	}
	var granted []string
	for _, s := range scopes {
		granted = append(append(granted, s.PubAllow...), s.SubAllow...)
	}
	for _, subject := range append(slices.Clone(list), granted...) {
		tokens := strings.Split(subject, ".")
		for i := range tokens {
			changed := slices.Clone(tokens)
			changed[i] = "*"
			list = append(list, strings.Join(changed, "."), strings.Join(append(changed[:i:i], ">"), "."))
		}
	}
	list = append(list, granted...)
	for _, subject := range append(granted, subjects.Reply(bcp.RoleReader, "researcher", "q1", 0), subjects.Reply(bcp.RoleController, "main", "d1", 0)) {
		tokens := strings.Split(subject, ".")
		for i := range tokens {
			for _, with := range []string{"*", ">", "", "x", "gateway"} {
				changed := slices.Clone(tokens)
				changed[i] = with
				list = append(list, strings.Join(changed, "."))
			}
			list = append(list, strings.Join(tokens[:i], "."))
		}
		list = append(list, subject+".more", subject+".*", subject+".>", subject+".", strings.ToUpper(subject), subject+"\x00", "x."+subject)
	}
	list = append(
		list, ">", "*", "*.*", "*.>", "**", ".", "..", "bcp", "bcp.>", "bcp.*", "bcp.v1", "bcp.v1.>", "bcp.v2.ask.main.researcher",
		subjects.Joins, subjects.Join("UABC"), "bcp.v1.join.>", subjects.JoinInbox("UABC")+".x",
		subjects.Commit(), subjects.Key("", "", subjects.SealedRaw, "2026-03-15"), "bcp.v1.commit.>", "bcp.v1.key.>", "bcp.v1.audit.>", "bcp.v1.ledger.>",
		"$JS.>", "$JS.API.>", "$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.X",
		"$JS.API.STREAM.INFO.BCP_AUDIT", "$JS.API.STREAM.INFO.BCP_COMMIT", "$JS.API.STREAM.PURGE.BCP_COMMIT", "$JS.API.STREAM.DELETE.BCP_COMMIT",
		"$JS.API.STREAM.MSG.GET.BCP_KEYS", "$JS.API.STREAM.MSG.DELETE.BCP_AUDIT", "$JS.API.CONSUMER.CREATE.BCP_AUDIT", "$JS.API.CONSUMER.DURABLE.CREATE.BCP_LEDGER.x",
		"$JS.API.DIRECT.GET.BCP_AUDIT", "$JS.API.DIRECT.GET.BCP_KEYS", "$JS.API.DIRECT.GET.KV_x.>", "$JS.ACK.BCP_LEDGER.c.1.1.1.1.1", "$JS.FC.x", "$JS.EVENT.>", "$KV.>", "$KV.b.k", "$O.>",
		"BCPJS.>", "BCPJS.DIRECT.GET.>", "BCPJS.DIRECT.GET.BCP_COMMIT", "BCPJS.DIRECT.GET.BCP_KEYS", "BCPJS.DIRECT.GET.*",
		"BCPJS.STREAM.INFO.BCP_COMMIT", "BCPJS.STREAM.PURGE.BCP_AUDIT", "BCPJS.STREAM.DELETE.BCP_AUDIT", "BCPJS.STREAM.MSG.GET.BCP_AUDIT",
		"BCPJS.DIRECT.GET.BCP_AUDIT.bcp.v1.audit.main.researcher.query", "BCPJS.DIRECT.GET.BCP_KEYS.bcp.v1.key._._.raw.2026-03-15", "BCPJS.CONSUMER.CREATE.BCP_AUDIT",
		"$SYS.>", "$SYS.REQ.>", "$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.STATZ",
		"$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.CLAIMS.LIST", "$SYS.REQ.CLAIMS.DELETE", "$SYS.REQ.CLAIMS.PACK", "$SYS.ACCOUNT.>", "$SYS.ACCOUNT.*.CONNECT", "$SYS.ACCOUNT.A.CLAIMS.UPDATE",
		"$SYS.SERVER.>", "$SYS.REQ.SERVER.NABC.KICK", "$SYS.REQ.SERVER.*.KICK", "$SYS._INBOX.>", "$SYS.LATENCY.M2.x", "$NRG.>", "$G.>", "$LDS.x", "$GNR", "_GR_.a.b", "$GR.a", "$MQTT.>", "$MQTT.sub.x",
		"_R_.>", "_R_.x.y", "_INBOX.>", "_INBOX", "_INBOX_", "_INBOX_.>", "_INBOX_*.>", "_INBOX_gateway.x", "_INBOX_gateway_monitor.x", "_INBOX.main", "_INBOX.mainx.y",
		"ä.ö", "\xff\xfe", strings.Repeat("a.", 15)+"a", strings.Repeat("a", 900),
	)
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(s string) bool { return s == "" })
}

// fewer is, in the fast form, each tenth subject, and what somebody is granted.
func fewer(all []string, scopes []subjects.Scope) []string {
	some := bcptest.Sample(all, 10)
	if len(some) == len(all) {
		return all
	}
	for _, s := range scopes {
		for _, subject := range slices.Concat(s.PubAllow, s.SubAllow) {
			if slices.Contains(all, subject) {
				some = append(some, subject)
			}
		}
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// covers BCP-7, BCP-10, BCP-19, SUB-9, SUB-122, SUB-123, SUB-124, SUB-125, A-WILD, A-JSAPI, A-SYS, A-SUBJTOK
func TestServerRefusesWhatIsNotGranted(t *testing.T) { everyWay(t, refusesWhatIsNotGranted) }

func refusesWhatIsNotGranted(t *testing.T, w way) {
	b := start(t, w)
	all := universe(b.scopes)
	stopIf(t, len(all) < 2000, "%d subjects are few", len(all))
	all = fewer(all, b.scopes)
	// What leaves the accounts of agents is seen here.
	core := b.gateway()
	local := map[string]string{}
	for _, e := range subjects.Exports() {
		if e.Local != e.Subject {
			local[strings.TrimSuffix(e.Subject, ">")] = strings.TrimSuffix(e.Local, ">")
		}
	}
	seen := listen(t, core, ">")
	for _, s := range b.scopes {
		a := b.connect(s.Agent, s.Role)
		name := string(s.Agent) + " as " + s.Role.String()

		var wantRefused, wantSeen []string
		// The server takes a wildcard in a published subject for a name, as
		// its tree of permissions does.
		granted := gsl.NewSublist[int]()
		for i, pattern := range s.PubAllow {
			noError(t, granted.Insert(pattern, i))
		}
		for _, subject := range all {
			if granted.HasInterest(subject) {
				wantSeen = append(wantSeen, subject)
			} else {
				wantRefused = append(wantRefused, "publish "+subject)
			}
			err := a.Publish(subject, []byte(subject))
			stopIf(t, err != nil, "%s: %q: %v", name, subject, err)
		}
		compare(t, name+": refused to publish", wantRefused, a.refusals())
		var got []string
		for _, m := range seen() {
			if strings.HasPrefix(m.Subject, "$JS.EVENT.ADVISORY.") {
				continue // JetStream tells of requests it got
			}
			for subject, outside := range local {
				if rest, ok := strings.CutPrefix(m.Subject, subject); ok {
					m.Subject = outside + rest
					break
				}
			}
			got = append(got, m.Subject)
		}
		compare(t, name+": the gateway's account saw", wantSeen, sorted(got))
		failIf(t, len(wantSeen) < len(slices.DeleteFunc(slices.Clone(s.PubAllow), func(p string) bool { return !subjects.ValidLiteral(p) })),
			"%s: %d seen: fewer than granted", name, len(wantSeen))
		checkSubscriptions(t, name, s, a, all)
		a.Close()
	}
}

func checkSubscriptions(t *testing.T, name string, s subjects.Scope, a *agent, all []string) {
	t.Helper()
	for _, queue := range []string{"", "q"} {
		var wantRefused []string
		granted := 0
		for _, subject := range all {
			if !natsserver.IsValidSubject(subject) {
				continue // another error of the protocol, not a refusal
			}
			// No queue is one without a name.
			subscription, err := a.QueueSubscribeSync(subject, queue)
			stopIf(t, err != nil, "%s: %q: %v", name, subject, err)
			_ = subscription.Unsubscribe()
			if slices.ContainsFunc(s.SubAllow, func(p string) bool { return natsserver.SubjectMatchesFilter(subject, p) }) {
				granted++
			} else {
				wantRefused = append(wantRefused, "subscribe "+subject)
			}
		}
		compare(t, name+": refused to subscribe, queue "+queue, wantRefused, a.refusals())
		failIf(t, granted < len(s.SubAllow), "%s: %d subscriptions granted", name, granted)
	}
}

func compare(t *testing.T, what string, want, got []string) {
	t.Helper()
	if slices.Equal(want, got) {
		return
	}
	expect(t, cmp.Diff(want, got, cmpopts.EquateEmpty()), "", "%s", what)
}
