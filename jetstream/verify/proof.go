package verify

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// Proven is a decision in the tree of a checkpoint.
type Proven struct {
	Decision           uint64 // its number
	Time               time.Time
	Kind               int
	Controller, Reader string // of its channel, if it has one
	Bytes              []byte // all of it
	Checkpoint         Checkpoint
}

// ErrProof says that a text is not a valid proof.
var ErrProof = errors.New("the proof does not hold")

// Proof checks a proof that a decision is in the tree of a checkpoint signed with
// one of the keys: a C2SP tlog-proof with the decision's bytes as extra data. The
// error wraps [ErrProof] or [ErrCheckpoint].
func Proof(text []byte, keys []string) (Proven, error) {
	head, signed, _ := strings.Cut(string(text), "\n\n")
	lines := strings.Split(head, "\n")
	if len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return Proven{}, ErrProof
	}
	extra, hasExtra := strings.CutPrefix(lines[1], "extra ")
	decision, err := base64.StdEncoding.Strict().DecodeString(extra)
	if !hasExtra || err != nil {
		return Proven{}, ErrProof
	}
	number, hasIndex := strings.CutPrefix(lines[2], "index ")
	index, err := strconv.ParseInt(number, 10, 64)
	if !hasIndex || err != nil || index < 0 || strconv.FormatInt(index, 10) != number {
		return Proven{}, ErrProof
	}
	var proof tlog.RecordProof
	for _, line := range lines[3:] {
		h, ok := parseHash(line)
		if !ok {
			return Proven{}, ErrProof
		}
		proof = append(proof, tlog.Hash(h))
	}
	checkpoint, err := OpenCheckpoint([]byte(signed), keys)
	if err != nil {
		return Proven{}, err
	}
	m, ok := readMembers(decision)
	if !ok || m.number != uint64(index)+1 ||
		tlog.CheckRecord(proof, int64(checkpoint.Size), tlog.Hash(checkpoint.Root), index, tlog.RecordHash(decision)) != nil {
		return Proven{}, ErrProof
	}
	return Proven{
		Decision: m.number, Time: time.Unix(0, m.time).UTC(), Kind: int(m.kind), Controller: string(m.controller), Reader: string(m.reader),
		Bytes: decision, Checkpoint: checkpoint,
	}, nil
}
