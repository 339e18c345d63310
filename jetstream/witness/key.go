package witness

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/mod/sumdb/note"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// Files of a store.
const (
	keyFile = "key" // the private key, in the form of a note's signer key
	// PublicFile has the key that verifies cosignatures: for verifiers, and for the
	// log that asks for them.
	PublicFile = "key.pub"
)

// ErrKey says that the key of a store cannot be used.
var ErrKey = errors.New("the key of the witness cannot be used")

// cosigner signs checkpoints (C2SP tlog-cosignature, Ed25519).
type cosigner struct {
	name    string
	private ed25519.PrivateKey
	now     func() time.Time
}

func (c *cosigner) public() string {
	return verify.CosignerKey(c.name, c.private.Public().(ed25519.PublicKey))
}

// line is a signature line over a checkpoint's text.
func (c *cosigner) line(text []byte) []byte {
	seconds := uint64(max(0, c.now().Unix()))
	b := binary.BigEndian.AppendUint32(nil, verify.CosignerHash(c.name, c.private.Public().(ed25519.PublicKey)))
	b = binary.BigEndian.AppendUint64(b, seconds)
	b = append(b, ed25519.Sign(c.private, verify.CosignedMessage(text, seconds))...)
	return fmt.Appendf(nil, "— %s %s\n", c.name, base64.StdEncoding.EncodeToString(b))
}

// openKey reads the key of a store, or makes it. name is for a new one: empty is a
// random one.
func openKey(dir, name string) (*cosigner, error) {
	file := filepath.Join(dir, keyFile)
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if name == "" {
			name = "bcpmesh-witness/" + strings.ToLower(rand.Text())
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r == '+' || unicode.IsSpace(r) }) {
			return nil, fmt.Errorf("%w: a name has no spaces and no plus", ErrKey)
		}
		var private string
		if private, _, err = note.GenerateKey(rand.Reader, name); err != nil {
			return nil, err
		}
		content = []byte(private + "\n")
		err = durable.Create(file, content, 0o600)
	}
	if err != nil {
		return nil, err
	}
	c, err := parseKey(strings.TrimSuffix(string(content), "\n"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s", ErrKey, file)
	case name != "" && name != c.name:
		return nil, fmt.Errorf("%w: its name is %s", ErrKey, c.name)
	}
	return c, durable.Replace(filepath.Join(dir, PublicFile), []byte(c.public()+"\n"), 0o644)
}

func parseKey(key string) (*cosigner, error) {
	signer, err := note.NewSigner(key) // checks the form
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(key, "+", 5) // the key itself may have a plus
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, ErrKey
	}
	return &cosigner{name: signer.Name(), private: ed25519.NewKeyFromSeed(seed[1:])}, nil
}
