package redteam_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
)

func parse(t *testing.T, files map[string]string) *bcp.Mesh {
	t.Helper()
	texts := map[string][]byte{}
	for name, text := range files {
		texts[name] = []byte(text)
	}
	mesh, report := definition.Parse(texts)
	stopIf(t, mesh == nil, "%v", report.Errors)
	return mesh
}

// Somebody's own definitions are attacked: what they leave open is found, what holds
// holds, and what does not apply is skipped with the reason.
//
// covers A-WILD, A-REPLYPEER, A-ORD, A-SPOOF, A-NAME
func TestOwnDefinitions(t *testing.T) {
	t.Parallel()
	reads := "---\nname: eye\nencoding: msgpack\nbcp_channels:\n  - {peer: boss, role: reader}\n---\n"
	boss := func(more string) string {
		return "---\nname: boss\nbcp_channels:\n  - peer: eye\n    role: controller\n    max_category: 3\n    budget_bits: 1000\n" + more + "---\n"
	}
	everything := `    subscriptions:
      - {id: flags, category: 1, fields: [{name: n, type: integer, min: -3, max: 9}, {name: c, type: enum, values: [a, b]}, {name: b, type: boolean}]}
      - {id: news, category: 2, questions: [{id: note, question: "New?", max_words: 4, expected_format: short_text}, {id: at, question: "When?", max_words: 3, expected_format: date, min: 2020, max: 2030}, {id: clock, question: "When?", max_words: 2, expected_format: time}, {id: mail, question: "Who?", max_words: 1, expected_format: email}, {id: n, question: "How many?", max_words: 1, expected_format: integer, min: 3}, {id: yes, question: "Is it?", max_words: 1, expected_format: boolean}, {id: which, question: "Which?", max_words: 1, expected_format: enum, values: [a, b]}]}
      - {id: sum, category: 3, directive: "Sum it up.", max_words: 10}
`
	for name, c := range map[string]struct {
		files map[string]string
		want  map[string]string // verdicts other than held, with a part of the evidence
	}{
		"flag": {map[string]string{"mesh.yaml": "approvers: [ann]\n", "eye.md": reads, "boss.md": boss("    on_anomaly: flag\n" + everything)}, map[string]string{
			"D-TEXT": "on_anomaly is flag",
		}},
		"reject": {map[string]string{"mesh.yaml": "approvers: [ann]\n", "eye.md": reads, "boss.md": boss("    on_anomaly: reject\n" + everything)}, nil},
		"a kernel": {map[string]string{"mesh.yaml": "approvers: [ann]\n", "eye.md": strings.Replace(reads, "{peer: boss", "{peer: desk, role: reader}\n  - {peer: boss", 1), "boss.md": boss(everything),
			"desk.md":         "---\nname: desk\nkernel:\n  planner: sage\n  requesters: {boss: [all]}\n  grants: {all: [mail.read]}\n  schemas:\n    Mood: {reader: eye, category: 1, fields: [{name: angry, type: boolean}]}\nbcp_channels:\n  - {peer: eye, role: controller, max_category: 1, budget_bits: 100}\n---\n",
			"tools/mail.yaml": "service: mail\ntools:\n- name: look\n  effect_level: read\n  required_caps: [mail.read]\n  input_schema: {type: object}\n  output_schema: {type: object, properties: {body: {type: string}}}\n",
			"tools/post.yaml": "service: post\ntools:\n- name: see\n  effect_level: read\n  required_caps: [mail.read]\n  input_schema: {type: object}\n  output_schema: {type: object, properties: {body: {type: string}}}\n",
		}, nil},
		"no subscriptions": {map[string]string{"mesh.yaml": "approvers: [ann]\n", "eye.md": reads, "boss.md": boss("")}, map[string]string{
			"D-FORGED": "no channel has a subscription", "D-SPELLING": "no channel has a subscription", "D-TEXT": "no channel has a subscription", "D-BUDGET": "no channel has a subscription",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := redteam.Run(t.Context(), redteam.Config{State: t.TempDir(), Attacks: redteam.Own(parse(t, c.files)), Seed: 1})
			stopIf(t, err != nil || len(report.Results) != 8, "%d results, %v", len(report.Results), err)
			for _, r := range report.Results {
				want, differs := c.want[r.ID]
				failIf(t, differs != (r.Verdict != redteam.Held) || !strings.Contains(strings.Join(r.Evidence, "\n"), want),
					"%s: %s: %v", r.ID, r.Verdict, r.Evidence)
			}
		})
	}
}

// The copy that is attacked starts nothing and tells nobody.
func TestOwnDefinitionsStartNothing(t *testing.T) {
	t.Parallel()
	mesh := parse(t, map[string]string{
		"mesh.yaml": "approvers: [ann]\n",
		"eye.md":    "---\nname: eye\ncommand: [sh, -c, exit 1]\nsandbox: own\nbcp_channels:\n  - {peer: boss, role: reader}\n---\n",
		"boss.md":   "---\nname: boss\nbcp_channels:\n  - {peer: eye, role: controller, max_category: 1, budget_bits: 10}\n---\n",
	})
	report, err := redteam.Run(t.Context(), redteam.Config{State: t.TempDir(), Attacks: redteam.Own(mesh)[:1], Seed: 1})
	failIf(t, err != nil || report.Count(redteam.Held) != 1, "%v: %+v", err, report.Results)
	a, _ := mesh.Agent("eye")
	failIf(t, len(a.Command) == 0, "the definitions themselves were changed")
}

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
