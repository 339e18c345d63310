package mesh_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// keysOf opens the key store of a mesh, as a command does beside it.
func keysOf(t *testing.T, m *meshtest.Mesh) *accounts.Store {
	t.Helper()
	return must(accounts.Open(m.State))
}

// operator connects as whoever owns the state folder.
func operator(t *testing.T, m *meshtest.Mesh) *agents.Operator {
	t.Helper()
	c := client(t, m, bcp.Operator, bcp.RoleOperator, agents.Options{})
	return agents.NewOperator(c)
}

func issued(t *testing.T, store *accounts.Store, agent bcp.AgentName, role bcp.Role, options ...accounts.IssueOption) accounts.Creds {
	t.Helper()
	return must(store.Issue(agent, role, time.Hour, options...))
}

// dial connects with creds, and returns what the end of the connection closes.
func dial(t *testing.T, m *meshtest.Mesh, agent bcp.AgentName, creds accounts.Creds) (ended chan struct{}, err error) {
	t.Helper()
	ended = make(chan struct{})
	conn, err := nats.Connect(m.URL(), nats.UserCredentialBytes(creds.Text()), nats.CustomInboxPrefix(subjects.InboxPrefix(agent)), nats.NoReconnect(),
		nats.Timeout(meshtest.Patience), nats.ClosedHandler(func(*nats.Conn) { close(ended) }))
	if err == nil {
		t.Cleanup(conn.Close)
	}
	return ended, err
}

func waitEnded(t *testing.T, ended chan struct{}, what string) {
	t.Helper()
	bcptest.Next(t, ended, "%s is cut off", what)
}

// credentialAct returns which decisions are about one act on credentials.
func credentialAct(act bcp.CredentialAct, key string) func(*bcp.Decision) bool {
	return func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindCredential && d.Event == string(act) && (key == "" || d.Key == key)
	}
}

// A running mesh disconnects who is revoked and refuses them from then on, also
// after a restart; nobody else notices, and new credentials work. All of it is in
// the audit.
//
// covers A-REVOKED, P11.1
func TestRevokedCredentialsAreCutOff(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100))
	store, owner := keysOf(t, m), operator(t, m)
	stolen, kept := issued(t, store, "mailer", bcp.RoleReader), issued(t, store, "main", bcp.RoleController)
	ended := must(dial(t, m, "mailer", stolen))
	stays := must(dial(t, m, "main", kept))
	m.Wait(t, func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindConnect && d.Key == stolen.PublicKey && d.Note == "127.0.0.1"
	})
	noError(t, store.Revoke(stolen.PublicKey))
	must(owner.ApplyCredentials(t.Context()))
	counts(t, m, 1, credentialAct(bcp.CredentialRevoked, stolen.PublicKey))
	waitEnded(t, ended, "who was revoked")
	fresh := issued(t, store, "mailer", bcp.RoleReader)
	for range 2 {
		fails(t, errorOf(dial(t, m, "mailer", stolen)), nil, "revoked creds are taken")
		expect(t, errorOf(dial(t, m, "mailer", fresh)), nil, "new creds")
		select {
		case <-stays:
			t.Error("another agent was disconnected")
		default:
		}
		m.Restart(t)
		stays = nil // it was, by the restart
	}
	m.WaitCount(t, 3, credentialAct(bcp.CredentialIssued, ""))
	counts(t, m, 1, credentialAct(bcp.CredentialRevoked, ""))
}

// What was done while the mesh rested holds when it starts, and is in the audit
// then, with the time at which it was done: creds that were revoked, and keys that were
// replaced.
//
// covers A-REVOKED, P11.1
func TestChangesOfARestingMeshAreRecordedWhenItStarts(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100))
	store := keysOf(t, m)
	before := issued(t, store, "mailer", bcp.RoleReader)
	m.Wait(t, credentialAct(bcp.CredentialIssued, before.PublicKey)) // nobody told it
	m.Stop(t)
	noError(t, store.Revoke(before.PublicKey))
	fresh := issued(t, store, "mailer", bcp.RoleReader)
	m.Start(t)
	fails(t, errorOf(dial(t, m, "mailer", before)), nil, "revoked creds are taken")
	must(dial(t, m, "mailer", fresh))
	d := m.Wait(t, credentialAct(bcp.CredentialIssued, fresh.PublicKey))
	want := bcp.CredentialChange{Number: 3, Time: fresh.Issued.UnixNano(), Role: bcp.RoleReader, Until: fresh.Expires.UnixNano()}
	diff := cmp.Diff(&want, d.Credential)
	failIf(t, diff != "" || d.Agent != bcp.Operator || d.Target != "mailer", "%+v: %s", d, diff)
	counts(t, m, 1, credentialAct(bcp.CredentialRevoked, before.PublicKey))
	must(operator(t, m).ApplyCredentials(t.Context()))
	pending, _, err := store.Pending(time.Now())
	failIf(t, err != nil || len(pending) > 0, "%v are not recorded: %v", pending, err)

	m.Stop(t)
	must(store.RotateAccounts(0))
	next := issued(t, store, "mailer", bcp.RoleReader)
	m.Start(t)
	fails(t, errorOf(dial(t, m, "mailer", fresh)), nats.ErrAuthorization, "what an old key signed")
	must(dial(t, m, "mailer", next))
	for _, act := range []bcp.CredentialAct{bcp.CredentialAccount, bcp.CredentialScope} {
		m.Wait(t, credentialAct(act, ""))
	}
}

func invite(t *testing.T, store *accounts.Store, within time.Duration) accounts.Token {
	t.Helper()
	return must(store.Invite("mailer", bcp.RoleReader, within, time.Hour, accounts.Restriction{}, false))
}

func refusedToJoin(t *testing.T, m *meshtest.Mesh, name, token string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	_, _, _, err := agents.Join(ctx, m.URL(), token, bcp.Digest{})
	var refused *agents.RefusedError
	failIf(t, !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthExpired) && !(errors.As(err, &refused) && refused.Code == bcp.NotPermitted),
		"%s: %v", name, err)
}

// Who holds an invitation gets credentials once, for a key of its own; both are in
// the audit before anybody can use them.
//
// covers P7.5, P11.1, A-JWTSELF
func TestInvitationIsGoodOnce(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100))
	store := keysOf(t, m)
	token := invite(t, store, time.Hour)
	text, agent, role, err := agents.Join(t.Context(), m.URL(), token.Text(), bcp.Digest{})
	stopIf(t, err != nil || agent != "mailer" || role != bcp.RoleReader, "%s, %s, %v", agent, role, err)
	d := m.Wait(t, credentialAct(bcp.CredentialJoined, ""))
	holds(t, d.Agent == "mailer" && d.Role == bcp.RoleReader && d.Credential.Until != 0, "%+v", d)
	counts(t, m, 1, credentialAct(bcp.CredentialInvited, token.PublicKey))
	mailer := meshtest.NewAgent(bcp.Agent{Name: "mailer", Encoding: bcp.JSON})
	mailer.Dial(t, m.URL(), text)
	refusedToJoin(t, m, "again", token.Text())
	m.Wait(t, credentialAct(bcp.CredentialRefused, token.PublicKey))
	users := must(store.Users())
	failIf(t, !slices.ContainsFunc(users, func(u accounts.User) bool { return u.PublicKey == d.Key && u.Agent == "mailer" && u.Valid(time.Now()) }),
		"who joined is not on record")

	cancelled := invite(t, store, time.Hour)
	noError(t, store.Revoke(cancelled.PublicKey))
	refusedToJoin(t, m, "cancelled", cancelled.Text())
	taken := invite(t, store, time.Hour)
	must(store.RevokeAll("mailer", 0))
	refusedToJoin(t, m, "all of the agent's are revoked", taken.Text())
	over := invite(t, store, time.Second)
	time.Sleep(time.Until(over.Ends.Add(2 * time.Second)))
	refusedToJoin(t, m, "over", over.Text())
	seed, rest, _ := strings.Cut(strings.TrimPrefix(invite(t, store, time.Hour).Text(), "bcpjoin1."), ".")
	otherSeed, _, _ := strings.Cut(strings.TrimPrefix(invite(t, store, time.Hour).Text(), "bcpjoin1."), ".")
	refusedToJoin(t, m, "the key of another invitation", "bcpjoin1."+otherSeed+"."+rest)
	refusedToJoin(t, m, "edited", "bcpjoin1."+seed+"."+rest[:len(rest)-6]+"AAAAAA")
	for _, text := range []string{"", "bcpjoin1.", "bcpjoin1." + seed, "x", rest} {
		_, _, _, err := agents.Join(t.Context(), m.URL(), text, bcp.Digest{})
		failIf(t, !errors.Is(err, agents.ErrToken), "%q: %v", text, err)
	}
}

// The holder of an invitation may ask to join and nothing else, with each subject
// and from each account.
//
// covers A-WILD, A-SYS, A-JSAPI, BCP-7
func TestInvitationGrantsNothingElse(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100))
	store := keysOf(t, m)
	mine, other := invite(t, store, time.Hour), invite(t, store, time.Hour)
	seed, token, _ := strings.Cut(strings.TrimPrefix(mine.Text(), "bcpjoin1."), ".")
	pair := must(nkeys.FromSeed([]byte(seed)))
	refused := make(chan error, 100)
	conn := must(nats.Connect(m.URL(), nats.UserJWT(func() (string, error) { return token, nil }, pair.Sign), nats.NoReconnect(),
		nats.CustomInboxPrefix(subjects.JoinInbox(mine.PublicKey)), nats.SkipSubjectValidation(), nats.Timeout(meshtest.Patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err })))
	defer conn.Close()
	next := func(what string) {
		t.Helper()
		select {
		case err := <-refused:
			fails(t, err, nats.ErrPermissionViolation, "%s", what)
		case <-time.After(meshtest.Patience):
			t.Errorf("%s is not refused", what)
		}
	}
	for _, subject := range []string{
		subjects.Join(other.PublicKey), subjects.Joins, "bcp.v1.join.>", "bcp.v1.join", subjects.Push("mailer", "main", "alerts"), subjects.Session("main"),
		subjects.Ask("main", "mailer"), subjects.Approval("alice", subjects.VerbList), subjects.Control(bcp.ControlReload), subjects.Reply(bcp.RoleReader, "mailer", "q1", 0),
		"$JS.API.INFO", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.USER.INFO", ">", "*", subjects.JoinInbox(other.PublicKey) + ".x",
	} {
		noError(t, conn.Publish(subject, []byte("{}")))
		next("publish " + subject)
	}
	for _, subject := range []string{
		">", "*", "bcp.>", subjects.Joins, subjects.JoinInbox(other.PublicKey) + ".>", "_INBOX.>", "_INBOX_*.>", subjects.QueriesOf("mailer"), subjects.Alerts(), "$SYS.>", "$JS.>",
	} {
		must(conn.SubscribeSync(subject))
		next("subscribe " + subject)
	}
	// Nonsense in the right place is refused, and counts for nothing.
	for _, body := range []string{"", "{}", `{"type":"bcp_join_request","public_key":"U","signature":""}`, `{"type":"bcp_join_request","public_key":"` + other.PublicKey + `","signature":"AAAA"}`} {
		reply, err := conn.Request(subjects.Join(mine.PublicKey), []byte(body), meshtest.Patience)
		failIf(t, err != nil || !strings.Contains(string(reply.Data), `"error"`), "%s: %v", body, err)
	}
	failIf(t, m.Count(credentialAct(bcp.CredentialJoined, "")) > 0, "somebody joined")
}

// Two clients that fight for one file are noticed: the newest wins each time, and
// an alert names the key.
//
// covers A-RECONN, P1.3, P4.6
func TestStolenFileThatIsUsedTwiceIsNoticed(t *testing.T) {
	t.Parallel()
	files := pair(100)
	files["mailer.md"] = agentFile("mailer", "max_connections: 1\n", reads("main"))
	m := meshtest.Start(t, files)
	creds := issued(t, keysOf(t, m), "mailer", bcp.RoleReader)
	for range 2 {
		conn, err := nats.Connect(m.URL(), nats.UserCredentialBytes(creds.Text()), nats.CustomInboxPrefix(subjects.InboxPrefix("mailer")),
			nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.Timeout(meshtest.Patience))
		noError(t, err)
		t.Cleanup(conn.Close)
	}
	d := m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindAlert && d.Event == string(bcp.AlertShared) })
	holds(t, d.Agent == "mailer" && d.Role == bcp.RoleReader && d.Key == creds.PublicKey && d.Note == "127.0.0.1", "%+v", d)
}

// Whoever floods with an invitation that is good no more is refused unread, and counted;
// the key store is left alone, and others join meanwhile.
//
// covers P4.7, P7.5, A-FLOODRESP
func TestFloodOfJoins(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100))
	store := keysOf(t, m)
	used := invite(t, store, time.Hour)
	_, _, _, err := agents.Join(t.Context(), m.URL(), used.Text(), bcp.Digest{})
	noError(t, err)
	seed, token, _ := strings.Cut(strings.TrimPrefix(used.Text(), "bcpjoin1."), ".")
	pair := must(nkeys.FromSeed([]byte(seed)))
	conn := must(nats.Connect(m.URL(), nats.UserJWT(func() (string, error) { return token, nil }, pair.Sign), nats.NoReconnect(),
		nats.CustomInboxPrefix(subjects.JoinInbox(used.PublicKey)), nats.Timeout(meshtest.Patience)))
	defer conn.Close()
	own := must(nkeys.CreateUser())
	key := must(own.PublicKey())
	proof := must(own.Sign(bcp.JoinStatement(used.PublicKey, key, bcp.Digest{})))
	body := must(bcp.Encode(bcp.JoinRequest{Type: bcp.TypeJoinRequest, Key: key, Signature: proof}, bcp.JSON))
	ask := func() string {
		t.Helper()
		reply := must(conn.Request(subjects.Join(used.PublicKey), body, meshtest.Patience))
		var refused struct{ Error string }
		noError(t, json.Unmarshal(reply.Data, &refused))
		return refused.Error
	}
	const flood, each = 2000, 30 // a minute
	heard := map[string]int{}
	began := time.Now()
	for range flood {
		heard[ask()]++
	}
	minutes := 1 + int(math.Ceil(time.Since(began).Minutes()))                                                                         // that of the clock ends in between
	if n := heard["not_permitted"]; n+heard["rate_limited"] != flood || n < each-1 || n > minutes*each || heard["rate_limited"] == 0 { // one joined
		t.Errorf("heard %v", heard)
	}
	m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindRefusals && d.Agent == "" && d.Count > 0 })
	for pending := true; pending; { // the mesh writes that it has recorded them
		changes, _, err := store.Pending(time.Now())
		noError(t, err)
		pending = len(changes) > 0
	}
	before := must(store.Stamp())
	for range flood {
		ask()
	}
	after := must(store.Stamp())
	n := m.Count(credentialAct(bcp.CredentialRefused, used.PublicKey))
	failIf(t, n > 10 || n == 0, "%d refusals are recorded one by one", n)
	holds(t, before.Same(after), "the key store was written")
	other := invite(t, store, time.Hour)
	_, _, _, err = agents.Join(t.Context(), m.URL(), other.Text(), bcp.Digest{})
	failIf(t, err != nil, "another one joins: %v", err)
}
