package jetstream

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A backup is a gzipped tar, so that stock tools open it: files of the state
// folder, the records of the journal in parts, and at the end a manifest with
// the SHA-256 of all of them. One without its end is none.

const (
	backupFormat   = 1
	manifestName   = "manifest.json"
	manifestSum    = "manifest.sha256" // as sha256sum writes it
	backupJournal  = "journal/"
	maxBackupPart  = 8 << 20
	maxBackupFile  = maxSnapshot
	maxManifest    = 16 << 20
	recordLenBytes = 4
)

// ErrBackup says that a file is no whole backup.
var ErrBackup = errors.New("the backup is damaged")

// Manifest says what is in a backup.
type Manifest struct {
	Format    int          `json:"format"`
	Program   string       `json:"program"`
	Made      time.Time    `json:"made"`
	Records   uint64       `json:"records"`
	Decisions uint64       `json:"decisions"`
	Last      time.Time    `json:"last"` // journal time of the newest decision
	Head      bcp.Digest   `json:"head"` // SHA-256 of the newest decision
	Context   bcp.Digest   `json:"context"`
	Lost      string       `json:"lost,omitempty"` // why the journal ends there, where it was damaged
	Files     []BackupFile `json:"files"`
}

// BackupFile is one file of a backup.
type BackupFile struct {
	Name   string     `json:"name"`
	Size   int64      `json:"size"`
	SHA256 bcp.Digest `json:"sha256"`
}

// Chain checks decisions one behind the other: without a gap, each naming the
// SHA-256 of the one before, time never going back. It knows nothing of what
// they mean, and so of no definitions.
type Chain struct {
	Records, Decisions uint64
	Head, Context      bcp.Digest
	Time               int64
}

// Add checks the decisions of one record, and takes all of them or none.
func (c *Chain) Add(decisions [][]byte) error {
	next := *c
	for _, b := range decisions {
		d, err := bcp.DecodeDecision(b)
		if err != nil {
			return fmt.Errorf("%w: behind decision %d: %w", ErrRecord, next.Decisions, err)
		}
		if d.Seq != next.Decisions+1 || d.Prev != next.Head || d.Time < next.Time {
			return fmt.Errorf("%w: decision %d does not follow decision %d", ErrRecord, d.Seq, next.Decisions)
		}
		next.Decisions, next.Head, next.Time, next.Context = d.Seq, bcp.RecordDigest(b), d.Time, d.Context
	}
	next.Records++
	*c = next
	return nil
}

// BackupWriter writes a backup: Put and Journal in any order, then Close.
type BackupWriter struct {
	zip      *gzip.Writer
	tar      *tar.Writer
	manifest Manifest
}

// NewBackupWriter begins a backup of this time, made by this program.
func NewBackupWriter(w io.Writer, program string, made time.Time) *BackupWriter {
	zip := gzip.NewWriter(w)
	return &BackupWriter{zip: zip, tar: tar.NewWriter(zip), manifest: Manifest{Format: backupFormat, Program: program, Made: made.UTC()}}
}

// Put writes one file.
func (w *BackupWriter) Put(name string, content []byte) error {
	w.manifest.Files = append(w.manifest.Files, BackupFile{Name: name, Size: int64(len(content)), SHA256: sha256.Sum256(content)})
	return w.put(name, content)
}

func (w *BackupWriter) put(name string, content []byte) error {
	err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: w.manifest.Made, Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.tar.Write(content)
	}
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

// Journal writes every record, and checks their chain on the way. With salvage a
// damaged journal is written up to its last good record. progress, if set, is
// called with the records that are done, and all of them.
func (w *BackupWriter) Journal(ctx context.Context, js natsjs.JetStream, salvage bool, progress func(done, all uint64)) error {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	all := stream.CachedInfo().State.LastSeq
	var chain Chain
	var part bytes.Buffer
	begin := uint64(1)
	flush := func() error {
		if part.Len() == 0 {
			return nil
		}
		err := w.Put(fmt.Sprintf("%s%020d", backupJournal, begin), part.Bytes())
		part.Reset()
		begin = chain.Records + 1
		return err
	}
	read := readRecords
	if salvage {
		read = salvageRecords
	}
	_, damage := read(ctx, js, 1, func(seq uint64, decisions [][]byte) error {
		if err := chain.Add(decisions); err != nil {
			return err
		}
		data, err := msgpack.Marshal(record{Version: recordVersion, Decisions: decisions})
		if err != nil {
			return err
		}
		part.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
		part.Write(data)
		if progress != nil {
			progress(seq, all)
		}
		if part.Len() >= maxBackupPart {
			return flush()
		}
		return nil
	})
	if damage != nil && (!salvage || ctx.Err() != nil || !errors.Is(damage, ErrRecord)) {
		return damage
	}
	if damage != nil {
		w.manifest.Lost = damage.Error()
	}
	w.manifest.Records, w.manifest.Decisions, w.manifest.Head, w.manifest.Context = chain.Records, chain.Decisions, chain.Head, chain.Context
	w.manifest.Last = time.Unix(0, chain.Time).UTC()
	return flush()
}

// Close ends the backup with its manifest.
func (w *BackupWriter) Close() (Manifest, error) {
	b, err := json.MarshalIndent(w.manifest, "", "  ")
	if err == nil {
		b = append(b, '\n')
		err = errors.Join(w.put(manifestName, b), w.put(manifestSum, sumLine(b)))
	}
	if err = errors.Join(err, w.tar.Close(), w.zip.Close()); err != nil {
		return Manifest{}, fmt.Errorf("writing the backup: %w", err)
	}
	return w.manifest, nil
}

func sumLine(manifest []byte) []byte {
	return fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(manifest), manifestName)
}

// Restoring is what ReadBackup calls for what it finds; either may be nil.
type Restoring struct {
	File   func(name string, content []byte) error
	Record func(decisions [][]byte) error
}

// ReadBackup reads a backup and checks all of it: the digest of every file, that
// none is missing or too many, and the chain of decisions from the first to the
// last. What it calls into happens before that is known: read it twice, first
// with nothing to call.
func ReadBackup(r io.Reader, into Restoring) (Manifest, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrBackup, err)
	}
	files := tar.NewReader(zip)
	var found []BackupFile
	var manifest []byte
	var chain Chain
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return Manifest{}, fmt.Errorf("%w: it has no %s", ErrBackup, manifestSum)
		}
		if err != nil {
			return Manifest{}, fmt.Errorf("%w: %w", ErrBackup, err)
		}
		limit := int64(maxBackupFile)
		if header.Name == manifestName || header.Name == manifestSum {
			limit = maxManifest
		}
		if header.Typeflag != tar.TypeReg || header.Size < 0 || header.Size > limit || !safeName(header.Name) {
			return Manifest{}, fmt.Errorf("%w: %q is no file of one", ErrBackup, header.Name)
		}
		// The content grows with the bytes that are there, not with the header.
		content, err := io.ReadAll(io.LimitReader(files, limit))
		if err != nil {
			return Manifest{}, fmt.Errorf("%w: %w", ErrBackup, err)
		}
		switch {
		case header.Name == manifestName && manifest == nil:
			manifest = content
			continue
		case header.Name == manifestSum && manifest != nil && bytes.Equal(content, sumLine(manifest)):
			if _, err := files.Next(); !errors.Is(err, io.EOF) {
				return Manifest{}, fmt.Errorf("%w: something stands behind its end", ErrBackup)
			}
			// Also the checksum at the end of the compressed bytes.
			if _, err := io.Copy(io.Discard, zip); err != nil {
				return Manifest{}, fmt.Errorf("%w: %w", ErrBackup, err)
			}
			return checkManifest(manifest, found, chain)
		case manifest != nil:
			return Manifest{}, fmt.Errorf("%w: its manifest is not what was written", ErrBackup)
		}
		found = append(found, BackupFile{Name: header.Name, Size: int64(len(content)), SHA256: sha256.Sum256(content)})
		switch {
		case strings.HasPrefix(header.Name, backupJournal):
			if err := readPart(content, &chain, into.Record); err != nil {
				return Manifest{}, err
			}
		case into.File != nil:
			if err := into.File(header.Name, content); err != nil {
				return Manifest{}, err
			}
		}
	}
}

// safeName keeps a backup from writing anywhere but into its folder.
func safeName(name string) bool {
	return name != "" && !path.IsAbs(name) && path.Clean(name) == name && name != ".." && !strings.HasPrefix(name, "../") && !strings.ContainsAny(name, "\\:\x00")
}

func readPart(content []byte, chain *Chain, each func([][]byte) error) error {
	for len(content) > 0 {
		if len(content) < recordLenBytes || uint64(len(content)-recordLenBytes) < uint64(binary.BigEndian.Uint32(content)) {
			return fmt.Errorf("%w: a part of the journal is cut", ErrBackup)
		}
		size := int(binary.BigEndian.Uint32(content))
		decisions, err := decodeRecord(content[recordLenBytes : recordLenBytes+size])
		if err == nil {
			err = chain.Add(decisions)
		}
		if err != nil {
			return fmt.Errorf("%w: record %d: %w", ErrBackup, chain.Records+1, err)
		}
		if each != nil {
			if err := each(decisions); err != nil {
				return err
			}
		}
		content = content[recordLenBytes+size:]
	}
	return nil
}

func checkManifest(content []byte, found []BackupFile, chain Chain) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: its manifest: %w", ErrBackup, err)
	}
	if m.Format != backupFormat {
		return Manifest{}, fmt.Errorf("%w: it has format %d, and this program reads %d", ErrBackup, m.Format, backupFormat)
	}
	if len(m.Files) != len(found) {
		return Manifest{}, fmt.Errorf("%w: it has %d files, and its manifest names %d", ErrBackup, len(found), len(m.Files))
	}
	for i, f := range found {
		if m.Files[i] != f {
			return Manifest{}, fmt.Errorf("%w: %s is not what its manifest says", ErrBackup, f.Name)
		}
	}
	if m.Records != chain.Records || m.Decisions != chain.Decisions || m.Head != chain.Head {
		return Manifest{}, fmt.Errorf("%w: its journal has %d decisions, and its manifest says %d", ErrBackup, chain.Decisions, m.Decisions)
	}
	return m, nil
}

// RestoreRecord writes a record of a backup behind the others, into a journal
// that is new. Await the acknowledgements.
func (j *Journal) RestoreRecord(decisions [][]byte) (natsjs.PubAckFuture, error) {
	data, err := msgpack.Marshal(record{Version: recordVersion, Decisions: decisions})
	if err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	ack, err := j.js.PublishAsync(j.subject, data, natsjs.WithExpectLastSequence(j.last))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	j.last++
	return ack, nil
}
