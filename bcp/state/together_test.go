package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// together returns approvals of held items that one signature by mia is of, after n
// decisions about items of somewhere else.
func (w *world) together(n int, items ...int) []bcp.Approval {
	w.t.Helper()
	var all []bcp.Approval
	var statements, salts [][]byte
	for i := range n + len(items) {
		a := bcp.Approval{Item: bcp.ItemID(fmt.Sprintf("i-other%d", i)), Expires: w.now.Add(time.Hour).Truncate(time.Second)}
		if i >= n {
			view, code := w.state.View("mia", w.items[items[i-n]-1])
			stopIf(w.t, code != "", "%v", code)
			a = bcp.Approval{Item: view.ID, SHA256: view.SHA256, Expires: view.Deadline.Truncate(time.Second)}
		}
		all = append(all, a)
		statements = append(statements, bcp.Statement(a.Item, bcp.Approve, a.SHA256, a.Expires))
		salts = append(salts, bytes.Repeat([]byte{byte(i)}, bcp.BatchSalt))
	}
	for i, batch := range bcp.NewBatches(statements, salts) {
		signed, _ := batch.Signed(statements[i])
		all[i].Batch, all[i].Signature = batch, signature(signed)
	}
	return all[n:]
}

func signature(statement []byte) string {
	return base64.StdEncoding.EncodeToString([]byte("mia-key " + string(statement)))
}

// told sends an approval.
func (w *world) told(act bcp.Act, a bcp.Approval) bcp.Decision {
	w.t.Helper()
	body := must(bcp.Encode(a, bcp.JSON))
	return w.decided(act, body)
}

const threeHeld = `
	push mail planner memo {"summary":"a_b"} => hold
	push mail planner memo {"summary":"c_d"} => hold
	push mail planner memo {"summary":"e_f"} => hold
`

// One signature decides several items: each is judged by itself, so that one which changed,
// expired or was decided meanwhile is left out and the others count. The record of each
// says which statement was signed, and has what an offline check needs.
//
// covers P7.3, P7.7, P11.1
func TestDecidedTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(threeHeld)
	all := w.together(0, 1, 2, 3)
	w.play("reject 2 no => accept")
	var statements []bcp.Digest
	for i, want := range []bcp.Code{"", bcp.AlreadyDecided, ""} {
		d := w.told(bcp.Approve, all[i])
		stopIf(t, d.Code != want || (d.Verdict == bcp.Accept) != (want == ""), "item %d: %+v", i+1, d)
		if want != "" {
			continue
		}
		kept := must(decodeOpen(w.journal[len(w.journal)-1]))
		signed, ok := kept.Batch.Signed(bcp.Statement(kept.Item, bcp.Approve, kept.Released, time.Unix(0, kept.SignedUntil)))
		failIf(t, !ok || sha256.Sum256(signed) != kept.Statement || !testVerify("mia-key", signed, kept.Signature),
			"recorded as %+v", kept)
		statements = append(statements, kept.Statement)
	}
	expect(t, statements[0], statements[1], "one signature, and records of two statements")
	expect(t, w.told(bcp.Approve, all[0]).Code, bcp.AlreadyDecided, "again")

	w = newWorld(t, testMesh()).play(threeHeld)
	all = w.together(0, 1, 2)
	w.play("wait 24h")
	expect(t, w.told(bcp.Approve, all[0]).Code, bcp.ItemExpired, "after the deadline")
	alone := newWorld(t, testMesh()).play(threeHeld + "approve 1 => accept")
	failIf(t, alone.last.Batch != nil || !alone.last.Statement.IsZero(), "alone: %+v", alone.last)
}

// A batch has at most MaxBatch decisions, this one included.
//
// covers P7.7
func TestMaxBatch(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bcp.Code{1: "", bcp.MaxBatch - 1: "", bcp.MaxBatch: bcp.NotPermitted} {
		w := newWorld(t, testMesh()).play(threeHeld)
		expect(t, w.told(bcp.Approve, w.together(n, 2)[0]).Code, want, "%d others", n)
	}
}

// What is not exactly the batch that was signed, in its one form, decides nothing.
//
// covers P7.3, P7.7, A-SELFAPP
func TestForgedBatches(t *testing.T) {
	t.Parallel()
	const size = len(bcp.Digest{})
	for name, forge := range map[string]func(w *world, a *bcp.Approval, others []bcp.Approval){
		"another item": func(w *world, a *bcp.Approval, _ []bcp.Approval) { a.Item = w.items[3] },
		"another item, its hash": func(w *world, a *bcp.Approval, _ []bcp.Approval) {
			own := w.together(0, 4, 1)[0]
			own.Batch, own.Signature = a.Batch, a.Signature
			*a = own
		},
		"another act":                       func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.SHA256 = sha256.Sum256(nil) },
		"another act, signed for approving": func(_ *world, a *bcp.Approval, _ []bcp.Approval) {},
		"a longer life":                     func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Expires = a.Expires.Add(-time.Second) },
		"the salt of another":               func(_ *world, a *bcp.Approval, o []bcp.Approval) { copy(a.Batch, o[0].Batch[:bcp.BatchSalt]) },
		"the batch of another":              func(_ *world, a *bcp.Approval, o []bcp.Approval) { a.Batch = o[0].Batch },
		"without its batch":                 func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Batch = nil },
		"a salt alone":                      func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Batch = a.Batch[:bcp.BatchSalt] },
		"half a leaf":                       func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Batch = a.Batch[:len(a.Batch)-1] },
		"one byte":                          func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Batch = a.Batch[:1] },
		"a leaf less":                       func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Batch = a.Batch[:len(a.Batch)-size] },
		"a leaf more": func(_ *world, a *bcp.Approval, _ []bcp.Approval) {
			a.Batch = append(a.Batch, bytes.Repeat([]byte{0xff}, size)...)
		},
		"another leaf": func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Batch[len(a.Batch)-1]++ },
		"a leaf twice": func(_ *world, a *bcp.Approval, _ []bcp.Approval) {
			a.Batch = append(a.Batch, a.Batch[len(a.Batch)-size:]...)
		},
		"leaves in another order": func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Batch = swapped(a.Batch) },
		"its own leaf among them": func(_ *world, a *bcp.Approval, _ []bcp.Approval) {
			statement := bcp.Statement(a.Item, bcp.Approve, a.SHA256, a.Expires)
			leaf := bcp.Leaf(statement, a.Batch[:bcp.BatchSalt])
			a.Batch = append(slices.Clone(a.Batch[:bcp.BatchSalt]), leaf[:]...)
			a.Signature = signature(fmt.Appendf(nil, "bcpmesh approvals 1\n%x\n%x\n", leaf, leaf))
		},
		"a signature of it alone": func(_ *world, a *bcp.Approval, _ []bcp.Approval) {
			a.Signature = signature(bcp.Statement(a.Item, bcp.Approve, a.SHA256, a.Expires))
		},
		"a signature of nothing": func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Batch, a.Signature = a.Batch[:1], signature(nil) },
		"a signature by another": func(_ *world, a *bcp.Approval, _ []bcp.Approval) {
			signed, _ := a.Signed(bcp.Approve)
			a.Signature = base64.StdEncoding.EncodeToString([]byte("eve-key " + string(signed)))
		},
		"no signature": func(_ *world, a *bcp.Approval, _ []bcp.Approval) { a.Signature = "" },
	} {
		w := newWorld(t, testMesh()).play(threeHeld + `push mail planner memo {"summary":"g_h"} => hold`)
		all := w.together(0, 1, 2, 3)
		a := all[0]
		a.Batch = slices.Clone(a.Batch)
		forge(w, &a, all[1:])
		act := cmp.Or(map[string]bcp.Act{"another act": bcp.RejectItem, "another act, signed for approving": bcp.EditItem}[name], bcp.Approve)
		d := w.told(act, a)
		failIf(t, d.Verdict == bcp.Accept || d.Delivery != "" || d.Batch != nil || !d.Statement.IsZero(), "%s: %+v", name, d)
		expect(t, w.told(bcp.Approve, all[0]).Verdict, bcp.Accept, "%s, and then the right one", name)
	}
}

// swapped has the last two leaves the other way round.
func swapped(b bcp.Batch) bcp.Batch {
	const size = len(bcp.Digest{})
	at := len(b) - 2*size
	return slices.Concat(b[:at], b[at+size:], b[at:at+size])
}
