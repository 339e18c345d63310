package bcp_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

var update = flag.Bool("update", false, "rewrite the expectations of the vectors")

const vectorFolder = "testdata/vectors"

// Each file names its own rules in its comment. Both encodings decode into the same values and
// the same verdict, and what is delivered is a fixpoint: judged again it is delivered as the
// same bytes.
//
// covers P2.1, P2.4, BCP-160
func TestVectors(t *testing.T) {
	t.Parallel()
	groups := Load(os.DirFS(vectorFolder))
	total := 0
	for _, g := range groups {
		total += len(g.Cases)
		t.Run(g.File, func(t *testing.T) {
			v, err := g.Compile()
			prices := DescribePrices(v, err)
			if g.Spec != nil && *update {
				g.Prices = prices
			} else if diff := cmp.Diff(g.Prices, prices); g.Spec != nil && diff != "" {
				t.Errorf("prices (-want +got):\n%s", diff)
			}
			for i := range g.Cases {
				c := &g.Cases[i]
				got := g.Run(v, *c)
				if *update {
					c.Want = got
				} else if diff := cmp.Diff(c.Want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.Name, diff)
				}
				if v != nil && !c.IsSpec {
					judgedAlike(t, v, c)
				}
			}
			if *update {
				noError(t, os.WriteFile(filepath.Join(vectorFolder, g.File), g.Format(), 0o644))
			}
		})
	}
	const enough = 300
	failIf(t, total < enough, "%d cases, expected at least %d", total, enough)
}

func judgedAlike(t *testing.T, v *bcp.Validator, c *Case) {
	t.Helper()
	other, translate := bcp.MessagePack, wire.MsgpackFromJSON
	if c.Encoding == bcp.MessagePack {
		other, translate = bcp.JSON, wire.JSONFromMsgpack
	}
	verdict := v.Validate(c.Raw, c.Encoding)
	if c.Encoding == bcp.JSON && wire.Check(c.Raw) != nil {
		return // MsgpackFromJSON reads what the gateway wrote, and is laxer
	}
	translated, err := translate(nil, c.Raw)
	switch again := v.Validate(translated, other); {
	case err != nil && verdict.Outcome != bcp.Reject:
		t.Errorf("%s: accepted, but it has no other encoding: %v", c.Name, err)
	case err == nil && max(len(translated), len(c.Raw)) <= v.MaxBytes() && Describe(again) != Describe(verdict):
		t.Errorf("%s: %s\nin the other encoding: %s", c.Name, Describe(verdict), Describe(again))
	}
	if verdict.Outcome == bcp.Reject {
		return
	}
	if again := v.Validate(verdict.Answer.JSON(), bcp.JSON); again.Answer != verdict.Answer {
		t.Errorf("%s: delivered %s, which is delivered as %s", c.Name, verdict.Answer, again.Answer)
	}
}
