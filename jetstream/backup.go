package jetstream

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A backup is a gzipped tar, so that standard tools can open it: files of the
// state folder, the records of the journal in parts, and at the end a manifest
// with the SHA-256 of all of them. Without its end it is invalid.

const (
	backupFormat   = 1
	manifestName   = "manifest.json"
	manifestSum    = "manifest.sha256" // as sha256sum writes it
	backupJournal  = "journal/"
	backupKeys     = "sealing-keys.json"
	maxBackupPart  = 8 << 20 // without its last record
	maxBackupFile  = maxSnapshot
	maxBackupKeys  = 64 << 20
	maxManifest    = 16 << 20
	recordLenBytes = 4
)

// ErrBackup says that a file is not a complete backup.
var ErrBackup = errors.New("the backup is damaged")

// Manifest describes the contents of a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Program string    `json:"program"`
	Made    time.Time `json:"made"`
	// Begins is the position after which its journal begins, zero for a whole
	// journal. Consecutive backups of a mesh are its whole history if each begins
	// where another ends.
	Begins    Position     `json:"begins_behind,omitzero"`
	Records   uint64       `json:"records"`   // with those before it, as Decisions
	Decisions uint64       `json:"decisions"` // the number of the newest
	Last      time.Time    `json:"last"`      // journal time of the newest decision
	Head      bcp.Digest   `json:"head"`      // digest of the newest decision
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

// Chain checks that decisions are consecutive, that each contains the digest of
// the one before, and that time never goes back. It knows nothing of their
// meaning, and needs no definitions.
//
// Records and Decisions also count what was cut off a truncated journal.
type Chain struct {
	Begin              Beginning
	Records, Decisions uint64
	Head, Context      bcp.Digest
	Time               int64
}

// Add checks the decisions of one record, and accepts all of them or none.
func (c *Chain) Add(decisions [][]byte) error { return c.add(decisions, func(*bcp.Decision) {}) }

func (c *Chain) add(decisions [][]byte, each func(*bcp.Decision)) error {
	next := *c
	for _, b := range decisions {
		d, err := bcp.DecodeDecision(b)
		if err != nil {
			return fmt.Errorf("%w: after decision %d: %w", ErrRecord, next.Decisions, err)
		}
		if next.Decisions == 0 && d.Seq != 1 {
			if next.Begin, err = beginningWith(&d); err != nil {
				return err
			}
			next.Records, next.Decisions, next.Head = next.Begin.Sequence, next.Begin.Decision, next.Begin.Head
		}
		if d.Seq != next.Decisions+1 || d.Prev != next.Head || d.Time < next.Time {
			return fmt.Errorf("%w: decision %d does not follow decision %d", ErrRecord, d.Seq, next.Decisions)
		}
		next.Begin.name(&d)
		next.Decisions, next.Head, next.Time, next.Context = d.Seq, bcp.RecordDigest(b), d.Time, d.Context
		each(&d)
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
	sealed   map[sealingKey]bool // keys of the journal's decisions
}

// NewBackupWriter begins a backup of this time, made by this program.
func NewBackupWriter(w io.Writer, program string, made time.Time) *BackupWriter {
	zip := gzip.NewWriter(w)
	return &BackupWriter{zip: zip, tar: tar.NewWriter(zip), sealed: map[sealingKey]bool{}, manifest: Manifest{Format: backupFormat, Program: program, Made: made.UTC()}}
}

// Put writes one file.
func (w *BackupWriter) Put(name string, content []byte) error {
	w.manifest.Files = append(w.manifest.Files, BackupFile{Name: name, Size: int64(len(content)), SHA256: sha256.Sum256(content)})
	return w.writeFile(name, content)
}

func (w *BackupWriter) writeFile(name string, content []byte) error {
	err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: w.manifest.Made, Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.tar.Write(content)
	}
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

// Journal writes records and checks their chain: up to the sequence upTo or, if that is 0,
// those that there are when it begins. progress, if set, is called with the number of
// records done and the total. What was good until an error stays written: see Salvage.
func (w *BackupWriter) Journal(ctx context.Context, records Records, upTo uint64, progress func(done, all uint64)) (Chain, error) {
	parts := journalParts{out: w}
	var done, all uint64
	err := records(ctx, 0, 0, func(r Record) error {
		if all == 0 {
			all = r.Left + 1
		}
		if err := parts.add(r.Decisions); err != nil {
			return err
		}
		done++
		if progress != nil {
			progress(done, all)
		}
		if done == all || upTo > 0 && parts.chain.Records >= upTo {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil && parts.chain.Begin.announced() {
		err = errUnnamed(parts.chain.Begin)
	}
	return parts.chain, errors.Join(err, parts.end())
}

// Salvage has the backup end before a damage, and returns it if that leaves nothing.
func (w *BackupWriter) Salvage(damage error) error {
	if !slices.ContainsFunc(salvaged, func(e error) bool { return errors.Is(damage, e) }) {
		return damage
	}
	if w.manifest.Decisions == 0 {
		return fmt.Errorf("%w: %w", ErrNothingToSalvage, damage)
	}
	w.manifest.Lost = damage.Error()
	return nil
}

// journalParts writes the journal in parts, and checks its chain.
type journalParts struct {
	out   *BackupWriter
	chain Chain
	part  bytes.Buffer
	begin uint64 // of the part
}

func (p *journalParts) add(decisions [][]byte) error {
	if err := p.chain.add(decisions, p.out.noteKeys); err != nil {
		return err
	}
	if p.part.Len() == 0 {
		p.begin = p.chain.Records
	}
	record := appendRecord(nil, decisions)
	p.part.Write(binary.BigEndian.AppendUint32(nil, uint32(len(record))))
	p.part.Write(record)
	if p.part.Len() < maxBackupPart {
		return nil
	}
	return p.flush()
}

func (p *journalParts) flush() error {
	if p.part.Len() == 0 {
		return nil
	}
	err := p.out.Put(fmt.Sprintf("%s%020d", backupJournal, p.begin), p.part.Bytes())
	p.part.Reset()
	return err
}

// end writes what is left, and notes what the backup holds.
func (p *journalParts) end() error {
	m, chain := &p.out.manifest, &p.chain
	m.Begins, m.Last = chain.Begin.Position, time.Unix(0, chain.Time).UTC()
	m.Records, m.Decisions, m.Head, m.Context = chain.Records, chain.Decisions, chain.Head, chain.Context
	return p.flush()
}

// ErrNothingToSalvage says that a journal has lost its first record, so the rest
// cannot be replayed. Only an older backup can help.
var ErrNothingToSalvage = errors.New("there is nothing to salvage; restore an older backup")

// salvaged are the kinds of damage that leave something to salvage.
var salvaged = []error{ErrRecord, ErrLost, ErrRewritten, ErrTree, ErrHashes}

// noteKeys notes what a decision is sealed with.
func (w *BackupWriter) noteKeys(d *bcp.Decision) {
	if len(d.Sealed) > 0 {
		w.sealed[newSealingKey(d, subjects.SealedPayload)] = true
	}
	if len(d.SealedRaw) > 0 {
		w.sealed[newSealingKey(d, subjects.SealedRaw)] = true
	}
}

// Keys writes all sealing keys of a journal.
func (w *BackupWriter) Keys(ctx context.Context, js natsjs.JetStream) error {
	keys, err := readKeys(ctx, js)
	if err != nil {
		return err
	}
	return w.putKeys(keys)
}

// GivenKeys writes the sealing keys that the decisions written so far need. A key
// destroyed meanwhile is a tombstone in the backup too.
func (w *BackupWriter) GivenKeys(ctx context.Context, given KeyGiver) error {
	keys := make([]StoredKey, 0, len(w.sealed))
	for of := range w.sealed {
		key, err := storedKey(ctx, of, given)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b StoredKey) int { return cmp.Compare(a.Subject, b.Subject) })
	return w.putKeys(keys)
}

// storedKey returns a key as the stream keeps it.
func storedKey(ctx context.Context, of sealingKey, given KeyGiver) (StoredKey, error) {
	key, err := given(ctx, of.subject())
	stored := StoredKey{Subject: of.subject(), Key: key.Key}
	switch {
	case err != nil:
		return stored, err
	case key.Destroyed:
		stored.Key = []byte(tombstone)
		return stored, nil
	}
	_, err = givenKey(key, nil)
	return stored, err
}

func (w *BackupWriter) putKeys(keys []StoredKey) error {
	b, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return w.Put(backupKeys, b)
}

// Salvaged reports whether something damaged was left out.
func (w *BackupWriter) Salvaged() bool { return w.manifest.Lost != "" }

// Close ends the backup with its manifest.
func (w *BackupWriter) Close() (Manifest, error) {
	b, err := json.Marshal(w.manifest, jsontext.WithIndent("  "))
	if err == nil {
		b = append(b, '\n')
		err = errors.Join(w.writeFile(manifestName, b), w.writeFile(manifestSum, sumLine(b)))
	}
	if err = errors.Join(err, w.tar.Close(), w.zip.Close()); err != nil {
		return Manifest{}, fmt.Errorf("writing the backup: %w", err)
	}
	return w.manifest, nil
}

func sumLine(manifest []byte) []byte {
	return fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(manifest), manifestName)
}

// Restoring are the callbacks of ReadBackup; each may be nil.
type Restoring struct {
	// File reads as much of a file as it likes. One may have 4 GiB: it is not to be held
	// in memory before it is known to be needed.
	File   func(name string, content io.Reader) error
	Keys   func([]StoredKey) error // the sealing keys of the journal
	Record func(decisions [][]byte) error
}

// damageReader keeps the error of a backup that cannot be read on, which whoever reads a
// file of it may have wrapped.
type damageReader struct {
	from   io.Reader
	damage error
}

func (r *damageReader) Read(b []byte) (n int, err error) {
	if n, err = r.from.Read(b); err != nil && !errors.Is(err, io.EOF) {
		r.damage = fmt.Errorf("%w: %w", ErrBackup, err)
	}
	return n, err
}

// ReadBackup reads a backup and checks all of it: the digest of every file, that
// none is missing or extra, and the chain of decisions from the first to the
// last. The callbacks run before that is known: read it twice, first without
// callbacks.
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
		held := true // in memory, as far as it is there
		limit := int64(maxManifest)
		switch name := header.Name; {
		case name == manifestName, name == manifestSum:
		case strings.HasPrefix(name, backupJournal):
			limit = maxBackupPart + MaxRecordBytes + 1<<20
		case name == backupKeys:
			limit = maxBackupKeys
		default:
			limit, held = maxBackupFile, false
		}
		if header.Typeflag != tar.TypeReg || header.Size < 0 || header.Size > limit || !safeName(header.Name) {
			return Manifest{}, fmt.Errorf("%w: %q is no file of one", ErrBackup, header.Name)
		}
		var content []byte
		sum := sha256.New()
		if held {
			if content, err = io.ReadAll(io.TeeReader(files, sum)); err != nil {
				return Manifest{}, fmt.Errorf("%w: %w", ErrBackup, err)
			}
		}
		switch {
		case header.Name == manifestName && manifest == nil:
			manifest = content
			continue
		case header.Name == manifestSum && manifest != nil && bytes.Equal(content, sumLine(manifest)):
			if _, err := files.Next(); !errors.Is(err, io.EOF) {
				return Manifest{}, fmt.Errorf("%w: there is data after its end", ErrBackup)
			}
			// Also the checksum at the end of the compressed bytes.
			if _, err := io.Copy(io.Discard, zip); err != nil {
				return Manifest{}, fmt.Errorf("%w: %w", ErrBackup, err)
			}
			return checkManifest(manifest, found, chain)
		case manifest != nil:
			return Manifest{}, fmt.Errorf("%w: its manifest is not what was written", ErrBackup)
		}
		switch {
		case strings.HasPrefix(header.Name, backupJournal):
			if err := readPart(content, &chain, into.Record); err != nil {
				return Manifest{}, err
			}
		case header.Name == backupKeys:
			keys, err := parseKeys(content)
			if err != nil {
				return Manifest{}, err
			}
			if into.Keys != nil {
				if err := into.Keys(keys); err != nil {
					return Manifest{}, err
				}
			}
		default:
			from := &damageReader{from: files}
			hashed := io.TeeReader(from, sum)
			if into.File != nil {
				if err := into.File(header.Name, hashed); err != nil {
					return Manifest{}, cmp.Or(from.damage, err)
				}
			}
			if _, err := io.Copy(io.Discard, hashed); err != nil {
				return Manifest{}, fmt.Errorf("%w: %w", ErrBackup, err)
			}
		}
		found = append(found, BackupFile{Name: header.Name, Size: header.Size, SHA256: bcp.Digest(sum.Sum(nil))})
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
	if begin := chain.Begin; begin.Truncated() && !slices.ContainsFunc(found, func(f BackupFile) bool {
		return f.Name == BaseName(begin.Decision) && f.SHA256 == begin.Truncation.Base
	}) {
		return Manifest{}, fmt.Errorf("%w: it lacks the snapshot after which its journal begins", ErrBackup)
	}
	if m.Begins != chain.Begin.Position || m.Records != chain.Records || m.Decisions != chain.Decisions || m.Head != chain.Head {
		return Manifest{}, fmt.Errorf("%w: its journal has %d decisions, and its manifest says %d", ErrBackup, chain.Decisions, m.Decisions)
	}
	return m, nil
}

// AwaitInterest waits until records reach the journal's stream, which may have just
// been created: otherwise the first of many restored records could arrive after
// others.
func (j *Journal) AwaitInterest(ctx context.Context) error {
	return awaitInterest(ctx, j.js, j.subject)
}

// RestoreRecord appends a record of a backup to a new journal. Wait for the
// acknowledgements.
func (j *Journal) RestoreRecord(decisions [][]byte) (natsjs.PubAckFuture, error) {
	ack, err := j.js.PublishAsync(j.subject, appendRecord(nil, decisions), natsjs.WithExpectLastSequence(j.last))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	j.last++
	return ack, nil
}
