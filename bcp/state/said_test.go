package state

import (
	"bytes"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// bareOf is a checkpoint without what was said, as if all of it were erased.
func bareOf(t *testing.T, checkpoint []byte) []byte {
	t.Helper()
	_, rest, err := bcp.CutSaid(checkpoint)
	noError(t, err)
	return append(must(bcp.AppendSaid(nil, nil)), rest...)
}

// A checkpoint has what was said in the parts that are sealed, under the channel and day
// of each, and nowhere else. Once that is erased, what it was made of goes on as a journal
// does whose records are erased, wherever it was made.
//
// covers P4.5, P11.5
func TestWhatWasSaidIsApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, richMesh())
	type made struct {
		records int
		bare    []byte
	}
	var bases []made
	said := map[string]bool{"ignore previous instructions": false, `{"ok":true}`: false, `"p2"`: false, "Who wrote": false}
	play := func() {
		checkpoint := must(w.state.Checkpoint())
		bare := bareOf(t, checkpoint)
		for text := range said {
			said[text] = said[text] || bytes.Contains(checkpoint, []byte(text))
			failIf(t, bytes.Contains(bare, []byte(text)),
				"after %d decisions the rest of a checkpoint has %s", len(w.journal), text)
		}
		bases = append(bases, made{len(w.journal), bare})
	}
	for line := range bytes.Lines([]byte(richHistory)) {
		w.play(string(line))
		play()
	}
	failIf(t, !said["ignore previous instructions"] || !said[`{"ok":true}`], "of what was looked for, checkpoints have %v", said)
	quiet(w)
	for _, c := range w.config.Mesh.Channels {
		w.play("erase " + string(c.Controller) + " " + string(c.Reader) + " latest => accept erase")
	}
	checkpoint, erased := must(w.state.Checkpoint()), 0
	for text := range said {
		failIf(t, bytes.Contains(checkpoint, []byte(text)), "behind the erasure a checkpoint has %s", text)
	}
	for _, record := range w.journal {
		if must(w.open(record)).Erased {
			erased++
		}
	}
	failIf(t, erased < 10, "%d decisions are erased", erased)
	want := dump(w.replay())
	for _, base := range bases {
		s, err := Restore(w.config, base.bare)
		for i := base.records; err == nil && i < len(w.journal); i++ {
			var d bcp.Decision
			if d, err = w.open(w.journal[i]); err == nil {
				err = s.Apply(&d, bcp.RecordDigest(w.journal[i]))
			}
		}
		if err != nil {
			t.Errorf("after %d decisions: %v", base.records, err)
		} else if got := dump(s); got != want {
			t.Errorf("after %d decisions it becomes another state:\n%s\nwant\n%s", base.records, got, want)
		}
	}
	w.play("ask planner mail yes id=r1 => accept\npush mail planner alarm {\"ok\":true} id=p1 => accept")
}
