package accounts

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// CheckpointKeyFile is the name of the file with the key that signs checkpoints: a note's
// signer key, and on the next line its verifier key. If it is sealed, the line with the
// verifier key comes first.
const CheckpointKeyFile = "checkpoint.key"

// CheckpointKey returns the signer of the checkpoints, which never shows its
// key, and the public key that verifies them. The key is made at the first call. It
// cannot issue or open anything.
func (s *Store) CheckpointKey() (signer note.Signer, public string, err error) {
	content, err := s.secretOrNew(CheckpointKeyFile, func() ([]byte, error) {
		// The name of the key, and so of its log, is random: after a lost key there is another
		// log, not another history of the same one.
		private, public, err := note.GenerateKey(rand.Reader, "bcpmesh/"+strings.ToLower(rand.Text()))
		return []byte(private + "\n" + public + "\n"), err
	})
	if err != nil {
		return nil, "", fmt.Errorf("the key of the checkpoints: %w", err)
	}
	if signer, public, err = splitCheckpointKey(content); err != nil {
		return nil, "", fmt.Errorf("%s %w", CheckpointKeyFile, err)
	}
	return signer, public, nil
}

// GatewaySigner returns the key of the gateway's own user, which speaks for the agents of
// its mesh.
func (s *Store) GatewaySigner() (Signer, error) { return s.key(gatewayKey) }

// MarkSecret returns the 32-byte secret that seals marks (PROTOCOL P11.7). It is derived
// from the key that signs checkpoints, which is as old as the mesh: a state that was
// rolled back has it too.
func (s *Store) MarkSecret() ([]byte, error) {
	if _, _, err := s.CheckpointKey(); err != nil { // it is made
		return nil, err
	}
	content, err := s.readSecret(filepath.Join(s.folder, CheckpointKeyFile))
	if err != nil {
		return nil, fmt.Errorf("the key of the checkpoints: %w", err)
	}
	private, _, _ := bytes.Cut(content, []byte("\n"))
	return hkdf.Key(sha256.New, private, nil, "bcpmesh marks", sha256.Size)
}

func splitCheckpointKey(content []byte) (signer note.Signer, public string, err error) {
	private, rest, _ := bytes.Cut(content, []byte("\n"))
	verifies, rest, whole := bytes.Cut(rest, []byte("\n"))
	signer, err = note.NewSigner(string(private))
	if err != nil || !whole || len(rest) > 0 {
		return nil, "", errNoCheckpointKey
	}
	verifier, err := note.NewVerifier(string(verifies))
	if err != nil || verifier.Name() != signer.Name() || verifier.KeyHash() != signer.KeyHash() {
		return nil, "", errNoCheckpointKey
	}
	return signer, string(verifies), nil
}

// CheckpointPublic returns only the public key; a sealed store needs no passphrase
// for it.
func (s *Store) CheckpointPublic() (string, error) {
	content, err := readFile(filepath.Join(s.folder, CheckpointKeyFile))
	if err != nil || sealedPart(content) == nil {
		_, public, err := s.CheckpointKey()
		return public, err
	}
	line, _, _ := bytes.Cut(content, []byte("\n"))
	if _, err := note.NewVerifier(string(line)); err != nil {
		return "", fmt.Errorf("%s %w", CheckpointKeyFile, errNoCheckpointKey)
	}
	return string(line), nil
}

var errNoCheckpointKey = errors.New("holds no key")
