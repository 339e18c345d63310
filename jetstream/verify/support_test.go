package verify_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/note"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// newKey makes a key for checkpoints.
func newKey(t testing.TB) jetstream.CheckpointKey {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "bcpmesh/test")
	noError(t, err)
	signer := must(note.NewSigner(private))(t)
	return jetstream.CheckpointKey{Signer: signer, Public: public}
}

var (
	beginning = time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	readers   = []bcp.AgentName{"mailer", "researcher", ""}
)

// chainOf makes decisions that follow one another, a second apart, about as long
// as those of a mesh are. They mean nothing: the verifier knows of no meaning.
func chainOf(t testing.TB, n int) [][]byte {
	t.Helper()
	var random [32 + 16 + 32]byte
	_, _ = rand.Read(random[:])
	definitions := bcp.Digest(random[:32])
	list := make([][]byte, 0, n)
	var previous bcp.Digest
	for i := range n {
		var sealed [160]byte // as good as random
		for at := range len(sealed) / 32 {
			part := sha256.Sum256(binary.BigEndian.AppendUint64(random[:], uint64(i)<<8|uint64(at)))
			copy(sealed[at*32:], part[:])
		}
		fresh := sha256.Sum256(binary.BigEndian.AppendUint64(random[:], uint64(i)))
		d := bcp.Decision{
			Seq: uint64(i + 1), Prev: previous, Time: beginning.Add(time.Duration(i) * time.Second).UnixNano(),
			Kind: bcp.DecisionKind(1 + i%20), Agent: "main", Controller: "main", Reader: readers[i%len(readers)],
			Session: "s1", Query: bcp.QueryID(fmt.Sprintf("%x", fresh[16:28])), Nominal: bcp.Bits(1000 * i),
			Context: definitions,
		}
		switch i % 3 {
		case 0:
			d.Sealed = sealed[:150]
		case 1:
			d.RawCommitment, d.PayloadCommitment = fresh, sha256.Sum256(fresh[:])
			d.Sealed = sealed[:]
		}
		b := must(bcp.EncodeDecision(&d))(t)
		list, previous = append(list, b), bcp.RecordDigest(b)
	}
	return list
}

// recordsOf gives decisions to an export as a journal would, 100 at a time.
func recordsOf(decisions [][]byte) jetstream.Records {
	return func(_ context.Context, _, _ uint64, each func(jetstream.Record) error) error {
		for record := range slices.Chunk(decisions, 100) {
			if err := each(jetstream.Record{Decisions: record}); err != nil {
				return err
			}
		}
		return nil
	}
}

func export(t testing.TB, decisions [][]byte, o jetstream.ExportOptions) []byte {
	t.Helper()
	var file bytes.Buffer
	must(jetstream.Export(t.Context(), &file, recordsOf(decisions), o))(t)
	return file.Bytes()
}

// parts are those of a file, taken apart by the page that describes it.
type parts struct {
	magic  string
	frames []frame
}

type frame struct {
	kind      byte
	offset    int64
	payload   []byte
	whole     []byte   // the frame, where the payload is as it was
	decisions [][]byte // of a block
}

const magicLength = 16

func takeApart(t testing.TB, file []byte) parts {
	t.Helper()
	unpack := must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)))(t)
	p := parts{magic: string(file[:magicLength])}
	for at := magicLength; at < len(file); {
		size := int(binary.BigEndian.Uint32(file[at+1:]))
		f := frame{kind: file[at], offset: int64(at), payload: file[at+5 : at+5+size], whole: file[at : at+5+size+4]}
		if f.kind == 'D' {
			content := must(unpack.DecodeAll(f.payload[4:], nil))(t)
			for len(content) > 0 {
				size := binary.BigEndian.Uint32(content)
				f.decisions = append(f.decisions, content[4:4+size])
				content = content[4+size:]
			}
		}
		p.frames = append(p.frames, f)
		at += 5 + size + 4
	}
	return p
}

// blockOf packs decisions as the payload of a block.
func blockOf(pack *zstd.Encoder, decisions [][]byte) []byte {
	var content []byte
	for _, d := range decisions {
		content = append(binary.BigEndian.AppendUint32(content, uint32(len(d))), d...)
	}
	return pack.EncodeAll(content, binary.BigEndian.AppendUint32(nil, uint32(len(decisions))))
}

func appendFrame(file []byte, kind byte, payload []byte) []byte {
	begin := len(file)
	file = binary.BigEndian.AppendUint32(append(file, kind), uint32(len(payload)))
	file = append(file, payload...)
	return binary.BigEndian.AppendUint32(file, crc32.Checksum(file[begin:], crc32.MakeTable(crc32.Castagnoli)))
}

func (p *parts) file() []byte {
	file := []byte(p.magic)
	for _, f := range p.frames {
		if f.whole != nil {
			file = append(file, f.whole...)
		} else {
			file = appendFrame(file, f.kind, f.payload)
		}
	}
	return file
}

// blocks returns the file with decisions in blocks of sizes that are drawn.
func (p *parts) blocks(pack *zstd.Encoder, decisions [][]byte, size func() int) []byte {
	all := parts{p.magic, []frame{p.frames[0]}}
	for len(decisions) > 0 {
		n := min(len(decisions), size())
		all.frames = append(all.frames, frame{kind: 'D', payload: blockOf(pack, decisions[:n])})
		decisions = decisions[n:]
	}
	all.frames = append(all.frames, p.frames[len(p.frames)-1])
	return all.file()
}

// with returns the file with another payload in one frame.
func (p *parts) with(index int, payload []byte) []byte {
	changed := parts{p.magic, slices.Clone(p.frames)}
	changed.frames[index].payload, changed.frames[index].whole = payload, nil
	return changed.file()
}

// sign makes a checkpoint.
func sign(t testing.TB, key jetstream.CheckpointKey, size int, root [32]byte) []byte {
	t.Helper()
	text := fmt.Sprintf("%s\n%d\n%s\n", key.Signer.Name(), size, base64.StdEncoding.EncodeToString(root[:]))
	return must(note.Sign(&note.Note{Text: text}, key.Signer))(t)
}

func check(file []byte, o verify.Options) (verify.Summary, error) {
	return verify.File(bytes.NewReader(file), o)
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
