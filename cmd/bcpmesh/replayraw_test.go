package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// A message whose key is destroyed is told to be erased, and the rest of the
// exchange as before. One that is longer than what is kept says so.
//
// covers P11.4, P11.5, ALF-48
func TestReplayOfErasedMessages(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, map[string]string{
		"main.md": "---\nname: main\nbcp_channels:\n  - peer: mailer\n    role: controller\n    max_category: 1\n    budget_bits: 1000\n" +
			"    subscriptions: [{id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}]\n---\n",
		"mailer.md": "---\nname: mailer\nbcp_channels: [{peer: main, role: reader}]\n---\n",
	})
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	mailer.Push(t, "main", "alerts", `{"urgent":true}`, `,"push_id":"zebra-ghp_aaaaaaaaaaaaaaaaaaaa"`)
	noError(t, mailer.Publish("bcp.v1.push.mailer.main.giraffe\u202e", nil))
	m.WaitCount(t, 1, meshtest.Of(bcp.KindViolation))
	m.Settle(t)
	m.Stop(t)
	replayOf := func(kind string) string {
		t.Helper()
		var out, talk bytes.Buffer
		if code := runCommandLine(t.Context(), []string{"audit", "replay", "--raw", "--kind", kind, "--state", m.State}, strings.NewReader(""), &out, &talk,
			func(string) string { return "" }); code != cli.ExitOK {
			t.Fatalf("exit code %d: %s", code, &talk)
		}
		return out.String()
	}
	replay := func() string { return replayOf("push") }
	if told := replayOf("violation"); !strings.Contains(told, "mailer is denied publish (push): [P1.4]") || !strings.Contains(told, "HOSTILE TEXT of mailer\n            │ bcp.v1.push.mailer.main.giraffe\\u202e\n") {
		t.Errorf("the denied subject:\n%s", told)
	}
	told := replay()
	failIf(t, !strings.Contains(told, "zebra") || !strings.Contains(told, "HOSTILE TEXT of mailer"), "before:\n%s", told)
	if told := replay(); !strings.Contains(told, "zebra-[REDACTED:github-token]") || strings.Contains(told, "aaaa") {
		t.Errorf("a secret is shown:\n%s", told)
	}
	js, end := m.Streams(t)
	noError(t, jetstream.NewSealingKeys(js).ExpireRaw(t.Context(), time.Now().AddDate(0, 0, 40), 30*24*time.Hour))
	end()
	if told := replayOf("violation"); strings.Contains(told, "giraffe") || !strings.Contains(told, "verbatim: erased") {
		t.Errorf("the denied subject afterwards:\n%s", told)
	}
	if told := replay(); strings.Contains(told, "zebra") || !strings.Contains(told, "\n            verbatim: erased\n") || !strings.Contains(told, "mailer pushes: accepted") {
		t.Errorf("afterwards:\n%s", told)
	}
}
