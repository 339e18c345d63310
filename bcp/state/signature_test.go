package state

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A decision counts where its signature is by the key of the connection, over
// exactly this item, act, digest and time, and lives: not longer than the item,
// and not at its end.
//
// covers BCP-71, P7.3, P10, A-SELFAPP
func TestSignatures(t *testing.T) {
	t.Parallel()
	begin := `
		push mail planner memo {"summary":"a_b"} => hold
		push mail planner memo {"summary":"c_d"} => hold
	`
	plays(t, testMesh, begin, map[string]string{
		"right":                              "approve 1 => accept",
		"another key than the connection's":  "approve 1 over=eve-key => not_permitted silent !notice",
		"none":                               "approve 1 unsigned=1 => not_permitted",
		"other bytes":                        "approve 1 swap=1 => digest_mismatch",
		"other bytes of a reason":            "reject 1 no swap=1 => digest_mismatch",
		"other bytes of an edit":             `edit 1 {"summary":"x"} swap=1 => digest_mismatch`,
		"expired":                            "wait 1h\napprove 1 until=-1s => item_expired",
		"at its own end":                     "approve 1 until=0s => item_expired",
		"a second before":                    "approve 1 until=1s => accept",
		"as long as the item":                "approve 1 until=24h => accept",
		"longer than the item":               "approve 1 until=24h1s => malformed",
		"so long that nanoseconds overflow":  "approve 1 until=2540000h => malformed",
		"the last moment of the item":        "wait 23h59m59.999999999s\napprove 1 => accept",
		"the deadline":                       "wait 24h\napprove 1 => item_expired\nreject 1 => item_expired\ndue => expire\napprove 1 => item_expired",
		"the deadline, signed for longer":    "wait 24h\napprove 1 until=1h => item_expired",
		"twice":                              "approve 1 => accept\napprove 1 => already_decided\nreject 1 => already_decided\nedit 1 {} => already_decided",
		"another item after one was decided": "approve 1 => accept\nreject 2 no => accept",
		"no such item":                       "approve i-none => item_not_found",
		"remembered for a day":               "approve 1 => accept\nwait 23h59m59.999999999s\napprove 1 => already_decided\nwait 1ns\napprove 1 => item_not_found",
	})

	// A signature that was made for something else fits nothing here.
	for name, change := range map[string]func(signed, sent *bcp.Approval){
		"another item":   func(signed, _ *bcp.Approval) { signed.Item = "i000002" },
		"another digest": func(signed, _ *bcp.Approval) { signed.SHA256[31]++ },
		"a shorter life": func(signed, _ *bcp.Approval) { signed.Expires = signed.Expires.Add(-time.Second) },
		"a longer life":  func(_, sent *bcp.Approval) { sent.Expires = sent.Expires.Add(-time.Second) },
	} {
		w := newWorld(t, testMesh()).play(begin)
		body := w.sent(1, bcp.Approve, "mia-key", nil)
		var sent bcp.Approval
		noError(t, bcp.Decode(body, bcp.JSON, &sent))
		signed := sent
		change(&signed, &sent)
		sent.Signature = base64.StdEncoding.EncodeToString([]byte("mia-key " + string(bcp.Statement(signed.Item, bcp.Approve, signed.SHA256, signed.Expires))))
		body = must(bcp.Encode(sent, bcp.JSON))
		expect(t, w.decided(bcp.Approve, body).Code, bcp.NotPermitted, "a signature for %s", name)
	}
	for _, act := range []bcp.Act{bcp.RejectItem, bcp.EditItem, "", "Approve", "release"} {
		w := newWorld(t, testMesh()).play(begin)
		for _, signedFor := range []bcp.Act{bcp.Approve, act} {
			body := w.sent(1, signedFor, "mia-key", nil)
			d := w.decided(act, body)
			failIf(t, d.Verdict == bcp.Accept || d.Delivery != "", "signed for %q and sent as %q: %+v", signedFor, act, d)
		}
		w.play("approve 1 => accept")
	}
}

// The statement tells what is signed, and two different decisions never have
// one statement.
//
// covers P7.3
func TestStatement(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	want := "bcpmesh approval 1\nitem i1\ndecision approve\nsha256 01" + strings.Repeat("00", 31) + "\nexpires 1800000000\n"
	expect(t, string(bcp.Statement("i1", bcp.Approve, bcp.Digest{1}, at)), want, "the statement")
	seen := map[string]bool{}
	for _, id := range []bcp.ItemID{"i1", "i2"} {
		for _, act := range []bcp.Act{bcp.Approve, bcp.RejectItem, bcp.EditItem} {
			for _, digest := range []bcp.Digest{{}, {1}} {
				for _, expires := range []time.Time{at, at.Add(time.Second)} {
					seen[string(bcp.Statement(id, act, digest, expires))] = true
				}
			}
		}
	}
	expect(t, len(seen), 24, "statements of 24 decisions")
}

// Nobody decides but an approver of this channel: not one of another channel,
// not the channel's own agents, not an agent that is called like an approver,
// and nobody at all where signatures cannot be checked.
//
// covers P7.3, A-SELFAPP
func TestNobodyCanDecide(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	channelIn(mesh, bcp.ChannelKey{Controller: "clerk", Reader: "mail"}).Approvers = []bcp.AgentName{"noah", "web"} // no definition can say web
	const held = `push mail planner memo {"summary":"a_b"} => hold` + "\n"
	w := newWorld(t, mesh).play(held + `
		ask clerk mail three why=so   => hold
`)
	for who, item := range map[bcp.AgentName]int{"noah": 1, "planner": 1, "mail": 1, "mia": 2, "web": 2, "eve": 2, "": 2} {
		view, _ := w.state.View(map[int]bcp.AgentName{1: "mia", 2: "noah"}[item], w.items[item-1])
		for _, act := range []bcp.Act{bcp.Approve, bcp.RejectItem} {
			body := w.sent(item, act, "k", func(a *bcp.Approval) {
				a.Expires = view.Deadline.Truncate(time.Second)
				if a.SHA256 = view.SHA256; act == bcp.RejectItem {
					a.SHA256 = sha256.Sum256(nil)
				}
			})
			if d := w.commit(w.state.DecideApproval(w.moment(), who, bcp.Sender{Key: "k"}, act, body)); d.Code != bcp.NotPermitted || d.Delivery != "" || d.Notice != "" {
				t.Errorf("%q: %s of item %d: %+v", who, act, item, d)
			}
		}
	}
	w.play("approve 2 as=noah by=noah-key => accept")
	for _, who := range []bcp.AgentName{"noah", "web", "planner", "mail", "", bcp.Operator} {
		items := w.state.ItemsFor(who)
		failIf(t, len(items) > 0, "%q lists %v", who, items)
		if view, code := w.state.View(who, w.items[0]); code != bcp.NotPermitted || view.Content != nil || view.SHA256 != (bcp.Digest{}) {
			t.Errorf("%q sees %+v, %s", who, view, code)
		}
		_, refusal := w.state.Preview(who, w.sent(1, bcp.EditItem, "k", nil))
		failIf(t, refusal.Error != bcp.NotPermitted, "%q previews: %+v", who, refusal)
	}

	w = newWorld(t, testMesh())
	w.config.Verify = nil
	w.state = w.fresh()
	w.play(held + `approve 1 => not_permitted
		reject 1 no => not_permitted
		edit 1 {"summary":"c"} => not_permitted`)
	w = newWorld(t, testMesh()).play(held)
	d := w.commit(w.state.DecideApproval(w.moment(), "mia", bcp.Sender{}, bcp.Approve, w.sent(1, bcp.Approve, "", nil)))
	failIf(t, d.Code != bcp.NotPermitted, "over a connection without a key: %+v", d)
}

// Where several codes apply, the first of the approvers' list is heard.
//
// covers P10
func TestOrderOfApproversCodes(t *testing.T) {
	t.Parallel()
	const held = `push mail planner memo {"summary":"a_b"} => hold` + "\n"
	for _, history := range []string{
		"approve i-none as=eve swap=1 unsigned=1 => item_not_found",
		held + "wait 24h\napprove 1 as=eve swap=1 unsigned=1 => item_expired",
		held + "approve 1 => accept\nwait 23h\napprove 1 as=eve swap=1 unsigned=1 until=-1s => already_decided",
		held + "approve 1 as=eve swap=1 unsigned=1 until=48h => digest_mismatch",
		held + "approve 1 as=eve until=48h => digest_mismatch", // eve cannot see what to sign
		held + "approve 1 over=eve-key until=48h => not_permitted",
		held + `edit 1 {"x":1} unsigned=1 => not_permitted`,
		held + `edit 1 {"x":1} until=-1s => item_expired`,
		held + `edit 1 {"x":1} => malformed`,
	} {
		newWorld(t, testMesh()).play(history)
	}
}

// An approval is read strictly: a reason is one visible line of at most 500
// characters, and goes with nothing but a rejection.
//
// covers P2.2, P7.3, A-ANSI, A-REASON
func TestParseApproval(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bcp.Code{
		`{"item_id":"i1"}`: "",
		`{"item_id":"i1","reason":"so, därför (不)"}`:            "",
		`{"item_id":"i1","response":{"max_words":0,"type":""}}`: "", // a field may be called so
		reasonOf(strings.Repeat("å", bcp.MaxReasonChars)):       "",
		reasonOf(strings.Repeat("å", bcp.MaxReasonChars+1)):     bcp.Malformed,
		reasonOf("two\nlines"):                                  bcp.Malformed,
		reasonOf("\x1b[2J"):                                     bcp.Malformed,
		reasonOf("tab\t"):                                       bcp.Malformed,
		reasonOf("\u202egnp.exe"):                               bcp.Malformed,
		reasonOf("zero\u200bwidth"):                             bcp.Malformed,
		reasonOf("no\u00a0break"):                               bcp.Malformed,
		reasonOf("\u2028"):                                      bcp.Malformed,
		`{"item_id":"i1","reason":"\ud800"}`:                    bcp.Malformed,
		`{}`:                                                    bcp.Malformed,
		`{"item_id":""}`:                                        bcp.Malformed,
		`{"item_id":"i 1"}`:                                     bcp.Malformed,
		`{"item_id":"i1","ITEM_ID":"i2"}`:                       bcp.Malformed,
		`{"item_id":"i1","item_id":"i1"}`:                       bcp.Malformed,
		`{"item_id":"i1","by":"eve"}`:                           bcp.Malformed,
		`{"item_id":"i1","sha256":"00"}`:                        bcp.Malformed,
		`{"item_id":"i1","expires":1}`:                          bcp.Malformed,
		`{"item_id":"i1"} `:                                     "",
		`{"item_id":"i1"}x`:                                     bcp.Malformed,
		`[]`:                                                    bcp.Malformed,
		"":                                                      bcp.Malformed,
		`{"item_id":"` + strings.Repeat("i", 65) + `"}`:         bcp.Malformed,
		strings.Repeat(" ", bcp.MaxControllerMessage+1):         bcp.Malformed,
		`{"item_id":"i1","response":{"q":"\u0000","q":"two"}}`:  bcp.Malformed,
	} {
		if a, code := bcp.ParseApproval([]byte(body)); code != want || code != "" && (a.Item != "" || a.Response != nil) {
			t.Errorf("%.60q is %+v, %q, want %q", body, a, code, want)
		}
	}
	w := newWorld(t, testMesh()).play(`push mail planner memo {"summary":"a_b"} => hold`)
	for act, change := range map[bcp.Act]func(*bcp.Approval){
		bcp.Approve:    func(a *bcp.Approval) { a.Reason = "so" },
		bcp.EditItem:   func(a *bcp.Approval) { a.Reason, a.Response = "so", jsontext.Value(`{"summary":"c"}`) },
		bcp.RejectItem: func(a *bcp.Approval) { a.SHA256, a.Response = sha256.Sum256(nil), jsontext.Value(`{"summary":"c"}`) },
	} {
		expect(t, w.decided(act, w.sent(1, act, "mia-key", change)).Code, bcp.Malformed, "%s with what belongs to another act", act)
		half := w.sent(1, act, "mia-key", func(a *bcp.Approval) { a.Expires = a.Expires.Add(-time.Millisecond) })
		d := w.decided(act, half)
		failIf(t, act == bcp.Approve && d.Code != bcp.Malformed, "%s until a broken second: %+v", act, d)
	}
	w.play("approve 1 => accept")
}

func reasonOf(reason string) string {
	b, _ := json.Marshal(reason)
	return `{"item_id":"i1","reason":` + string(b) + `}`
}

// Who decided what, over which bytes and until when, is in the record; so is
// who was refused.
//
// covers BCP-85, BCP-173, P7.3, P7.5, P11.1
func TestRecordOfADecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		push mail planner memo {"summary":"a_b"} => hold
		approve 1 swap=1                         => digest_mismatch
		reject 1 not_now                         => accept`)
	refused, err := decodeOpen(w.journal[1])
	if err != nil || refused.Kind != bcp.KindApproval || refused.Agent != "mia" || refused.Role != bcp.RoleApprover || refused.Item != w.items[0] ||
		refused.Controller != "planner" || refused.Reader != "mail" || refused.Code != bcp.DigestMismatch || refused.Event != "approve" || refused.RawBytes == 0 {
		t.Errorf("a refused decision is recorded as %+v, %v", refused, err)
	}
	d := w.last
	failIf(t, d.Agent != "mia" || d.Key != "mia-key" || d.Note != "not now" || d.Released != sha256.Sum256([]byte("not now")) || !d.Unsealed ||
		!testVerify(d.Key, bcp.Statement(d.Item, bcp.Act(d.Event), d.Released, time.Unix(0, d.SignedUntil)), d.Signature),
		"a decision is recorded as %+v", d)
	line, moved := d.Line()
	failIf(t, moved, "a decision moves %+v", line)
}

// A journal whose decision is about another item than it says, or lets through
// something else than the item's kind allows, is not read.
//
// covers P4.5, P7.3, P11.1
func TestTamperedDecisionsAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.Budget, c.PushBudget = 1000*bcp.Bit, 1000*bcp.Bit })).play(`
		push mail planner memo {"summary":"a"} => hold
		ask planner mail three why=so          => hold
		ask planner mail text                  => accept
		answer mail 2 ` + answerWord(heldAnswer) + ` => hold
		ask clerk mail yes                     => accept`)
	begin := len(w.journal)
	tampered := map[string]func(*bcp.Decision){
		"another channel":   func(d *bcp.Decision) { d.Controller = "clerk" },
		"no such channel's": func(d *bcp.Decision) { d.Controller, d.Reader = "planner", "web" },
		"another query":     func(d *bcp.Decision) { d.Query = w.queries[2] },
		"the other query": func(d *bcp.Decision) {
			d.Query = w.queries[map[bcp.QueryID]int{w.queries[0]: 1, w.queries[1]: 0, "": 1}[d.Query]]
		},
		"no such item":  func(d *bcp.Decision) { d.Item = "i-none" },
		"the next item": func(d *bcp.Decision) { d.Item = w.items[(slices.Index(w.items, d.Item)+1)%3] },
		"no verdict":    func(d *bcp.Decision) { d.Verdict = 0 },
		"held":          func(d *bcp.Decision) { d.Verdict = bcp.Hold },
		"refused all the same": func(d *bcp.Decision) {
			if d.Verdict = bcp.Reject; d.Delivery == "" {
				d.Delivery = "d1"
			}
		},
		"a notice more, or less": func(d *bcp.Decision) {
			if d.Notice == "" {
				d.Notice = "n1"
			} else {
				d.Notice = ""
			}
		},
	}
	of := func(act string, more map[string]func(*bcp.Decision)) {
		t.Helper()
		for name, tamper := range tampered {
			if more[name] == nil {
				more[name] = tamper
			}
		}
		d := w.last
		for name, tamper := range more {
			changed := d
			tamper(&changed)
			s := w.upTo(begin)
			changed.Seq, changed.Prev = s.last.Seq+1, s.head
			if key, _ := changed.Channel(); s.channels[key] != nil { // with a balance that is right
				changed.Balance = s.channels[key].balanceAfter(&changed, s.queries[changed.Query])
			}
			fails(t, s.Apply(&changed, bcp.Digest{}), ErrReplay, "%s, %s", act, name)
		}
		w.state, w.journal = w.upTo(begin), w.journal[:begin]
	}
	content := map[string]func(*bcp.Decision){
		"not prepaid": func(d *bcp.Decision) { d.Prepaid = false },
		"nothing":     func(d *bcp.Decision) { d.Delivery = "" },
		"more bits":   func(d *bcp.Decision) { d.Nominal *= 2 },
		"epoch":       func(d *bcp.Decision) { d.Epoch++ },
	}
	w.play("approve 3 => delivers")
	of("content", maps.Clone(content))
	w.play("reject 3 => out:approval_rejected")
	of("rejected", content)
	w.play("reject 2 => out:escalation_denied")
	of("denied", map[string]func(*bcp.Decision){
		"an answer":  func(d *bcp.Decision) { d.Outcome = "" },
		"more bits":  func(d *bcp.Decision) { d.Nominal += 30 * bcp.Bit },
		"no message": func(d *bcp.Decision) { d.Delivery = "" },
	})
	w.play("approve 2 => accept silent")
	of("let through", map[string]func(*bcp.Decision){
		"an answer":  func(d *bcp.Decision) { d.Delivery = "d1" },
		"an outcome": func(d *bcp.Decision) { d.Outcome = bcp.Held },
	})
	w.play("approve 1 => delivers")
	of("push", map[string]func(*bcp.Decision){})
}

// Who is bound to a passkey decides with it alone, and who is not with the key of the
// creds alone. The record has what an offline check needs, sealed.
//
// covers P7.3, P11.1, A-SELFAPP
func TestPasskeysDecide(t *testing.T) {
	t.Parallel()
	const data = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" // 32 bytes
	key, passkey := bcp.Sender{Key: "mia-key"}, bcp.Sender{Key: "mia-key", Passkey: bcp.Digest{'k'}}
	for name, c := range map[string]struct {
		from            bcp.Sender
		by              string // of the assertion; empty for none
		nkey, no, other bool
		want            bcp.Code
	}{
		"a passkey":                           {from: passkey, by: "k"},
		"a key":                               {from: key, nkey: true},
		"the key of who is bound":             {from: passkey, nkey: true, want: bcp.NotPermitted},
		"both, of who is bound":               {from: passkey, by: "k", nkey: true, want: bcp.NotPermitted},
		"nothing, of who is bound":            {from: passkey, want: bcp.NotPermitted},
		"a passkey of who is not bound":       {from: key, by: "\x00", want: bcp.NotPermitted},
		"both, of who is not bound":           {from: key, by: "\x00", nkey: true, want: bcp.NotPermitted},
		"another passkey":                     {from: passkey, by: "x", want: bcp.NotPermitted},
		"a passkey, for another act":          {from: passkey, by: "k", other: true, want: bcp.NotPermitted},
		"a gateway that knows of no passkeys": {from: passkey, by: "k", no: true, want: bcp.NotPermitted},
	} {
		w := newWorld(t, testMesh()).play(`push mail planner memo {"summary":"a_b"} => hold`)
		view, _ := w.state.View("mia", w.items[0])
		a := bcp.Approval{Item: view.ID, SHA256: view.SHA256, Expires: view.Deadline.Truncate(time.Second)}
		act := bcp.Approve
		if c.other {
			act = bcp.EditItem
		}
		statement := string(bcp.Statement(a.Item, act, a.SHA256, a.Expires))
		if c.nkey {
			a.Signature = base64.StdEncoding.EncodeToString([]byte("mia-key " + statement))
		}
		if c.by != "" {
			a.Passkey = &bcp.Assertion{RPID: "mesh.example.org", AuthenticatorData: data + "B0AAAAA", Signature: c.by + " " + statement}
		}
		if c.no {
			w.state.passkeys = nil
		}
		body := must(bcp.Encode(a, bcp.JSON))
		d := w.commit(w.state.DecideApproval(w.moment(), "mia", c.from, bcp.Approve, body))
		failIf(t, d.Code != c.want || (d.Verdict == bcp.Accept) != (c.want == "") || c.want != "" && (d.Check != bcp.CheckSignature || d.Delivery != "" || len(d.Signature) > 0),
			"%s: %+v", name, d)
		if c.want != "" {
			continue
		}
		kept, err := decodeOpen(w.journal[1])
		failIf(t, err != nil || kept.Key != "mia-key" || kept.Passkey != c.from.Passkey || kept.Unsealed != c.nkey || kept.Synced,
			"%s is recorded as %+v, %v", name, kept, err)
		var assertion bcp.Assertion
		failIf(t, c.by != "" && (json.Unmarshal(kept.Signature, &assertion) != nil || assertion != *a.Passkey),
			"%s is recorded with %s", name, kept.Signature)
		if line, err := json.Marshal(kept); err != nil || c.by != "" && strings.Contains(string(line), "mesh.example.org") {
			t.Errorf("%s: the assertion, which tells what was decided, stands in the audit: %s, %v", name, line, err)
		}
	}
}
