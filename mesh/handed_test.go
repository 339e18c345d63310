package mesh_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// What a Reader answers sealed reaches the person to whom its Controller hands it, and the
// Reader that gets it in arguments, over a restart too; and no other byte that anybody
// gets, the mesh logs, or a file of it has, snapshots among them. It costs a bit whatever
// it says, and more than was asked for is nothing at all.
//
// covers P3.11, P3.12, P7.2, P11.4, P11.5, BCP-34
func TestSealedValuesReachWhomTheyAreHandedTo(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			const word = "Canary-2Hd"
			said := "Dear Kim,\n\"" + word + "\" <b>\u202e\x1b[31m"
			files := with(in(pair(1000, "max_retries: 0"), encoding), "mesh.yaml", people)
			files["main.md"] = in(map[string]string{"main.md": agentFile("main", "", controls("mailer", 1000, "max_retries: 0"), controls("printer", 1000, "max_argument_bytes: 100"))}, encoding)["main.md"]
			files["printer.md"] = in(map[string]string{"printer.md": agentFile("printer", "", reads("main"))}, encoding)["printer.md"]
			m := meshtest.Start(t, files)
			main, mailer := connect(t, m)
			printer := reader(t, m, "printer")
			const ask = `{"category":1,"fields":[{"name":"urgent","type":"boolean"},{"name":"text","type":"sealed","max":99}]}`
			quoted := string(must(bcp.Encode(said, bcp.JSON)))
			main.Accepted(t, "mailer", ask)
			mailer.Answer(t, mailer.queries.Next(t), `"response":{"text":`+quoted+`,"urgent":true}`)
			d := main.delivery(t)
			h := bcp.Handle("sealed:" + d.Text("delivery_id") + ".0")
			response, _ := d.Fields["response"].(map[string]any)
			stopIf(t, strings.Contains(d.JSON, word) || len(response) != 2 || response["urgent"] != true || response["text"] != string(h) || !strings.Contains(d.JSON, `"bandwidth_bits":2`),
				"delivered is %s", d.JSON)
			main.Acknowledge(t, d)

			c := client(t, m, "main", bcp.RoleController, agents.Options{Encoding: encoding})
			item, err := agents.NewController(c).Hand(context.WithoutCancel(t.Context()), h)
			again, errAgain := agents.NewController(c).Hand(t.Context(), h)
			stopIf(t, err != nil || errAgain != nil || item == "" || again != item,
				"handed as %s, %v, again as %s, %v", item, err, again, errAgain)
			ann := approver(t, m, "ann")
			list := ann.say(t, subjects.VerbList, "{}").JSON
			failIf(t, strings.Contains(list, word) || !strings.Contains(list, `"kind":"handed"`), "the list is %s", list)
			seen := func(when string) bcp.ItemView {
				view := approver(t, m, "ann").view(t, item)
				frames := tell.ItemFrames(&view, view.Since)
				failIf(t, view.Kind != bcp.ItemHanded || view.Sealed != said || frames[0].Parts[0].Text != said || !strings.Contains(frames[0].Label, "untrusted") || !tell.Intact(&view),
					"%s: the person sees %+v", when, view)
				return view
			}
			seen("at once")
			main.Accepted(t, "printer", `{"category":1,"fields":[{"name":"done","type":"boolean"}],"arguments":{"print":["`+string(h)+`"],"not":"see `+string(h)+`"}}`)
			query := printer.queries.Next(t)
			want := `"arguments":{"not":"see ` + string(h) + `","print":[` + quoted + `]}`
			failIf(t, !strings.Contains(query.JSON, want), "the Reader gets %s, want %s", query.JSON, want)
			r := main.Ask(t, "printer", `{"category":1,"fields":[{"name":"done","type":"boolean"}],"arguments":{"print":"`+strings.TrimSuffix(string(h), "0")+`1"}}`)
			failIf(t, r.Text("error") != "unknown_handle" || strings.Contains(r.JSON, word), "an unknown handle: %s", r.JSON)

			// More than a line, where a line was asked for, is one bit too.
			main.Accepted(t, "mailer", ask)
			mailer.Answer(t, mailer.queries.Next(t), `"response":{"urgent":false,"text":"`+word+strings.Repeat("x", 200_000)+`"}`)
			if d := main.delivery(t); d.Text("outcome") != "rejected" || !strings.Contains(d.JSON, `"bandwidth_bits":1`) || strings.Contains(d.JSON, word) {
				t.Errorf("delivered is %s", d.JSON)
			}
			spent := bcp.Bits(0)
			for _, d := range m.Decisions() {
				if d.Kind == bcp.KindAnswer && d.Reader == "mailer" {
					spent += d.Nominal
				}
			}
			expect(t, spent, 3*bcp.Bit, "the bits of the answers")

			m.Restart(t)
			view := seen("after a restart")
			approver(t, m, "ann").decided(t, approves(view))
			m.Settle(t)
			m.Stop(t)
			streamsWithout(t, m, word, 2)
			holds(t, !strings.Contains(m.Log(), word), "it is in the log")
			found, snapshots := filesWith(t, m.State, []byte(word)), snapshotFiles(t, m)
			failIf(t, len(found) > 0 || len(snapshots) == 0, "it is in %v, of %d snapshots", found, len(snapshots))
		})
	}
}
