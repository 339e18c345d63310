package gateway

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/jetstream"
)

// mark is a position of the journal when an agent was sent something: the newest record,
// and the time. Agents keep theirs and show it when they connect, so that a rollback of
// the journal is detected.
type mark struct {
	sequence uint64
	head     [sha256.Size]byte
	at       time.Time
}

// position returns the record that the journal must have.
func (m mark) position() jetstream.Position {
	return jetstream.Position{Sequence: m.sequence, Head: m.head}
}

const (
	runSize   = 16
	plainSize = 8 + 8 + sha256.Size
	nonceSize = 12
	tagSize   = 16
	sealSize  = runSize + nonceSize + plainSize + tagSize
)

// marker seals marks. For agents a mark is random bytes: it tells them nothing of what
// others do, they cannot make one, and nobody can show another's. The marks of a run
// are sealed with a key of that run, for at most 2^32 messages.
type marker struct {
	secret []byte
	run    [runSize]byte
	sealer cipher.AEAD
}

var (
	errMark   = errors.New("no mark of this mesh")
	errSecret = errors.New("marks need a secret of 32 bytes")

	markText = base64.RawURLEncoding.Strict()
)

func newMarker(secret []byte) (*marker, error) {
	if len(secret) != sha256.Size {
		return nil, errSecret
	}
	m := &marker{secret: secret}
	_, _ = rand.Read(m.run[:])
	var err error
	m.sealer, err = m.newSealer(m.run[:])
	return m, err
}

func (k *marker) newSealer(run []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.secret, run, "bcpmesh mark", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal returns the text of a mark for an agent.
func (k *marker) seal(m mark, who agentRole) string {
	var plain [plainSize]byte
	binary.BigEndian.PutUint64(plain[:], m.sequence)
	binary.BigEndian.PutUint64(plain[8:], uint64(m.at.UnixMilli()))
	copy(plain[16:], m.head[:])
	sealed := make([]byte, runSize, sealSize)
	copy(sealed, k.run[:])
	return markText.EncodeToString(k.sealer.Seal(sealed, nil, plain[:], owner(who)))
}

// open reads the text of a mark that an agent shows. own says that this run made it, or
// that it claims so; then it is not checked, since it can say nothing new.
func (k *marker) open(text string, who agentRole) (m mark, own bool, err error) {
	if len(text) != markText.EncodedLen(sealSize) {
		return m, false, errMark
	}
	sealed, err := markText.DecodeString(text)
	if err != nil || len(sealed) != sealSize { // line breaks in it are not decoded
		return m, false, errMark
	}
	run := sealed[:runSize]
	if bytes.Equal(run, k.run[:]) {
		return m, true, nil
	}
	sealer, err := k.newSealer(run)
	if err != nil {
		return m, false, err
	}
	plain, err := sealer.Open(nil, nil, sealed[runSize:], owner(who))
	if err != nil {
		return m, false, errMark
	}
	m.sequence, m.at = binary.BigEndian.Uint64(plain), time.UnixMilli(int64(binary.BigEndian.Uint64(plain[8:])))
	copy(m.head[:], plain[16:])
	return m, false, nil
}

// owner returns the party to which a mark is bound.
func owner(who agentRole) []byte { return []byte(who.Role.String() + " " + string(who.Agent)) }
