package jetstream

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
)

// TreeCosignatures is the file of the tree's folder with a line of JSON for each
// cosignature of a witness.
const TreeCosignatures = "cosignatures"

// Cosignature is a witness's signature line (C2SP tlog-cosignature) over the checkpoint of
// a tree. Whoever records it has verified it.
type Cosignature struct {
	Size int64     `json:"size"`
	Root tlog.Hash `json:"root"`
	Line string    `json:"line"` // "— NAME BASE64", with its newline
}

// Witness is the name of the witness's key.
func (c *Cosignature) Witness() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.Line, "— "), " ")
	return name
}

// Time returns when the witness says that it signed; zero if it cannot be read.
func (c *Cosignature) Time() time.Time {
	_, encoded, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(c.Line, "— ")), " ")
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(b) < 12 {
		return time.Time{}
	}
	return time.Unix(int64(min(binary.BigEndian.Uint64(b[4:]), 1<<40)), 0).UTC()
}

// Signed returns the newest checkpoint with only the log's signature, and its tree. The
// error is [ErrNoCheckpoint] if there is none.
func (t *Tree) Signed() ([]byte, tlog.Tree, error) {
	r, err := t.newest()
	return []byte(r.Checkpoint), r.tree, err
}

// ProveFrom proves that the newest checkpoint's tree continues that of the first old
// decisions.
func (t *Tree) ProveFrom(old int64) (tlog.TreeProof, error) {
	newest, err := t.newest()
	if err != nil {
		return nil, fmt.Errorf("proving the tree: %w", err)
	}
	if old < 1 || old > newest.tree.N {
		return nil, fmt.Errorf("proving the tree: %w: the newest is of %d decisions", ErrNoCheckpoint, newest.tree.N)
	}
	f, err := os.Open(filepath.Join(t.dir, TreeHashes))
	if err != nil {
		return nil, fmt.Errorf("proving the tree: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	proof, err := tlog.ProveTree(newest.tree.N, old, hashFile{f})
	if err != nil {
		return nil, fmt.Errorf("proving the tree: %w: %w", ErrTree, err)
	}
	return proof, nil
}

// AddCosignature keeps one. It is on the disk when it returns.
func (t *Tree) AddCosignature(c Cosignature) (err error) {
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("keeping a cosignature: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(t.dir, TreeCosignatures), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("keeping a cosignature: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := wholeLines(f)
	if err != nil {
		return fmt.Errorf("keeping a cosignature: %w", err)
	}
	if _, err := f.WriteAt(append(line, '\n'), end); err != nil {
		return fmt.Errorf("keeping a cosignature: %w", err)
	}
	return errors.Join(f.Sync(), durable.SyncFolder(t.dir))
}

// Cosignatures returns the newest of each witness, in the order in which the witnesses
// first cosigned.
func (t *Tree) Cosignatures() ([]Cosignature, error) {
	return t.cosignatures(func(Cosignature) bool { return true })
}

// cosignatures returns the newest of each witness among the chosen ones.
func (t *Tree) cosignatures(chosen func(Cosignature) bool) ([]Cosignature, error) {
	f, err := os.Open(filepath.Join(t.dir, TreeCosignatures))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cosignatures: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	var list []Cosignature
	place := make(map[string]int)
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // ignore an incomplete last line
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the cosignatures: %w", err)
		}
		var c Cosignature
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("%w: the cosignatures: %w", ErrTree, err)
		}
		if !chosen(c) {
			continue
		}
		at, known := place[c.Witness()]
		if !known {
			at = len(list)
			place[c.Witness()], list = at, append(list, c)
		}
		list[at] = c
	}
}

// cosignatureLines are the cosignatures of one tree, as they follow its checkpoint's signature.
func (t *Tree) cosignatureLines(tree tlog.Tree) (string, error) {
	list, err := t.cosignatures(func(c Cosignature) bool { return c.Size == tree.N && c.Root == tree.Hash })
	var lines strings.Builder
	for i := range list {
		lines.WriteString(list[i].Line)
	}
	return lines.String(), err
}

// Witnessed returns the size of the largest cosigned tree, 0 if there is none.
func (t *Tree) Witnessed() (int64, error) {
	list, err := t.Cosignatures()
	var size int64
	for i := range list {
		size = max(size, list[i].Size)
	}
	return size, err
}
