package definition_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// A line behind the name is all that changes, in whatever form the file has, and what
// names a shard stays as it is.
//
// covers P4.5, P1.2
func TestAddShards(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"plain":    "---\n# who\nname: c # here\n«shard: 1\n»tools: Read\n---\nname: x\n",
		"last":     "---\ntools: Read\nname: \"c\"\n«shard: 1\n»---\n",
		"windows":  "---\r\nname: c\r\n«shard: 1\r\n»---\r\nHello.\r\n",
		"indented": "---\n  name: c\n«  shard: 1\n»  tools: Read\n---\n",
		"named":    "---\nname: c\nshard: 1\n---\n",
	} {
		before := files("agents/c.md", file, "agents/d.md", "---\nname: d\n---\n")
		old := files("agents/c.md", strings.NewReplacer("«shard: 1\n»", "", "«shard: 1\r\n»", "", "«  shard: 1\n»", "").Replace(file), "agents/d.md", "---\nname: d\n---\n")
		want := map[string][]byte{}
		if name != "named" {
			want["agents/c.md"] = []byte(strings.NewReplacer("«", "", "»", "").Replace(string(before["agents/c.md"])))
		}
		got, err := definition.AddShards(old, map[bcp.AgentName]int{"c": 1})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// What cannot be added by lines, or would say something else, is refused, and nothing is
// returned.
//
// covers P4.5, P1.2
func TestAddShardsRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file  string
		shard int
		want  error
	}{
		"braces":       {"---\n{name: c}\n---\n", 1, definition.ErrFrontMatter},
		"two lines":    {"---\nname:\n  c\n---\n", 1, definition.ErrFrontMatter},
		"a shard more": {"---\nname: c\n---\n", 2, definition.ErrPlace},
		"out of range": {"---\nname: c\n---\n", bcp.MaxShard + 1, definition.ErrPlace},
		"moved":        {"---\nname: c\nshard: 0\n---\n", 1, definition.ErrPlace},
	} {
		got, err := definition.AddShards(files("agents/c.md", tt.file, "agents/d.md", "---\nname: d\n---\n"), map[bcp.AgentName]int{"c": tt.shard})
		if !errors.Is(err, tt.want) || got != nil {
			t.Errorf("%s: %v, %q", name, err, got)
		}
	}
	if _, err := definition.AddShards(files("agents/c.md", "---\nnme: c\n---\n"), nil); err == nil {
		t.Error("definitions with errors are edited")
	}
}

// A mesh is read whose agents are not placed yet, and what their files name is told;
// what is wrong otherwise is refused as before.
//
// covers P4.5, P1.2
func TestParseUnplaced(t *testing.T) {
	t.Parallel()
	pair := files(
		"agents/c.md", "---\nname: c\nshard: 2\nbcp_channels:\n- {peer: d, role: controller, max_category: 1, budget_bits: 1}\n---\n",
		"agents/d.md", "---\nname: d\nbcp_channels:\n- {peer: c, role: reader}\n---\n",
		"agents/e.md", "---\nname: e\nshard: 0\n---\n")
	if mesh, _ := definition.Parse(pair); mesh != nil {
		t.Fatal("a channel between two shards is loaded")
	}
	mesh, named, report := definition.ParseUnplaced(pair)
	if mesh == nil || len(mesh.Islands()) != 2 {
		t.Fatalf("%v", report.Errors)
	}
	if want := map[bcp.AgentName]int{"c": 2, "e": 0}; !maps.Equal(named, want) {
		t.Errorf("named are %v", named)
	}
	pair["agents/e.md"] = []byte("---\nname: e\nshard: 64\n---\n")
	if mesh, _, _ := definition.ParseUnplaced(pair); mesh != nil {
		t.Error("a shard that there cannot be is loaded")
	}
}
