package mesh

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

var (
	errNotOfCluster = errors.New("the backup is of a mesh in one process: bcpmesh backup --truncate truncates its journal in place")
	errSalvaged     = errors.New("the backup is of a damaged journal, and is incomplete")
)

// TruncateBackup turns a backup of a cluster into one whose journal is
// truncated after all of it, and writes it to w. whole is the file of the original, which
// has what is cut off and must be kept, and def the definitions. What is
// cut off is signed first, with the keys of the state folder.
func TruncateBackup(ctx context.Context, whole string, from io.ReadSeeker, state string, def *bcp.Mesh, w io.Writer, o BackupOptions) (jetstream.Manifest, error) {
	t := backupTruncation{from: from, bases: map[string][]byte{}}
	m, err := t.read()
	if err == nil {
		err = t.prove(ctx, m, newStateConfig(def, o.Version), o)
	}
	if err == nil {
		_, err = SignCheckpoint(ctx, state, t.recordsFrom, o.Keys...)
	}
	if err == nil {
		m, err = t.write(m, filepath.Base(whole), state, w, o)
	}
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("truncate: %w", err)
	}
	return m, nil
}

type backupTruncation struct {
	from io.ReadSeeker

	digest bcp.Digest // of all bytes
	files  []jetstream.BaseFile
	bases  map[string][]byte // the base of its journal, if it is truncated
	keyed  bool              // it has the keys of the accounts
	keys   []jetstream.StoredKey
	state  *state.State
	base   jetstream.BaseFile
}

// read checks the backup and reads everything except its journal.
func (t *backupTruncation) read() (jetstream.Manifest, error) {
	if _, err := t.from.Seek(0, io.SeekStart); err != nil {
		return jetstream.Manifest{}, err
	}
	sum := sha256.New()
	content := io.TeeReader(t.from, sum)
	of := error(nil)
	m, err := jetstream.ReadBackup(content, jetstream.Restoring{File: func(name string, from io.Reader) error {
		content, err := io.ReadAll(from)
		switch {
		case err != nil:
			return err
		case path.Dir(name) == jetstream.BaseFolder:
			t.bases[name] = content
		case strings.HasPrefix(name, snapshotFolder+"/"):
			of = errNotOfCluster
		case path.Dir(name) == treeFolder, path.Base(name) == accounts.CheckpointKeyFile: // they are signed again
		default:
			t.keyed = t.keyed || strings.HasPrefix(name, accounts.KeyFolder+"/")
			t.files = append(t.files, jetstream.BaseFile{Name: name, Content: content})
		}
		return nil
	}, Keys: func(keys []jetstream.StoredKey) error { t.keys = keys; return nil }})
	if err == nil && m.Lost != "" {
		err = errSalvaged
	}
	if err == nil {
		err = of
	}
	if err == nil {
		_, err = io.Copy(sum, t.from) // the rest, which the archive's reader did not need
	}
	t.digest = bcp.Digest(sum.Sum(nil))
	return m, err
}

// recordsFrom are the records of its journal.
func (t *backupTruncation) recordsFrom(_ context.Context, from, _ uint64, each func(uint64, [][]byte) error) error {
	var chain jetstream.Chain
	_, err := readBackup(t.from, jetstream.Restoring{Record: func(decisions [][]byte) error {
		if err := chain.Add(decisions); err != nil || chain.Records < from {
			return err
		}
		return each(chain.Records, decisions)
	}})
	return err
}

// prove makes the base of the journal.
func (t *backupTruncation) prove(ctx context.Context, m jetstream.Manifest, config state.Config, o BackupOptions) error {
	keys, err := jetstream.SealingKeysOf(t.keys)
	if err != nil {
		return err
	}
	begins := jetstream.BaseFile{Name: jetstream.BaseName(m.Begins.Decision)}
	begins.Content = t.bases[begins.Name]
	if m.Begins.Sequence == 0 {
		t.state, err = state.New(config)
	} else if t.state, err = restoredBase(begins, config); errors.Is(err, state.ErrDefinitions) {
		err = fmt.Errorf("%w; the journal begins after decision %d", err, m.Begins.Decision)
	}
	if err != nil {
		return err
	}
	err = t.recordsFrom(ctx, 0, 0, func(sequence uint64, decisions [][]byte) error {
		for _, record := range decisions {
			d, err := keys.Decode(ctx, record)
			if err == nil {
				err = t.state.Apply(&d, bcp.RecordDigest(record))
			}
			if err != nil {
				return err
			}
		}
		if o.Progress != nil {
			o.Progress(sequence, m.Records)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	base, err := provenBase(t.state, m.Records, config)
	t.base = jetstream.NewBaseFile(base)
	return err
}

func restoredBase(base jetstream.BaseFile, config state.Config) (*state.State, error) {
	s, err := base.Snapshot()
	if err != nil {
		return nil, err
	}
	return state.RestoreBase(config, s.Checkpoint)
}

func (t *backupTruncation) write(m jetstream.Manifest, whole, state string, w io.Writer, o BackupOptions) (jetstream.Manifest, error) {
	record, err := truncationRecord(t.state, bcp.Truncation{Sequence: m.Records, Base: sha256.Sum256(t.base.Content), Backup: t.digest, File: whole})
	if err != nil {
		return m, err
	}
	out := jetstream.NewBackupWriter(w, o.Version, time.Now())
	for _, file := range append(t.files, t.base) {
		if err := out.Put(file.Name, file.Content); err != nil {
			return m, err
		}
	}
	err = errors.Join(out.Truncated(record), out.PutKeys(t.keys), putFile(out, state, path.Join(treeFolder, jetstream.TreeHashes)))
	if err == nil && t.keyed {
		var signed fileContents
		if signed, err = readSigned(state); err == nil {
			err = signed.writeTo(out)
		}
	}
	if err != nil {
		return m, err
	}
	return out.Close()
}
