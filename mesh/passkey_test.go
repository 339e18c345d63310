package mesh_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// byPasskey is the message of an act that somebody signed with a passkey, perhaps for
// another one.
func byPasskey(t testing.TB, p *meshtest.Passkey, signed, sent act) string {
	t.Helper()
	challenge := sha256.Sum256(bcp.Statement(signed.item, signed.verb, signed.digest, signed.expires))
	assertion := must(json.Marshal(p.Sign(t, challenge[:])))
	return strings.Replace(sent.text(""), `"signature":""`, `"passkey":`+string(assertion), 1)
}

// Who is bound to a passkey decides with it, and with nothing else: neither with the key
// of the creds, nor with somebody else's passkey or what was signed for another decision.
// The server says who is bound, also after a rotation of the creds. Of two decisions at
// once one counts, and its record can be checked without the mesh.
//
// covers P7.3, P11.1, A-SELFAPP
func TestPasskeysDecide(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(pair(1000), "mesh.yaml", people))
	main, mailer := connect(t, m)
	store := keysOf(t, m)
	own, other := meshtest.NewPasskey(t, "mesh.example.org"), meshtest.NewPasskey(t, "mesh.example.org")
	elsewhere := *own
	elsewhere.Origin = "https://evil.example"
	ann, bob := person{meshtest.NewAgent(bcp.Agent{Name: "ann"})}, approver(t, m, "bob")
	token := must(store.Invite("ann", bcp.RoleApprover, time.Hour, time.Hour, accounts.Restriction{}, true))
	refusedToJoin(t, m, "without a passkey", token.Text())
	_, name, role, err := agents.Join(t.Context(), m.URL(), token.Text(), own.Hash())
	stopIf(t, err != nil || name != "ann" || role != bcp.RoleApprover, "%s, %s, %v", name, role, err)
	bound := must(store.Issue("ann", bcp.RoleApprover, time.Hour, accounts.BoundTo(own.Hash())))
	ann.Dial(t, m.URL(), bound.Text())
	for range 3 {
		mailer.Push(t, "main", "digest", `{"summary":"All is well."}`, "")
	}
	items := ann.items(t)
	view := ann.view(t, items[0].ID)
	good, another := approves(view), approves(ann.view(t, items[1].ID))
	changed := func(change func(*act)) act { a := good; change(&a); return a }
	right := byPasskey(t, own, good, good)
	nkey := good.text(ann.sign(t, good))
	for name, c := range map[string]struct {
		from person
		text string
	}{
		"the key of the creds":      {ann, nkey},
		"both":                      {ann, strings.Replace(right, `"passkey"`, `"signature":"`+ann.sign(t, good)+`","passkey"`, 1)},
		"another's passkey":         {ann, byPasskey(t, other, good, good)},
		"signed for another item":   {ann, byPasskey(t, own, another, good)},
		"signed for another act":    {ann, byPasskey(t, own, changed(func(a *act) { a.verb = bcp.RejectItem }), good)},
		"signed for other bytes":    {ann, byPasskey(t, own, changed(func(a *act) { a.digest[0]++ }), good)},
		"signed for another end":    {ann, byPasskey(t, own, changed(func(a *act) { a.expires = a.expires.Add(-time.Second) }), good)},
		"signed on another page":    {ann, byPasskey(t, &elsewhere, good, good)},
		"somebody who is not bound": {bob, right},
	} {
		coded(t, c.from.say(t, subjects.VerbApprove, c.text), "not_permitted", name)
	}
	nothing(t, main.rest(t))

	// A client of ours sends nothing that could only be refused, and what is signed already.
	c := must(agents.Connect(t.Context(), m.URL(), agents.CredsText(bound.Text()), agents.Options{Name: "ann"}))
	t.Cleanup(c.Close)
	desk := agents.NewApprover(c)
	fails(t, desk.Approve(t.Context(), view), agents.ErrBound, "the key of the creds, by our client")
	refusal := rejects(ann.view(t, items[2].ID), "No.")
	challenge := sha256.Sum256(bcp.Statement(refusal.item, refusal.verb, refusal.digest, refusal.expires))
	assertion := own.Sign(t, challenge[:])
	var refused *agents.RefusedError
	err = desk.By(assertion).Reject(t.Context(), ann.view(t, items[2].ID), "Never.")
	failIf(t, !errors.As(err, &refused) || refused.Code != bcp.NotPermitted, "a rejection with another reason: %v", err)
	expect(t, desk.By(assertion).Reject(t.Context(), ann.view(t, items[2].ID), "No."), nil, "a rejection")
	m.Wait(t, func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && d.Event == "reject" && accounts.VerifyDecision(d) == nil
	})

	replies := make([]meshtest.Message, 2)
	var both sync.WaitGroup
	for i := range replies {
		both.Go(func() { replies[i] = ann.say(t, subjects.VerbApprove, right) })
	}
	both.Wait()
	if a, b := replies[0].Text("decision"), replies[1].Text("decision"); a+b != "approve" || replies[0].Text("error")+replies[1].Text("error") != "already_decided" {
		t.Errorf("two at once: %s and %s", replies[0].JSON, replies[1].JSON)
	}
	if d := main.delivery(t); !contains(d, sumText) {
		t.Errorf("delivery %s", d.JSON)
	}
	d := m.Wait(t, func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && d.Event == "approve"
	})
	holds(t, d.Passkey == own.Hash() && d.Synced && !d.Unsealed && d.Key == bound.PublicKey, "it is recorded as %+v", d)
	expect(t, accounts.VerifyDecision(&d), nil, "the record")
	for name, change := range map[string]func(*bcp.Decision){
		"item":      func(d *bcp.Decision) { d.Item = another.item },
		"act":       func(d *bcp.Decision) { d.Event = "edit" },
		"bytes":     func(d *bcp.Decision) { d.Released[0]++ },
		"end":       func(d *bcp.Decision) { d.SignedUntil += int64(time.Second) },
		"passkey":   func(d *bcp.Decision) { d.Passkey = other.Hash() },
		"none":      func(d *bcp.Decision) { d.Passkey = bcp.Digest{} },
		"synced":    func(d *bcp.Decision) { d.Synced = false },
		"assertion": func(d *bcp.Decision) { d.Signature = []byte(strings.Replace(string(d.Signature), "mesh.", "mess.", 1)) },
		"text":      func(d *bcp.Decision) { d.Signature = append([]byte("x"), d.Signature...) },
	} {
		forged := d
		forged.Signature = append([]byte{}, d.Signature...)
		change(&forged)
		holds(t, accounts.VerifyDecision(&forged) != nil, "a record with another %s passes", name)
	}
	ann.Conn.Close()
	// Bob, who has no passkey, decides as before, and his record is checked alike.
	bob.decided(t, another)
	d = m.Wait(t, func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && d.Agent == "bob"
	})
	err = accounts.VerifyDecision(&d)
	failIf(t, err != nil || !d.Unsealed, "bob's record: %v, %+v", err, d)
	if d.Released[0]++; accounts.VerifyDecision(&d) == nil {
		t.Error("a changed record of bob's passes")
	}
	failIf(t, errorOf(store.Issue("mailer", bcp.RoleReader, time.Hour, accounts.BoundTo(own.Hash()))) == nil,
		"a Reader was given a passkey")
}
