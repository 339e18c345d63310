package definition_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// narrowed is the channel of files with a bit less of everything.
func narrowed(t *testing.T, folder map[string][]byte) bcp.Channel {
	t.Helper()
	mesh, report := definition.Parse(folder)
	if mesh == nil {
		t.Fatal(report.Errors)
	}
	c := mesh.Channels[0]
	c.MaxCategory, c.Budget, c.CapacityBudget = 1, 60*bcp.Bit, 70*bcp.Bit
	c.Subscriptions = slices.Clone(c.Subscriptions)
	sub := &c.Subscriptions[0]
	sub.Spec.Fields = slices.Clone(sub.Spec.Fields)
	sub.MaxRate, sub.Spec.Fields[0].Values = bcp.Rate{Count: 2, Span: time.Hour}, []string{"b"}
	return c
}

// What is narrower stands where the wider stood; every other line stays, and comments of
// the subscription too.
//
// covers P12.4, P1.2
func TestNarrow(t *testing.T) {
	t.Parallel()
	const before = "---\nname: c\nbcp_channels:\n  # the mail\n  - peer: r\n    role: controller # asks\n    release_interval: 1s\n    max_category: 2 # enough\n    budget_bits: 500\n    push_budget_bits: 100\n" +
		"    subscriptions:\n      # one\n      - id: one # first\n        category: 1\n        batch_window: 90s\n        # its fields\n        fields:\n          - {name: a, type: enum, values: [a, b]}\n      # two\n      - id: two\n        category: 1\n        fields: [{name: a, type: boolean}]\n---\nHello.\n"
	const after = "---\nname: c\nbcp_channels:\n  # the mail\n  - peer: r\n    role: controller # asks\n    capacity_budget_bits: 70\n    release_interval: 1s\n    max_category: 1 # enough\n    budget_bits: 60\n    push_budget_bits: 100\n" +
		"    subscriptions:\n      # one\n      # its fields\n      - id: \"one\"\n        max_rate: \"2/h\"\n        batch_window: \"90s\"\n        category: 1\n        fields:\n          - {name: \"a\", type: \"enum\", values: [\"b\"]}\n      # two\n      - id: two\n        category: 1\n        fields: [{name: a, type: boolean}]\n---\nHello.\n"
	for _, end := range []string{"\n", "\r\n"} {
		folder := files("agents/c.md", strings.ReplaceAll(before, "\n", end), "agents/r.md", patchReader)
		path, edited, err := definition.Narrow(folder, narrowed(t, folder))
		if err != nil || path != "agents/c.md" {
			t.Fatal(path, err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(after, "\n", end), string(edited)); diff != "" {
			t.Error(diff)
		}
	}
	folder := files("agents/c.md", before, "agents/r.md", patchReader)
	mesh, _ := definition.Parse(folder)
	want := narrowed(t, folder)
	n := definition.NarrowedOf(mesh.Channels[0], want)
	if len(n.Subscriptions) != 1 || n.Subscriptions[0].BatchWindow != "90s" {
		t.Errorf("%+v", n)
	}
	if over, err := n.Over(mesh.Channels[0]); err != nil || !cmp.Equal(over.Subscriptions, want.Subscriptions) || over.Budget != want.Budget {
		t.Errorf("%+v, %v", over, err)
	}
	n.Subscriptions[0].ID = "three"
	if _, err := n.Over(mesh.Channels[0]); err == nil {
		t.Error("a subscription that there is not")
	}
}

// What cannot be written by lines is refused, and nothing is returned.
//
// covers P12.4
func TestNarrowRefuses(t *testing.T) {
	t.Parallel()
	const head = "---\nname: c\nbcp_channels:\n  - peer: r\n    role: controller\n    release_interval: 1s\n    max_category: 2\n    budget_bits: 500\n"
	for name, tt := range map[string]struct {
		file string
		want error
	}{
		"braces":           {"---\nname: c\nbcp_channels: [{peer: r, role: controller, release_interval: 1s, max_category: 2, budget_bits: 500, subscriptions: [{id: one, category: 1, fields: [{name: a, type: enum, values: [a, b]}]}]}]\n---\n", definition.ErrStyle},
		"a list in braces": {head + "    subscriptions: [{id: one, category: 1, fields: [{name: a, type: enum, values: [a, b]}]}]\n---\n", definition.ErrStyle},
		"no interval":      {strings.Replace(head, "    release_interval: 1s\n", "", 1) + "    subscriptions:\n      - id: one\n        category: 1\n        fields: [{name: a, type: enum, values: [a, b]}]\n---\n", definition.ErrPatch},
	} {
		folder := files("agents/c.md", tt.file, "agents/r.md", patchReader)
		if _, edited, err := definition.Narrow(folder, narrowed(t, folder)); !errors.Is(err, tt.want) || edited != nil {
			t.Errorf("%s: %v\n%s", name, err, edited)
		}
	}
	if _, _, err := definition.Narrow(files("agents/c.md", head+"---\n", "agents/r.md", patchReader), bcp.Channel{}); !errors.Is(err, definition.ErrNoEntry) {
		t.Errorf("no channel: %v", err)
	}
}
