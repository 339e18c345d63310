package definition_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// Queries are shared by the connections of a Reader that may have several; of any other
// agent the key is warned of.
//
// covers P9.5
func TestShareQueries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		main, mailer, warns string
	}{
		{"", "", ""},
		{"", "share_queries: true\n", ""},
		{"", "share_queries: true\nmax_connections: 2\n", ""},
		{"", "share_queries: true\nmax_connections: 1\n", "one process"},
		{"", "share_queries: false\nmax_connections: 1\n", ""},
		{"share_queries: true\n", "", "no Reader"},
	} {
		mesh, report := definition.Load(fstest.MapFS{
			"agents/main.md":   {Data: []byte("---\nname: main\n" + c.main + "bcp_channels:\n- {peer: mailer, role: controller, max_category: 1, budget_bits: 10}\n---\n")},
			"agents/mailer.md": {Data: []byte("---\nname: mailer\n" + c.mailer + "bcp_channels:\n- {peer: main, role: reader}\n---\n")},
		})
		if mesh == nil {
			t.Fatalf("%+v: %v", c, report)
		}
		if want := strings.Contains(c.mailer, "true"); mesh.Agents[0].Name != "mailer" || mesh.Agents[0].ShareQueries != want {
			t.Errorf("%+v: %+v", c, mesh.Agents)
		}
		warned := ""
		for _, w := range report.Warnings {
			if w.Key == "share_queries" {
				warned += w.Message
			}
		}
		if c.warns == "" && warned != "" || !strings.Contains(warned, c.warns) {
			t.Errorf("%+v: %q", c, warned)
		}
	}
}
