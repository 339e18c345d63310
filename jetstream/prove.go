package jetstream

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Prove writes a proof that a decision is in the tree of the newest checkpoint: a
// C2SP tlog-proof, with the decision's bytes as its extra data. Its time is
// proportional to the logarithm of the journal's length. It checks what it
// writes.
func (t *Tree) Prove(number uint64, decision []byte) ([]byte, error) {
	newest, err := t.newest()
	if err != nil {
		return nil, fmt.Errorf("proving a decision: %w", err)
	}
	if number < 1 || number > uint64(newest.tree.N) {
		return nil, fmt.Errorf("proving a decision: %w: the newest is of %d decisions", ErrNoCheckpoint, newest.tree.N)
	}
	index := int64(number - 1)
	proof, err := tlog.ProveRecord(newest.tree.N, index, t)
	if err == nil {
		err = tlog.CheckRecord(proof, newest.tree.N, newest.tree.Hash, index, tlog.RecordHash(decision))
	}
	if err != nil {
		return nil, fmt.Errorf("proving a decision: %w: %w", ErrTree, err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "c2sp.org/tlog-proof@v1\nextra %s\nindex %d\n", base64.StdEncoding.EncodeToString(decision), index)
	for _, h := range proof {
		fmt.Fprintf(&b, "%s\n", h)
	}
	lines, err := t.cosignatureLines(newest.tree)
	if err != nil {
		return nil, fmt.Errorf("proving a decision: %w", err)
	}
	fmt.Fprintf(&b, "\n%s%s", newest.Checkpoint, lines)
	return b.Bytes(), nil
}
