package accounts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// A store is sealed with an age key, which is itself encrypted with a passphrase,
// in sealFile: so scrypt runs once for a passphrase, not for each key. A sealed key
// file is encrypted with age to that key.

const (
	sealFile   = "seal.age"
	sealHeader = "age-encryption.org/v1\n"
	// MinPassphrase is the least length of a passphrase, in bytes.
	MinPassphrase = 12
	// maxSealWork bounds the scrypt work that a file can demand for a passphrase:
	// 2^20, some seconds.
	maxSealWork = 20
)

// Errors of sealed stores.
var (
	// ErrSealed says that keys are sealed and no passphrase was given.
	ErrSealed = errors.New("the keys are sealed with a passphrase")
	// ErrPassphrase says that a passphrase is wrong, or too short for a new one.
	ErrPassphrase = errors.New("not the passphrase")
)

// OpenOption changes how [Open] opens a store.
type OpenOption func(*Store)

// Passphrase makes a sealed store call ask for its passphrase when it first needs
// a key. Without it a sealed store cannot use its keys. Stores opened with the
// same option ask once for each seal.
func Passphrase(ask func() ([]byte, error)) OpenOption {
	shared := &seal{ask: ask}
	return func(s *Store) { s.seal = shared }
}

// seal is how stores get at their keys.
type seal struct {
	ask func() ([]byte, error)

	work int // 2^work of scrypt for a new passphrase; 0 is age's default

	mu       sync.Mutex
	opened   []byte              // the content of sealFile that had identity
	identity *age.X25519Identity // set after the first ask
}

// Sealed reports whether the store's keys are under a passphrase.
func (s *Store) Sealed() (bool, error) {
	_, err := os.Lstat(filepath.Join(s.folder, sealFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// sealing returns the key that seals the store, or nil if it is not sealed.
func (s *Store) sealing() (*age.X25519Identity, error) {
	s.seal.mu.Lock()
	defer s.seal.mu.Unlock()
	content, err := readFile(filepath.Join(s.folder, sealFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.seal.identity != nil && bytes.Equal(content, s.seal.opened) {
		return s.seal.identity, nil
	}
	if s.seal.ask == nil {
		return nil, ErrSealed
	}
	passphrase, err := s.seal.ask()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSealed, err)
	}
	identity, err := openSeal(content, passphrase)
	if err != nil {
		return nil, err
	}
	s.seal.opened, s.seal.identity = content, identity
	return identity, nil
}

// OpenSealed decrypts what age has encrypted with a passphrase, as `age -p` does. If the
// passphrase is wrong, the error is [ErrPassphrase].
func OpenSealed(content, passphrase []byte) ([]byte, error) {
	identity, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return nil, ErrPassphrase // it is empty
	}
	identity.SetMaxWorkFactor(maxSealWork)
	text, err := openWith(identity, content)
	var wrong *age.NoIdentityMatchError
	if errors.As(err, &wrong) {
		return nil, ErrPassphrase
	}
	return text, err
}

func openSeal(content, passphrase []byte) (*age.X25519Identity, error) {
	text, err := OpenSealed(content, passphrase)
	switch {
	case errors.Is(err, ErrPassphrase):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", sealFile, err)
	}
	key, err := age.ParseX25519Identity(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s holds no key", sealFile)
	}
	return key, nil
}

func openWith(identity age.Identity, content []byte) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(content), identity)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxFile))
}

func sealFor(recipient age.Recipient, content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, recipient)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// readSeed reads a private key, which may be sealed.
func (s *Store) readSeed(name string) ([]byte, error) {
	return s.readSecret(filepath.Join(s.folder, name+keySuffix))
}

// readSecret reads a file with a private key, which may be sealed.
func (s *Store) readSecret(path string) ([]byte, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, err
	}
	sealed := sealedPart(content)
	if sealed == nil {
		return content, nil
	}
	identity, err := s.sealing()
	if err != nil {
		return nil, err
	}
	if identity == nil {
		return nil, fmt.Errorf("%s is sealed, and %s is not there", filepath.Base(path), sealFile)
	}
	secret, err := openWith(identity, sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return secret, nil
}

// sealedPart returns the part of a file that is encrypted with age: all of it, or,
// for a checkpoint key, all but the first line, which is public. It is nil if
// nothing is encrypted.
func sealedPart(content []byte) []byte {
	if bytes.HasPrefix(content, []byte(sealHeader)) {
		return content
	}
	if _, rest, _ := bytes.Cut(content, []byte("\n")); bytes.HasPrefix(rest, []byte(sealHeader)) {
		return rest
	}
	return nil
}

// sealedFile returns the sealed content for a file with a private key.
func sealedFile(path string, content []byte, to age.Recipient) ([]byte, error) {
	sealed, err := sealFor(to, content)
	if err != nil || filepath.Base(path) != CheckpointKeyFile {
		return sealed, err
	}
	_, public, err := splitCheckpointKey(content)
	return append([]byte(public+"\n"), sealed...), err
}

// checkKey refuses a missing or damaged key. A sealed key is not opened until
// it is needed.
func (s *Store) checkKey(name string) error {
	content, err := readFile(filepath.Join(s.folder, name+keySuffix))
	if err == nil && sealedPart(content) != nil {
		if _, err := os.Lstat(filepath.Join(s.folder, sealFile)); err != nil {
			return fmt.Errorf("%s%s is sealed: %w", name, keySuffix, err)
		}
		return nil
	}
	if err == nil {
		_, err = s.key(name)
	}
	return err
}

// writeSecret makes write store a private key, sealed if the store is sealed.
func (s *Store) writeSecret(path string, content []byte, write func(path string, content []byte) error) error {
	identity, err := s.sealing()
	if err != nil {
		return err
	}
	if identity != nil {
		if content, err = sealedFile(path, content, identity.Recipient()); err != nil {
			return err
		}
	}
	return write(path, content)
}

// secretOrNew reads a file of the store with a private key, and makes it at the first call.
func (s *Store) secretOrNew(name string, create func() ([]byte, error)) (content []byte, err error) {
	path := filepath.Join(s.folder, name)
	if content, err = s.readSecret(path); !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	err = s.locked(func() error {
		if content, err = s.readSecret(path); !errors.Is(err, fs.ErrNotExist) {
			return err // somebody was quicker
		}
		if content, err = create(); err != nil {
			return err
		}
		return errors.Join(s.writeSecret(path, content, createFile), disk.SyncFolder(s.folder))
	})
	return content, err
}

// Seal seals the store's keys with a passphrase, including the keys of checkpoints
// and of the TLS authority. After a crash only some keys may be sealed; Seal with the
// same passphrase continues. The unsealed keys may still be recoverable from the
// disk.
func (s *Store) Seal(passphrase []byte) error {
	return s.change("seal the keys", func(st *state, now time.Time) error {
		if len(passphrase) < MinPassphrase {
			return fmt.Errorf("%w: it has %d characters or more", ErrPassphrase, MinPassphrase)
		}
		file := filepath.Join(s.folder, sealFile)
		content, err := readFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			if content, err = newSeal(passphrase, s.seal.work); err == nil {
				err = errors.Join(createFile(file, content), disk.SyncFolder(s.folder))
			}
		}
		if err != nil {
			return err
		}
		identity, err := openSeal(content, passphrase)
		if err != nil {
			return err
		}
		paths, err := s.secretFiles()
		if err != nil {
			return err
		}
		changed := false
		for _, path := range paths {
			content, err := readFile(path)
			if err == nil && sealedPart(content) == nil {
				if content, err = sealedFile(path, content, identity.Recipient()); err == nil {
					err, changed = replaceFile(path, content), true
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(path), err)
			}
		}
		if changed {
			st.recordChange(now, bcp.CredentialSealed, User{})
		}
		return s.removeDrafts()
	})
}

func newSeal(passphrase []byte, work int) ([]byte, error) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	recipient, err := age.NewScryptRecipient(string(passphrase))
	if err != nil {
		return nil, err
	}
	if work > 0 {
		recipient.SetWorkFactor(work)
	}
	return sealFor(recipient, []byte(key.String()))
}

// removeDrafts removes drafts of killed writers, which may hold old keys. The
// caller holds the lock.
func (s *Store) removeDrafts() error {
	var err error
	for _, folder := range []string{s.folder, filepath.Join(filepath.Dir(s.folder), authorityFolder)} {
		drafts, globErr := filepath.Glob(filepath.Join(folder, disk.DraftPrefix+"*"))
		err = errors.Join(err, globErr)
		for _, draft := range drafts {
			err = errors.Join(err, os.Remove(draft))
		}
	}
	return err
}

var errUnchanged = errors.New("unchanged")

// secretFiles are the files of private keys, those of checkpoints, of the attestations and of
// the authority of TLS among them.
func (s *Store) secretFiles() (paths []string, err error) {
	entries, err := os.ReadDir(s.folder)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), keySuffix) || e.Name() == CheckpointKeyFile || e.Name() == AttestKeyFile {
			paths = append(paths, filepath.Join(s.folder, e.Name()))
		}
	}
	authority := filepath.Join(filepath.Dir(s.folder), authorityFolder, authorityKey)
	if _, missing := os.Lstat(authority); !errors.Is(missing, fs.ErrNotExist) { // it may not be made yet
		paths = append(paths, authority)
	}
	return paths, err
}
