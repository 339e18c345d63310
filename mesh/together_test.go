package mesh_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// One signature, of a key or of a passkey, decides about what a person has marked. What
// somebody else decided meanwhile is left out, and the record of each decision can be
// checked alone, without those of the others.
//
// covers P7.3, P7.7, P11.1
func TestDecideTogether(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(pair(1000), "mesh.yaml", people))
	main, mailer := connect(t, m)
	store, bob := keysOf(t, m), approver(t, m, "bob")
	own := meshtest.NewPasskey(t, "mesh.example.org")
	for _, passkey := range []*meshtest.Passkey{nil, own} {
		var bound []accounts.IssueOption
		if passkey != nil {
			bound = append(bound, accounts.BoundTo(passkey.Hash()))
		}
		creds := must(store.Issue("ann", bcp.RoleApprover, time.Hour, bound...))
		c := must(agents.Connect(t.Context(), m.URL(), agents.CredsText(creds.Text()), agents.Options{Name: "ann"}))
		t.Cleanup(c.Close)
		desk := agents.NewApprover(c)
		for range 3 {
			mailer.Push(t, "main", "digest", `{"summary":"All is well."}`, "")
		}
		items, err := desk.List(t.Context())
		stopIf(t, err != nil || len(items) != 3, "%v, %v", items, err)
		var views []bcp.ItemView
		var decisions []bcp.Approval
		var statements, salts [][]byte
		for i := range items {
			view := must(desk.View(t.Context(), items[i].ID))
			views = append(views, view)
			decisions = append(decisions, bcp.Approval{Item: view.ID, SHA256: view.SHA256, Expires: view.Deadline.Truncate(time.Second)})
			statements = append(statements, bcp.Statement(view.ID, bcp.Approve, view.SHA256, decisions[i].Expires))
			salts = append(salts, bytes.Repeat([]byte{byte(i)}, bcp.BatchSalt))
		}
		for _, few := range [][]bcp.ItemView{nil, {views[0], bcp.MaxBatch: views[1]}} {
			fails(t, errorOf(desk.Together(t.Context(), bcp.Approve, few, "")), nil, "%d items are decided together", len(few))
		}
		bob.decided(t, rejects(views[1], "No."))
		var left []error
		if passkey != nil {
			fails(t, errorOf(desk.Together(t.Context(), bcp.Approve, views, "")), agents.ErrBound,
				"with the key of creds that are bound")
			signed, _ := bcp.NewBatches(statements, salts)[0].Signed(statements[0])
			challenge := sha256.Sum256(signed)
			left, err = desk.By(passkey.Sign(t, challenge[:])).DecideTogether(t.Context(), bcp.Approve, decisions, salts)
		} else {
			left, err = desk.Together(t.Context(), bcp.Approve, views, "")
		}
		var refused *agents.RefusedError
		stopIf(t, err != nil || len(left) != 3 || left[0] != nil || left[2] != nil || !errors.As(left[1], &refused) || refused.Code != bcp.AlreadyDecided,
			"%v, %v", left, err)
		for range 2 {
			d := main.delivery(t)
			failIf(t, !contains(d, sumText), "delivery %s", d.JSON)
		}
		for _, id := range []bcp.ItemID{views[0].ID, views[2].ID} {
			d := m.Wait(t, func(d *bcp.Decision) bool {
				return d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && d.Item == id
			})
			if err := accounts.VerifyDecision(&d); err != nil || d.Agent != "ann" || d.Key != creds.PublicKey || d.Statement.IsZero() {
				t.Errorf("it is recorded as %+v: %v", d, err)
			}
			for name, change := range map[string]func(*bcp.Decision){
				"item":         func(d *bcp.Decision) { d.Item = views[1].ID },
				"act":          func(d *bcp.Decision) { d.Event = "reject" },
				"bytes":        func(d *bcp.Decision) { d.Released[0]++ },
				"statement":    func(d *bcp.Decision) { d.Statement[0]++ },
				"no statement": func(d *bcp.Decision) { d.Statement = bcp.Digest{} },
				"salt":         func(d *bcp.Decision) { d.Batch[0]++ },
				"other":        func(d *bcp.Decision) { d.Batch[len(d.Batch)-1]++ },
				"no batch":     func(d *bcp.Decision) { d.Batch, d.Statement = nil, bcp.Digest{} },
			} {
				forged := d
				forged.Batch = bytes.Clone(d.Batch)
				change(&forged)
				holds(t, accounts.VerifyDecision(&forged) != nil, "a record with another %s passes", name)
			}
		}
	}
}
