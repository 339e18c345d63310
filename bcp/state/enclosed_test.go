package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const sealedSaid = "Canary-7Qx"

// link is a query whose answer has a boolean and two sealed values.
const link = `{"category":1,"fields":[{"name":"ok","type":"boolean"},{"name":"a","type":"sealed","max":64},{"name":"b","type":"sealed","max":64}]`

// sealed asks planner's link of a Reader, has it answered, and returns the handles.
func (w *world) sealed(reader string) []bcp.Handle {
	w.t.Helper()
	w.play("say planner " + reader + " " + link + "} => accept bits:3.0")
	w.play(fmt.Sprintf(`answer %s %d {"ok":true,"b":"%s","a":"x"} => delivers bits:3.0`, reader, len(w.queries), sealedSaid))
	id := w.last.Delivery
	return []bcp.Handle{bcp.Handle("sealed:" + id + ".0"), bcp.Handle("sealed:" + id + ".1")}
}

// hand has a Controller hand a value to a person.
func (w *world) hand(controller bcp.AgentName, h bcp.Handle) bcp.Decision {
	w.t.Helper()
	d := w.state.DecideSession(w.moment(), controller, w.said(fmt.Appendf(nil, `{"verb":"hand","handle":%q}`, h)))
	if d.Code == bcp.RateLimited {
		return d
	}
	return w.commit(d)
}

// with is an ask of planner whose arguments have handles.
func with(reader string, handles ...bcp.Handle) string {
	quoted := make([]string, len(handles))
	for i, h := range handles {
		quoted[i] = fmt.Sprintf("%q", h)
	}
	return "say planner " + reader + ` {"category":1,"fields":[{"name":"ok","type":"boolean"}],"arguments":{"in":[` + strings.Join(quoted, ",") + `]}}`
}

// takingArguments is testMesh with channels that take them.
func takingArguments() *bcp.Mesh {
	m := testMesh()
	for i := range m.Channels {
		m.Channels[i].MaxArgumentBytes, m.Channels[i].Budget = 1024, 1000*bcp.Bit
	}
	return m
}

// A Controller gets handles in place of sealed values, which are nowhere in its state but
// sealed. What it hands on waits for a person, once, and releases nothing.
//
// covers P3.11, P3.12, P7.1, P7.3
func TestSealedValuesAreHandedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	handles := w.sealed("mail")
	out := w.state.Outbox(plannerMail)
	want := fmt.Sprintf(`{"ok":true,"a":%q,"b":%q}`, handles[0], handles[1])
	stopIf(t, len(out) != 1 || string(out[0].Response) != want, "delivered is %+v, want %s", out, want)
	d := w.hand("planner", handles[1])
	stopIf(t, d.Verdict != bcp.Hold || d.Kind != bcp.KindHand || d.HeldItem() == "" || d.Repeat || d.Reader != "mail" || d.SessionBegins || d.Nominal != 0,
		"decided %+v", d)
	view, code := w.state.View("mia", d.Item)
	failIf(t, code != "" || view.Kind != bcp.ItemHanded || string(view.Content) != `"`+string(handles[1])+`"` || view.Taint != bcp.TaintHigh || view.Source.Agent != "mail",
		"it is shown as %+v, %s", view, code)
	expect(t, errorOf(w.state.View("eve", d.Item)), bcp.NotPermitted, "another person")
	if again := w.hand("planner", handles[1]); !again.Repeat || again.Item != d.Item || again.Verdict != bcp.Hold || len(w.state.Items()) != 1 {
		t.Errorf("again: %+v", again)
	}
	w.play(`edit 1 {"ok":true} => malformed
		approve 1 by=eve over=x => not_permitted
		approve 1 => accept silent !notice !prepaid bits:0.0
		approve 1 => already_decided`)
	again := w.hand("planner", handles[1])
	failIf(t, !again.Repeat || again.Item != d.Item || len(w.state.Items()) != 0, "what was seen, again: %+v", again)
	w.hand("planner", handles[0])
	w.play("reject 2 no => accept silent !notice")
	w.sealed("mail")
	checkpoint := must(w.state.Checkpoint())
	failIf(t, bytes.Contains(checkpoint, []byte(sealedSaid)) || strings.Contains(dump(w.state), sealedSaid),
		"the state has it in the clear")
	for _, record := range w.journal {
		public := must(decodeOpen(record))
		if public = public.Public(); bytes.Contains(record, []byte(sealedSaid)) || strings.Contains(fmt.Sprintf("%+v", public), sealedSaid) {
			t.Errorf("record %d has it", public.Seq)
		}
	}
	enclosing, i, ok := w.state.Enclosing(handles[1])
	if err := enclosing.Open(testKey); err != nil || !ok || !slices.Equal(enclosing.Enclosed, []string{"x", sealedSaid}) || i != 1 {
		t.Errorf("opened it is %+v %d, %v", enclosing, i, err)
	}
	w.hand("planner", handles[1])
	w.play("wait 25h")
	w.sealed("mail") // a new session, and so a value that the next hand waits with
	last := w.hand("planner", bcp.Handle("sealed:"+w.last.Delivery+".0"))
	w.play("wait 24h\ndue => expire silent !notice\napprove 3 => item_expired")
	failIf(t, last.Verdict != bcp.Hold || len(w.state.Items()) != 0, "%+v: %d items wait", last, len(w.state.Items()))
}

// What is no handle of a value that came to this Controller in its open session is unknown.
//
// covers P3.12
func TestUnknownHandles(t *testing.T) {
	t.Parallel()
	refused := func(w *world, who bcp.AgentName, h bcp.Handle, why string) {
		t.Helper()
		d := w.hand(who, h)
		failIf(t, d.Code != bcp.UnknownHandle || d.Check != bcp.CheckHandle || d.Item != "" || d.Reader != "", "%s: %+v", why, d)
	}
	w := newWorld(t, takingArguments())
	h := w.sealed("mail")[1]
	for _, other := range []bcp.Handle{h[:len(h)-1] + "2", h[:len(h)-1] + "01", h[:len(h)-1] + "-1", h + " ", h[7:], "sealed:d999999.0", "sealed:.0", "sealed:", h[:len(h)-2], "x"} {
		refused(w, "planner", other, string(other))
		got := (&bcp.Spec{Arguments: fmt.Appendf(nil, `{"in":%q}`, other)}).Handles()
		failIf(t, strings.HasPrefix(string(other), string(h)) && len(got) > 0, "%s is a handle: %v", other, got)
	}
	refused(w, "clerk", h, "another Controller")
	d := w.state.DecideAsk(w.moment(), "relay", "mail", []byte(strings.TrimPrefix(with("mail", h), "say planner mail ")))
	failIf(t, d.Code != bcp.UnknownHandle, "another Controller asks: %+v", d)
	w.play(with("web", h) + " => accept event:agent")
	w.play("close planner => ends")
	refused(w, "planner", h, "a closed session")
	w.play(with("web", h) + " => unknown_handle\nopen planner => begins")
	refused(w, "planner", h, "the next session")
	h = w.sealed("mail")[0]
	w.play("wait 29m")
	expect(t, w.hand("planner", h).Verdict, bcp.Hold, "a minute before the session is idle")
	w.play("wait 31m")
	refused(w, "planner", h, "an idle session")
	quiet(w)
	w.play("ask planner mail yes => begins accept")
	refused(w, "planner", h, "a later session")

	slots := edited(func(c *bcp.Channel) { c.ReleaseInterval = time.Minute })
	w = newWorld(t, slots).play("wait 1s\nopen planner")
	h = w.sealed("mail")[1]
	refused(w, "planner", h, "before its slot")
	w.play("wait 1m")
	expect(t, w.hand("planner", h).Verdict, bcp.Hold, "released")
	h = w.sealed("mail")[1]
	w.play("close planner\nopen planner")
	refused(w, "planner", h, "before its slot, after the session")
	w.play("wait 1m")
	expect(t, w.hand("planner", h).Verdict, bcp.Hold, "released into another session")
}

// Handles in arguments go to a Reader that is tainted by it, at most four; elsewhere they
// are text.
//
// covers P3.12, P2.8, P8.1
func TestHandlesAsArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, takingArguments())
	a, b := w.sealed("mail")[0], w.sealed("mail")[1]
	ask := with("relay", a, b, a, b)
	w.play(ask + " => accept event:agent")
	query, _, _, _ := w.state.Open(w.last.Query)
	if got := query.Handles(); !slices.Equal(got, []bcp.Handle{a, b, a, b}) {
		t.Errorf("its handles are %v", got)
	}
	filled, ok := query.Fill(map[bcp.Handle]string{a: "q\"\u202e\x00", b: ""})
	want := `{"in":["q\"` + "\u202e" + `\u0000","","q\"` + "\u202e" + `\u0000",""]}`
	failIf(t, !ok || string(filled) != want, "filled %t: %s, want %s", ok, filled, want)
	expect(t, errorOf(query.Fill(map[bcp.Handle]string{a: ""})), false, "it is filled without a value")
	if taint := w.state.Sessions(w.now); len(taint) == 0 || w.state.answerTaint("relay", w.now.UnixNano()) != bcp.TaintMedium {
		t.Errorf("its answers have taint %s", w.state.answerTaint("relay", w.now.UnixNano()))
	}
	w.play(with("relay", a, b, a, b, a) + " => invalid_query")
	text := &bcp.Spec{Arguments: fmt.Appendf(nil, `{"%s":{"%s":"see %s"},"b":["%s.","%s"],"n":[1,true]}`, a, a, a, a, b)}
	got := text.Handles()
	failIf(t, !slices.Equal(got, []bcp.Handle{b}), "handles are %v", got)
	if filled, ok := text.Fill(map[bcp.Handle]string{b: "B"}); !ok || string(filled) != strings.Replace(string(text.Arguments), string(b), "B", 1) {
		t.Errorf("filled: %s", filled)
	}
}

// A session keeps the sealed values of its newest answers, and all that people wait for.
//
// covers P3.12
func TestSealedValuesOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, takingArguments())
	first := w.sealed("mail")
	w.hand("planner", first[0])
	second := w.sealed("mail")
	for range maxEnvelopes {
		w.act("say planner mail " + link + "}")
		w.act(fmt.Sprintf(`answer mail %d {"ok":true,"b":"x","a":"x"}`, len(w.queries)))
	}
	expect(t, w.hand("planner", second[0]).Code, bcp.UnknownHandle, "one more than are kept")
	_, _, ok := w.state.Enclosing(first[0])
	failIf(t, !ok || len(w.state.envelopes) != maxEnvelopes+1, "what waits is there: %t, of %d", ok, len(w.state.envelopes))
	w.play("approve 1 => accept\nclose planner")
	w.play("ask planner web yes => begins")
	expect(t, len(w.state.envelopes), 0, "are kept after the session")
}

// Sealed values are erased with their channel's day, and not while somebody waits for them.
//
// covers P3.12, P11.5
func TestSealedValuesAreErased(t *testing.T) {
	t.Parallel()
	mesh := takingArguments()
	for i := range mesh.Channels {
		mesh.Channels[i].ApprovalTTL = 30 * 24 * time.Hour
	}
	w := newWorld(t, mesh)
	h, other := w.sealed("mail"), w.sealed("web")
	w.hand("planner", h[1])
	w.play(with("relay", h[0], other[0]) + " => accept")
	quiet(w)
	w.play("erase planner mail latest => refused")
	failIf(t, !slices.ContainsFunc(w.reasons, func(r string) bool { return strings.Contains(r, "sealed values") }),
		"the reasons are %q", w.reasons)
	w.play("approve 1 => accept\nwait 48h\nerase planner mail latest => accept")
	_, _, ok := w.state.Enclosing(h[1])
	failIf(t, ok, "it is there")
	w.play("ask planner mail yes => accept begins")
	expect(t, w.hand("planner", h[1]).Code, bcp.UnknownHandle, "handed")
	w.play("close planner\nerase planner web latest => accept\nerase planner relay latest => accept")
}
