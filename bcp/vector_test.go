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

// Each file names its own rules in its comment.
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
			}
			if *update {
				noError(t, os.WriteFile(filepath.Join(vectorFolder, g.File), g.Format(), 0o644))
			}
		})
	}
	const enough = 300
	if total < enough {
		t.Errorf("%d cases, expected at least %d", total, enough)
	}
}

// Both encodings decode into the same values and the same verdict, and what is
// delivered is a fixpoint: judged again it is delivered as the same bytes.
//
// covers P2.1, P2.4, BCP-160
func TestVectorsInBothEncodings(t *testing.T) {
	t.Parallel()
	groups := Load(os.DirFS(vectorFolder))
	for _, g := range groups {
		v, err := g.Compile()
		if err != nil {
			continue
		}
		for _, c := range g.Cases {
			in := bcp.JSON
			other := bcp.MessagePack
			translate := wire.MsgpackFromJSON
			if c.Encoding == bcp.MessagePack {
				in, other, translate = other, in, wire.JSONFromMsgpack
			}
			verdict := v.Validate(c.Raw, in)
			if translated, err := translate(nil, c.Raw); err == nil {
				if in == bcp.JSON && wire.Check(c.Raw) != nil {
					continue // MsgpackFromJSON reads what the gateway wrote, and is laxer
				}
				again := v.Validate(translated, other)
				if len(translated) <= v.MaxBytes() && len(c.Raw) <= v.MaxBytes() && Describe(again) != Describe(verdict) {
					t.Errorf("%s %s: %s\nin the other encoding: %s", g.File, c.Name, Describe(verdict), Describe(again))
				}
			} else if verdict.Outcome != bcp.Reject {
				t.Errorf("%s %s: accepted, but it has no other encoding: %v", g.File, c.Name, err)
			}
			if verdict.Outcome == bcp.Reject {
				continue
			}
			if again := v.Validate(verdict.Answer.JSON(), bcp.JSON); again.Answer != verdict.Answer {
				t.Errorf("%s %s: delivered %s, which is delivered as %s", g.File, c.Name, verdict.Answer, again.Answer)
			}
		}
	}
}
