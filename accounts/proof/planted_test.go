package proof_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
)

const (
	core, readers, controllers, people, keepers = accounts.Core, accounts.Readers, accounts.Controllers, accounts.Operators, accounts.Keepers

	spy, mailer, main, keeper = "reader-spy", "reader-mailer", "controller-main", "keeper-spy"
)

func export(i *issuer, account, subject string, kind jwt.ExportType) *jwt.Export {
	for _, e := range i.accounts[account].Exports {
		if e.Type == kind && jwt.Subject(subject).IsContainedIn(e.Subject) {
			return e
		}
	}
	e := &jwt.Export{Name: subject, Subject: jwt.Subject(subject), Type: kind}
	i.accounts[account].Exports.Add(e)
	return e
}

func importing(i *issuer, into, from, subject, local string, kind jwt.ExportType) {
	im := &jwt.Import{Name: local, Account: i.accounts[from].Subject, Subject: jwt.Subject(subject), Type: kind}
	if local != subject {
		im.LocalSubject = jwt.RenamingSubject(local)
	}
	i.accounts[into].Imports.Add(im)
}

// plant changes claims.
type plant func(*testing.T, *issuer)

// all plants several.
func all(plants ...plant) plant {
	return func(t *testing.T, i *issuer) {
		for _, p := range plants {
			p(t, i)
		}
	}
}

// says adds to what a scope may publish.
func says(account, role, subject string) plant {
	return func(_ *testing.T, i *issuer) { i.template(account, role).Pub.Allow.Add(subject) }
}

// saysAlone replaces what a scope may publish.
func saysAlone(account, role, subject string) plant {
	return func(_ *testing.T, i *issuer) {
		i.template(account, role).Pub = jwt.Permission{Allow: jwt.StringList{subject}}
	}
}

// hears adds to what a scope may subscribe to.
func hears(account, role, subject string) plant {
	return func(_ *testing.T, i *issuer) { i.template(account, role).Sub.Allow.Add(subject) }
}

// way leads from one account into another, under a name of its own there.
func way(kind jwt.ExportType, into, from, subject, local string) plant {
	return func(_ *testing.T, i *issuer) {
		export(i, from, subject, kind)
		importing(i, into, from, subject, local, kind)
	}
}

// reaching lets an account's messages on a subject reach the gateway.
func reaching(account, subject string) plant { return way(jwt.Stream, core, account, subject, subject) }

// lacks takes an import away.
func lacks(account, subject string) plant {
	return func(_ *testing.T, i *issuer) {
		a := i.accounts[account]
		a.Imports = slices.DeleteFunc(a.Imports, func(im *jwt.Import) bool { return string(im.Subject) == subject })
	}
}

// mapped maps a subject in the gateway's account.
func mapped(from, to string) plant {
	return func(_ *testing.T, i *issuer) {
		i.accounts[core].Mappings = jwt.Mapping{}
		i.accounts[core].AddMapping(jwt.Subject(from), jwt.WeightedMapping{Subject: jwt.Subject(to), Weight: 100})
	}
}

// speaker is somebody new, who may publish to one subject.
func speaker(account, role, subject string) plant {
	return func(t *testing.T, i *issuer) {
		scope := i.scope(t, account, role)
		scope.Template.Pub.Allow.Add(subject)
		scope.Template.Sub.Deny.Add(">")
	}
}

// planted is a hole, and how it is made.
type planted struct {
	name     string
	claim    proof.Claim
	from, to string // from may be empty: a key
	shown    string // a part of the way, as it is printed
	plant    plant
}

func holes() []planted {
	const gateway = "the gateway"
	return []planted{
		{"a Reader may publish to another's inbox", proof.Agents, spy, mailer, "publishes _INBOX.mailer.* in READERS -> reader-mailer subscribes to _INBOX.mailer.* in READERS",
			says(readers, spy, "_INBOX.mailer.*")},
		{"lists that are not there", proof.Agents, spy, mailer, "reader-spy publishes",
			func(_ *testing.T, i *issuer) {
				i.template(readers, spy).Permissions, i.accounts[readers].DefaultPermissions = jwt.Permissions{}, jwt.Permissions{}
			}},
		{"a refusal that leaves room", proof.Agents, spy, mailer, "",
			func(_ *testing.T, i *issuer) {
				p := &i.template(readers, spy).Permissions
				*p = jwt.Permissions{Sub: p.Sub}
				p.Pub.Deny.Add("_INBOX.mailer.*", "bcp.v1.deliver.>", "bcp.v1.query.>", "$SYS.>", "$JS.>", "_R_.>", "bcp.v1.push.>", "bcp.v1.reply.>")
			}},
		{"a stream from Readers to Controllers", proof.Agents, spy, main, "stream into CONTROLLERS as bcp.v1.deliver.controller.main.relay",
			way(jwt.Stream, controllers, readers, "bcp.v1.push.spy.*.notes", "bcp.v1.deliver.controller.main.*")},
		{"a service of Controllers for Readers", proof.Agents, spy, main, "service of CONTROLLERS as _INBOX.main.",
			all(lacks(readers, "bcp.v1.push.>"), way(jwt.Service, readers, controllers, "_INBOX.main.*.*", "bcp.v1.push.spy.$1.$2"))},
		{"a chain of services over another account", proof.Agents, spy, main, "service of MIDDLE as m.relay.notes -> service of CONTROLLERS as _INBOX.main.relay.notes",
			all(func(t *testing.T, i *issuer) { i.account(t, "MIDDLE") }, lacks(readers, "bcp.v1.push.>"),
				way(jwt.Service, readers, "MIDDLE", "m.*.*", "bcp.v1.push.spy.*.*"), way(jwt.Service, "MIDDLE", controllers, "_INBOX.main.*.*", "m.*.*"))},
		{"a service of the streams under another name", proof.Streams, spy, "JetStream of CORE", "service of CORE as $JS.API.STREAM.PURGE.notes",
			all(lacks(readers, "bcp.v1.push.>"), way(jwt.Service, readers, core, "$JS.API.STREAM.PURGE.*", "bcp.v1.push.spy.relay.*"))},
		{"a mapping in the gateway's account", proof.Streams, "approver-bob", "JetStream of CORE", "mapped in CORE to $JS.API.STREAM.DELETE.",
			mapped("bcp.v1.approval.bob.*", "$JS.API.STREAM.DELETE.{{wildcard(1)}}")},
		{"an auditor may purge", proof.Streams, "auditor-carol", "JetStream of CORE", "service of CORE as $JS.API.STREAM.PURGE.*",
			all(way(jwt.Service, people, core, "$JS.API.STREAM.PURGE.>", "BCPJS.STREAM.PURGE.>"), says(people, "auditor-carol", "BCPJS.STREAM.PURGE.*"))},
		{"JetStream for Readers", proof.Streams, spy, "JetStream of READERS", "JetStream of READERS takes $JS.API.STREAM.CREATE.*",
			all(says(readers, spy, "$JS.API.STREAM.CREATE.*"), func(_ *testing.T, i *issuer) {
				i.accounts[readers].Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
			})},
		{"a Reader that may ask", proof.Gateway, spy, "the gateway of CORE", "stream into CORE as bcp.v1.ask.main.mailer",
			all(reaching(readers, "bcp.v1.ask.>"), says(readers, spy, "bcp.v1.ask.main.mailer"))},
		{"a Reader that may push in every name", proof.Gateway, spy, "the gateway of CORE", "stream into CORE as bcp.v1.push.*.*.*",
			says(readers, spy, "bcp.v1.push.*.*.*")},
		{"an Approver that may decide as another", proof.Gateway, "approver-bob", "the gateway of CORE", "service of CORE as bcp.v1.approval.alice.approve",
			says(people, "approver-bob", "bcp.v1.approval.alice.approve")},
		{"a Reader that may speak as its keeper", proof.Gateway, spy, "the gateway of CORE", "stream into CORE as bcp.v1.egress.spy",
			all(reaching(readers, "bcp.v1.egress.>"), says(readers, spy, "bcp.v1.egress.spy"))},
		{"a keeper that may speak for all agents", proof.Gateway, keeper, "the gateway of CORE", "stream into CORE as bcp.v1.egress.*",
			says(keepers, keeper, "bcp.v1.egress.*")},
		{"a Reader that may speak of its model", proof.Gateway, spy, "the gateway of CORE", "stream into CORE as bcp.v1.usage.spy",
			all(reaching(readers, "bcp.v1.usage.>"), says(readers, spy, "bcp.v1.usage.spy"))},
		{"a keeper that may speak of the models of all agents", proof.Gateway, keeper, "the gateway of CORE", "stream into CORE as bcp.v1.usage.*",
			says(keepers, keeper, "bcp.v1.usage.*")},
		{"a keeper that pushes for its agent", proof.Gateway, keeper, "the gateway of CORE", "stream into CORE as bcp.v1.push.spy.relay.notes",
			all(reaching(keepers, "bcp.v1.push.>"), says(keepers, keeper, "bcp.v1.push.spy.relay.notes"))},
		{"a user of the gateway's account on the network", proof.Gateway, "helper", "the gateway of CORE", "helper publishes bcp.v1.ask.*.* in CORE",
			speaker(core, "helper", "bcp.v1.ask.*.*")},
		{"the server's list of connections", proof.System, spy, "the system of READERS", "the system of READERS takes $SYS.REQ.SERVER.PING.CONNZ",
			says(readers, spy, "$SYS.REQ.SERVER.PING.CONNZ")},
		{"a user of the system account on the network", proof.System, "admin", "the system of SYS", "admin publishes $SYS.REQ.CLAIMS.UPDATE",
			speaker(accounts.System, "admin", "$SYS.REQ.CLAIMS.UPDATE")},
		{"one inbox for all", proof.Hearing, mailer, spy, "reader-spy subscribes to _INBOX.mailer",
			hears(readers, spy, "_INBOX.mailer.x.>")},
		{"answers of other roles", proof.Hearing, gateway, spy, "stream into READERS as _INBOX.spy.",
			func(_ *testing.T, i *issuer) {
				for _, im := range i.accounts[readers].Imports {
					if im.Subject == "bcp.v1.inbox.reader.*.>" {
						im.Subject = "bcp.v1.inbox.controller.*.>"
					}
				}
			}},
		{"answers to another in one's own inbox", proof.Hearing, gateway, spy, "stream into READERS as _INBOX.spy.*.*",
			way(jwt.Stream, readers, core, "bcp.v1.inbox.reader.*.*", "_INBOX.spy.$1.$2")},
		{"a queue on another's queries", proof.Hearing, mailer, spy, "subscribes to bcp.v1.query.mailer",
			hears(readers, spy, "bcp.v1.query.mailer.main workers")},
		{"a keeper hears its agent's queries", proof.Hearing, gateway, keeper, "stream into KEEPERS as bcp.v1.query.spy",
			all(way(jwt.Stream, keepers, core, "bcp.v1.query.>", "bcp.v1.query.>"), hears(keepers, keeper, "bcp.v1.query.spy.>"))},
		{"a star at the end", proof.Hearing, gateway, spy, "reader-spy subscribes to bcp.v1.query.>",
			hears(readers, spy, "bcp.v1.query.*")},
		{"Readers hear what is delivered", proof.Hearing, gateway, spy, "stream into READERS as bcp.v1.deliver.controller.main",
			all(way(jwt.Stream, readers, core, "bcp.v1.deliver.controller.>", "bcp.v1.deliver.controller.>"), hears(readers, spy, "bcp.v1.deliver.controller.main.>"))},
		{"the audit for Readers", proof.Hearing, gateway, spy, "stream into READERS as bcp.v1.audit",
			all(way(jwt.Stream, readers, core, "bcp.v1.audit.>", "bcp.v1.audit.>"), hears(readers, spy, "bcp.v1.audit.main.mailer.*"))},
		{"a trace through the gateway's account", proof.Hearing, spy, "a trace of CORE", "a trace of CORE takes bcp.v1.push.spy.relay.notes",
			func(_ *testing.T, i *issuer) {
				for _, im := range i.accounts[core].Imports {
					im.AllowTrace = im.AllowTrace || im.Subject == "bcp.v1.push.>"
				}
			}},
		{"a signing key without a scope", proof.Issuers, "", controllers, "a signing key without a scope",
			func(t *testing.T, i *issuer) { i.accounts[controllers].SigningKeys.Add(i.key(t)) }},
		{"accounts' own keys may sign", proof.Issuers, "", readers, "the account's own key",
			func(_ *testing.T, i *issuer) { i.rules.StrictSigningKeyUsage = false }},
		{"a bearer token", proof.Issuers, main, controllers, "a bearer token",
			func(_ *testing.T, i *issuer) {
				i.accounts[controllers].Limits.DisallowBearer = false
				i.template(controllers, main).BearerToken = true
			}},
		{"a user of a free key", proof.Agents, "stray", main, "stray publishes _INBOX.main.",
			func(t *testing.T, i *issuer) {
				key := i.key(t)
				i.accounts[controllers].SigningKeys.Add(key)
				i.accounts[controllers].DefaultPermissions = jwt.Permissions{}
				i.accounts[controllers].DefaultPermissions.Sub.Deny.Add(">")
				i.accounts[controllers].DefaultPermissions.Pub.Allow.Add("_INBOX.main.>")
				token, seed := i.user(t, controllers, key, "stray", nil)
				i.users = append(i.users, token)
				i.seeds["stray"] = [2]string{token, string(seed)}
			}},
	}
}

// Each hole is found, its way printed, and a real server lets it through.
//
// covers A-WILD, A-SUBJTOK, A-JSAPI, A-SYS, A-REPLY, BCP-7, SUB-8
func TestPlantedHolesAreFoundAndReal(t *testing.T) {
	t.Parallel()
	for _, c := range holes() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := shipped(t, office())
			found := c.find(t, i)
			i.serve(t).try(t, found)
		})
	}
}

// find makes the hole, which has to be found.
func (c *planted) find(t *testing.T, i *issuer) (found proof.Hole) {
	t.Helper()
	c.plant(t, i)
	report := i.prove(t)
	for _, h := range report.Of(c.claim) {
		if (c.from == "" || h.From == c.from) && h.To == c.to && strings.Contains(h.String(), c.shown) {
			found = h
		}
	}
	stopIf(t, found.Claim == "", "not found; there are %d holes: %v", len(report.Holes), report.Holes)
	return found
}

// try shows that a hole is one.
func (w *world) try(t *testing.T, h proof.Hole) {
	t.Helper()
	first, last := h.Way[0], h.Way[len(h.Way)-1]
	switch {
	case h.Claim == proof.Issuers:
		w.tryKey(t, h)
	case h.To == "a trace of CORE":
		w.tryTrace(t, h)
	case h.Claim == proof.Hearing:
		to := w.who(t, last.Account, h.To)
		heard := listen(t, to, last.Subject)
		by := w.watch(t, first.Account)
		say(t, by, literal(first.Subject))
		got(t, heard, "")
	case h.Claim == proof.Agents:
		to := w.who(t, last.Account, h.To)
		heard := listen(t, to, last.Subject)
		say(t, w.who(t, first.Account, h.From), h.Publish)
		got(t, heard, h.Arrives)
	default:
		heard := listen(t, w.watch(t, last.Account), h.Arrives)
		say(t, w.who(t, first.Account, h.From), h.Publish)
		got(t, heard, h.Arrives)
	}
}

func literal(pattern string) string {
	return strings.NewReplacer("*", "x", ">", "x").Replace(pattern)
}

func (w *world) who(t *testing.T, account, name string) *nats.Conn {
	t.Helper()
	if s, ok := w.seeds[name]; ok {
		return w.dialTCP(t, s[0], []byte(s[1]))
	}
	return w.as(t, account, name)
}

func listen(t *testing.T, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err == nil && strings.HasPrefix(subject, "bcp.v1.query.mailer") {
		err = sub.Unsubscribe() // its right is to a queue
		if err == nil {
			sub, err = nc.QueueSubscribeSync(subject, "workers")
		}
	}
	if err == nil {
		err = nc.Flush()
	}
	noError(t, err)
	return sub
}

func say(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	noError(t, nc.Publish(subject, []byte("{}")))
	noError(t, nc.Flush())
}

func got(t *testing.T, sub *nats.Subscription, subject string) {
	t.Helper()
	m, err := sub.NextMsg(patience)
	failIf(t, err != nil || subject != "" && m.Subject != subject, "on %s came %+v: %v", sub.Subject, m, err)
}

// tryTrace has the server say where a message went in another account.
func (w *world) tryTrace(t *testing.T, h proof.Hole) {
	t.Helper()
	gateway := w.watch(t, core)
	must(gateway.Subscribe("bcp.v1.push.>", func(*nats.Msg) {}))(t)
	// The trace comes on a subject that the sender may publish to, in its account.
	traced := listen(t, w.watch(t, readers), h.Publish)
	noError(t, gateway.Flush())
	from := w.who(t, readers, h.From)
	noError(t, from.PublishMsg(&nats.Msg{Subject: h.Publish, Header: nats.Header{"Nats-Trace-Dest": {h.Publish}}}))
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		m := must(traced.NextMsg(patience))(t)
		if strings.Contains(string(m.Data), `"sub":"bcp.v1.push.\u003e"`) || strings.Contains(string(m.Data), `"sub":"bcp.v1.push.>"`) {
			return
		}
	}
	t.Error("no trace showed the gateway's subscription")
}

// tryKey lets somebody in who should not be.
func (w *world) tryKey(t *testing.T, h proof.Hole) {
	t.Helper()
	account := h.To
	switch {
	case strings.Contains(h.Way[0].Who, "bearer"):
		token, _ := w.user(t, account, w.scopes[account+" "+h.From], h.From, func(u *jwt.UserClaims) {})
		nc := must(nats.Connect(w.server.ClientURL(), nats.NoReconnect(), nats.Timeout(patience),
			nats.UserJWT(func() (string, error) { return token, nil }, func([]byte) ([]byte, error) { return nil, nil })))(t)
		nc.Close()
	default:
		token, seed := w.user(t, account, h.From, "anybody", func(u *jwt.UserClaims) { u.Pub.Allow.Add(">"); u.Sub.Allow.Add(">") })
		nc := w.dialTCP(t, token, seed)
		heard := listen(t, nc, ">")
		say(t, w.watch(t, account), "bcp.v1.deliver.controller.main.x")
		got(t, heard, "bcp.v1.deliver.controller.main.x")
	}
}

// A server asks such a service about every user, and lets in whom it names.
func TestServiceThatLetsUsersIn(t *testing.T) {
	t.Parallel()
	i := shipped(t, office())
	i.accounts[readers].Authorization.AuthUsers.Add(public(t, pair(t, nkeys.CreateUser)))
	found := i.prove(t).Of(proof.Issuers)
	failIf(t, len(found) != 1 || found[0].To != readers, "found %v", found)
}
