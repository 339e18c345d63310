package jetstream

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"
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
	if err == nil && (old < 1 || old > newest.tree.N) {
		err = fmt.Errorf("%w: the newest is of %d decisions", ErrNoCheckpoint, newest.tree.N)
	}
	var proof tlog.TreeProof
	if err == nil {
		if proof, err = tlog.ProveTree(newest.tree.N, old, t); err != nil {
			err = fmt.Errorf("%w: %w", ErrTree, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("proving the tree: %w", err)
	}
	return proof, nil
}

// AddCosignature keeps one. It is on the disk when it returns.
func (t *Tree) AddCosignature(c Cosignature) error {
	if err := appendLine(filepath.Join(t.dir, TreeCosignatures), c); err != nil {
		return fmt.Errorf("keeping a cosignature: %w", err)
	}
	return nil
}

// Cosignatures returns the newest of each witness, in the order in which the witnesses
// first cosigned.
func (t *Tree) Cosignatures() ([]Cosignature, error) {
	return t.cosignatures(func(Cosignature) bool { return true })
}

// cosignatures returns the newest of each witness among the chosen ones.
func (t *Tree) cosignatures(chosen func(Cosignature) bool) (list []Cosignature, err error) {
	err = readLines(filepath.Join(t.dir, TreeCosignatures), func(line []byte) error {
		var c Cosignature
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("%w: %w", ErrTree, err)
		}
		i := slices.IndexFunc(list, func(other Cosignature) bool { return other.Witness() == c.Witness() })
		switch {
		case !chosen(c):
		case i < 0:
			list = append(list, c)
		default:
			list[i] = c
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the cosignatures: %w", err)
	}
	return list, nil
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
