package state

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Whatever field of the definitions changes: the state goes on behind a base,
// holds the same balances as if the whole journal were there, and plays on. Where
// the whole journal would make the same of both, so does the base.
//
// covers P1.5, P4.5, P11.3
func TestRestoreBase(t *testing.T) {
	t.Parallel()
	before := newWorld(t, richMesh()).play(richHistory)
	base, err := before.state.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range edits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := before.alike(t)
			w.config.Mesh = richMesh()
			w.config.Definitions[0]++
			c.edit(w.config.Mesh)
			restored, err := RestoreBase(w.config, base)
			if name == "Channel.BudgetWindow" || name == "Mesh.Elsewhere" { // a longer window; an agent that moved
				if !errors.Is(err, ErrDefinitions) {
					t.Errorf("only history could tell: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			whole := w.replay()
			if c.kept {
				if diff := cmp.Diff(dump(whole), dump(restored)); diff != "" {
					t.Errorf("another state (-journal +base):\n%s", diff)
				}
			}
			for key, ch := range whole.channels {
				for epoch, p := range ch.pools {
					if got := restored.channels[key].pool(epoch); got != p.Balance {
						t.Errorf("epoch %d of %v has %+v, and the journal says %+v", epoch, key, got, p.Balance)
					}
				}
			}
			again, err := restored.Checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Restore(w.config, again); err != nil {
				t.Errorf("a snapshot behind the base: %v", err)
			}
			w.state = restored
			w.act("start")
			w.act("due")
			w.act("wait 100h")
			for range 100 {
				if d, ok := w.state.DecideDue(w.moment()); !ok {
					break
				} else {
					w.commit(d)
				}
			}
			for key, ch := range w.state.channels {
				for epoch, p := range ch.pools {
					if p.open != 0 || p.held != 0 || p.Reserved != 0 {
						t.Errorf("epoch %d of %v holds %+v for ever", epoch, key, p)
					}
				}
			}
		})
	}
	t.Run("program", func(t *testing.T) {
		t.Parallel()
		config := before.config
		config.Version = "another"
		if _, err := RestoreBase(config, base); err != nil {
			t.Errorf("another program: %v", err)
		}
	})
	t.Run("same", func(t *testing.T) {
		t.Parallel()
		s, err := RestoreBase(before.config, base)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Checkpoint(); err != nil || !bytes.Equal(again, base) {
			t.Errorf("another checkpoint: %v", err)
		}
	})
}

// What definitions drop goes on where it was if it comes back before the next
// truncation: the base has it. If it comes back later, nobody knows where it was.
//
// covers P1.5, P4.4, P4.5
func TestBaseWithoutAChannel(t *testing.T) {
	t.Parallel()
	full := newWorld(t, testMesh()).play(richHistory)
	base, err := full.state.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	for name, lacking := range lackingMeshes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := full.alike(t)
			w.config.Mesh = lacking
			w.config.Definitions[0]++
			if w.state, err = RestoreBase(w.config, base); err != nil {
				t.Fatal(err)
			}
			behind := len(w.journal)
			w.play("ask planner relay yes => accept")
			later, err := w.state.Checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			w.config = full.config
			w.config.Mesh = testMesh()
			back, err := RestoreBase(w.config, base)
			if err != nil {
				t.Fatal(err)
			}
			for _, record := range w.journal[behind:] {
				d, err := w.open(record)
				if err != nil {
					t.Fatal(err)
				}
				if err := back.Apply(&d, bcp.RecordDigest(record)); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(dump(w.replay()), dump(back)); diff != "" {
				t.Errorf("it does not go on where it was (-journal +base):\n%s", diff)
			}
			if _, err := RestoreBase(w.config, later); !errors.Is(err, ErrDefinitions) {
				t.Errorf("back behind the next base: %v", err)
			}
		})
	}
}

// A shorter window never counts less than what was charged in it.
//
// covers P4.5
func TestBaseWithAShorterWindow(t *testing.T) {
	t.Parallel()
	const long, short = 64 * time.Hour, 64 * time.Minute
	was := slidingWindow{span: int64(long)}
	charged := int64(long) + int64(time.Hour) - 1 // at the end of a part
	was.add(charged, charged, bcp.Bit)
	saved := savedChannel{Span: was.span, Window: []int64{was.parts[0].begin, int64(bcp.Bit)}}
	if err := saved.carryWindow(int64(short)); err != nil {
		t.Fatal(err)
	}
	is := slidingWindow{span: saved.Span, parts: []windowPart{{begin: saved.Window[0], sum: bcp.Bits(saved.Window[1])}}}
	if sum := is.sum(charged + int64(short)); sum != bcp.Bit {
		t.Errorf("at the end of the window it counts %d", sum)
	}
	if sum := is.sum(charged + int64(short) + 2*is.width()); sum != 0 {
		t.Errorf("behind it %d", sum)
	}
	if err := saved.carryWindow(int64(short) + 1); !errors.Is(err, ErrDefinitions) {
		t.Errorf("longer by a nanosecond: %v", err)
	}
}
