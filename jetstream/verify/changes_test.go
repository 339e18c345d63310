package verify_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/mod/sumdb/note"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

var (
	records = flag.Int("records", 5_000, "decisions of the export that TestChanges changes")
	changes = flag.Int("changes", 40, "changes of each kind that TestChanges makes")
)

// changer makes files that differ from a good one by one change, packed as the
// format wants it: checksums and counts are right, only the signature is not
// theirs.
type changer struct {
	t         *testing.T
	random    *rand.Rand
	pack      *zstd.Encoder
	key       jetstream.CheckpointKey
	decisions [][]byte
	parts     parts
	good      []byte
	short     [2]parts // of a file of few decisions, and of one that begins with the seventh of them
}

// Each kind of change at random places of an export is found, and the first bad
// decision is named. However decisions stand in blocks, a good file verifies.
//
//	go test ./jetstream/verify -run TestChanges -records 100000 -changes 1000
//
// covers P11.2, A-CHAIN
func TestChanges(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	n, decisions := bcptest.Rounds(*changes, 10), chainOf(t, bcptest.Rounds(*records, 1_000))
	good := export(t, decisions, jetstream.ExportOptions{Key: key})
	var short [2]parts
	for i, since := range []time.Time{{}, beginning.Add(6 * time.Second)} {
		short[i] = takeApart(t, export(t, decisions[:few], jetstream.ExportOptions{Key: key, Since: since}))
	}
	kinds := []struct {
		name string
		// change returns a file, and the decisions of which one must be named, or
		// none where the place is a frame's.
		change func(*changer) (file []byte, first []int)
	}{
		{"bit of the file", (*changer).bitOfFile},
		{"bit of a decision", (*changer).bitOfDecision},
		{"field", (*changer).field},
		{"order", (*changer).order},
		{"gap", (*changer).gap},
		{"duplicate", (*changer).duplicate},
		{"truncation", (*changer).truncation},
		{"checkpoint", (*changer).checkpoint},
		{"several", (*changer).several},
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			pack, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
			noError(t, err)
			c := &changer{t, rand.New(rand.NewPCG(1, 2)), pack, key, decisions, takeApart(t, good), good, short}
			found := 0
			for range n {
				file, first := kind.change(c)
				stopIf(t, bytes.Equal(file, good), "nothing was changed")
				_, err := check(file, verify.Options{Keys: []string{key.Public}})
				var fault *verify.Fault
				switch {
				case !errors.As(err, &fault):
					t.Errorf("want a fault, got %v", err)
				case len(first) > 0 && !slices.Contains(first, int(fault.Decision)):
					t.Errorf("want decision %d, got: %v", first, fault)
				default:
					found++
				}
			}
			failIf(t, found == 0 || found != n, "found and named %d of %d", found, n)
		})
	}
}

// block returns the index of a random block, and the number of its first
// decision.
func (c *changer) block() (index, first int) {
	index = 1 + c.random.IntN(len(c.parts.frames)-2)
	first = 1
	for _, f := range c.parts.frames[1:index] {
		first += len(f.decisions)
	}
	return index, first
}

// edit changes the decisions of a random block: f gets them and the place of
// one, and what it returns is packed again.
func (c *changer) edit(f func(list [][]byte, at int) [][]byte) (file []byte, number int) {
	index, first := c.block()
	list := c.parts.frames[index].decisions
	at := c.random.IntN(len(list))
	return c.parts.with(index, blockOf(c.pack, f(slices.Clone(list), at))), first + at
}

func (c *changer) bitOfFile() ([]byte, []int) {
	file := slices.Clone(c.good)
	at := c.random.IntN(len(file))
	file[at] ^= 1 << c.random.IntN(8)
	due := 1
	for _, f := range c.parts.frames {
		if int64(at) < f.offset+5+int64(len(f.payload))+4 {
			break
		}
		due += len(f.decisions)
	}
	return file, []int{due, 0}
}

func (c *changer) bitOfDecision() ([]byte, []int) {
	file, number := c.edit(func(list [][]byte, at int) [][]byte {
		list[at] = slices.Clone(list[at])
		list[at][c.random.IntN(len(list[at]))] ^= 1 << c.random.IntN(8)
		return list
	})
	return file, []int{number}
}

func (c *changer) field() ([]byte, []int) {
	file, number := c.edit(func(list [][]byte, at int) [][]byte {
		var members map[string]any
		noError(c.t, msgpack.Unmarshal(list[at], &members))
		names := []string{"n", "h", "t", "k", "a", "co", "re", "se", "q", "bn", "sl", "rc"}
		for {
			name := names[c.random.IntN(len(names))]
			switch v := members[name].(type) {
			case nil:
				continue
			case string:
				members[name] = v + "x"
			case []byte:
				members[name] = append([]byte{v[0] + 1}, v[1:]...)
			default:
				members[name] = c.random.IntN(256)
			}
			break
		}
		var b bytes.Buffer
		encoder := msgpack.NewEncoder(&b)
		encoder.UseCompactInts(true)
		noError(c.t, encoder.Encode(members))
		list[at] = b.Bytes()
		return list
	})
	return file, []int{number}
}

func (c *changer) order() ([]byte, []int) {
	var other int
	file, number := c.edit(func(list [][]byte, at int) [][]byte {
		stopIf(c.t, len(list) < 2, "a block with one decision")
		for other = at; other == at; {
			other = c.random.IntN(len(list))
		}
		list[at], list[other] = list[other], list[at]
		other -= at
		return list
	})
	return file, []int{min(number, number+other)}
}

func (c *changer) gap() ([]byte, []int) {
	file, number := c.edit(func(list [][]byte, at int) [][]byte { return slices.Delete(list, at, at+1) })
	return file, []int{number}
}

func (c *changer) duplicate() ([]byte, []int) {
	file, number := c.edit(func(list [][]byte, at int) [][]byte { return slices.Insert(list, at, list[at]) })
	return file, []int{number + 1}
}

// truncation cuts the file anywhere, between frames, or takes a frame out.
func (c *changer) truncation() ([]byte, []int) {
	index, first := c.block()
	cut := parts{c.parts.magic, c.parts.frames[:index]}
	switch c.random.IntN(4) {
	case 0:
		return c.good[:c.random.IntN(len(c.good))], nil
	case 1:
		return cut.file(), []int{first}
	case 2: // with the end
		cut.frames = append(slices.Clone(cut.frames), c.parts.frames[len(c.parts.frames)-1])
		return cut.file(), []int{first, 0}
	default:
		cut.frames = slices.Delete(slices.Clone(c.parts.frames), index, index+1)
		return cut.file(), []int{first}
	}
}

// checkpoint puts another one at the end: an earlier one, one over another
// history as long, one with another number or root, one that another has signed.
func (c *changer) checkpoint() ([]byte, []int) {
	last := len(c.parts.frames) - 1
	end := c.parts.frames[last].payload
	signed := func(key jetstream.CheckpointKey, size int, root []byte) ([]byte, []int) {
		b := must(note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", key.Signer.Name(), size, root)}, key.Signer))(c.t)
		return c.parts.with(last, append(slices.Clone(end[:32]), b...)), []int{0, size + 1, len(c.decisions) + 1}
	}
	lines := bytes.Split(end[32:], []byte("\n"))
	switch size := 1 + c.random.IntN(len(c.decisions)-1); c.random.IntN(5) {
	case 0: // of the same journal, earlier
		size = min(size, 1000)
		part := takeApart(c.t, export(c.t, c.decisions[:size], jetstream.ExportOptions{Key: c.key}))
		earlier := part.frames[len(part.frames)-1].payload
		if c.random.IntN(2) == 0 {
			return c.parts.with(last, earlier), []int{size + 1, 0}
		}
		return c.parts.with(last, append(slices.Clone(end[:32]), earlier[32:]...)), []int{size + 1}
	case 1:
		root := slices.Clone(lines[2])
		root[c.random.IntN(len(root)-2)] ^= 1
		return signed(c.key, len(c.decisions), root)
	case 2:
		return signed(c.key, size, lines[2])
	case 3:
		return signed(newKey(c.t), len(c.decisions), lines[2])
	default: // the digest of the last decision
		changed := slices.Clone(end)
		changed[c.random.IntN(32)] ^= 1 << c.random.IntN(8)
		return c.parts.with(last, changed), []int{0}
	}
}

const few = 120

// several changes up to three decisions that are no neighbours, of which it would not be
// known which was changed. The blocks are others, with one decision or a few; so they
// are in a file where nothing was changed.
func (c *changer) several() ([]byte, []int) {
	begins := c.random.IntN(2)
	base, before := c.short[begins], 6*begins
	list := slices.Clone(c.decisions[before:few])
	size := func() int { return 1 + c.random.IntN(5) }
	must(check(base.blocks(c.pack, list, size), verify.Options{Keys: []string{c.key.Public}}))(c.t)
	first := few
	for range 1 + c.random.IntN(3) {
		at := 3 * c.random.IntN(len(list)/3)
		list[at] = bytes.Replace(list[at], []byte("main"), []byte("mein"), 1)
		first = min(first, before+at+1)
	}
	return base.blocks(c.pack, list, size), []int{first}
}
