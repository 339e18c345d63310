package verify_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

func packer(t testing.TB) *zstd.Encoder {
	t.Helper()
	return must(zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1)))(t)
}

// A block as large as may be is read, one that is a byte larger is refused, and
// so is a length that promises more, before anything is made of it.
//
// covers P11.2, A-LEN
func TestLargestBlock(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	o := verify.Options{Keys: []string{key.Public}}
	decisionOf := func(size int) []byte {
		d := bcp.Decision{Seq: 1, Time: beginning.UnixNano(), Kind: bcp.KindStart}
		for {
			b := must(bcp.EncodeDecision(&d))(t)
			if len(b) == size {
				return b
			}
			d.Sealed = make([]byte, len(d.Sealed)+size-len(b))
		}
	}
	for _, over := range []int{0, 1} {
		file := export(t, [][]byte{decisionOf(verify.MaxBlock - 4 + over)}, jetstream.ExportOptions{Key: key})
		_, err := check(file, o)
		failIf(t, over == 0 && err != nil, "a block of %d bytes: %v", verify.MaxBlock, err)
		if over == 1 {
			expectFault(t, file, o, 1)
		}
	}
	p := takeApart(t, export(t, chainOf(t, 10), jetstream.ExportOptions{Key: key}))
	good := p.file()
	for _, at := range []int64{p.frames[0].offset, p.frames[1].offset, p.frames[2].offset} {
		lie := bytes.Clone(good)
		binary.BigEndian.PutUint32(lie[at+1:], 0xffffffff)
		expectFault(t, lie, o, 0, 1, 11)
	}
	// What unpacks to more than a block holds.
	bomb := packer(t).EncodeAll(make([]byte, 64<<20), []byte{0, 0, 0, 1})
	expectFault(t, p.with(1, bomb), o, 1)
	// The same without a word of its size.
	quiet := bytes.NewBuffer([]byte{0, 0, 0, 1})
	w, err := zstd.NewWriter(quiet, zstd.WithEncoderConcurrency(1))
	if err == nil {
		_, err = w.Write(make([]byte, 64<<20))
	}
	err = errors.Join(err, w.Close())
	noError(t, err)
	expectFault(t, p.with(1, quiet.Bytes()), o, 1)
}

// A file with more channels than a summary takes is not summed up.
//
// covers A-LEN
func TestMostChannels(t *testing.T) {
	t.Parallel()
	const most = 1 << 16
	key := newKey(t)
	for _, over := range []int{0, 1} {
		var decisions [][]byte
		var previous bcp.Digest
		for i := range most + over {
			d := bcp.Decision{Seq: uint64(i + 1), Prev: previous, Time: 1, Kind: bcp.KindAsk, Controller: bcp.AgentName(fmt.Sprintf("c%d", i)), Reader: "r"}
			b := must(bcp.EncodeDecision(&d))(t)
			decisions, previous = append(decisions, b), bcp.RecordDigest(b)
		}
		s, err := check(export(t, decisions, jetstream.ExportOptions{Key: key}), verify.Options{Keys: []string{key.Public}})
		failIf(t, (err != nil) != (over == 1) || over == 0 && len(s.Channels) != most,
			"%d channels: %d, %v", most+over, len(s.Channels), err)
	}
}

// What is signed must still be decisions: members that are missing, of another
// type or too long are named, though the chain and the tree are whole.
//
// covers P11.2
func TestUnreadableDecisions(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	o := verify.Options{Keys: []string{key.Public}}
	good := func() map[string]any { return map[string]any{"n": 1, "t": 5, "k": 1} }
	cases := map[string]func(m map[string]any){
		"good":                func(map[string]any) {},
		"no number":           func(m map[string]any) { delete(m, "n") },
		"no time":             func(m map[string]any) { delete(m, "t") },
		"no kind":             func(m map[string]any) { delete(m, "k") },
		"number is a text":    func(m map[string]any) { m["n"] = "1" },
		"negative time":       func(m map[string]any) { m["t"] = -1 },
		"kind 255":            func(m map[string]any) { m["k"] = 255 },
		"kind 256":            func(m map[string]any) { m["k"] = 256 },
		"short digest":        func(m map[string]any) { m["h"] = make([]byte, 31) },
		"digest is a text":    func(m map[string]any) { m["h"] = strings.Repeat("x", 32) },
		"another digest":      func(m map[string]any) { m["h"] = bytes.Repeat([]byte{1}, 32) },
		"a zero digest":       func(m map[string]any) { m["h"] = make([]byte, 32) },
		"longest name":        func(m map[string]any) { m["co"], m["re"] = strings.Repeat("c", 63), strings.Repeat("r", 63) },
		"controller too long": func(m map[string]any) { m["co"], m["re"] = strings.Repeat("c", 64), "r" },
		"reader too long":     func(m map[string]any) { m["co"], m["re"] = "c", strings.Repeat("r", 64) },
		"a float":             func(m map[string]any) { m["z"] = 0.5 },
		"everything else": func(m map[string]any) {
			m["z"] = []any{nil, true, int8(-7), int16(-700), int32(-1 << 20), int64(-1 << 40), uint64(1 << 63), strings.Repeat("x", 300), make([]byte, 70000), map[string]any{"a": []any{}}}
		},
	}
	fine := map[string]bool{"good": true, "kind 255": true, "longest name": true, "a zero digest": true, "everything else": true}
	for name, change := range cases {
		m := good()
		change(m)
		file := signedFile(t, key, must(msgpack.Marshal(m))(t))
		if !fine[name] {
			t.Run(name, func(t *testing.T) { expectFault(t, file, o) })
		} else if _, err := check(file, o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"nothing": {}, "a list": {0x90}, "cut": {0x83, 0xa1, 'n', 1, 0xa1, 't', 1, 0xa1, 'k'}, "more behind": {0x83, 0xa1, 'n', 1, 0xa1, 't', 1, 0xa1, 'k', 1, 0xc0},
	} {
		t.Run(name, func(t *testing.T) { expectFault(t, signedFile(t, key, b), o, 1) })
	}
}

// signedFile is a file with decisions that may be none, signed.
func signedFile(t testing.TB, key jetstream.CheckpointKey, decisions ...[]byte) []byte {
	t.Helper()
	p := takeApart(t, export(t, chainOf(t, 1), jetstream.ExportOptions{Key: key}))
	digest := bcp.RecordDigest(decisions[len(decisions)-1])
	p.frames[1] = frame{kind: 'D', payload: blockOf(packer(t), decisions)}
	p.frames[2] = frame{kind: 'E', payload: append(digest[:], sign(t, key, len(decisions), rootOf(t, decisions))...)}
	return p.file()
}

// Time does not go back, though all is signed, within a block or at the edge of one; it may stand still.
//
// covers P11.2
func TestTimeGoesOn(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	o := verify.Options{Keys: []string{key.Public}}
	for _, times := range [][]int64{{5, 5, 5}, {5, 4, 6}, {5, 6, 5}, {0, 0, 1}, {5, 6, 7, 6, 8}} {
		var decisions [][]byte
		var previous bcp.Digest
		bad := 0
		for i, at := range times {
			d := bcp.Decision{Seq: uint64(i + 1), Prev: previous, Time: at, Kind: bcp.KindStart}
			b := must(bcp.EncodeDecision(&d))(t)
			decisions, previous = append(decisions, b), bcp.RecordDigest(b)
			if i > 0 && at < times[i-1] {
				bad = i + 1
			}
		}
		p := takeApart(t, signedFile(t, key, decisions...))
		for first := 1; first <= len(decisions); first++ {
			file := p.blocks(packer(t), decisions, func() int { return first })
			if bad > 0 {
				expectFault(t, file, o, bad)
			} else if _, err := check(file, o); err != nil {
				t.Errorf("%v: %v", times, err)
			}
		}
	}
}

// The first decision and the last, which have one neighbour, are named as the
// others are.
//
// covers P11.2, A-CHAIN
func TestChangesAtTheEnds(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	o := verify.Options{Keys: []string{key.Public}}
	for _, n := range []int{1, 2, 5} {
		decisions := chainOf(t, n)
		p := takeApart(t, export(t, decisions, jetstream.ExportOptions{Key: key}))
		for at := range n {
			changed := slices.Clone(decisions)
			changed[at] = bytes.Replace(decisions[at], []byte("main"), []byte("mein"), 1)
			expectFault(t, p.with(1, blockOf(packer(t), changed)), o, at+1)
		}
	}
	part := chainOf(t, 5)
	p := takeApart(t, export(t, part, jetstream.ExportOptions{Key: key, Since: beginning.Add(2 * time.Second)}))
	expectFault(t, p.with(0, bytes.Replace(p.frames[0].payload, []byte("previous "), []byte("previous 0"), 1)), o, 0)
	head := bytes.Clone(p.frames[0].payload)
	at := bytes.Index(head, []byte("previous ")) + len("previous ")
	head[at] = '0' + (head[at]-'0'+1)%8 // another digit
	expectFault(t, p.with(0, head), o, 0)
}

// A file is one, in one order, and ends where it ends. What cannot be read is no
// fault of the file.
//
// covers P11.2
func TestFrames(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	o := verify.Options{Keys: []string{key.Public}}
	p := takeApart(t, export(t, chainOf(t, 10), jetstream.ExportOptions{Key: key}))
	good := p.file()
	head, block, end := p.frames[0], p.frames[1], p.frames[2]
	unknown := frame{kind: 'X', payload: []byte("x")}
	empty := frame{kind: 'D', payload: blockOf(packer(t), nil)}
	short := frame{kind: 'D', payload: []byte{0, 0, 1}}
	files := map[string][]byte{"nothing at all": nil, "magic alone": []byte(p.magic), "another version": append([]byte("bcpmesh audit 2\n"), good[16:]...), "a byte behind": append(bytes.Clone(good), 0)}
	for name, frames := range map[string][]frame{
		"no head":      {block, end},
		"two heads":    {head, head, block, end},
		"nothing":      {head, end},
		"no end":       {head, block},
		"two ends":     {head, block, end, end},
		"end in front": {head, end, block},
		"unknown":      {head, unknown, block, end},
		"empty block":  {head, empty, block, end},
		"short block":  {head, short, block, end},
		"short end":    {head, block, {kind: 'E', payload: make([]byte, 31)}},
		"no signature": {head, block, {kind: 'E', payload: end.payload[:32]}},
	} {
		files[name] = (&parts{p.magic, frames}).file()
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) { expectFault(t, file, o) })
	}
	broken := errors.New("broken disk")
	for _, n := range []int{0, 3, 20, 100, len(good) - 1, len(good)} {
		_, err := verify.File(io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(broken)), o)
		failIf(t, !errors.Is(err, broken), "broken behind %d bytes: %v", n, err)
	}
	must(verify.File(iotest.OneByteReader(bytes.NewReader(good)), o))(t)
}

// Whatever bytes come, it ends with an error or with what was signed.
//
// covers P11.2, A-LEN
func FuzzFile(f *testing.F) {
	key := newKey(f)
	good := export(f, chainOf(f, 5), jetstream.ExportOptions{Key: key})
	p := takeApart(f, good)
	pack := packer(f)
	f.Add(byte(0), good)
	for i, fr := range p.frames {
		f.Add(byte(i+1), fr.payload)
	}
	f.Add(byte(4), p.frames[1].decisions[2])
	want := must(check(good, verify.Options{Keys: []string{key.Public}}))(f)
	f.Fuzz(func(t *testing.T, place byte, b []byte) {
		file := b
		switch place % 5 {
		case 1, 2, 3:
			file = p.with(int(place%5)-1, b)
		case 4:
			file = p.with(1, blockOf(pack, [][]byte{p.frames[1].decisions[0], p.frames[1].decisions[1], b, p.frames[1].decisions[3], p.frames[1].decisions[4]}))
		}
		s, err := check(file, verify.Options{Keys: []string{key.Public}})
		failIf(t, err == nil && s.Checkpoint != want.Checkpoint, "verified something else: %+v", s)
	})
}
