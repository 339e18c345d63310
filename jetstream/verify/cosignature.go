package verify

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// A cosignature is that of C2SP tlog-cosignature, version 1: an Ed25519 signature of a
// witness over a checkpoint and the time. It says that the witness had seen no larger
// tree of that log by then, and none that contradicts this one.
const (
	algorithmCosignature = 4
	timestampSize        = 8
	cosignatureSize      = timestampSize + ed25519.SignatureSize
)

var (
	errWitnessKey   = errors.New("no key of a witness: expected NAME+HASH+KEY of a cosignature (C2SP tlog-cosignature, Ed25519)")
	errWitnessTwice = errors.New("the key of a witness is there twice, and would count twice")
)

// NewWitness returns the verifier of a witness's cosignatures, from its key in the
// form of a note's verifier key.
func NewWitness(key string) (note.Verifier, error) {
	w, err := parseWitness(key)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func parseWitness(key string) (*cosigner, error) {
	name, rest, _ := strings.Cut(key, "+")
	hash, encoded, _ := strings.Cut(rest, "+")
	public, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(public) != 1+ed25519.PublicKeySize || public[0] != algorithmCosignature || name == "" || strings.ContainsAny(name, " \t\r\n") {
		return nil, errWitnessKey
	}
	w := &cosigner{name: name, hash: CosignerHash(name, public[1:]), public: public[1:]}
	if fmt.Sprintf("%08x", w.hash) != hash {
		return nil, errWitnessKey
	}
	return w, nil
}

// CosignerHash returns the number that identifies a witness's key in signature lines.
func CosignerHash(name string, public ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"+string(rune(algorithmCosignature))), public...))
	return binary.BigEndian.Uint32(sum[:])
}

// CosignerKey is the key of a witness in the form of a note's verifier key.
func CosignerKey(name string, public ed25519.PublicKey) string {
	return fmt.Sprintf("%s+%08x+%s", name, CosignerHash(name, public), base64.StdEncoding.EncodeToString(append([]byte{algorithmCosignature}, public...)))
}

// CosignedMessage returns what a witness signs: a checkpoint's text, and the time in
// seconds since 1970.
func CosignedMessage(text []byte, seconds uint64) []byte {
	return append([]byte("cosignature/v1\ntime "+strconv.FormatUint(seconds, 10)+"\n"), text...)
}

// cosigner verifies the cosignatures of one witness.
type cosigner struct {
	name   string
	hash   uint32
	public ed25519.PublicKey
}

// Name implements note.Verifier.
func (w *cosigner) Name() string { return w.name }

// KeyHash implements note.Verifier.
func (w *cosigner) KeyHash() uint32 { return w.hash }

// Verify implements note.Verifier.
func (w *cosigner) Verify(text, signature []byte) bool {
	if len(signature) != cosignatureSize {
		return false
	}
	seconds := binary.BigEndian.Uint64(signature)
	return seconds < 1<<63 && ed25519.Verify(w.public, CosignedMessage(text, seconds), signature[timestampSize:])
}

// Cosignature is the cosignature of one witness.
type Cosignature struct {
	Witness string    `json:"name"` // of its key
	Time    time.Time `json:"time"` // that the witness says
}

// Cosigned returns which of the given witnesses have cosigned a checkpoint signed with
// one of the log's keys. Each is counted once. An invalid line in the name of one of
// them makes the checkpoint invalid; lines of others are ignored. The error wraps
// [ErrCheckpoint] if there is no such checkpoint.
func Cosigned(text []byte, keys, witnesses []string) (Checkpoint, []Cosignature, error) {
	checkpoint, err := OpenCheckpoint(text, keys)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	var list []note.Verifier
	seen := make(map[string]bool)
	for _, key := range witnesses {
		w, err := parseWitness(key)
		if err != nil {
			return Checkpoint{}, nil, err
		}
		// What is signed does not name the witness: by two names, one would be two.
		if seen[string(w.public)] {
			return Checkpoint{}, nil, errWitnessTwice
		}
		seen[string(w.public)] = true
		list = append(list, w)
	}
	n, err := note.Open(text, note.VerifierList(list...))
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified):
		return checkpoint, nil, nil
	case err != nil:
		return Checkpoint{}, nil, ErrCheckpoint
	}
	var cosigned []Cosignature
	for _, s := range n.Sigs {
		raw, err := base64.StdEncoding.Strict().DecodeString(s.Base64)
		if err != nil || len(raw) != 4+cosignatureSize {
			return Checkpoint{}, nil, ErrCheckpoint
		}
		cosigned = append(cosigned, Cosignature{s.Name, time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0).UTC()})
	}
	return checkpoint, cosigned, nil
}
