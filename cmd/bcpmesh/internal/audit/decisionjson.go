package audit

import (
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// writeDecisions returns what writes decisions as line does. The bytes of one are the
// room for the next.
func writeDecisions(o *cli.Output) func(*bcp.Decision) error {
	var b []byte
	return func(d *bcp.Decision) error {
		var ok bool
		if b, ok = d.AppendJSON(b[:0]); !ok {
			return o.Line(d)
		}
		return o.HarmlessLine(b)
	}
}
