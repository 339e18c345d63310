package verify_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// However decisions stand in blocks, at the edge of one or alone, a good file
// verifies, and of several changes the first is named.
//
// covers P11.2, A-CHAIN
func TestFirstOfSeveral(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	const all = 120
	chain := chainOf(t, all)
	p := takeApart(t, export(t, chain, jetstream.ExportOptions{Key: key}))
	part := takeApart(t, export(t, chain, jetstream.ExportOptions{Key: key, Since: beginning.Add(6 * time.Second)}))
	other := chainOf(t, all)
	pack := packer(t)
	rapid.Check(t, func(t *rapid.T) {
		base, first := p, 1
		if rapid.Bool().Draw(t, "part") {
			base, first = part, 7
		}
		list := slices.Clone(chain[first-1:])
		want := 0 // the number of the first that is bad
		bad := func(at int) {
			if number := first + at; want == 0 || number < want {
				want = number
			}
		}
		var taken []int
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			at := rapid.IntRange(0, len(list)-1).Draw(t, "at")
			if slices.ContainsFunc(taken, func(other int) bool { return at-other < 3 && other-at < 3 }) {
				continue // of neighbours it is not known which was changed
			}
			taken = append(taken, at)
			if rapid.Bool().Draw(t, "another") {
				list[at] = other[first-1+at]
			} else {
				list[at] = bytes.Replace(list[at], []byte("main"), []byte("mein"), 1)
			}
			bad(at)
		}
		if rapid.Bool().Draw(t, "gap") {
			at := rapid.IntRange(0, len(list)-1).Draw(t, "of")
			if !slices.ContainsFunc(taken, func(other int) bool { return at-other < 3 && other-at < 3 }) {
				list = slices.Delete(list, at, at+1)
				bad(at)
			}
		}
		frames := []frame{base.frames[0]}
		for rest := list; len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 5).Draw(t, "block"))
			frames = append(frames, frame{kind: 'D', payload: blockOf(pack, rest[:n])})
			rest = rest[n:]
		}
		frames = append(frames, base.frames[len(base.frames)-1])
		file := (&parts{p.magic, frames}).file()
		if want == 0 && rapid.Bool().Draw(t, "cut") {
			file = file[:rapid.IntRange(1, len(file)-1).Draw(t, "length")]
			want = -1 // somewhere
		}
		_, err := check(file, verify.Options{Keys: []string{key.Public}})
		var fault *verify.Fault
		switch {
		case want == 0 && err != nil:
			t.Fatalf("nothing was changed: %v", err)
		case want == 0:
		case !errors.As(err, &fault):
			t.Fatalf("want a fault, got %v", err)
		case want > 0 && int(fault.Decision) != want:
			t.Fatalf("want decision %d, got: %v", want, fault)
		}
	})
}
