package jetstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The format of an export is docs/audit-format.md; package verify reads it, and
// shares only that page with this file.

const (
	exportMagic = "bcpmesh audit 1\n"
	// exportBlock is the approximate size of a block, in unpacked bytes.
	exportBlock = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of exports.
var (
	// ErrNoDecisions says that there is nothing to export.
	ErrNoDecisions = errors.New("there are no decisions in this time")
	// ErrRewritten says that the journal differs from what was signed before.
	ErrRewritten = errors.New("the journal contradicts an earlier checkpoint")
)

// CheckpointKey signs checkpoints.
type CheckpointKey struct {
	Signer note.Signer
	Public string // as a note's verifier key
}

// sign writes a checkpoint (C2SP tlog-checkpoint) and signs it.
func (k CheckpointKey) sign(t tlog.Tree) ([]byte, error) {
	return note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", k.Signer.Name(), t.N, t.Hash)}, k.Signer)
}

// ExportOptions say what to export.
type ExportOptions struct {
	// Since and Until choose decisions by their time: not before Since, and
	// before Until. Zero: all.
	Since, Until time.Time
	// Last, if it is not 0, is the number of the last decision to export.
	Last uint64
	// Key signs the checkpoint at the end. It is required.
	Key CheckpointKey
	// Tree has the earlier checkpoints, which the journal must match, and the
	// hashes of what was cut off it. It is required for a truncated journal.
	Tree *Tree
	// Begin is where a truncated journal begins: it names the backup that has the hashes.
	Begin Beginning
	// Progress, if set, is called with the number of records read and the
	// approximate total.
	Progress func(done, all uint64)
}

// Exported is what an export holds.
type Exported struct {
	First, Last uint64 // numbers of decisions
	From, To    time.Time
	Checkpoint  []byte // as it was signed
}

// DecodeRecord returns the decisions of a message of the journal, each as
// bcp.EncodeDecision wrote it.
func DecodeRecord(message []byte) ([][]byte, error) {
	decisions, err := decodeRecord(message)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return decisions, nil
}

// Export writes the decisions of a journal, byte for byte, and ends with a signed
// checkpoint over the last of them. All are read and their chain is checked,
// independent of the selected time: nothing unchecked is signed.
func Export(ctx context.Context, w io.Writer, records Records, o ExportOptions) (Exported, error) {
	e := exporter{w: w, options: o}
	if o.Tree != nil {
		var err error
		if e.recorded, err = o.Tree.entries(); err != nil {
			return Exported{}, err
		}
	}
	err := records(ctx, 0, 0, e.record)
	if err == nil || errors.Is(err, errEnough) {
		err = e.close(err == nil)
	}
	if err != nil {
		return Exported{}, fmt.Errorf("exporting the journal: %w", err)
	}
	return e.exported, nil
}

// errEnough ends the reading in front of Until.
var errEnough = errors.New("enough")

type exporter struct {
	w        io.Writer
	options  ExportOptions
	recorded []recorded // not reached yet
	exported Exported

	chain Chain
	tree  frontier
	pack  *zstd.Encoder
	block []byte
	count uint32 // of decisions in block
}

func (e *exporter) record(r Record) error {
	for _, b := range r.Decisions {
		previous := e.chain
		if err := e.chain.Add([][]byte{b}); err != nil {
			return err
		}
		if begin := e.chain.Begin; previous.Decisions == 0 && begin.Truncated() {
			previous.Head = begin.Head
			if e.options.Begin.Position == begin.Position {
				begin = e.options.Begin
			}
			var err error
			if e.tree, e.recorded, err = e.options.Tree.treeBefore(begin, e.recorded); err != nil {
				return err
			}
		}
		at := time.Unix(0, e.chain.Time).UTC()
		if !e.options.Until.IsZero() && !at.Before(e.options.Until) || e.options.Last > 0 && e.chain.Decisions > e.options.Last {
			e.chain = previous
			return errEnough
		}
		if e.exported.First == 0 && !at.Before(e.options.Since) {
			if err := e.begin(previous.Head, at); err != nil {
				return err
			}
		}
		e.tree.add(e.chain.Head, nil)
		if err := e.compare(); err != nil {
			return err
		}
		if e.exported.First > 0 {
			if err := e.add(b, at); err != nil {
				return err
			}
		}
	}
	e.chain.Records++
	if e.options.Progress != nil {
		e.options.Progress(e.chain.Records, e.chain.Records+r.Left)
	}
	return nil
}

// compare compares the tree with what was signed of it before.
func (e *exporter) compare() error {
	for len(e.recorded) > 0 && e.recorded[0].tree.N == e.tree.size {
		if e.recorded[0].tree != e.tree.root() {
			return fmt.Errorf("%w: that of %d decisions", ErrRewritten, e.tree.size)
		}
		e.recorded = e.recorded[1:]
	}
	return nil
}

func (e *exporter) begin(previous bcp.Digest, at time.Time) (err error) {
	e.exported.First, e.exported.From = e.chain.Decisions, at
	if e.pack, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1)); err != nil {
		return err
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "key %s\nfirst %d\nprevious %x\n", e.options.Key.Public, e.exported.First, previous[:])
	for _, h := range e.tree.hashes {
		fmt.Fprintf(&head, "subtree %s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	if _, err := io.WriteString(e.w, exportMagic); err != nil {
		return err
	}
	return e.frame('H', head.Bytes())
}

func (e *exporter) add(decision []byte, at time.Time) error {
	if e.count > 0 && len(e.block)+len(decision) > exportBlock {
		if err := e.flush(); err != nil {
			return err
		}
	}
	e.block = append(binary.BigEndian.AppendUint32(e.block, uint32(len(decision))), decision...)
	e.count++
	e.exported.Last, e.exported.To = e.chain.Decisions, at
	return nil
}

func (e *exporter) flush() error {
	payload := e.pack.EncodeAll(e.block, binary.BigEndian.AppendUint32(nil, e.count))
	e.block, e.count = e.block[:0], 0
	return e.frame('D', payload)
}

// frame writes a kind, a length, a payload and the CRC-32C of all three.
func (e *exporter) frame(kind byte, payload []byte) error {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	b = append(b, payload...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	_, err := e.w.Write(b)
	return err
}

// close signs the tree. whole says that the journal was read to its end.
func (e *exporter) close(whole bool) error {
	switch {
	case e.exported.First == 0:
		return ErrNoDecisions
	case whole && len(e.recorded) > 0:
		return fmt.Errorf("%w: it ends with decision %d, and one of %d was signed", ErrLost, e.chain.Decisions, e.recorded[len(e.recorded)-1].tree.N)
	}
	if err := e.flush(); err != nil {
		return err
	}
	var err error
	if e.exported.Checkpoint, err = e.options.Key.sign(e.tree.root()); err != nil {
		return err
	}
	if e.options.Tree != nil {
		lines, err := e.options.Tree.cosignatureLines(e.tree.root())
		if err != nil {
			return err
		}
		e.exported.Checkpoint = append(e.exported.Checkpoint, lines...)
	}
	return e.frame('E', append(e.chain.Head[:], e.exported.Checkpoint...))
}
