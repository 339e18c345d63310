package byhand

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// The edges of frames. What they are drawn with is shown as marks in content.
const (
	labelGutter = "┌─ "
	askedGutter = "├─ "
	endGutter   = "└─ "
)

// leastWidth is that of an item in columns, however narrow a terminal is.
const leastWidth = 40

// itemText collects the lines of an item.
type itemText struct {
	lines []string
	width int
}

// head writes a line of what the mesh knows. The value may be an operator's or
// an agent's: it is made inert all the same.
func (t *itemText) head(key, value string) {
	const column = 10
	for i, line := range inert.Wrap(inert.Text(value), t.width-column) {
		if i > 0 {
			key = ""
		}
		t.lines = append(t.lines, strings.TrimRight(fmt.Sprintf("%-*s%s", column, key, line), " "))
	}
}

func (t *itemText) add(prefix, s string) {
	t.lines = append(t.lines, inert.Prefixed(prefix, s, t.width)...)
}

// frames puts hostile texts into frames that they can neither leave nor imitate.
func (t *itemText) frames(frames []tell.Frame) {
	for _, f := range frames {
		label := f.Label
		if f.Length != "" {
			label += ": " + f.Length + ", after bars"
		}
		t.lines = append(t.lines, "")
		t.add(labelGutter, label)
		for _, part := range f.Parts {
			if part.Asked != "" {
				t.add(askedGutter, part.Asked)
			}
			t.add(inert.Gutter, part.Text)
		}
		t.add(endGutter, f.End)
	}
}

// itemLines shows everything that an approver judges an item by (PROTOCOL P7.1,
// P7.2): what the mesh knows first, then the content, framed.
func itemLines(v *bcp.ItemView, now time.Time, width int) []string {
	t := itemText{width: max(width, leastWidth)}
	t.facts(tell.ItemFacts(v, now))
	t.frames(tell.ItemFrames(v, now))
	return t.lines
}

// previewLines shows what an edit would release, and what it replaces.
func previewLines(v *bcp.ItemView, preview bcp.EditPreview, width int) []string {
	t := itemText{width: max(width, leastWidth)}
	t.facts(tell.PreviewFacts(v, preview))
	frames := tell.PreviewFrames(v, preview)
	t.frames(frames)
	if len(frames) == 1 {
		t.lines = append(t.lines, "")
		t.head("changed", "nothing: this is what "+string(v.Reader)+" said. Approve it instead")
	}
	return t.lines
}

func (t *itemText) facts(facts []tell.ItemFact) {
	for _, f := range facts {
		t.head(f.Name, f.Value)
	}
}

func channelText(it *bcp.Item) string { return string(it.Controller) + " ← " + string(it.Reader) }

// intact reports whether an item's digest is that of what is shown. A digest of
// other bytes would have a person sign what nobody saw.
func intact(v *bcp.ItemView) error {
	if !tell.Intact(v) {
		return mismatch(v.ID)
	}
	return nil
}

// matches compares bytes that a person saw with those that would be signed.
func matches(id bcp.ItemID, shown []byte, signed bcp.Digest) error {
	if sha256.Sum256(shown) != signed {
		return mismatch(id)
	}
	return nil
}

func mismatch(id bcp.ItemID) error {
	return (&cli.Failure{Code: cli.ExitRefused, Message: string(bcp.DigestMismatch) + ": " + string(id) + " does not match its digest"}).
		WithHint("do not decide about it, and tell the operator: gateway and program may have different versions")
}

func digestText(d bcp.Digest) string { return hex.EncodeToString(d[:]) }

// showLines shows an item to the person who is asked about it next.
func showLines(q *cli.Prompter, lines []string) {
	_, _ = fmt.Fprintf(q.Out.Stderr, "%s\n\n", strings.Join(lines, "\n")) // there is nowhere to report an error of stderr
}
