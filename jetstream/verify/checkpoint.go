package verify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Checkpoint is a signed statement: this was the tree of the journal's first
// Size decisions.
type Checkpoint struct {
	Origin string // the name of the key
	Size   uint64
	Root   Hash
}

// ErrCheckpoint says that a text is not a checkpoint, or not signed with a known key.
var ErrCheckpoint = errors.New("no checkpoint that a known key has signed")

// OpenCheckpoint reads a checkpoint (C2SP tlog-checkpoint) that is signed with
// one of the keys, each in the form of a note's verifier key. It may have other
// signatures too, for example of witnesses.
func OpenCheckpoint(text []byte, keys []string) (Checkpoint, error) {
	known, err := verifiers(keys)
	if err != nil {
		return Checkpoint{}, err
	}
	return openCheckpoint(text, known)
}

// CheckKey reports what is wrong with a key in the form of a note's verifier key.
func CheckKey(key string) error {
	_, err := verifiers([]string{key})
	return err
}

func verifiers(keys []string) (note.Verifiers, error) {
	var list []note.Verifier
	for _, key := range keys {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("the key: %w", err)
		}
		list = append(list, v)
	}
	return note.VerifierList(list...), nil
}

func openCheckpoint(text []byte, known note.Verifiers) (Checkpoint, error) {
	n, err := note.Open(text, known)
	if err != nil {
		return Checkpoint{}, ErrCheckpoint
	}
	for _, s := range n.Sigs { // the library takes other spellings, too
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return Checkpoint{}, ErrCheckpoint
		}
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[0] != n.Sigs[0].Name {
		return Checkpoint{}, ErrCheckpoint
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, ErrCheckpoint
	}
	root, ok := parseHash(lines[2])
	if !ok {
		return Checkpoint{}, ErrCheckpoint
	}
	return Checkpoint{Origin: lines[0], Size: size, Root: root}, nil
}

// parseHash takes the one spelling in base64.
func parseHash(s string) (Hash, bool) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(Hash{}) || strings.ContainsAny(s, "\r\n") {
		return Hash{}, false
	}
	return Hash(b), true
}
